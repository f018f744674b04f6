/*
 * ipc.c - a process reads memory that another one has exported.
 *
 * Proves that a handle of a block leads the other process to that block's data, and that
 * the block is not given to another owner while it is shared. Sizes are multiples of
 * 2 MiB, as NVIDIA advises for shared memory.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

enum { NOT_SUPPORTED = 801, BLOCKS = 2 };

static const size_t sizes[BLOCKS] = {2 * APP_MIB, 6 * APP_MIB};

struct message {
    int code; /* of the export */
    CUipcMemHandle handles[BLOCKS];
};

static void send_bytes(int fd, const void *data, size_t bytes)
{
    app_expect(write(fd, data, bytes) == (ssize_t)bytes, "write to the other process");
}

static void receive_bytes(int fd, void *data, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t n = read(fd, (char *)data + got, bytes - got);

        app_expect(n > 0, "read from the other process");
        got += (size_t)n;
    }
}

/* The child: fills blocks, exports them, frees them when told that they were read. */
static void export_blocks(int in, int out)
{
    struct message message = {.code = 0};
    struct app_kernels kernels;
    gpu_ptr blocks[BLOCKS], decoy;
    char done;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        APP_OK(gpu_malloc(&decoy, sizes[i]));
        APP_OK(gpu_malloc(&blocks[i], sizes[i]));
        APP_OK(gpu_free(decoy));
        app_fill(&kernels, blocks[i], sizes[i] / 4, 40 + i, NULL);
        APP_OK(gpu_sync());
        if (message.code == 0)
            message.code =
                (int)CU(cuIpcGetMemHandle)(&message.handles[i], gpu_address(blocks[i]));
    }
    send_bytes(out, &message, sizeof(message));
    receive_bytes(in, &done, 1);
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free(blocks[i]));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    exit(0);
}

static uint64_t read_block(uint64_t sum, const CUipcMemHandle *handle, size_t bytes)
{
    void *host = app_host_memory(bytes);
    CUdeviceptr mapped;

    APP_OK(CU(cuIpcOpenMemHandle)(&mapped, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    APP_OK(gpu_get(host, gpu_from_address(mapped), bytes));
    APP_OK(CU(cuIpcCloseMemHandle)(mapped));
    sum = app_checksum(sum, host, bytes);
    free(host);
    return sum;
}

int main(void)
{
    uint64_t sum = APP_CHECKSUM;
    struct message message;
    int there[2], back[2], status;
    pid_t child;

    app_check(pipe(there) || pipe(back), "pipe", __FILE__, __LINE__);
    child = fork();
    if (child == 0)
        export_blocks(there[0], back[1]);
    app_expect(child > 0, "fork");
    close(back[1]);
    app_gpu_start();
    receive_bytes(back[0], &message, sizeof(message));
    for (int i = 0; i < BLOCKS && message.code == 0; i++)
        sum = read_block(sum, &message.handles[i], sizes[i]);
    send_bytes(there[1], "", 1);
    app_expect(waitpid(child, &status, 0) == child && status == 0, "end of the child");
    app_gpu_stop();
    if (message.code == NOT_SUPPORTED)
        printf("ipc: not supported\n");
    else
        printf("ipc: export answers %d, checksum %016llx\n", message.code,
               (unsigned long long)sum);
    return 0;
}
