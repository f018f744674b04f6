/*
 * cancelled.c - threads that are to be cancelled while they call.   cancelled [WAY]
 *
 * Proves that a cancellation that is pending acts where it does natively: not in a call,
 * nor in the report at the end of the process, but at the thread's next cancellation
 * point, and not where the thread has disabled it. WAY is
 *   (none)       a thread that has cancellation disabled calls, and enables it then
 *   first CALL   the process's first CUDA call, and all others, on one such thread
 *   each         every call on a thread of its own, once all is set up
 *   full         calls on a device that others have filled
 *   order        a second stream beside work that is running
 *   exit, _exit, quick_exit, exec   the main thread ends the process, while another one
 * pauses
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define MORE_THAN_THERE_IS ((size_t)1 << 45)

static atomic_int go, answered;
static int answer;

static int device_memory(size_t bytes)
{
    gpu_ptr block;

    return (int)gpu_malloc(&block, bytes);
}

static int host_memory(size_t bytes)
{
    void *block;

    return (int)gpu_malloc_host(&block, bytes);
}

static int small(void)
{
    return device_memory(1000);
}

static int large(void)
{
    return device_memory(30 * APP_MIB);
}

static int small_host(void)
{
    return host_memory(1000);
}

static int large_host(void)
{
    return host_memory(3 * APP_MIB);
}

static int managed(void)
{
    gpu_ptr block;

    return (int)gpu_malloc_managed(&block, 1000);
}

static int in_order(void)
{
    gpu_ptr block;

    return (int)gpu_malloc_async(&block, 1000, NULL);
}

static int info(void)
{
    size_t free_bytes, total_bytes;

    return (int)gpu_mem_info(&free_bytes, &total_bytes);
}

static int registered(void)
{
    static _Alignas(4096) char pages[8192];
    int code = (int)gpu_host_register(pages, sizeof(pages));

    return code ? code : (int)gpu_host_unregister(pages);
}

static int refused(void)
{
    return device_memory(MORE_THAN_THERE_IS);
}

static int refused_host(void)
{
    return host_memory(MORE_THAN_THERE_IS);
}

static int bad_free(void)
{
    return (int)gpu_free(gpu_from_address(0x1234));
}

static void *given; /* before the call, by the main thread */

static int free_host(void)
{
    return (int)gpu_free_host(given);
}

static const struct call {
    const char *name;
    int (*make)(void);
} calls[] = {
    {"malloc", small},           {"malloc_large", large},
    {"malloc_host", small_host}, {"malloc_host_large", large_host},
    {"malloc_managed", managed}, {"malloc_async", in_order},
    {"mem_info", info},          {"host_register", registered},
    {"malloc_refused", refused}, {"malloc_host_refused", refused_host},
    {"bad_free", bad_free},      {"free_host", free_host},
};

static void *calls_once(void *arg)
{
    const struct call *call = arg;

    while (!go)
        sched_yield();
    app_gpu_thread();
    answer = call->make();
    answered = 1;
    pthread_testcancel();
    return NULL;
}

/* One call, on a thread that is to be cancelled all the while. */
static void pending(const struct call *call)
{
    pthread_t thread;
    void *result;

    go = answered = 0;
    app_check(pthread_create(&thread, NULL, calls_once, (void *)call), "thread", __FILE__,
              __LINE__);
    pthread_cancel(thread);
    go = 1;
    pthread_join(thread, &result);
    printf("cancelled: %s %s", call->name, answered ? "came back" : "did not come back");
    if (answered)
        printf(" with %d", answer);
    puts(result == PTHREAD_CANCELED ? ", cancelled" : ", not cancelled");
}

static const struct call *find_call(const char *name)
{
    for (size_t i = 0; i < APP_COUNT(calls); i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    app_fail(name, "no such call");
}

static void each(void)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < APP_COUNT(calls); i++) {
            APP_OK(gpu_malloc_host(&given, 1000));
            usleep(2000); /* what is idle is old by then */
            pending(&calls[i]);
        }
    }
}

/* What was freed and is kept idle, or was freed beside work, is what a full device has.
 */
