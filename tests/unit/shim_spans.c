/*
 * shim_spans.c - proves which bytes a box of a copy touches, that no numbers overflow,
 * how a use lies to an allocation, and that each copy and set of the driver has its row.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/checks/spans.h"

static void expect_span(const struct gs_box *box, uint64_t addr, uint64_t bytes)
{
    struct gs_span span = {1, 1};

    cr_assert(gs_span_of_box(box, &span));
    cr_expect_eq(span.addr, addr, "%#llx", (unsigned long long)span.addr);
    cr_expect_eq(span.bytes, bytes, "%llu", (unsigned long long)span.bytes);
}

Test(spans, the_last_row_ends_where_its_bytes_do)
{
    struct gs_box box = {
        .base = 0x1000, .width = 100, .rows = 16, .layers = 1, .pitch = 512};

    expect_span(&box, 0x1000, 15 * 512 + 100);
    box.rows = 1;
    expect_span(&box, 0x1000, 100);
    box.x = 20;
    box.y = 3;
    expect_span(&box, 0x1000 + 3 * 512 + 20, 100);
}

Test(spans, layers_are_as_far_apart_as_they_are_high)
{
    struct gs_box box = {.base = 0x1000,
                         .width = 64,
                         .rows = 4,
                         .layers = 3,
                         .pitch = 256,
                         .height = 10,
                         .x = 8,
                         .y = 2,
                         .z = 1};

    expect_span(&box, 0x1000 + 10 * 256 + 2 * 256 + 8, 2 * 10 * 256 + 3 * 256 + 64);
    box.layers = 1;
    expect_span(&box, 0x1000 + 10 * 256 + 2 * 256 + 8, 3 * 256 + 64);
}

Test(spans, a_pitch_of_0_is_one_row)
{
    struct gs_box box = {.base = 0x1000, .width = 64, .rows = 4, .layers = 1};

    expect_span(&box, 0x1000, 64);
}

Test(spans, a_box_without_an_extent_is_nothing)
{
    struct gs_box box = {.base = 0x1000,
                         .width = 64,
                         .rows = 4,
                         .layers = 2,
                         .pitch = UINT64_MAX,
                         .height = UINT64_MAX};
    uint64_t *extents[] = {&box.width, &box.rows, &box.layers};

    for (size_t i = 0; i < GS_ARRAY_LEN(extents); i++) {
        uint64_t was = *extents[i];
        *extents[i] = 0;
        expect_span(&box, 0x1000, 0);
        *extents[i] = was;
    }
}

Test(spans, what_overflows_is_nobodys_business)
{
    static const struct gs_box boxes[] = {
        {.base = 1, .width = UINT64_MAX, .rows = 1, .layers = 1},
        {.base = 1, .width = 1, .rows = UINT64_MAX, .layers = 1, .pitch = 2},
        {.base = 1, .width = 1, .rows = 1, .layers = 3, .pitch = UINT64_MAX, .height = 2},
        {.base = 1, .width = 1, .rows = 1, .layers = UINT64_MAX, .pitch = 2, .height = 2},
        {.base = 1, .width = 1, .rows = 1, .layers = 1, .x = UINT64_MAX},
        {.base = 1, .width = 1, .rows = 1, .layers = 1, .y = UINT64_MAX, .pitch = 2},
        {.base = UINT64_MAX, .width = 1, .rows = 1, .layers = 1},
    };
    struct gs_span span = {5, 6};

    for (size_t i = 0; i < GS_ARRAY_LEN(boxes); i++)
        cr_expect_not(gs_span_of_box(&boxes[i], &span), "box %zu", i);
    cr_expect(span.addr == 5 && span.bytes == 6, "nothing is written");
}

Test(spans, how_a_use_lies_to_an_allocation)
{
    const struct gs_span extent = {0x1000, 4096};
    static const struct {
        uint64_t addr, bytes;
        enum gs_span_fit fit;
    } uses[] = {
        {0x1000, 4096, GS_SPAN_INSIDE}, {0x1000, 1, GS_SPAN_INSIDE},
        {0x1fff, 1, GS_SPAN_INSIDE},    {0x1000, 4097, GS_SPAN_LEAVES},
        {0x1fff, 2, GS_SPAN_LEAVES},    {0x1800, UINT64_MAX, GS_SPAN_LEAVES},
        {0x2000, 1, GS_SPAN_BEHIND},    {0x9000, 1, GS_SPAN_BEHIND},
        {0x0fff, 1, GS_SPAN_BEFORE},    {0x0fff, 2, GS_SPAN_BEFORE},
        {0, 1, GS_SPAN_BEFORE},         {UINT64_MAX, 1, GS_SPAN_BEHIND},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(uses); i++) {
        struct gs_span use = {uses[i].addr, uses[i].bytes};
        cr_expect_eq(gs_span_fit(&use, &extent), uses[i].fit, "use %zu", i);
    }
    cr_expect_eq(gs_span_fit(&(struct gs_span){0x1000, 1}, &(struct gs_span){0x1000, 0}),
                 GS_SPAN_BEHIND, "an allocation without bytes");
}

/* ---- the table ----------------------------------------------------------------------
 */

