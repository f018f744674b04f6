/*
 * shim_cache_sizes.c - proves that GPUSHIM_POOL_CACHE is taken whole or not at all, that
 * what it does not name is as shipped, and that no text does harm.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "shim/limits/cache_sizes.h"
#include "shim/settings/options.h"

static struct gs_cache_sizes sizes;

static const char *parse(const char *text)
{
    memset(&sizes, 0xa5, sizeof(sizes));
    return gs_cache_sizes_parse(text, &sizes);
}

static void expect(size_t bytes, uint32_t stream_blocks, uint32_t global_blocks)
{
    cr_expect_eq(sizes.bytes, bytes);
    cr_expect_eq(sizes.stream_blocks, stream_blocks);
    cr_expect_eq(sizes.global_blocks, global_blocks);
}

Test(cache_sizes, a_size_is_for_all_levels)
{
    cr_assert_null(parse("3M"));
    expect(3 * GS_MIB, 0, 0);
    cr_assert_null(parse("0"));
    expect(0, 0, 0);
    cr_assert_null(parse("1G"));
    expect(GS_GIB, 0, 0);
}

Test(cache_sizes, levels_are_named)
{
    cr_assert_null(parse("stream:100,global:500"));
    expect(32 * GS_MIB, 100, 500);
    cr_assert_null(parse(" Global:7 , 64M"));
    expect(64 * GS_MIB, 0, 7);
    cr_assert_null(parse("stream:0"));
    expect(32 * GS_MIB, GS_TIER_NO_BLOCKS, 0);
}

Test(cache_sizes, what_is_not_named_is_as_shipped)
{
    static struct gs_options_messages notes;
    static struct gs_options options;
    static char *none[] = {NULL};

    cr_assert_null(parse(""));
    expect(32 * GS_MIB, 0, 0);
    gs_options_load(&options, none, false, &notes);
    cr_assert_null(parse(options.pool_cache));
    expect(32 * GS_MIB, 0, 0);
}

Test(cache_sizes, one_mistake_spoils_it_all)
{
    static const char *const wrong[] = {"2G",
                                        "big",
                                        ",",
                                        "1M,",
                                        "1M,2M",
                                        "stream:",
                                        "stream:-1",
                                        "stream:1M",
                                        "stream:1.5",
                                        "stream:1,stream:2",
                                        "stream 100",
                                        "threads:100",
                                        "stream:1,,2",
                                        "stream:1;2",
                                        "global:1000001",
                                        "stream:1,2G",
                                        "1M,global:x",
                                        " ",
                                        "100:stream",
                                        "stream:18446744073709551616"};

    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        cr_expect_not_null(parse(wrong[i]), "'%s'", wrong[i]);
        expect(32 * GS_MIB, 0, 0);
    }
}

static size_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

Test(cache_sizes, no_text_does_harm)
{
    static const char parts[] = "stream:global,0123456789KMG. -\xff";
    char text[128];
    uint32_t random = 1;

    for (int i = 0; i < 100000; i++) {
        size_t length = next(&random) % (sizeof(text) - 1);

        for (size_t j = 0; j < length; j++)
            text[j] = parts[next(&random) % (sizeof(parts) - 1)];
        text[length] = '\0';
        if (parse(text))
            expect(32 * GS_MIB, 0, 0);
        cr_assert_leq(sizes.bytes, GS_GIB);
    }
}

Test(cache_sizes, a_mistake_is_said_in_one_line, .init = cr_redirect_stderr)
{
    gs_cache_sizes_read("stream:ten\n", &sizes);
    expect(32 * GS_MIB, 0, 0);
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_POOL_CACHE=stream:ten\\x0a: a tier's number "
        "of blocks is not from 0 to 1000000; using 32M\n");
}
