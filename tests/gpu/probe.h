/*
 * probe.h - what the questions of gpu_probe are written with.
 *
 * A question is one function, run in a process of its own as `gpu_probe QUESTION`. It
 * asks the driver something that its documentation leaves open, and writes rows. A call
 * that should work and does not ends the process with a row that says so: nothing is
 * written that was not measured. docs/gpu-check.md has the questions and what their
 * answers are for. Owns: nothing.   Lock: see each file.
 */
#ifndef GS_PROBE_H
#define GS_PROBE_H

/* Declares cuMemAlloc and cuMemAlloc_v2 side by side. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include "gs_base.h"

#define PROBE_MS ((uint64_t)1000000) /* nanoseconds */

/* ---- the driver: probe_driver.c
 * -------------------------------------------------------- */

struct probe_driver {
#define PROBE_NEEDED(symbol) __typeof__(symbol) *symbol;
#define PROBE_MAYBE(symbol)  __typeof__(symbol) *symbol;
#include "probe_driver.def"
#undef PROBE_MAYBE
#undef PROBE_NEEDED
};

/* Filled by probe_driver_load, then immutable. */
extern struct probe_driver driver;

/*
 * Open libcuda.so.1, find its calls, initialize it. To be called once, before any thread.
 * Returns NULL, or why there is no driver to measure. Static storage.
 */
const char *probe_driver_load(void);

/* Address of an exported symbol of the driver, or NULL. */
void *probe_driver_symbol(const char *name);

/* The path at which dlopen found the driver. */
const char *probe_driver_path(void);

/* Whether device 0 is the simulated one, by its UUID. */
bool probe_is_simulated(void);

/* Device 0's primary context, current on the calling thread from here on. */
CUcontext probe_context(void);

int probe_attribute(CUdevice_attribute attribute);

/* Free and total bytes of device memory. */
size_t probe_free_bytes(void);

/* "CUDA_ERROR_INVALID_VALUE" -> "INVALID_VALUE"; "0" for success. Static storage. */
const char *probe_code_name(CUresult code);

/* Print what the measurements were made on as one JSON object; false without a driver. */
bool probe_machine_print(void);

/* ---- the management library, where there is one: probe_nvml.c
 * -------------------------- */

/* Bytes in use on device 0 by everyone; false where NVML does not answer. */
bool probe_nvml_used(size_t *out_bytes);

/* Version of the kernel driver; false where NVML does not answer. */
bool probe_nvml_version(char *out, size_t size);

/* ---- rows: probe_out.c
 * ----------------------------------------------------------------- */

/* Which question is being answered; before any other function of this group. */
void probe_out_begin(const char *question, bool simulated);

/* Stands in front of the name of each row: of a question that is asked in two ways. */
void probe_out_label(const char *label);

/*
 * One row at a time: begin, cells, end. `unit` is "ns", "bytes", "count", "code" or
 * "answer". Row and cell names are plain ASCII without quotes.
 */
void probe_row_begin(const char *row, const char *unit);
void probe_cell_number(const char *cell, double value);
void probe_cell_text(const char *cell, const char *format, ...) GS_PRINTF(2, 3);
void probe_cell_code(const char *cell, CUresult code);
/* The cell is in the JSON only, not in the table. */
void probe_cell_quiet(const char *cell, const char *format, ...) GS_PRINTF(2, 3);
void probe_cell_quiet_number(const char *cell, double value);
/* The cell is in the table only: what several other cells say, in short. */
void probe_cell_table(const char *cell, const char *format, ...) GS_PRINTF(2, 3);
/* The row being written is in the JSON only. */
void probe_row_hide(void);
void probe_row_note(const char *format, ...) GS_PRINTF(1, 2);
void probe_row_end(void);

/* A row without a value, and why. `status` is "not supported", "failed" or "timed out".
 */
void probe_row_status(const char *row, const char *status, const char *format, ...)
    GS_PRINTF(3, 4);

/* `name` and `suffix` in one text: the name of a cell that belongs to another. */
void probe_name_suffix(char *out, size_t size, const char *name, const char *suffix);

/*
 * The last row of a process, as above. A row that was left in the middle is ended with
 * the cells it has; nothing is written after this one, whatever other threads do. Any
 * thread.
 */
void probe_row_last(const char *status, const char *format, ...) GS_PRINTF(2, 3);

/* "512B", "64K", "2M", "1G". Static storage, overwritten by the eighth call after. */
const char *probe_size_text(size_t bytes);

/* ---- ending: probe_main.c
 * -------------------------------------------------------------- */

