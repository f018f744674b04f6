/*
 * shim_elf_module.c - proves that loaded modules are read as the dynamic linker reads
 * them.
 */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <string.h>

#include "shim/link/elf_module.h"
#include "shim/link/linker.h"

Test(elf_module, finds_the_module_of_a_function)
{
    struct gs_module_ref module;
    cr_assert_eq(gs_elf_module_of((void *)gnu_get_libc_version, &module), GS_OK);
    cr_assert_str_eq(gs_elf_soname(&module), "libc.so.6");
    cr_assert(module.begin <= (uintptr_t)gnu_get_libc_version &&
              (uintptr_t)gnu_get_libc_version < module.end);
}

Test(elf_module, finds_no_module_where_there_is_none)
{
    struct gs_module_ref module;
    int on_stack;
    cr_assert_eq(gs_elf_module_of(NULL, &module), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_elf_module_of(&on_stack, &module), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_elf_module_of((void *)UINTPTR_MAX, &module), GS_ERR_NOT_FOUND);
}

Test(elf_module, symbols_are_the_ones_dlsym_gives)
{
    static const char *const names[] = {"fork",  "dlsym", "dlvsym",
                                        "_exit", "qsort", "environ"};
    struct gs_module_ref libc;
    cr_assert_eq(gs_elf_module_named("libc.so.6", false, &libc), GS_OK);
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    cr_assert_not_null(handle);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        cr_assert_eq(gs_elf_symbol(&libc, names[i]), dlsym(handle, names[i]), "%s",
                     names[i]);
    }
    dlclose(handle);
}

Test(elf_module, functions_have_a_beginning_and_an_end)
{
    static const char *const prefixes[] = {"qsort", "gnu_get_libc_", NULL};
    static const char *const none[] = {"no_such_function_", NULL};
    struct gs_module_ref libc;
    uintptr_t begin, end, first, last;
    cr_assert_eq(gs_elf_module_named("libc.so.6", false, &libc), GS_OK);

    gs_elf_function(&libc, "gnu_get_libc_version", &begin, &end);
    cr_expect_eq(begin, (uintptr_t)gnu_get_libc_version);
    cr_expect(end > begin && end <= libc.end);
    gs_elf_functions_span(&libc, prefixes, &first, &last);
    cr_expect(first <= begin && end <= last && first >= libc.begin && last <= libc.end);
    gs_elf_function(&libc, "qsort", &begin, &end);
    cr_expect(begin < end && first <= begin && end <= last);

    gs_elf_function(&libc, "environ", &begin, &end);
    cr_expect(begin == 0 && end == 0, "no function");
    gs_elf_functions_span(&libc, none, &first, &last);
    cr_expect(first == 0 && last == 0);
}

Test(elf_module, takes_the_default_version_of_a_symbol)
{
    /* glibc has kept pthread_cond_wait@GLIBC_2.2.5 beside the @@GLIBC_2.3.2 one. */
    struct gs_module_ref libc;
    cr_assert_eq(gs_elf_module_of((void *)gnu_get_libc_version, &libc), GS_OK);
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    cr_assert_eq(gs_elf_symbol(&libc, "pthread_cond_wait"),
                 dlsym(handle, "pthread_cond_wait"));
    dlclose(handle);
}

Test(elf_module, the_program_stands_before_its_libraries)
{
    struct gs_module_ref program, libc;
    cr_assert_eq(gs_elf_module_of((void *)gs_elf_stands_before, &program), GS_OK);
    cr_assert_eq(gs_elf_module_named("libc.so.6", false, &libc), GS_OK);
    cr_assert(gs_elf_stands_before(&program, &libc));
    cr_assert_not(gs_elf_stands_before(&libc, &program));
    cr_assert_not(gs_elf_stands_before(&libc, &libc));
}

Test(elf_module, the_program_and_what_it_takes_from_others)
{
    struct gs_module_ref program, of_this, libc;
    cr_assert_eq(gs_elf_program(&program), GS_OK);
    cr_assert_eq(gs_elf_module_of((void *)gs_elf_imports, &of_this), GS_OK);
    cr_assert_eq(program.base, of_this.base);
    cr_assert_eq(program.dynamic, of_this.dynamic);
    cr_assert(gs_elf_imports(&program, "gnu_get_libc_version"));
    cr_assert_not(gs_elf_imports(&program, "gnu_get_libc"));
    cr_assert_not(gs_elf_imports(&program, "gs_elf_imports"), "its own");
    cr_assert_eq(gs_elf_module_of((void *)gnu_get_libc_version, &libc), GS_OK);
    cr_assert_not(gs_elf_imports(&libc, "gnu_get_libc_version"));
}