static void full(void)
{
    static gpu_ptr blocks[4096];
    size_t count = 0;

    while (count < APP_COUNT(blocks) && gpu_malloc(&blocks[count], 4 * APP_MIB) == 0)
        count++;
    while (count-- > 1)
        APP_OK(gpu_free(blocks[count]));
    for (size_t i = 0; i < 4; i++)
        pending(find_call("malloc_large"));
    pending(find_call("malloc_host_large"));
}

/* ---- the end of an order ----------------------------------------------------------- */

/* Frees that are marked at once in the lazy mode (shim/state/epochs.h). */
#define MANY 128

static int new_stream(void)
{
    gpu_stream stream;

    return (int)gpu_stream_create(&stream);
}

static const struct call makes_stream = {"stream_create", new_stream};

/* In the lazy mode blocks that were freed beside work have new owners at once, as long as
 * there is one stream; with the second one the library waits for that work. */
static void order(void)
{
    struct app_kernels kernels;
    gpu_ptr blocks[MANY];

    app_kernels_load(&kernels);
    for (size_t i = 0; i < MANY; i++)
        APP_OK(gpu_malloc(&blocks[i], 8192));
    app_spin(&kernels, 500000000, NULL);
    for (size_t i = 0; i < MANY; i++)
        APP_OK(gpu_free(blocks[i]));
    for (size_t i = 0; i < MANY; i++)
        APP_OK(gpu_malloc(&blocks[i], 8192));
    app_fill(&kernels, blocks[0], 100, 1, NULL);
    pending(&makes_stream);
    APP_OK(new_stream());
}

/* ---- its own cancellation ---------------------------------------------------------- */

static void *enables_late(void *unused)
{
    int before, code = 0;

    (void)unused;
    while (!go)
        sched_yield();
    app_gpu_thread();
    for (size_t i = 0; i < 3; i++)
        code |= calls[i].make();
    code |= (int)gpu_sync();
    pthread_testcancel();
    answer = code;
    answered = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    answered += before == PTHREAD_CANCEL_DISABLE;
    pthread_testcancel();
    answered = -1;
    return NULL;
}

static void *disables_first(void *arg)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    answered = 1;
    return enables_late(arg);
}

static void disabled(void)
{
    pthread_t thread;
    void *result;

    app_check(pthread_create(&thread, NULL, disables_first, NULL), "thread", __FILE__,
              __LINE__);
    while (!answered)
        sched_yield();
    pthread_cancel(thread);
    go = 1;
    pthread_join(thread, &result);
    printf("cancelled: disabled: %d, %s, %s\n", answer,
           answered == 2 ? "and stayed so" : "but changed",
           result == PTHREAD_CANCELED ? "cancelled at last" : "never cancelled");
}

/* ---- the end of the process ---------------------------------------------------------
 */

static void *pauses(void *unused)
{
    (void)unused;
    while (go >= 0)
        pause();
    return NULL;
}

APP_FRAME static void hold(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 131072)); /* LEAK: hold 131072 1 */
}

static void ends(const char *way, char *name)
{
    char *arguments[] = {name, "arrived", NULL};
    pthread_t thread;

    app_gpu_start();
    hold();
    app_check(pthread_create(&thread, NULL, pauses, NULL), "thread", __FILE__, __LINE__);
    puts("cancelled: ends");
    fflush(stdout);
    pthread_cancel(pthread_self());
    if (strcmp(way, "exit") == 0)
        exit(3);
    if (strcmp(way, "_exit") == 0)
        _exit(4);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(way, "exec") == 0)
        execv("/proc/self/exe", arguments);
    app_fail(way, "no such way");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";

    if (strcmp(way, "arrived") == 0) {
        puts("cancelled: arrived");
        return 6;
    }
    if (way[0] && strcmp(way, "first") != 0 && strcmp(way, "each") != 0 &&
        strcmp(way, "full") != 0 && strcmp(way, "order") != 0)
        ends(way, argv[0]);
    /* With the driver API the context has to be there; it is met in the call. */
    if (strcmp(way, "first") != 0 || !APP_RUNTIME)
        app_gpu_start();
    if (strcmp(way, "first") == 0)
        pending(find_call(argc > 2 ? argv[2] : "malloc"));
    app_gpu_start();
    if (strcmp(way, "full") == 0)
        full();
    else if (strcmp(way, "order") == 0)
        order();
    else if (way[0])
        each();
    else
        disabled();
    APP_OK(gpu_sync());
    puts("cancelled: ends");
    return 0;
}
