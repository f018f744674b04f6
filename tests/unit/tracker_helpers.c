/*
 * tracker_helpers.c - what the tracker's tests share; see the header.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tracker_helpers.h"

static const char *const api_names[API_COUNT] = {
    [API_UNKNOWN] = "unknown",           [API_MEM_ALLOC] = "cuMemAlloc",
    [API_MEM_ALLOC_V2] = "cuMemAlloc",   [API_MANAGED] = "cuMemAllocManaged",
    [API_HOST_ALLOC] = "cuMemHostAlloc", [API_MEM_FREE] = "cuMemFree",
};

struct gs_tracker *test_tracker(struct gs_stacks *stacks)
{
    struct gs_tracker_config config = {.api_names = api_names,
                                       .api_count = API_COUNT,
                                       .stacks = stacks,
                                       .free_history = 4096};
    struct gs_tracker *tracker = NULL;

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    return tracker;
}

uint64_t test_now_ns = 1000000000;

static int slow_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(test_now_ns / 1000000000),
                             .tv_nsec = (long)(test_now_ns % 1000000000)};
    return 0;
}

struct gs_tracker *test_slow_tracker(void)
{
    struct gs_tracker_config config = {.free_history = 64, .clock = slow_clock};
    struct gs_tracker *tracker = NULL;

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    return tracker;
}

struct gs_stacks *test_stacks(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_OFF, .depth = 32};
    struct gs_stacks *stacks = NULL;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    return stacks;
}

void test_tracker_end(struct gs_tracker **tracker)
{
    gs_tracker_destroy(*tracker);
}

void test_stacks_end(struct gs_stacks **stacks)
{
    gs_stacks_destroy(*stacks);
}

struct gs_allocation test_allocation(uint64_t addr, uint64_t bytes)
{
    return (struct gs_allocation){.addr = addr,
                                  .bytes = bytes,
                                  .context = 0xc0,
                                  .time_ns = SECONDS(1),
                                  .thread = 100,
                                  .api = API_MEM_ALLOC,
                                  .kind = GS_MEMORY_DEVICE};
}

uint32_t test_add(struct gs_tracker *tracker, const struct gs_allocation *allocation,
                  bool indexed)
{
    uint32_t id = 0;

    cr_assert_eq(gs_tracker_add(tracker, allocation, indexed, &id), GS_OK);
    cr_assert_neq(id, 0);
    return id;
}

void test_leak(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
               uint64_t time_ns, uint32_t stack)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.time_ns = time_ns;
    allocation.stack = stack;
    test_add(tracker, &allocation, true);
}

struct gs_tracker_totals test_totals(struct gs_tracker *tracker, int device)
{
    struct gs_tracker_totals totals;

    gs_tracker_get_totals(tracker, device, &totals);
    return totals;
}

/* --- names ----------------------------------------------------------------------------
 */

static const struct gs_module modules[] = {
    {.path = "/opt/app/app", .begin = 0x10000, .end = 0x20000, .bias = 0x10000},
    {.path = "/opt/torch/libtorch_cuda.so",
     .begin = 0x20000,
     .end = 0x30000,
     .bias = 0x20000},
    {.path = "/usr/lib/libcudart.so.13",
     .begin = 0x30000,
     .end = 0x40000,
     .bias = 0x30000},
    {.path = "/usr/lib/libcuda.so.1", .begin = 0x40000, .end = 0x50000, .bias = 0x40000},
    {.path = "/usr/lib/libc.so.6", .begin = 0x50000, .end = 0x60000, .bias = 0x50000},
    {.path = "/usr/lib/libgpushim.so", .begin = 0x60000, .end = 0x70000, .bias = 0x60000},
    {.path = "/opt/app/libmine.so", .begin = 0x70000, .end = 0x80000, .bias = 0x70000},
};