/* Status row, then the process ends; whatever holds the GPU is released first. */
void probe_not_supported(const char *format, ...) GS_PRINTF(1, 2)
    __attribute__((noreturn));
void probe_failed(const char *format, ...) GS_PRINTF(1, 2) __attribute__((noreturn));

/* End the question unless the code is success. */
void probe_check(CUresult code, const char *call);
#define PROBE_OK(call) probe_check((call), #call)

/* End the question as not supported unless the driver has the call. */
void probe_need(bool present, const char *symbol);
#define PROBE_NEED(symbol) probe_need(driver.symbol != NULL, #symbol)

/* ---- time: probe_time.c
 * ---------------------------------------------------------------- */

uint64_t probe_now_ns(void);
void probe_sleep_ns(uint64_t ns);

#define PROBE_MAX_SAMPLES 1024

struct probe_samples {
    size_t count;
    uint64_t ns[PROBE_MAX_SAMPLES];
};

/* Samples beyond the limit are dropped. */
void probe_samples_add(struct probe_samples *samples, uint64_t ns);

/* Value at a share of the sorted samples, 0.5 the median; 0 without samples. Sorts. */
double probe_samples_at(struct probe_samples *samples, double share);

/* ---- work on the GPU: probe_work.c
 * ----------------------------------------------------- */

/* Where a kernel runs. */
enum probe_kind {
    PROBE_LEGACY,      /* the legacy default stream */
    PROBE_BLOCKING,    /* a created stream that takes part in the legacy stream's order */
    PROBE_NONBLOCKING, /* a created stream that does not */
    PROBE_PER_THREAD,  /* the per-thread default stream */
    PROBE_CONTEXT,     /* a second context of the same device */
    PROBE_PEER,        /* a second device that may access the first one's memory */
};

struct probe_place {
    CUcontext context;
    CUstream stream;
    CUfunction wait, spin, fill;
};

/* A place to launch at, its kernels loaded and run once. Ends the question if the machine
 * has no such place. The calling thread's current context is left as it was. */
void probe_place_open(struct probe_place *place, enum probe_kind kind);

/* The same for a stream that the caller made. */
void probe_place_on_stream(struct probe_place *place, CUcontext context, CUstream stream);

/* Start a kernel that runs for about `ns` nanoseconds. */
void probe_spin(const struct probe_place *place, uint64_t ns);

/* Start a kernel that does next to nothing. */
CUresult probe_launch_empty(const struct probe_place *place);

/*
 * Start a kernel that runs until probe_hold_end, or until `limit_ns` have passed: then a
 * thread of our own lets it go. One at a time, but probe_hold_add starts more that end
 * with it.
 */
void probe_hold_begin(const struct probe_place *place, uint64_t limit_ns);
void probe_hold_add(const struct probe_place *place);

/* The parts of probe_hold_begin, for a launch of gs_wait that is made in another way. */
void probe_hold_arm(uint64_t limit_ns);
CUdeviceptr probe_hold_flag(void);

/* Whether the limit has passed. */
bool probe_hold_expired(void);

/* Let it go, and wait for the place's context to be idle. True if the limit had passed.
 */
bool probe_hold_end(void);

/* Let every held kernel go, at once; safe in a signal handler. */
void probe_hold_release_all(void);

/* ---- one call under a running kernel: probe_case.c
 * -------------------------------------- */

struct probe_case {
    const char *name;
    size_t bytes;
    void (*prepare)(struct probe_case *);
    CUresult (*call)(struct probe_case *);
    void (*clean)(struct probe_case *);
    /* what prepare made */
    CUdeviceptr block, neighbour;
    CUmemGenericAllocationHandle memory;
    void *host;
    CUstream stream;
    CUevent event;
    CUmodule module;
};

struct probe_outcome {
    CUresult code;
    bool waited; /* the call came back only after the kernel's end */
    uint64_t ns; /* that the call took */
};

/* Run the call while a kernel is held for up to `limit_ns`, or spins for `spin_ns`. */
void probe_case_held(struct probe_case *item, const struct probe_place *place,
                     uint64_t limit_ns, struct probe_outcome *out);
void probe_case_spun(struct probe_case *item, const struct probe_place *place,
                     uint64_t spin_ns, struct probe_outcome *out);

/* ---- the questions: one function each, listed in probe_questions.def
 * --------------------- */

#define PROBE_QUESTION(name, seconds, text) void probe_ask_##name(void);
#include "probe_questions.def"
#undef PROBE_QUESTION

/* The helper process of the question `ipc`: reads handles, opens them, prints. */
int probe_ipc_child(void);

#endif
