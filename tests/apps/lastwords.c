/*
 * lastwords.c - the process is ended a second time, while its report is being written.
 *
 *   lastwords places        two threads call exit; a report of many lines
 *   lastwords exit|_exit    a handler ends the process on another thread
 *   lastwords inside        the same, where it interrupts a free that waits for the
 * device lastwords same|_same    a handler ends it on the thread that writes, by exit or
 * _exit lastwords stuck|gone    a handler on that thread never returns, or ends the
 * thread alone; another thread calls exit
 *
 * The main thread calls exit(5). The other end is exit(6) or _exit(6), once the file
 * `asked` is there, which the helper for files and lines makes (lastwords places: at
 * once). Natively each way ends the process.
 */
#include "app.h"
#include "launch.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACES 60

static const char *how;
static pthread_t main_thread, second_thread;
static volatile bool waits; /* the second thread is about to wait for the device */

static bool is_how(const char *word)
{
    return strcmp(how, word) == 0;
}

/* Each depth is a place of its own. */
static APP_FRAME int hold_at(unsigned depth)
{
    CUdeviceptr block;

    APP_OK(cuMemAlloc_v2(&block, 1000));
    return depth > 0 ? hold_at(depth - 1) + 1 : 0;
}

static void on_signal(int number)
{
    (void)number;
    if (is_how("gone"))
        (void)syscall(SYS_exit, 0);
    while (is_how("stuck"))
        pause();
    if (how[0] == '_')
        _exit(6);
    exit(6);
}

static void wait_for_report(void)
{
    while (!is_how("places") && access("asked", F_OK) != 0)
        usleep(1000);
}

static void never_returns(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

static void wait_inside(CUcontext context)
{
    CUdeviceptr block;
    CUstream stream;

    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuMemAlloc_v2(&block, 1000));
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuLaunchHostFunc(stream, never_returns, NULL));
    waits = true;
    (void)cuMemFree_v2(block);
}

static void *second(void *context)
{
    if (is_how("inside"))
        wait_inside(context);
    wait_for_report();
    if (strstr(how, "same") || is_how("stuck") || is_how("gone"))
        pthread_kill(main_thread, SIGTERM);
    else if (!is_how("places"))
        raise(SIGTERM);
    while (is_how("same") || is_how("_same"))
        pause();
    usleep(100000); /* the other has got there */
    exit(6);
}

/* What the thread that waits inside is sent. */
static void *third(void *unused)
{
    (void)unused;
    wait_for_report();
    pthread_kill(second_thread, SIGTERM);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    CUcontext context;
    pthread_t thread;

    how = argc > 1 ? argv[1] : "places";
    main_thread = pthread_self();
    app_expect(sigaction(SIGTERM, &action, NULL) == 0, "a handler");
    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    (void)hold_at(is_how("places") ? PLACES - 1 : 0);
    app_expect(pthread_create(&second_thread, NULL, second, context) == 0, "a thread");
    if (is_how("inside")) {
        while (!waits)
            usleep(1000);
        usleep(100000);
        app_expect(pthread_create(&thread, NULL, third, NULL) == 0, "a thread");
    }
    exit(5);
}