static const struct {
    uintptr_t frame;
    struct gs_symbol symbol;
} symbols[] = {
    {AT_MAIN, {.function = "main", .linkage = "main", .file = "/src/app.c", .line = 12}},
    {AT_LOAD, {.function = "load_batch", .file = "loader.c", .line = 88}},
    {AT_LOAD_TOO, {.function = "load_batch", .file = "loader.c", .line = 88}},
    {AT_LOAD_NEXT, {.function = "load_batch", .file = "loader.c", .line = 89}},
    {AT_RUN, {.function = "run", .linkage = "run"}},
    {AT_STATIC_CUDA, {.function = "cudaMalloc", .linkage = "cudaMalloc"}},
    {AT_START, {.function = "_start", .linkage = "_start"}},
    {AT_TORCH,
     {.function = "at::native::empty_cuda", .linkage = "_ZN2at6native10empty_cudaEv"}},
    {AT_MINE, {.function = "mine::keep", .linkage = "_ZN4mine4keepEv"}},
    {AT_CUDART, {.function = "cudaMalloc", .linkage = "cudaMalloc"}},
    {AT_LIBC, {.function = "__libc_start_call_main"}},
    {AT_THREAD, {.function = "start_thread"}},
    {AT_CLONE, {.function = "clone3"}},
    {AT_SHIM, {.function = "cuMemAlloc_v2", .linkage = "cuMemAlloc_v2"}},
};

static enum gs_status find_module(void *self, uint32_t stack, uintptr_t frame,
                                  struct gs_module *out)
{
    (void)self;
    (void)stack;
    for (size_t i = 0; i < GS_ARRAY_LEN(modules); i++) {
        if (frame >= modules[i].begin && frame < modules[i].end) {
            *out = modules[i];
            return GS_OK;
        }
    }
    return GS_ERR_NOT_FOUND;
}

static void resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < GS_ARRAY_LEN(symbols); k++) {
            if (symbols[k].frame == requests[i].frame)
                requests[i].result = symbols[k].symbol;
        }
        if (requests[i].module)
            requests[i].result.offset = requests[i].frame - requests[i].module->bias;
    }
}

struct gs_report_source test_source(void)
{
    return (struct gs_report_source){
        .now_ns = SECONDS(600), .module = find_module, .resolve = resolve};
}

struct gs_report_config test_report_config(void)
{
    static const char *const runtime_names[] = {"cudaMalloc", "cudaFree",
                                                "cudaMallocManaged"};

    return (struct gs_report_config){.version = "0.1.0",
                                     .command = "./app --fast",
                                     .hostname = "n07",
                                     .rank = -1,
                                     .pid = 41233,
                                     .ending = "exit 0",
                                     .max_groups = 10,
                                     .show_leaks = true,
                                     .runtime_names = runtime_names,
                                     .runtime_name_count = GS_ARRAY_LEN(runtime_names)};
}

static void no_problem(void *self, unsigned line, const char *what)
{
    (void)self;
    cr_assert_fail("line %u: %s", line, what);
}

struct gs_suppressions *test_rules(const char *text)
{
    struct gs_suppressions *rules = NULL;

    cr_assert_eq(gs_suppressions_create(&rules), GS_OK);
    cr_assert_eq(gs_suppressions_add(rules, "r", text, strlen(text), no_problem, NULL),
                 GS_OK);
    return rules;
}

uint32_t test_stack(struct gs_stacks *stacks, const uintptr_t *frames, unsigned count)
{
    uint32_t id = gs_stacks_intern(stacks, frames, count);

    cr_assert_neq(id, 0);
    return id;
}

/* --- report text -----------------------------------------------------------------------
 */

void test_take_prefix_off(char *text)
{
    static const char prefix[] = "==41233==";
    size_t length = sizeof(prefix) - 1;
    char *to = text;

    for (const char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        cr_assert_not_null(end, "the text ends within a line");
        cr_assert_eq(strncmp(line, prefix, length), 0, "%s", line);
        cr_assert(line[length] == '\n' || line[length] == ' ', "%s", line);
        cr_assert_neq(end[-1], ' ', "a line ends in a space");
        line += line[length] == ' ' ? length + 1 : length;
        memmove(to, line, (size_t)(end + 1 - line));
        to += end + 1 - line;
    }
    *to = '\0';
}

char *test_report_text(struct gs_tracker *tracker, const struct gs_report_config *config,
                       struct gs_report_summary *summary)
{
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    gs_report_write_from(tracker, config, &source, &text, summary);
    cr_assert_not(text.truncated);
    cr_assert_eq(strlen(text.data), text.length);
    test_take_prefix_off(text.data);
    return text.data;
}
