/*
 * habits.c - memory used in ways that cost time, and in ways that do not.
 *
 * Proves that GPUSHIM_CHECK=churn,transfers reports each call marked HINT, with its
 * numbers, and no other.
 *
 *   habits CASE...   some of `cases`
 */
#include "launch.h"

#include <unistd.h>

#define TIMES 3000
#define TRIPS 300
#define TRIP  APP_MIB

static gpu_stream stream;
static unsigned char *host; /* pinned, TRIP bytes */
static gpu_ptr device;

/* ---- allocations that live shortly ------------------------------------------------- */

APP_FRAME static void allocate_in_a_loop(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096 + i % 2 * 4096)); /* HINT: allocate_in_a_loop */
        APP_OK(gpu_free(block));
    }
}

/* Too large for the pool's caches of a thread. */
APP_FRAME static void allocate_large(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4 * APP_MIB)); /* HINT: allocate_large */
        APP_OK(gpu_free(block));
    }
}

/* Four live at once. */
APP_FRAME static void allocate_in_turn(void)
{
    gpu_ptr blocks[4] = {0};

    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr *block = &blocks[i % APP_COUNT(blocks)];

        if (i >= APP_COUNT(blocks))
            APP_OK(gpu_free(*block));
        APP_OK(gpu_malloc(block, 4096)); /* HINT: allocate_in_turn */
    }
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        APP_OK(gpu_free(blocks[i]));
}

/* ---- and right ones ---------------------------------------------------------------- */

/* Two buffers, used in turn. */
APP_FRAME static void use_a_ring(void)
{
    gpu_ptr ring[2];

    for (size_t i = 0; i < APP_COUNT(ring); i++)
        APP_OK(gpu_malloc(&ring[i], 4096));
    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_set(ring[i % APP_COUNT(ring)], (unsigned char)i, 4096));
    APP_OK(gpu_sync());
    for (size_t i = 0; i < APP_COUNT(ring); i++)
        APP_OK(gpu_free(ring[i]));
}

/* Memory in stream order is made for it. */
APP_FRAME static void allocate_in_order(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc_async(&block, 4096, stream));
        APP_OK(gpu_free_async(block, stream));
    }
    APP_OK(gpu_stream_sync(stream));
}

/* As many, and each is needed. */
APP_FRAME static void allocate_a_model(void)
{
    static gpu_ptr weights[TIMES];

    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_malloc(&weights[i], 4096));
    usleep(100 * 1000);
    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_free(weights[i]));
}

/* Each for a while: the allocation costs nothing beside the work. */
APP_FRAME static void allocate_for_long(void)
{
    for (size_t i = 0; i < 20; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096));
        usleep(20 * 1000);
        APP_OK(gpu_free(block));
    }
}

APP_FRAME static void allocate_seldom(void)
{
    for (size_t i = 0; i < 999; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096));
        APP_OK(gpu_free(block));
    }
}

/* ---- bytes that go to the host and back -------------------------------------------- */

/* Bytes that do not repeat. */
static void change_on_the_device(int i)
{
    APP_OK(gpu_set(device, (unsigned char)i, TRIP));
    APP_OK(gpu_set(device, (unsigned char)~i, TRIP / 2));
}

/* The device changes them each time, the host never. */
APP_FRAME static void go_and_return(void)
{
    for (int i = 0; i < TRIPS; i++) {
        change_on_the_device(i);
        APP_OK(gpu_get(host, device, TRIP));
        APP_OK(gpu_put(device, host, TRIP)); /* HINT: go_and_return */
    }
    app_expect(host[TRIP - 1] == (TRIPS - 1) % 256, "data");
}

APP_FRAME static void go_and_return_in_order(void)
{
    change_on_the_device(1);
    APP_OK(gpu_sync());
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_stream_sync(stream));
        APP_OK(gpu_put_async(device, host, TRIP, /* HINT: go_and_return_in_order */
                             stream));
    }
    APP_OK(gpu_sync());
}

/* ---- and right ones ---------------------------------------------------------------- */

/* The host changes one byte, anywhere. */
APP_FRAME static void change_on_the_host(void)
{
    for (size_t i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get(host, device, TRIP));
        host[i * 3491 % TRIP]++;
        APP_OK(gpu_put(device, host, TRIP));
    }
}

