/*
 * tracker_advice.c - proves that an advised rule matches its leak and not every other,
 * and that there is none where that cannot be.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

/* What AT_RUN is called. */
static const char *name;
static struct gs_report_source source; /* zero: the helpers' */

static void resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].frame == AT_RUN)
            requests[i].result.function = name;
    }
}

/* The rule that is advised for a leak of `frames`, from malloc; "" where there is none.
 */
static char *advised(const uintptr_t *frames, unsigned count)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_text text = {0};
    static const char head[] = "  1:  leak:", cap[] = " max_bytes=512\n";

    if (!source.module)
        source = test_source();
    source.resolve = resolve;
    config.show_pool = true;
    test_leak(tracker, 0x1000, 512, SECONDS(599), test_stack(stacks, frames, count));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    const char *line = strstr(text.data, head);
    char *rule = strdup(line ? line + sizeof(head) - 1 : "");
    if (strstr(rule, cap))
        *strstr(rule, cap) = '\0';
    gs_text_free(&text);
    return rule;
}

static void expect_rule(const char *function, const char *expected)
{
    static const uintptr_t frames[] = {AT_CUDART, AT_RUN, AT_MAIN};

    name = function;
    char *rule = advised(frames, 3);
    cr_expect_str_eq(rule, expected);
    if (*expected)
        cr_expect(gs_pattern_matches(rule, function), "%s: %s", function, rule);
    free(rule);
}

#define STRING                                                                           \
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

Test(advice, a_long_name_is_shortened_to_what_tells_it)
{
    expect_rule("load_batch", "^load_batch$");
    expect_rule("Pool<int>::get(int)", "^Pool<int>::get(int)$");
    expect_rule("void* Pool<" STRING " >::get<std::function<unsigned long (unsigned "
                "long)> >(std::function<unsigned long (unsigned long)>, std::map<" STRING
                ", int>)",
                "^* Pool<*>::get<*");
    expect_rule("Pool<" STRING " >::operator()(std::function<int (int)>) const",
                "^Pool<*>::operator()(*");
    expect_rule("std::ostream& operator<< <" STRING " >(std::ostream&, " STRING
                " const&)",
                "^* operator<< <*");
    expect_rule("main::{lambda(std::function<int (int)>, std::vector<" STRING
                " >)#1}::operator()(int) const",
                "^main::{*}::operator()(*");
    expect_rule("(anonymous namespace)::load_everything(" STRING ", " STRING ")",
                "^(anonymous namespace)::load_everything(*");
    expect_rule("Tree<" STRING ", (Order)2>::operator->(int, int, int) const",
                "^Tree<*>::operator->(*");
}

/* So little would be left that it matches everything. */
Test(advice, too_short_a_pattern_is_not_advised)
{
    const char *long_name = "f<" STRING " >(" STRING " const&, " STRING " const&)";
    static const uintptr_t frames[] = {AT_CUDART, AT_RUN, AT_MAIN};

    name = long_name;
    char *rule = advised(frames, 3);
    cr_expect(strlen(rule) > 20, "%s", rule);
    cr_expect(gs_pattern_matches(rule, long_name));
    free(rule);
}

/* A name with brackets that close nothing, or with none that close. */
Test(advice, odd_names_are_harmless)
{
    char odd[600];

    for (unsigned i = 0; i < 200; i++) {
        static const char letters[] = "<>(){}[] :-operator";
        uint64_t seed = i * UINT64_C(0x9e3779b97f4a7c15) + 1;
        size_t length = 61 + i % 500;

        for (size_t k = 0; k < length; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            odd[k] = letters[(seed >> 40) % (sizeof(letters) - 1)];
        }
        odd[length] = '\0';
        name = odd;
        char *rule = advised((const uintptr_t[]){AT_CUDART, AT_RUN, AT_MAIN}, 3);
        cr_expect(gs_pattern_matches(rule, odd), "%s: %s", odd, rule);
        free(rule);
    }
}

Test(advice, there_is_none_that_takes_everything)
{
    static const struct {
        uintptr_t frames[3];
        const char *rule;
    } all[] = {
        {{AT_CUDART, AT_MAIN, AT_LIBC}, ""},
        {{AT_CUDART, AT_STRIPPED, AT_MAIN}, ""},
        {{AT_CUDART, AT_NOWHERE, AT_MAIN}, ""},
        {{AT_CUDART, AT_TORCH, AT_MAIN}, ""},
        {{AT_TORCH + 0x1000, AT_MAIN, AT_LIBC}, ""},
        /* a program without symbols below a thread of a library's */
        {{AT_CUDART, AT_STRIPPED, AT_TORCH}, "^at::native::empty_cuda$"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
        char *rule = advised(all[i].frames, 3);
        cr_expect_str_eq(rule, all[i].rule, "%zu: %s", i, rule);
        free(rule);
    }
}

static enum gs_status in_binding(void *self, uint32_t stack, uintptr_t frame,
                                 struct gs_module *out)
{
    enum gs_status status = test_source().module(self, stack, frame, out);

    if (frame == AT_TORCH)
        out->path = "/opt/cuda/bindings/cydriver.cpython-311-x86_64-linux-gnu.so";
    return status;
}

/* A rule for the layer that binds CUDA to Python would match all of the program's leaks.
 */
Test(advice, there_is_none_for_a_binding_layer)
{
    source = test_source();
    source.module = in_binding;
    name = "run";
    char *rule = advised((const uintptr_t[]){AT_TORCH, AT_RUN, AT_MAIN}, 3);
    cr_expect_str_eq(rule, "^run$");
    free(rule);
    rule = advised((const uintptr_t[]){AT_TORCH, AT_MAIN, AT_LIBC}, 3);
    cr_expect_str_eq(rule, "");
    free(rule);
}
