/*
 * bench_whole.c - whole programs, to be timed with and without the library.
 *
 *   bench_whole list           their names, each with `heavy` or `light`
 *   bench_whole NAME           run it; the line:  whole NAME milliseconds checksum
 *
 * Heavy ones allocate and free all the time, as programs do that were written without a
 * pool; light ones allocate at their start and then compute. Each sends its data through
 * kernels, reads it back and prints the checksum. The time is the work's: starting CUDA,
 * loading kernels and one time through before it are not in it.
 *
 * Ends with 1 where data is wrong, with 2 where a call fails or for bad usage.
 * Owns: kernels and stream, immutable once main has made them.   Lock: none; one thread.
 */
#include <time.h>

#include "launch.h"

#define WORDS                                                                            \
    4096 /* of a block that kernels work on: little, for the calls are the matter */

static struct app_kernels kernels;
static gpu_stream stream;
static uint32_t words[WORDS];

static gpu_ptr make(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

static uint64_t read_back(uint64_t sum, gpu_ptr block, size_t count)
{
    APP_OK(gpu_get_async(words, block, count * 4, stream));
    APP_OK(gpu_stream_sync(stream));
    return app_checksum(sum, words, count * 4);
}

/* ---- heavy ---------------------------------------------------------------------------
 */

/* A training step: activations that stay until the way back, scratch that does not. */
static uint64_t run_layers(unsigned scale)
{
    enum { LAYERS = 24 };
    uint64_t sum = APP_CHECKSUM;

    for (unsigned step = 0; step < scale; step++) {
        gpu_ptr kept[LAYERS];

        for (unsigned i = 0; i < LAYERS; i++) {
            gpu_ptr scratch = make((size_t)(i % 5 + 1) * 300000);

            kept[i] = make(APP_MIB + (size_t)(i % 3) * 700000);
            app_fill(&kernels, scratch, WORDS, step + i, stream);
            app_copy(&kernels, kept[i], scratch, WORDS, stream);
            if (i > 0)
                app_add(&kernels, kept[i], kept[i - 1], WORDS, stream);
            APP_OK(gpu_free(scratch));
        }
        sum = read_back(sum, kept[LAYERS - 1], WORDS);
        for (unsigned i = LAYERS; i-- > 0;) {
            gpu_ptr gradient = make((size_t)(i % 4 + 1) * 400000);

            app_copy(&kernels, gradient, kept[i], WORDS, stream);
            APP_OK(gpu_free(kept[i]));
            APP_OK(gpu_free(gradient));
        }
    }
    return sum;
}

/* A server: each request brings its buffers, of its own sizes, and takes them along. */
static uint64_t run_requests(unsigned scale)
{
    uint64_t sum = APP_CHECKSUM, state = 5;

    for (unsigned request = 0; request < 20 * scale; request++) {
        gpu_ptr buffers[6];

        for (unsigned i = 0; i < APP_COUNT(buffers); i++)
            buffers[i] = make(WORDS * 4 + app_random(&state) % 2000000);
        app_fill(&kernels, buffers[0], WORDS, request, stream);
        for (unsigned i = 1; i < APP_COUNT(buffers); i++)
            app_copy(&kernels, buffers[i], buffers[i - 1], WORDS, stream);
        sum = read_back(sum, buffers[APP_COUNT(buffers) - 1], 64);
        for (unsigned i = 0; i < APP_COUNT(buffers); i++)
            APP_OK(gpu_free(buffers[i]));
    }
    return sum;
}

/* Many small blocks, freed in another order than they came in. */
static uint64_t run_nodes(unsigned scale)
{
    enum { NODES = 400 };
    uint64_t sum = APP_CHECKSUM;

    for (unsigned round = 0; round < scale; round++) {
        gpu_ptr nodes[NODES];

        for (unsigned i = 0; i < NODES; i++)
            nodes[i] = make(512 + 64 * (i % 30));
        app_fill(&kernels, nodes[round % NODES], 128, round, stream);
        sum = read_back(sum, nodes[round % NODES], 128);
        for (unsigned i = 0; i < NODES; i++)
            APP_OK(gpu_free(nodes[i * 7 % NODES]));
    }
    return sum;
}

/* An array that is full again and again, and moves to one half as large again. */
static uint64_t run_growing(unsigned scale)
{
    uint64_t sum = APP_CHECKSUM;

    for (unsigned round = 0; round < 3 * scale; round++) {
        size_t bytes = WORDS * 4;
        gpu_ptr array = make(bytes);

        app_fill(&kernels, array, WORDS, round, stream);
        while (bytes < 16 * APP_MIB) {
            size_t more = bytes + bytes / 2;
            gpu_ptr next = make(more);

            app_copy(&kernels, next, array, WORDS, stream);
            APP_OK(gpu_free(array));
            array = next;
            bytes = more;
        }
        sum = read_back(sum, array, WORDS);
        APP_OK(gpu_free(array));
    }
    return sum;
}

/* Frames of a film: a pyramid of pitched images for each, from the largest down. */
static uint64_t run_frames(unsigned scale)
{
    enum { TIERS = 8 };
    uint64_t sum = APP_CHECKSUM;

    for (unsigned frame = 0; frame < 8 * scale; frame++) {
        gpu_ptr tiers[TIERS];
        size_t pitch;

        for (unsigned i = 0; i < TIERS; i++) {
            APP_OK(gpu_malloc_pitch(&tiers[i], &pitch, (size_t)2048 >> i << 2,
                                    (size_t)1024 >> i));
            app_fill(&kernels, tiers[i], 512, frame + i, stream);
        }
        for (unsigned i = 1; i < TIERS; i++)
            app_add(&kernels, tiers[i], tiers[i - 1], 8, stream);
        sum = read_back(sum, tiers[TIERS - 1], 8);
        for (unsigned i = 0; i < TIERS; i++)
            APP_OK(gpu_free(tiers[i]));
    }
    return sum;
}

/* ---- light ---------------------------------------------------------------------------
 */

/* Two grids that change places at every step. */
static uint64_t run_grids(unsigned scale)
{
    gpu_ptr grids[2] = {make(4 * APP_MIB), make(4 * APP_MIB)};
    uint64_t sum;

    app_fill(&kernels, grids[0], WORDS, 1, stream);
    app_fill(&kernels, grids[1], WORDS, 2, stream);
    for (unsigned step = 0; step < 200 * scale; step++)
        app_add(&kernels, grids[step % 2], grids[1 - step % 2], WORDS, stream);
    sum = read_back(APP_CHECKSUM, grids[0], WORDS);
    APP_OK(gpu_free(grids[0]));
    APP_OK(gpu_free(grids[1]));
    return sum;
}

/* Data through two page-locked buffers, piece by piece. */
static uint64_t run_pieces(unsigned scale)
{
    const size_t bytes = 256 * APP_KIB;
    gpu_ptr device[2] = {make(bytes), make(bytes)};
    void *host[2];
    uint64_t sum = APP_CHECKSUM;

    for (unsigned i = 0; i < 2; i++) {
        APP_OK(gpu_malloc_host(&host[i], bytes));
        app_bytes_fill(host[i], bytes, i);
        APP_OK(gpu_set(device[i], 0, bytes));
    }
    APP_OK(gpu_sync());
    for (unsigned piece = 0; piece < 40 * scale; piece++) {
        APP_OK(gpu_put_async(device[piece % 2], host[piece % 2], bytes, stream));
        app_copy(&kernels, device[1 - piece % 2], device[piece % 2], WORDS, stream);
        APP_OK(gpu_get_async(host[1 - piece % 2], device[1 - piece % 2], bytes, stream));
        APP_OK(gpu_stream_sync(stream));
    }
    for (unsigned i = 0; i < 2; i++) {
        sum = app_checksum(sum, host[i], bytes);
        APP_OK(gpu_free_host(host[i]));
        APP_OK(gpu_free(device[i]));
    }
    return sum;
}

/* One graph, launched again and again. */
static uint64_t run_graph(unsigned scale)
{
    gpu_ptr left = make(APP_MIB), right = make(APP_MIB);
    gpu_graph graph;
    gpu_exec exec;
    uint64_t sum;

    app_fill(&kernels, right, WORDS, 3, stream);
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    for (unsigned i = 0; i < 8; i++) {
        app_copy(&kernels, left, right, WORDS, stream);
        app_add(&kernels, right, left, WORDS, stream);
    }
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    for (unsigned launch = 0; launch < 15 * scale; launch++)
        APP_OK(gpu_graph_launch(exec, stream));
    sum = read_back(APP_CHECKSUM, right, WORDS);
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(left));
    APP_OK(gpu_free(right));
    return sum;
}