/* What comes back is not what went. */
APP_FRAME static void read_results(void)
{
    unsigned char *results = host + TRIP / 2;

    for (int i = 0; i < TRIPS; i++) {
        app_bytes_fill(host, TRIP / 2, (uint32_t)i);
        APP_OK(gpu_put(device, host, TRIP / 2));
        APP_OK(gpu_set(device, (unsigned char)i, TRIP / 2));
        APP_OK(gpu_get(results, device, TRIP / 2));
        app_expect(results[0] == i % 256, "a result");
    }
}

/* New data where the results of before were read. */
APP_FRAME static void reuse_the_buffer(void)
{
    for (int i = 0; i < TRIPS; i++) {
        app_bytes_fill(host, TRIP, (uint32_t)i);
        APP_OK(gpu_put_async(device, host, TRIP, stream));
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_stream_sync(stream));
    }
}

/* What a wait for an event ends is changed before the stream is waited for. */
APP_FRAME static void change_after_an_event(void)
{
    gpu_event event;

    APP_OK(gpu_event_create(&event));
    for (size_t i = 0; i < 20; i++) { /* fewer are no waits that cost time */
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_event_record(event, stream));
        APP_OK(gpu_event_sync(event));
        host[i * 3491 % TRIP]++;
        APP_OK(gpu_stream_sync(stream));
        for (int k = 0; k < 2; k++) {
            APP_OK(gpu_put_async(device, host, TRIP, stream));
            APP_OK(gpu_stream_sync(stream));
        }
    }
    APP_OK(gpu_event_destroy(event));
}

/* The bytes of one half, to the other. */
APP_FRAME static void send_other_bytes(void)
{
    app_bytes_fill(host, TRIP, 5);
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get(host, device, TRIP / 2));
        APP_OK(gpu_put(device, host + TRIP / 2, TRIP / 2));
    }
}

/* The host clears or fills memory that the device has cleared or filled alike. */
APP_FRAME static void make_uniform_bytes(void)
{
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_set(device, 0, TRIP));
        APP_OK(gpu_get(host, device, TRIP));
        memset(host, 1, TRIP);
        memset(host, 0, TRIP);
        APP_OK(gpu_put(device, host, TRIP));
    }
}

#define POINTS (TRIP / 12 * 12)

static void fill_with_points(void)
{
    static const float point[3] = {1, 2, 3};

    for (size_t at = 0; at < POINTS; at += sizeof(point))
        memcpy(host + at, point, sizeof(point));
}

APP_FRAME static void make_a_pattern(void)
{
    fill_with_points();
    APP_OK(gpu_put(device, host, POINTS));
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get(host, device, POINTS));
        fill_with_points();
        APP_OK(gpu_put(device, host, POINTS));
    }
}

/* New memory at the same address, with bytes that the host has computed alike. */
APP_FRAME static void allocate_anew(void)
{
    for (int i = 0; i < TRIPS; i++) {
        unsigned char *block;

        change_on_the_device(i);
        APP_OK(gpu_malloc_host((void **)&block, TRIP));
        APP_OK(gpu_get(block, device, TRIP));
        APP_OK(gpu_free_host(block));
        APP_OK(gpu_malloc_host((void **)&block, TRIP));
        memset(block, i, TRIP);
        memset(block, ~i, TRIP / 2);
        APP_OK(gpu_put(device, block, TRIP));
        APP_OK(gpu_free_host(block));
    }
}

APP_FRAME static void return_seldom(void)
{
    change_on_the_device(1);
    for (int i = 0; i < 9; i++) {
        APP_OK(gpu_get(host, device, TRIP));
        APP_OK(gpu_put(device, host, TRIP));
    }
}

/* ---- pinned memory ----------------------------------------------------------------- */

#define PINNED (16 * APP_MIB)

static struct app_kernels kernels;

/* What uses `bytes` of pinned memory besides the host; kernels run in any case. */
static void use_pinned(size_t bytes, void (*use)(unsigned char *pinned))
{
    unsigned char *pinned;

    app_kernels_load(&kernels);
    APP_OK(gpu_malloc_host((void **)&pinned, bytes)); /* HINT: use_pinned */
    app_bytes_fill(pinned, bytes, 3);
    app_fill(&kernels, device, TRIP / 4, 7, stream);
    APP_OK(gpu_put(device, host, 256));
    if (use)
        use(pinned);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_free_host(pinned));
    app_kernels_unload(&kernels);
}