Test(elf_module, startup_libraries_are_found_without_the_linker)
{
    struct gs_module_ref early;
    struct gs_module_ref late;
    cr_assert_eq(gs_elf_startup_module("libc.so.6", &early), GS_OK);
    cr_assert_eq(gs_elf_module_named("libc.so.6", false, &late), GS_OK);
    cr_assert_eq(early.base, late.base);
    cr_assert_eq(gs_elf_symbol(&early, "gnu_get_libc_version"),
                 (void *)gnu_get_libc_version);
    cr_assert_eq(gs_elf_startup_module("libc.so", &early), GS_ERR_NOT_FOUND);
}

Test(elf_module, undefined_and_unknown_symbols_are_not_found)
{
    struct gs_module_ref self;
    cr_assert_eq(gs_elf_module_of((void *)gs_elf_module_of, &self), GS_OK);
    cr_assert_null(gs_elf_symbol(&self, "no_such_symbol_anywhere"));
    cr_assert_null(gs_elf_symbol(&self, "qsort")); /* imported at most */
    cr_assert_null(gs_elf_symbol(&self, ""));
}

Test(elf_module, sonames_match_whole_or_by_prefix)
{
    struct gs_module_ref module;
    cr_assert_eq(gs_elf_module_named("libcriterion.so", true, &module), GS_OK);
    cr_assert_eq(gs_elf_module_named("libcriterion.so", false, &module),
                 GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_elf_module_named("libnothing.so", true, &module), GS_ERR_NOT_FOUND);
}

Test(elf_module, reads_what_a_module_needs)
{
    struct gs_module_ref self;
    cr_assert_eq(gs_elf_module_of((void *)gs_elf_module_of, &self), GS_OK);
    cr_assert_str_eq(gs_elf_needed(&self, "libc.so"), "libc.so.6");
    cr_assert_null(gs_elf_needed(&self, "libcudart.so"));
    cr_assert_null(gs_elf_soname(&self)); /* a program has none */
}

Test(elf_module, names_compare_as_strings_do)
{
    cr_assert(gs_elf_same_name("", ""));
    cr_assert(gs_elf_same_name("cuInit", "cuInit"));
    cr_assert_not(gs_elf_same_name("cuInit", "cuInit_v2"));
    cr_assert_not(gs_elf_same_name("cuInit_v2", "cuInit"));
    cr_assert(gs_elf_begins_with("libcudart.so.13", "libcudart.so"));
    cr_assert_not(gs_elf_begins_with("libcuda", "libcudart.so"));
    cr_assert(gs_elf_begins_with("anything", ""));
}

/* Alone sees a wrong base or range where the shim reads its own headers without a call.
 */
Test(elf_module, own_headers_describe_the_module_that_the_loader_has)
{
    struct gs_module_ref own, loaded;
    cr_assert(gs_linker_own_module(&own));
    cr_assert_eq(gs_elf_module_of((void *)gs_linker_own_module, &loaded), GS_OK);
    cr_expect_eq(own.base, loaded.base);
    cr_expect_eq(own.begin, loaded.begin);
    cr_expect_eq(own.end, loaded.end);
    cr_expect_eq(own.dynamic, loaded.dynamic);
}

struct data_slots {
    const struct gs_module_ref *into; /* NULL: each slot counts */
    unsigned count;
};

static bool count_slot(const struct gs_elf_slot *slot, void *data)
{
    struct data_slots *slots = data;
    const uintptr_t now = (uintptr_t)*slot->at;
    bool leads_into = !slots->into || (slot->leads_to_data && now >= slots->into->begin &&
                                       now < slots->into->end);
    slots->count += leads_into;
    return false;
}

/* Alone sees a slot that the cheap reading of a start skips. */
Test(elf_module, data_slots_are_those_of_all_slots_that_lead_there)
{
    struct gs_module_ref libc;
    cr_assert_eq(gs_elf_module_of((void *)gnu_get_libc_version, &libc), GS_OK);
    struct data_slots picked = {&libc, 0}, visited = {NULL, 0};
    (void)gs_elf_visit_slots(&libc, count_slot, &picked);
    (void)gs_elf_visit_data_slots(&libc, &libc, count_slot, &visited);
    cr_expect_gt(visited.count, 0);
    cr_expect_eq(visited.count, picked.count);
}