/* Four streams that wait for each other by events. */
static uint64_t run_chains(unsigned scale)
{
    enum { STREAMS = 4 };
    gpu_stream streams[STREAMS];
    gpu_event events[STREAMS];
    gpu_ptr blocks[STREAMS];
    uint64_t sum = APP_CHECKSUM;

    for (unsigned i = 0; i < STREAMS; i++) {
        APP_OK(gpu_stream_create(&streams[i]));
        APP_OK(gpu_event_create(&events[i]));
        blocks[i] = make(APP_MIB);
        app_fill(&kernels, blocks[i], WORDS, i, streams[i]);
        APP_OK(gpu_event_record(events[i], streams[i]));
    }
    for (unsigned step = 0; step < 100 * scale; step++) {
        unsigned to = step % STREAMS, from = (step + 3) % STREAMS;

        APP_OK(gpu_stream_wait(streams[to], events[from]));
        app_add(&kernels, blocks[to], blocks[from], WORDS, streams[to]);
        APP_OK(gpu_event_record(events[to], streams[to]));
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        APP_OK(gpu_stream_sync(streams[i]));
        sum = read_back(sum, blocks[i], WORDS);
        APP_OK(gpu_free(blocks[i]));
        APP_OK(gpu_event_destroy(events[i]));
        APP_OK(gpu_stream_destroy(streams[i]));
    }
    return sum;
}