/* As in submit.def: those whose memory is not checked. */
static bool is_left_out(const char *symbol)
{
    static const char *const of_arrays[] = {"cuMemcpyAtoA"};
    static const char *const before_3_2[] = {
        "cuMemcpy2D",        "cuMemcpy2DAsync", "cuMemcpy2DUnaligned", "cuMemcpy3D",
        "cuMemcpy3DAsync",   "cuMemcpyAtoD",    "cuMemcpyDtoA",        "cuMemcpyDtoD",
        "cuMemcpyDtoDAsync", "cuMemcpyDtoH",    "cuMemcpyDtoHAsync",   "cuMemcpyHtoD",
        "cuMemcpyHtoDAsync", "cuMemsetD16",     "cuMemsetD2D16",       "cuMemsetD2D32",
        "cuMemsetD2D8",      "cuMemsetD32",     "cuMemsetD8"};

    for (size_t i = 0; i < GS_ARRAY_LEN(of_arrays); i++) {
        if (strncmp(symbol, of_arrays[i], strlen(of_arrays[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(before_3_2); i++) {
        if (strcmp(symbol, before_3_2[i]) == 0)
            return true;
    }
    return false;
}

/* The functions that name an event, or words of memory; kernels, and what may give one
 * pinned memory unseen: host functions, graphics and managed variables. */
static bool names_others(const char *symbol)
{
    return strstr(symbol, "GraphicsMap") || strstr(symbol, "HostFunc") ||
           strstr(symbol, "GetManaged") || strstr(symbol, "AddCallback") ||
           strstr(symbol, "Event") || strncmp(symbol, "cuStreamWaitValue", 17) == 0 ||
           strncmp(symbol, "cuStreamWriteValue", 18) == 0 ||
           strncmp(symbol, "cuStreamBatchMemOp", 18) == 0 ||
           strncmp(symbol, "cuMemBatchDecompress", 20) == 0 ||
           (strncmp(symbol, "cuLaunch", 8) == 0);
}

static const struct {
    const char *symbol, *row;
} submits[] = {
#define GS_SUBMIT(symbol, name, since, stream, where, params, args, ...)                 \
    {#symbol, #__VA_ARGS__},
#include "shim/entries/submit.def"
};

Test(args, each_copy_set_event_and_operation_has_its_row)
{
    unsigned rows = 0, copies = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(submits); i++) {
        const char *symbol = submits[i].symbol;
        bool has_row = submits[i].row[0] != '\0';

        rows += has_row;
        if (strncmp(symbol, "cuMemcpy", 8) != 0 && strncmp(symbol, "cuMemset", 8) != 0) {
            cr_expect_eq(has_row, names_others(symbol), "%s", symbol);
            continue;
        }
        copies++;
        cr_expect_neq(has_row, is_left_out(symbol), "%s: %s", symbol, submits[i].row);
    }
    cr_expect_eq(rows, 136, "%u rows are those of a function", rows);
    cr_expect_gt(copies, 67);
}
