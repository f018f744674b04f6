/*
 * selftest.h - what the parts of the runtime's self test share. Each part is one file of
 * checks; selftest.c runs them by name.
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_SELFTEST_H
#define GS_SIM_RT_SELFTEST_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Print file, line and what was expected, and end the process. Any thread. */
_Noreturn void check_failed(const char *file, int line, const char *what, long found,
                            long wanted);

/* End the process: the driver does not model what the check is about. */
_Noreturn void check_skipped(const char *what);

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition))                                                                \
            check_failed(__FILE__, __LINE__, #condition, 0, 1);                          \
    } while (0)

/* A number of any kind: both sides are shown. */
#define CHECK_IS(call, wanted)                                                           \
    do {                                                                                 \
        long found_ = (long)(call), wanted_ = (long)(wanted);                            \
        if (found_ != wanted_)                                                           \
            check_failed(__FILE__, __LINE__, #call, found_, wanted_);                    \
    } while (0)

#define CHECK_OK(call) CHECK_IS(call, cudaSuccess)

/* As CHECK_OK for the first call of a kind that a driver may answer "not supported". */
#define CHECK_MODELLED(call)                                                             \
    do {                                                                                 \
        cudaError_t answer_ = (call);                                                    \
        if (answer_ == cudaErrorNotSupported)                                            \
            check_skipped(#call);                                                        \
        CHECK_IS(answer_, cudaSuccess);                                                  \
    } while (0)

/* count words of the pattern of kernels.h are at host; false and a line where one is
 * not. */
bool is_pattern(const uint32_t *host, uint64_t count, uint32_t seed);

/* The kernel of tests/sim/kernels with this name; its library is loaded once. */
cudaKernel_t kernel_named(const char *name);

/* gs_fill / gs_check on a stream; the latter waits and returns the mismatches. */
void launch_fill(uint32_t *dst, uint64_t count, uint32_t seed, cudaStream_t stream);
uint32_t count_mismatches(const uint32_t *src, uint64_t count, uint32_t seed);

struct selftest {
    const char *name;
    void (*run)(void);
};

/* Ended by a row of NULLs each. */
extern const struct selftest memory_tests[];
extern const struct selftest work_tests[];
extern const struct selftest process_tests[];
extern const struct selftest per_thread_tests[];
extern const struct selftest array_tests[];
extern const struct selftest ipc_tests[];
extern const struct selftest graph_tests[];

#endif
