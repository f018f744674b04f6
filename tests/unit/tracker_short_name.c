/*
 * tracker_short_name.c - proves that long C++ names are written as a reader would, that
 * the function's own name survives every cut, and that text that is no name is survived.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/names/demangle.h"
#include "tracker/names/short_name.h"

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

static void expect_tidy(const char *mangled, const char *expected)
{
    char *name = gs_demangle(mangled);

    if (!name)
        name = strdup(mangled);
    gs_name_tidy(name);
    cr_expect_str_eq(name, expected);
    free(name);
}

/* The name in less than `size` bytes. */
static void expect_fit(const char *name, size_t size, const char *expected)
{
    char *out = malloc(size); /* exact, for the sanitizers */

    cr_expect_str_eq(gs_name_fit(name, out, size), expected);
    free(out);
}

Test(short_name, strings_and_default_arguments)
{
    expect_tidy("_ZN5StoreI" STRING "iiE3putERKS5_St8functionIFviEE",
                "Store<std::string, int, int>::put(std::string const&, "
                "std::function<void (int)>)");
    expect_tidy("_Z3runSt6vectorIS_IiSaIiEESaIS1_EE",
                "run(std::vector<std::vector<int> >)");
    expect_tidy("_Z3runSt3mapIi" STRING "St4lessIiESaISt4pairIKiS4_EEE",
                "run(std::map<int, std::string>)");
    expect_tidy("_Z3runSt10unique_ptrIiSt14default_deleteIiEE",
                "run(std::unique_ptr<int>)");
    expect_tidy("_Z3runRSo", "run(std::ostream&)");
    expect_tidy("_Z3runSt17basic_string_viewIcSt11char_traitsIcEE",
                "run(std::string_view)");
    expect_tidy("_Z3runNSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEEE",
                "run(std::wstring)");
}

Test(short_name, what_is_no_default_stays)
{
    expect_tidy("_Z3runSt6vectorIi4MineIiEE", "run(std::vector<int, Mine<int> >)");
    expect_tidy("_Z3runSt4pairIiSaIiEE", "run(std::pair<int, std::allocator<int> >)");
    expect_tidy("_Z3runSt3setIi4MineSaIiEE", "run(std::set<int, Mine>)");
    expect_tidy("_ZN2my6vectorIiSaIiEE3runEv",
                "my::vector<int, std::allocator<int> >::run()");
    expect_tidy("plain", "plain");
}

/* Of LLVM's library and demangler, and of debug information. */
Test(short_name, other_spellings)
{
    expect_tidy(
        "f(std::__1::vector<std::__1::basic_string<char, std::__1::char_traits<char>, "
        "std::__1::allocator<char>>, std::__1::allocator<int>>)",
        "f(std::vector<std::string>)");
    expect_tidy("put<std::__cxx11::basic_string<char> >", "put<std::string>");
    expect_tidy("f(std::vector<std::vector<int>>)", "f(std::vector<std::vector<int>>)");
}

Test(short_name, operators_are_no_brackets)
{
    expect_tidy("_ZNK5StoreI" STRING "EltERKS6_",
                "Store<std::string>::operator<(Store<std::string> const&) const");
    expect_tidy("_ZN5StoreI" STRING "EptEv", "Store<std::string>::operator->()");
    expect_tidy("_ZN5StoreI" STRING "EclEi", "Store<std::string>::operator()(int)");
    expect_tidy("_ZN5StoreI" STRING "ErsEi", "Store<std::string>::operator>>(int)");
    expect_tidy("_ZN4deepltI" STRING "EEbRKNS_3BoxIT_EESB_",
                "bool deep::operator< <std::string>(deep::Box<std::string> const&, "
                "deep::Box<std::string> const&)");
    expect_tidy("_ZN5StoreI" STRING "EcvbEv", "Store<std::string>::operator bool()");
}

Test(short_name, short_names_are_not_cut)
{
    expect_fit("f(std::vector<int>)", 20, "f(std::vector<int>)");
}

Test(short_name, the_deepest_arguments_go_first)
{
    const char *name =
        "int Store<std::map<int, std::vector<Item> > >::put<int>(int, long)";

    expect_fit(name, 64,
               "Store<std::map<int, std::vector<Item> > >::put<int>(int, long)");
    expect_fit(name, 62, "Store<std::map<int, std::vector<...> > >::put<int>(int, long)");
    expect_fit(name, 50, "Store<std::map<...> >::put<int>(int, long)");
    expect_fit(name, 40, "Store<std::map<...> >::put<int>(...)");
    expect_fit(name, 36, "Store<...>::put<int>(int, long)");
    expect_fit(name, 30, "Store<...>::put<int>(...)");
    expect_fit(name, 20, "...>::put<int>(...)");
}

Test(short_name, operators_and_lambdas_survive_the_cut)
{
    expect_fit("Store<std::map<int, long> >::operator<(Store<int> const&) const", 50,
               "Store<std::map<...> >::operator<(...) const");
    expect_fit("Store<std::map<int, long> >::operator->()", 30,
               "Store<...>::operator->()");
    expect_fit("bool deep::operator< <Item>(deep::Box<Item> const&)", 40,
               "deep::operator< <Item>(...)");
    expect_fit("std::map<int, long> make(int)::{lambda(int)#1}::operator()(int) const",
               55, "make(int)::{lambda(int)#1}::operator()(int) const");
    expect_fit("int apply<main::{lambda(int)#2}>(main::{lambda(int)#2})", 40,
               "apply<main::{lambda(int)#2}>(...)");
    expect_fit("(anonymous namespace)::run(std::vector<int>, std::vector<int>)", 40,
               "(anonymous namespace)::run(...)");
}

Test(short_name, function_pointers_are_arguments)
{
    expect_fit("Store<void (*)(std::map<int, long>)>::run(int)", 46,
               "Store<void (*)(std::map<...>)>::run(int)");
    expect_fit("pick(std::vector<int> const&, void (*)(std::map<int, long>))", 30,
               "pick(...)");
}

Test(short_name, classes_without_end_leave_the_function)
{
    expect_fit(
        "aaaaaaaaaaaaaaaa::bbbbbbbbbbbbbbbbbb::cccccccccccccccc::the_function(int)", 30,
        "...ccccccc::the_function(int)");
}

/* Nothing is written behind the end, whatever the text is. */
Test(short_name, text_that_is_no_name_is_survived)
{
    static const char *const parts[] = {"<",
                                        ">",
                                        "(",
                                        ")",
                                        "{",
                                        "operator",
                                        "operator<",
                                        ", std::allocator<",
                                        "std::vector<",
                                        "std::__1::",
                                        "std::basic_string<char",
                                        "->",
                                        " ",
                                        ">>",
                                        "x"};
    unsigned seed = 7;

    for (unsigned round = 0; round < 300; round++) {
        char text[2048] = "", *name, *out;
        size_t size = 5 + round % 100;
        for (unsigned i = 0; i < 5 + round / 5; i++) {
            seed = seed * 1103515245u + 12345u;
            strcat(text, parts[(seed >> 16) % GS_ARRAY_LEN(parts)]);
        }
        name = strdup(text);
        out = malloc(size);
        gs_name_tidy(name);
        cr_assert_leq(strlen(name), strlen(text), "%s", text);
        cr_assert_lt(strlen(gs_name_fit(name, out, size)), size, "%s", text);
        free(name);
        free(out);
    }
}