/* One array, and a question to it that has to be waited for, again and again. */
static uint64_t run_questions(unsigned scale)
{
    gpu_ptr array = make(8 * APP_MIB);
    uint64_t sum = APP_CHECKSUM;

    app_fill(&kernels, array, 2 * APP_MIB, 9, stream);
    for (unsigned question = 0; question < 50 * scale; question++) {
        app_fill(&kernels, array, WORDS, question, stream);
        sum = read_back(sum, array, 16);
    }
    APP_OK(gpu_free(array));
    return sum;
}

/* ---- main ----------------------------------------------------------------------------
 */

static const struct program {
    const char *name, *kind;
    uint64_t (*run)(unsigned scale);
} programs[] = {
    {"layers", "heavy", run_layers}, {"requests", "heavy", run_requests},
    {"nodes", "heavy", run_nodes},   {"growing", "heavy", run_growing},
    {"frames", "heavy", run_frames}, {"grids", "light", run_grids},
    {"pieces", "light", run_pieces}, {"graph", "light", run_graph},
    {"chains", "light", run_chains}, {"questions", "light", run_questions},
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Starting CUDA is left out, and so is the first time through. */
static void run_program(const struct program *program)
{
    enum { SCALE = 12 };
    double began;
    uint64_t sum;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    program->run(1);
    began = now_ms();
    sum = program->run(SCALE);
    printf("whole %s %.3f %016llx\n", program->name, now_ms() - began,
           (unsigned long long)sum);
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";

    for (unsigned i = 0; i < APP_COUNT(programs); i++) {
        if (strcmp(name, "list") == 0)
            printf("%s %s\n", programs[i].name, programs[i].kind);
        if (strcmp(name, programs[i].name) == 0) {
            run_program(&programs[i]);
            return 0;
        }
    }
    if (strcmp(name, "list") == 0)
        return 0;
    fprintf(stderr, "usage: bench_whole list | NAME\n");
    return 2;
}
