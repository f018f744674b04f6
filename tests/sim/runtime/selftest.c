/*
 * selftest.c - shows that the simulated runtime does what cuda_runtime_api.h says, over
 * the simulated driver. Linked twice, with the shared library and with the archive.
 *
 *   selftest [NAME...]    run the checks of these names, or those that need no setting
 *   selftest --list       their names
 *
 * Each check runs in a process of its own. Prints `ok NAME`, `not ok NAME` or `skip NAME
 * - why`; ends with 0 if all passed, with 1 if one did not.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"
#include "kernels_ptx.h"

/* Longest that one check may take. */
#define TIME_LIMIT_S 180

/* How a check ends that the driver cannot serve. */
#define SKIPPED 77

void check_failed(const char *file, int line, const char *what, long found, long wanted)
{
    const char *name = strrchr(file, '/');

    printf("  %s:%d: %s is %ld, not %ld\n", name ? name + 1 : file, line, what, found,
           wanted);
    fflush(stdout);
    _exit(1);
}

void check_skipped(const char *what)
{
    printf("  %s is not supported by this driver\n", what);
    fflush(stdout);
    _exit(SKIPPED);
}

bool is_pattern(const uint32_t *host, uint64_t count, uint32_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        if (host[i] != gs_pattern(seed, i)) {
            printf("  word %llu is %u, not %u\n", (unsigned long long)i, host[i],
                   gs_pattern(seed, i));
            return false;
        }
    }
    return true;
}

cudaKernel_t kernel_named(const char *name)
{
    static cudaLibrary_t library; /* loaded before a check starts threads */
    cudaKernel_t kernel = NULL;

    if (!library)
        CHECK_OK(
            cudaLibraryLoadData(&library, gs_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK_OK(cudaLibraryGetKernel(&kernel, library, name));
    return kernel;
}

void launch_fill(uint32_t *dst, uint64_t count, uint32_t seed, cudaStream_t stream)
{
    void *args[] = {&dst, &count, &seed};
    dim3 grid = {4, 1, 1}, block = {64, 1, 1};

    CHECK_OK(cudaLaunchKernel(kernel_named("gs_fill"), grid, block, args, 0, stream));
}

uint32_t count_mismatches(const uint32_t *src, uint64_t count, uint32_t seed)
{
    uint32_t *on_device = NULL, mismatches = 0;
    void *args[] = {&src, &count, &seed, &on_device};
    dim3 grid = {4, 1, 1}, block = {64, 1, 1};

    CHECK_OK(cudaMalloc((void **)&on_device, sizeof(*on_device)));
    CHECK_OK(cudaMemset(on_device, 0, sizeof(*on_device)));
    CHECK_OK(cudaLaunchKernel(kernel_named("gs_check"), grid, block, args, 0, NULL));
    CHECK_OK(
        cudaMemcpy(&mismatches, on_device, sizeof(mismatches), cudaMemcpyDeviceToHost));
    CHECK_OK(cudaFree(on_device));
    return mismatches;
}

/* ---- running --------------------------------------------------------------------- */

static const struct selftest *const parts[] = {memory_tests, work_tests, per_thread_tests,
                                               array_tests,  ipc_tests,  graph_tests,
                                               process_tests};

static const struct selftest *find(const char *name)
{
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const struct selftest *test = parts[i]; test->name; test++)
            if (strcmp(test->name, name) == 0)
                return test;
    return NULL;
}

/* 0 if the check passed in a child of its own, 1 if not. */
static int run_one(const struct selftest *test)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(TIME_LIMIT_S);
        test->run();
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        status = -1;
    if (WIFSIGNALED(status))
        printf("  ended by signal %d\n", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        printf("skip %s - not modelled by the driver\n", test->name);
        return 0;
    }
    printf("%s %s\n", status == 0 ? "ok" : "not ok", test->name);
    return status != 0;
}

/* Checks named "setting_..." need an environment that the build gives them. */
static bool needs_setting(const struct selftest *test)
{
    return strncmp(test->name, "setting_", strlen("setting_")) == 0;
}

static int run_all(bool only_list)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (const struct selftest *test = parts[i]; test->name; test++) {
            if (only_list)
                puts(test->name);
            else if (!needs_setting(test))
                failed += run_one(test);
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc < 2)
        return run_all(false) ? 1 : 0;
    if (strcmp(argv[1], "--list") == 0)
        return run_all(true);
    for (int i = 1; i < argc; i++) {
        const struct selftest *test = find(argv[i]);

        if (!test) {
            printf("no check is called %s\n", argv[i]);
            return 2;
        }
        failed += run_one(test);
    }
    return failed ? 1 : 0;
}
