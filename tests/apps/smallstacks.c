/*
 * smallstacks.c - CUDA calls, and the end of the process, on small stacks.
 *
 *   smallstacks thread|fiber BYTES WHAT
 *   smallstacks thread|fiber BYTES first WHAT    the process's first CUDA call, too
 *
 * Proves that what natively fits a stack of so many bytes fits it with the library. The
 * stack is memory of the program's, and so is what lies below it, where nothing stops
 * what grows beyond the end: a child does the calls, and the parent looks at the memory
 * that both share once the child has ended, its report written.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "gpu.h"

/* Below the stack; what the library's largest frames have been. */
#define BELOW   (256 * APP_KIB)
#define PATTERN 0x5a

#define STATUS 7

static void (*call)(void);
static bool is_first;
static gpu_ptr early; /* allocated before, on the process's first stack */
static void *early_host;

APP_FRAME static void leak_device(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 1000));
    APP_OK(gpu_malloc(&block, 20 * APP_MIB));
}

APP_FRAME static void leak_pinned(void)
{
    void *block;

    APP_OK(gpu_malloc_host(&block, 3000));
}

APP_FRAME static void leak_managed(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 5000));
}

APP_FRAME static void leak_async(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_async(&block, 7000, NULL));
    APP_OK(gpu_stream_sync(NULL));
}

APP_FRAME static void leak_virtual(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    APP_OK(CU(cuMemAddressReserve)(&addr, 2 * APP_MIB, 0, 0, 0));
    APP_OK(CU(cuMemCreate)(&handle, 2 * APP_MIB, &prop, 0));
    APP_OK(CU(cuMemMap)(addr, 2 * APP_MIB, 0, handle, 0));
}

APP_FRAME static void leak_graph(void)
{
    gpu_alloc_params params;
    gpu_graph graph;
    gpu_exec exec;
    gpu_node alloc;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = GPU_ALLOC_PINNED;
    params.poolProps.location.type = GPU_PLACE_DEVICE;
    params.bytesize = 9000;
    APP_OK(gpu_graph_create(&graph));
    APP_OK(gpu_add_alloc(&alloc, graph, &params));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_launch(exec, NULL));
    APP_OK(gpu_stream_sync(NULL));
}

static void frees(void)
{
    APP_OK(gpu_free(early));
    APP_OK(gpu_free_host(early_host));
}

static void bad_frees(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 65536));
    app_expect(gpu_free(gpu_from_address(gpu_address(block) + 512)) != 0, "inside");
    APP_OK(gpu_free(block));
    app_expect(gpu_free(block) != 0, "twice");
    app_expect(gpu_free(gpu_from_address(0x123456780000)) != 0, "unknown");
}

static void refused(void)
{
    gpu_ptr block;

    app_expect(gpu_malloc(&block, (size_t)1 << 40) != 0, "more than there is");
}

/* Until nothing is left, so that idle memory is given back, and a report written. */
static void all_of_it(void)
{
    gpu_ptr block;
    int count = 0;

    while (gpu_malloc(&block, 16 * APP_MIB) == 0)
        app_expect(++count < 100000, "a device that is full");
    while (gpu_malloc(&block, APP_MIB) == 0)
        app_expect(++count < 100000, "a device that is full");
}

static void ends(void)
{
    exit(STATUS);
}

static void ends_quickly(void)
{
    quick_exit(STATUS);
}

static void ends_at_once(void)
{
    _exit(STATUS);
}

static void execs(void)
{
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"device", leak_device},
    {"pinned", leak_pinned},
    {"managed", leak_managed},
    {"async", leak_async},
    {"virtual", leak_virtual},
    {"graph", leak_graph},
    {"frees", frees},
    {"bad_frees", bad_frees},
    {"refused", refused},
    {"all_of_it", all_of_it},
    {"exit", ends},
    {"quick_exit", ends_quickly},
    {"_exit", ends_at_once},
    {"exec", execs},
};

/* On the small stack. */
static void do_it(void)
{
    if (is_first)
        app_gpu_start();
    else
        app_gpu_thread();
    call();
}

static void *in_thread(void *unused)
{
    (void)unused;
    do_it();
    return NULL;
}

static ucontext_t outside, inside;

static void run_fiber(char *stack, size_t bytes)
{
    app_expect(getcontext(&inside) == 0, "getcontext");
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = bytes;
    inside.uc_link = &outside;
    makecontext(&inside, do_it, 0);
    app_expect(swapcontext(&outside, &inside) == 0, "swapcontext");
}

static void run_thread(char *stack, size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread = {0};

    app_expect(pthread_attr_init(&attributes) == 0 &&
                   pthread_attr_setstack(&attributes, stack, bytes) == 0 &&
                   pthread_create(&thread, &attributes, in_thread, NULL) == 0,
               "a thread with so small a stack");
    pthread_join(thread, NULL);
}

/* The child: does it, and ends by itself where that is not what is to be done. */
static void run(const char *where, char *stack, size_t bytes)
{
    if (!is_first) {
        app_gpu_start();
        APP_OK(gpu_malloc(&early, 100));
        if (call == frees) /* of pinned memory the first is to be on the small stack */
            APP_OK(gpu_malloc_host(&early_host, 100));
    }
    if (strcmp(where, "fiber") == 0)
        run_fiber(stack, bytes);
    else
        run_thread(stack, bytes);
    exit(STATUS);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 3 ? strtoul(argv[2], NULL, 10) : 0, overwritten = 0;
    int status = 0;

    is_first = argc > 4;
    for (size_t i = 0; argc > 3 && i < APP_COUNT(calls); i++) {
        if (strcmp(calls[i].name, argv[argc - 1]) == 0)
            call = calls[i].call;
    }
    app_expect(call && bytes > 0 && bytes % 4096 == 0, "arguments");
    char *memory = mmap(NULL, BELOW + bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    app_expect(memory != MAP_FAILED, "memory");
    memset(memory, PATTERN, BELOW);
    pid_t child = fork();
    app_expect(child >= 0, "fork");
    if (child == 0)
        run(argv[1], memory + BELOW, bytes);
    app_expect(waitpid(child, &status, 0) == child, "waitpid");
    for (size_t i = 0; i < BELOW; i++)
        overwritten += memory[i] != PATTERN;
    printf("smallstacks: %zu bytes below the stack overwritten, ended by %s %d\n",
           overwritten, WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return overwritten != 0;
}
