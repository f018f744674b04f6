/*
 * selftest_ipc.c - checks: memory, events and pools between two processes.
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../conformance/ipc_remote.h"

#define WORDS 5000
#define BYTES (WORDS * sizeof(uint32_t))
#define SEED  77

/* What the process that exports tells the other one. */
struct offer {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
    struct cudaMemPoolPtrExportData data;
};

/* Run `exporter` in a process of its own with one end of a socket; the other is returned.
 * Before this process has called the runtime. */
static int start_exporter(void (*exporter)(int socket), pid_t *child)
{
    int ends[2];

    CHECK_IS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    *child = fork();
    if (*child == 0) {
        alarm(120);
        close(ends[0]);
        exporter(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static void wait_for_other(int socket)
{
    char byte;

    CHECK_IS(read(socket, &byte, 1), 1);
}

static void wake_other(int socket)
{
    CHECK_IS(write(socket, "x", 1), 1);
}

static void end_exporter(int socket, pid_t child)
{
    int status = -1;

    wake_other(socket);
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
}

static void export_memory(int socket)
{
    cudaEvent_t event = NULL;
    struct offer offer;
    uint32_t *block = NULL, word = 0;
    void *opened = NULL;

    memset(&offer, 0, sizeof(offer));
    CHECK_OK(cudaMalloc((void **)&block, BYTES));
    CHECK_OK(
        cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    launch_fill(block, WORDS, SEED, 0);
    CHECK_OK(cudaEventRecord(event, 0));
    CHECK_MODELLED(cudaIpcGetMemHandle(&offer.memory, block));
    CHECK_OK(cudaIpcGetEventHandle(&offer.event, event));
    CHECK_IS(cudaIpcOpenMemHandle(&opened, offer.memory, cudaIpcMemLazyEnablePeerAccess),
             cudaErrorDeviceUninitialized); /* a process's own */
    CHECK(remote_send(socket, &offer, sizeof(offer), -1));
    wait_for_other(socket);
    CHECK_OK(cudaEventSynchronize(event)); /* the other one's record */
    CHECK_OK(cudaMemcpy(&word, block, sizeof(word), cudaMemcpyDeviceToHost));
    CHECK_IS(word, 0x01010101);
    CHECK_OK(cudaEventDestroy(event));
    CHECK_OK(cudaFree(block));
}

static void memory_and_events_between_processes(void)
{
    static uint32_t host[WORDS];
    pid_t child;
    int socket = start_exporter(export_memory, &child), none;
    cudaEvent_t event = NULL;
    cudaStream_t stream = NULL;
    struct offer offer;
    void *block = NULL, *again = NULL;

    CHECK(remote_receive(socket, &offer, sizeof(offer), &none));
    CHECK_IS(cudaIpcOpenMemHandle(&block, offer.memory, 0), cudaErrorInvalidValue);
    CHECK_OK(cudaIpcOpenMemHandle(&block, offer.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK_OK(cudaIpcOpenMemHandle(&again, offer.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(block == again);
    CHECK_OK(cudaIpcCloseMemHandle(again));
    CHECK_OK(cudaIpcOpenEventHandle(&event, offer.event));
    CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamWaitEvent(stream, event, 0));
    CHECK_OK(cudaMemcpyAsync(host, block, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK(is_pattern(host, WORDS, SEED));
    CHECK_OK(cudaMemsetAsync(block, 1, sizeof(uint32_t), stream));
    CHECK_OK(cudaEventRecord(event, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_OK(cudaEventQuery(event));
    CHECK_IS(cudaFree(block), cudaErrorInvalidValue);
    CHECK_OK(cudaIpcCloseMemHandle(block));
    CHECK_IS(cudaIpcCloseMemHandle(block), cudaErrorInvalidValue);
    CHECK_OK(cudaEventDestroy(event));
    end_exporter(socket, child);
}

static void export_pool(int socket)
{
    struct cudaMemPoolProps props;
    cudaMemPool_t pool = NULL;
    struct offer offer;
    uint32_t *block = NULL;
    int file = -1;

    memset(&offer, 0, sizeof(offer));
    memset(&props, 0, sizeof(props));
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK_OK(cudaMemPoolCreate(&pool, &props));
    CHECK_OK(cudaMallocFromPoolAsync((void **)&block, BYTES, pool, 0));
    launch_fill(block, WORDS, SEED, 0);
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaMemPoolExportToShareableHandle(&file, pool,
                                                cudaMemHandleTypePosixFileDescriptor, 0));
    CHECK_OK(cudaMemPoolExportPointer(&offer.data, block));
    CHECK(remote_send(socket, &offer, sizeof(offer), file));
    wait_for_other(socket);
    CHECK_OK(cudaFreeAsync(block, 0));
    CHECK_OK(cudaMemPoolDestroy(pool));
}

static void pools_between_processes(void)
{
    pid_t child;
    int socket = start_exporter(export_pool, &child), file = -1;
    cudaMemPool_t pool = NULL;
    struct offer offer;
    void *block = NULL, *other = NULL;

    CHECK(remote_receive(socket, &offer, sizeof(offer), &file));
    CHECK(file >= 0);
    CHECK_OK(cudaMemPoolImportFromShareableHandle(
        &pool, (void *)(uintptr_t)file, cudaMemHandleTypePosixFileDescriptor, 0));
    close(file);
    CHECK_OK(cudaMemPoolImportPointer(&block, pool, &offer.data));
    CHECK_IS(count_mismatches(block, WORDS, SEED), 0);
    CHECK_IS(cudaMallocFromPoolAsync(&other, BYTES, pool, 0), cudaErrorInvalidValue);
    CHECK_OK(cudaFreeAsync(block, 0));
    CHECK_OK(cudaStreamSynchronize(0));
    CHECK_OK(cudaMemPoolDestroy(pool));
    end_exporter(socket, child);
}

const struct selftest ipc_tests[] = {
    {"memory_and_events_between_processes", memory_and_events_between_processes},
    {"pools_between_processes", pools_between_processes},
    {NULL, NULL},
};