APP_FRAME static void pin_for_the_host(void)
{
    use_pinned(PINNED, NULL);
}

/* ---- and right ones ---------------------------------------------------------------- */

APP_FRAME static void pin_little(void)
{
    use_pinned(PINNED - 1, NULL);
}

static void copy_the_end(unsigned char *pinned)
{
    APP_OK(gpu_put(device, pinned + PINNED - 1, 1));
}

APP_FRAME static void pin_for_a_copy(void)
{
    use_pinned(PINNED, copy_the_end);
}

static void copy_in_a_capture(unsigned char *pinned)
{
    gpu_graph graph;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    APP_OK(gpu_put_async(device, pinned + 64, 64, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
}

APP_FRAME static void pin_for_a_capture(void)
{
    use_pinned(PINNED, copy_in_a_capture);
}

/* The second launch in a row. */
static void run_a_kernel(unsigned char *pinned)
{
    app_fill(&kernels, device, 16, 7, stream);
    app_fill(&kernels, gpu_from_address((uintptr_t)pinned + 4096), 16, 7, stream);
}

APP_FRAME static void pin_for_a_kernel(void)
{
    use_pinned(PINNED, run_a_kernel);
}

static void run_in_a_capture(unsigned char *pinned)
{
    gpu_graph graph;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    run_a_kernel(pinned);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
}

APP_FRAME static void pin_for_a_captured_kernel(void)
{
    use_pinned(PINNED, run_in_a_capture);
}

static void take_a_view(unsigned char *pinned)
{
    gpu_ptr view;

    APP_OK(gpu_host_view(&view, pinned));
}

APP_FRAME static void pin_for_a_view(void)
{
    use_pinned(PINNED, take_a_view);
}

/* A kernel would find it through memory. */
static void send_the_address(unsigned char *pinned)
{
    struct {
        size_t count;
        void *data;
    } table[40] = {[39] = {.count = 1, .data = pinned + 100}};

    APP_OK(gpu_put(device, table, sizeof(table)));
}

APP_FRAME static void pin_for_a_table(void)
{
    use_pinned(PINNED, send_the_address);
}

/* So would it here: in the middle of more than structures have, and not aligned. */
static void send_a_large_table(unsigned char *pinned)
{
    static unsigned char table[TRIP];
    void *data = pinned + 100;

    memcpy(table + TRIP / 2 + 4, &data, sizeof(data));
    APP_OK(gpu_put(device, table, sizeof(table)));
}

APP_FRAME static void pin_for_a_large_table(void)
{
    use_pinned(PINNED, send_a_large_table);
}

/* Or through memory that the host has written itself. */
static void write_to_managed(unsigned char *pinned)
{
    gpu_ptr managed;
    void *data = pinned + 100;

    APP_OK(gpu_malloc_managed(&managed, 4096));
    APP_OK(gpu_sync());
    memcpy(gpu_on_host(managed), &data, sizeof(data));
    APP_OK(gpu_free(managed));
}

APP_FRAME static void pin_for_managed(void)
{
    use_pinned(PINNED, write_to_managed);
}

static void write_to_registered(unsigned char *pinned)
{
    static void *page[1024] __attribute__((aligned(8192)));

    APP_OK(gpu_host_register(page, sizeof(page)));
    page[0] = pinned + 100;
    APP_OK(gpu_host_unregister(page));
}

APP_FRAME static void pin_for_registered(void)
{
    use_pinned(PINNED, write_to_registered);
}

/* The queue is copied, too: that is no reason to call the other memory unused. */
static void write_to_a_queue(unsigned char *pinned, bool by_view)
{
    gpu_ptr view;
    void **queue;

    APP_OK(gpu_malloc_host((void **)&queue, 4096));
    APP_OK(gpu_put(device, queue, 16));
    if (by_view)
        APP_OK(gpu_host_view(&view, queue));
    else
        app_fill(&kernels, gpu_from_address((uintptr_t)queue), 16, 7, stream);
    APP_OK(gpu_stream_sync(stream));
    queue[5] = pinned + 100;
    APP_OK(gpu_free_host(queue));
}

static void view_a_queue(unsigned char *pinned)
{
    write_to_a_queue(pinned, true);
}

APP_FRAME static void pin_for_a_viewed_queue(void)
{
    use_pinned(PINNED, view_a_queue);
}

static void run_on_a_queue(unsigned char *pinned)
{
    write_to_a_queue(pinned, false);
}

APP_FRAME static void pin_for_a_queue(void)
{
    use_pinned(PINNED, run_on_a_queue);
}

/* The bytes that are copied are written after the copy's call. */
static void CUDA_CB write_the_address(void *pinned)
{
    void *data = (unsigned char *)pinned + 100;

    memcpy(host, &data, sizeof(data));
}

static void send_later(unsigned char *pinned)
{
    APP_OK(CU(cuLaunchHostFunc)((CUstream)stream, write_the_address, pinned));
    APP_OK(gpu_put_async(device, host, TRIP, stream));
}

APP_FRAME static void pin_for_a_host_function(void)
{
    use_pinned(PINNED, send_later);
}

/* Of other pinned memory, whose pointer a kernel may then have. */
static void ask_for_attributes(unsigned char *pinned)
{
    CUdeviceptr at = 0;

    (void)pinned;
    APP_OK(CU(cuPointerGetAttribute)(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                     (CUdeviceptr)(uintptr_t)host));
}

APP_FRAME static void pin_beside_attributes(void)
{
    use_pinned(PINNED, ask_for_attributes);
}

static void set_bytes(unsigned char *pinned)
{
    APP_OK(gpu_set(gpu_from_address((uintptr_t)pinned), 1, 64));
}

APP_FRAME static void pin_for_a_set(void)
{
    use_pinned(PINNED, set_bytes);
}

static void launch_a_graph(unsigned char *pinned)
{
    gpu_graph graph;
    gpu_exec exec;

    (void)pinned;
    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

APP_FRAME static void pin_beside_a_graph(void)
{
    use_pinned(PINNED, launch_a_graph);
}

/* ---- all of them ------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"loop", allocate_in_a_loop},
    {"large", allocate_large},
    {"order", allocate_in_order},
    {"turn", allocate_in_turn},
    {"ring", use_a_ring},
    {"model", allocate_a_model},
    {"long", allocate_for_long},
    {"seldom", allocate_seldom},
    {"trips", go_and_return},
    {"trips-async", go_and_return_in_order},
    {"changed", change_on_the_host},
    {"results", read_results},
    {"reused", reuse_the_buffer},
    {"unused", pin_for_the_host},
    {"little", pin_little},
    {"copied", pin_for_a_copy},
    {"captured", pin_for_a_capture},
    {"kernel", pin_for_a_kernel},
    {"captured-kernel", pin_for_a_captured_kernel},
    {"view", pin_for_a_view},
    {"table", pin_for_a_table},
    {"large-table", pin_for_a_large_table},
    {"managed", pin_for_managed},
    {"registered", pin_for_registered},
    {"viewed-queue", pin_for_a_viewed_queue},
    {"queue", pin_for_a_queue},
    {"host-function", pin_for_a_host_function},
    {"attributes", pin_beside_attributes},
    {"set", pin_for_a_set},
    {"graph", pin_beside_a_graph},
    {"few", return_seldom},
    {"uniform", make_uniform_bytes},
    {"pattern", make_a_pattern},
    {"anew", allocate_anew},
    {"event", change_after_an_event},
    {"other", send_other_bytes},
};

int main(int argc, char **argv)
{
    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&device, TRIP));
    APP_OK(gpu_malloc_host((void **)&host, TRIP));
    for (int k = 1; k < argc; k++) {
        size_t i = 0;

        while (i < APP_COUNT(cases) && strcmp(cases[i].name, argv[k]) != 0)
            i++;
        app_expect(i < APP_COUNT(cases), argv[k]);
        cases[i].run();
    }
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_free(device));
    APP_OK(gpu_stream_destroy(stream));
    puts("habits: done");
    app_gpu_stop();
    return 0;
}
