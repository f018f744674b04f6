/*
 * conformance.h - the documented behaviour of CUDA, call by call: one case a sentence.
 *
 * The same program runs on the simulated device and on a GPU; where they differ the
 * simulated device is wrong. A case names the document and section it rests on and says
 * what is claimed. Cases run one after the other in one process, device 0's primary
 * context current, and leave everything as they found it; a case that ruins its context
 * or needs a process of its own is an OWN_PROCESS_CASE; one that is about the time before
 * cuInit, or counts on a device nobody has used yet, is an UNINITIALIZED_CASE: a process
 * of its own in which nothing of CUDA has been called.
 */
#ifndef GS_CONFORMANCE_H
#define GS_CONFORMANCE_H

#include <cuda.h>

#include "gs_base.h"

/* Kinds of evidence a case can rest on. */
#define DRIVER_API  "CUDA Driver API"
#define RUNTIME_API "CUDA Runtime API"
#define GUIDE       "CUDA Programming Guide"
#define DRIVERS     "NVIDIA's drivers" /* seen on 470 to 580; no document says it */
#define GPUS        "NVIDIA's drivers on a GPU" /* seen there alone; likewise */

/* In a claim: where it was seen on a GPU, and no document says it, or another thing. */
#define ON_H200 " (H200, driver 580.159.04)"

struct conformance_case {
    const char *name;     /* topic.what */
    const char *document; /* one of those above */
    const char *section;  /* the function, or the chapter */
    const char *claim;    /* what is documented, in a sentence */
    void (*run)(void);
    bool own_process;
    bool uninitialized;  /* in its process nothing has been called */
    bool (*there)(void); /* false, and skipped: not for this device; NULL: for all */
    void (*after)(void); /* if it ran; NULL: nothing */
};

/*
 * CASE(topic, name, document, section, claim) { ... } defines a case; the tables of all
 * files are put together by the linker. CASE_WHERE is for devices of which a function
 * says that they have what the case is about; if not, it calls skip. FIXTURE_CASE has a
 * function before it that also makes what cases of a file share, and one after it that
 * ends this. CASE_IS is a case of one statement, its last argument.
 */
#define CONFORMANCE_CASE(topic, label, doc, where, says, alone, first, there, after)     \
    static void topic##_##label(void);                                                   \
    static const struct conformance_case topic##_##label##_case = {#topic "." #label,    \
                                                                   doc,                  \
                                                                   where,                \
                                                                   says,                 \
                                                                   topic##_##label,      \
                                                                   alone,                \
                                                                   first,                \
                                                                   there,                \
                                                                   after};               \
    static const struct conformance_case *const topic##_##label##_entry                  \
        __attribute__((used, section("conformance"))) = &topic##_##label##_case;         \
    static void topic##_##label(void)
#define CASE(topic, label, doc, where, says)                                             \
    CONFORMANCE_CASE(topic, label, doc, where, says, false, false, NULL, NULL)
#define CASE_WHERE(there, topic, label, doc, where, says)                                \
    CONFORMANCE_CASE(topic, label, doc, where, says, false, false, there, NULL)
#define FIXTURE_CASE(begin, end, topic, label, doc, where, says)                         \
    CONFORMANCE_CASE(topic, label, doc, where, says, false, false, begin, end)
#define CASE_IS(topic, label, doc, where, says, ...)                                     \
    CASE(topic, label, doc, where, says)                                                 \
    {                                                                                    \
        __VA_ARGS__;                                                                     \
    }
#define OWN_PROCESS_CASE(topic, label, doc, where, says)                                 \
    CONFORMANCE_CASE(topic, label, doc, where, says, true, false, NULL, NULL)
#define UNINITIALIZED_CASE(topic, label, doc, where, says)                               \
    CONFORMANCE_CASE(topic, label, doc, where, says, true, true, NULL, NULL)

/* A failed check is printed with file, line and values, and the case goes on. Each tells
 * whether it held. */
#define CHECK(condition) check_true((condition), #condition, __FILE__, __LINE__)
#define CHECK_CODE(call, expected)                                                       \
    check_code((call), (expected), #call, __FILE__, __LINE__)
#define CHECK_OK(call)      CHECK_CODE(call, CUDA_SUCCESS)
#define CHECK_INVALID(call) CHECK_CODE(call, CUDA_ERROR_INVALID_VALUE)
#define CHECK_REFUSED(call) /* with any code */                                          \
    check_true((call) != CUDA_SUCCESS, #call " is refused", __FILE__, __LINE__)
#define CHECK_EQUAL(value, expected)                                                     \
    check_equal((uint64_t)(value), (uint64_t)(expected), #value, __FILE__, __LINE__)

bool check_true(bool held, const char *text, const char *file, int line);
bool check_code(CUresult got, CUresult expected, const char *text, const char *file,
                int line);
bool check_equal(uint64_t got, uint64_t expected, const char *text, const char *file,
                 int line);

/* The case cannot be judged here: `why` names what is missing. Return after it. */
void skip(const char *why);

/* Has device 0 what the attribute says? If not, the case is skipped, for want of `what`.
 */
bool device_has(CUdevice_attribute attribute, const char *what);

/* Before a declaration: what it declares is ended with its block, last things first.
 * OWN names the function that does, which gets a pointer to it. */
#define OWN(end) __attribute__((cleanup(end), unused))

/* ---- what cases share -------------------------------------------------------------- */

/* Device 0, its primary context (current), what the driver says of itself. */
CUdevice the_device(void);
CUcontext the_context(void);
int driver_version(void); /* 1000 * major + 10 * minor */
int device_attribute(CUdevice_attribute attribute);

/* A driver function by its exported name; NULL where the driver has none. For functions
 * newer than CUDA 11.2: the suite links against nothing newer. */
void *driver_function(const char *symbol);

/* A function of tests/sim/kernels/kernels.h, loaded once for the primary context. */
CUfunction kernel(const char *name);

/* Launch one with its parameters: an array of pointers, as cuLaunchKernel takes it. */
CUresult launch(CUfunction function, CUstream stream, void **params);

/* A flag in pinned memory and a kernel on `stream` that runs until it is raised
 * (gs_wait): work that is certainly not done yet. */
struct blocker {
    uint32_t *flag;
    CUstream stream;
};
bool block_stream(struct blocker *blocker, CUstream stream);
void unblock(struct blocker *blocker);   /* raise the flag */
void end_block(struct blocker *blocker); /* raise it, wait for the stream, free it */

/* The milliseconds that what must come back is given: `ms`, or what --returns-ms says if
 * that is less. */
unsigned returns_within(unsigned ms);

/* Run a function on a thread; true if it came back within `ms`, or what --returns-ms says
 * if that is less. It is joined either way by join_call, which must be called once. */
struct pending_call;
struct pending_call *start_call(void (*function)(void *), void *argument);
bool came_back(struct pending_call *call, unsigned ms);
void join_call(struct pending_call *call);

#endif
