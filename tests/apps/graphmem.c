/*
 * graphmem.c - memory that graphs allocate: by call and by capture, freed in every way
 * there is, and leaked at known lines.
 *
 *   graphmem [STEP...]   inside outside auto other orphan leak capture (all of them);
 *                        errors: frees that the driver refuses; often: a hundred thousand
 *                        launches; full: the last piece of a full device, in a capture;
 *                        room: most of a small device, once it was freed
 *
 * Proves that memory of a graph is live from a launch to its free, however often the
 * graph is launched; that no free of it is taken for a wrong one; that what is left after
 * the last launch is named where its node was made. Marks as in leaky.c.
 */
#include "launch.h"

#define COUNT ((size_t)4096)
#define BYTES (COUNT * 4)

static struct app_kernels kernels;
static gpu_stream stream;
static uint64_t sum = APP_CHECKSUM;

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static gpu_alloc_params params_of(size_t bytes)
{
    gpu_alloc_params params;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = GPU_ALLOC_PINNED;
    params.poolProps.location.type = GPU_PLACE_DEVICE;
    params.bytesize = bytes;
    return params;
}

/* Launch, and look at what is in the memory. */
static void launch_and_use(gpu_exec exec, gpu_ptr memory, uint32_t seed)
{
    static uint32_t words[256];

    APP_OK(gpu_graph_launch(exec, stream));
    app_fill(&kernels, memory, COUNT, seed, stream);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(words, memory, sizeof(words)));
    sum = app_checksum(sum, words, sizeof(words));
}

/* ---- clean --------------------------------------------------------------------------
 */

/* Allocated and freed by the same graph, a hundred times. */
static void step_inside(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc, release;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_add_free(&release, graph, &alloc, 1, (gpu_ptr)params.dptr));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_destroy(graph));
    for (int i = 0; i < 100; i++)
        APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(exec));
}

/* Allocated by each launch, freed by a call, in turns by each of the two. */
static void step_outside(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_instantiate(&exec, graph));
    for (int i = 0; i < 20; i++) {
        launch_and_use(exec, (gpu_ptr)params.dptr, (uint32_t)i);
        printf("graphmem: a launch with unfreed memory answers %d\n",
               (int)gpu_graph_launch(exec, stream));
        forget_error();
        if (i % 2)
            APP_OK(gpu_free((gpu_ptr)params.dptr));
        else
            APP_OK(gpu_free_async((gpu_ptr)params.dptr, stream));
    }
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

/* Each launch frees what the one before left; the program frees the last. */
static void step_auto(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_instantiate_flags(&exec, graph, GPU_GRAPH_AUTO_FREE));
    for (int i = 0; i < 20; i++)
        launch_and_use(exec, (gpu_ptr)params.dptr, 100u + (uint32_t)i);
    APP_OK(gpu_free_async((gpu_ptr)params.dptr, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

/* Allocated by one graph, freed by another. */
static void step_other(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph, other;
    gpu_exec exec, freeing;
    gpu_node alloc, release;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_graph_create(&other));
    APP_OK(gpu_add_free(&release, other, NULL, 0, (gpu_ptr)params.dptr));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_instantiate(&freeing, other));
    printf("graphmem: freeing nothing answers %d\n",
           (int)gpu_graph_launch(freeing, stream));
    forget_error();
    for (int i = 0; i < 10; i++) {
        launch_and_use(exec, (gpu_ptr)params.dptr, 200u + (uint32_t)i);
        APP_OK(gpu_graph_launch(freeing, stream));
    }
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(freeing));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(other));
    APP_OK(gpu_graph_destroy(graph));
}

/* The graph and what was made of it are gone, its memory is not. */
static void step_orphan(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc;

    for (int i = 0; i < 4; i++) {
        APP_OK(gpu_graph_create(&graph));
        APP_OK(gpu_add_alloc(&alloc, graph, &params));
        APP_OK(gpu_instantiate(&exec, graph));
        launch_and_use(exec, (gpu_ptr)params.dptr, 300u + (uint32_t)i);
        APP_OK(gpu_graph_destroy(graph));
        APP_OK(gpu_exec_destroy(exec));
        APP_OK(gpu_free((gpu_ptr)params.dptr));
    }
}

/* ---- leaks --------------------------------------------------------------------------
 */

APP_FRAME static gpu_ptr keep_result(gpu_exec *exec)
{
    gpu_alloc_params params = params_of(3145728);
    gpu_graph graph;
    gpu_node alloc;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params)); /* LEAK: keep_result 3145728 1 */
    APP_OK(gpu_instantiate(exec, graph));
    APP_OK(gpu_graph_destroy(graph));
    return (gpu_ptr)params.dptr;
}

/* Freed between launches, but not after the last. */
static void step_leak(void)
{
    gpu_exec exec;
    gpu_ptr memory = keep_result(&exec);

    for (int i = 0; i < 5; i++) {
        if (i > 0)
            APP_OK(gpu_free_async(memory, stream));
        launch_and_use(exec, memory, 400u + (uint32_t)i);
    }
    APP_OK(gpu_exec_destroy(exec));
}

APP_FRAME static gpu_ptr capture_scratch(gpu_exec *exec)
{
    gpu_ptr kept, gone;
    gpu_graph graph;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    APP_OK(gpu_malloc_async(&gone, BYTES, stream));
    APP_OK(gpu_malloc_async(&kept, 720896, stream)); /* LEAK: capture_scratch 720896 1 */
    app_fill(&kernels, gone, COUNT, 7, stream);
    app_copy(&kernels, kept, gone, COUNT, stream);
    APP_OK(gpu_free_async(gone, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate_flags(exec, graph, GPU_GRAPH_AUTO_FREE));
    APP_OK(gpu_graph_destroy(graph));
    return kept;
}

/* Captured, with what the graph itself frees beside it. */
static void step_capture(void)
{
    gpu_exec exec;
    gpu_ptr kept = capture_scratch(&exec);

    for (int i = 0; i < 50; i++)
        launch_and_use(exec, kept, 500u + (uint32_t)i);
    APP_OK(gpu_exec_destroy(exec));
}

/* ---- errors -------------------------------------------------------------------------
 */

static void tell(const char *what, int code)
{
    printf("graphmem: %s answers %d\n", what, code);
    forget_error();
}

/* Each of these the driver refuses. */
static void step_errors(void)
{
    gpu_alloc_params params = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc, release;
    gpu_ptr plain;

    APP_OK(gpu_malloc(&plain, BYTES));
    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_instantiate(&exec, graph));
    tell("a free before the first launch", (int)gpu_free((gpu_ptr)params.dptr));
    launch_and_use(exec, (gpu_ptr)params.dptr, 1);
    APP_OK(gpu_free((gpu_ptr)params.dptr));
    tell("a second free", (int)gpu_free((gpu_ptr)params.dptr));
    tell("a second free in a stream", (int)gpu_free_async((gpu_ptr)params.dptr, stream));
    launch_and_use(exec, (gpu_ptr)params.dptr, 2);
    APP_OK(gpu_free_async((gpu_ptr)params.dptr, stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));

    params = params_of(BYTES);
    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_add_free(&release, graph, &alloc, 1, (gpu_ptr)params.dptr));
    tell("a second free node",
         (int)gpu_add_free(&release, graph, &release, 1, (gpu_ptr)params.dptr));
    tell("a free node of other memory",
         (int)gpu_add_free(&release, graph, &alloc, 1, plain));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    tell("a free behind the graph's own", (int)gpu_free((gpu_ptr)params.dptr));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(plain));
}

/* ---- much, and little ---------------------------------------------------------------
 */

/* Kilobytes that the process has of the machine's memory. */
static long resident_kib(void)
{
    long pages = 0, total;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%ld %ld", &total, &pages) != 2)
        app_fail("cannot read", "/proc/self/statm");
    fclose(file);
    return pages * 4;
}

/* However often it is launched, a graph takes no more of the host's memory. */
static void step_often(void)
{
    gpu_alloc_params inside = params_of(BYTES), kept = params_of(BYTES);
    gpu_graph graph;
    gpu_exec exec;
    gpu_node node, release;
    long early = 0;

    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&node, graph, &inside));
    APP_OK(gpu_add_free(&release, graph, &node, 1, (gpu_ptr)inside.dptr));
    APP_OK(gpu_add_alloc(&node, graph, &kept));
    APP_OK(gpu_instantiate_flags(&exec, graph, GPU_GRAPH_AUTO_FREE));
    APP_OK(gpu_graph_destroy(graph));
    for (int i = 0; i < 100000; i++) {
        APP_OK(gpu_graph_launch(exec, stream));
        if (i % 100 == 99)
            APP_OK(gpu_stream_sync(stream));
        if (i == 20000)
            early = resident_kib();
    }
    printf("graphmem: 80,000 launches took %s\n",
           resident_kib() - early < 1024 ? "nothing" : "more than 1 MiB of the host");
    APP_OK(gpu_free((gpu_ptr)kept.dptr));
    APP_OK(gpu_exec_destroy(exec));
}

/* What was freed is there for a graph. */
static void step_room(void)
{
    gpu_alloc_params params = params_of(40 * APP_MIB);
    gpu_ptr block;
    gpu_graph graph;
    gpu_exec exec;
    gpu_node node, release;

    APP_OK(gpu_malloc(&block, 40 * APP_MIB));
    APP_OK(gpu_free(block));
    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&node, graph, &params));
    APP_OK(gpu_add_free(&release, graph, &node, 1, (gpu_ptr)params.dptr));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

/* The driver has room for a small block beside another one, and no more. */
static void step_full(void)
{
    gpu_ptr small, block;
    size_t pitch;
    gpu_graph graph;

    APP_OK(gpu_malloc_pitch(&small, &pitch, 512, 1));
    while ((int)gpu_malloc_pitch(&block, &pitch, 2 * APP_MIB, 1) == 0)
        ;
    forget_error();
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, small, 128, 1, stream);
    printf("graphmem: the last piece: %d\n", (int)gpu_malloc(&block, BYTES));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(block));
}

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"inside", step_inside},   {"outside", step_outside}, {"auto", step_auto},
    {"other", step_other},     {"orphan", step_orphan},   {"leak", step_leak},
    {"capture", step_capture}, {"errors", step_errors},   {"often", step_often},
    {"full", step_full},       {"room", step_room},
};

/* Those that run unless others are named. */
#define USUAL 7

static void run_step(const char *name)
{
    for (unsigned i = 0; i < APP_COUNT(steps); i++) {
        if (strcmp(name, steps[i].name) == 0) {
            steps[i].run();
            return;
        }
    }
    app_fail("no such step", name);
}

int main(int argc, char **argv)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    for (int i = 1; i < argc; i++)
        run_step(argv[i]);
    for (unsigned i = 0; argc == 1 && i < USUAL; i++)
        steps[i].run();
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("graphmem: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
