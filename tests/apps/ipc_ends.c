/*
 * ipc_ends.c - handles that lead nowhere, and memory that ends while it is shared.
 * ipc_ends WAY
 *
 * Proves that what fails natively fails, and that nothing else is reached instead.
 *
 *   bad    handles and calls that have to fail
 *   dead   the other process exports, and has ended
 *   reset  the importer's context ends and begins while a block is open
 *   reopen the same by the open of CUDA 4.1, which refuses what is open already, and with
 *          memory freed before that a pool may keep
 *   kept   freed by the exporter while the other has it open: natively anything may be
 *          seen then, so only the library's own promise can be tested
 */
#include "peer.h"
#include "share.h"

/* ---- what has to fail -------------------------------------------------------------- */

static const char *as_text(int code)
{
    return code == 0 ? "taken" : "refused";
}

static void import_bad(const struct app_peer *peer)
{
    CUipcMemHandle handles[2];
    CUdeviceptr opened = 0;
    int code;

    app_peer_receive(peer, handles, sizeof(handles));
    code = app_share_open(&opened, handles[0]); /* damaged */
    app_peer_send(peer, &code, sizeof(code), -1);
    code = (int)CU(cuIpcOpenMemHandle)(&opened, handles[1], 0); /* no such flags */
    app_peer_send(peer, &code, sizeof(code), -1);
    code =
        (int)CU(cuIpcOpenMemHandle)(NULL, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    app_peer_send(peer, &code, sizeof(code), -1);
}

static void ask_bad(const struct app_peer *peer, const CUipcMemHandle *handle)
{
    static const char *const what[] = {"a damaged handle", "flags it does not know",
                                       "no room"};
    CUipcMemHandle handles[2] = {*handle, *handle};
    int code;

    handles[0].reserved[20] = (char)(handles[0].reserved[20] + 1);
    app_peer_send(peer, handles, sizeof(handles), -1);
    for (size_t i = 0; i < APP_COUNT(what); i++) {
        app_peer_receive(peer, &code, sizeof(code));
        printf("%s: %s\n", what[i], as_text(code));
    }
}

static void fail_all(const struct app_peer *peer)
{
    static const CUipcMemHandle nonsense;
    CUipcMemHandle handle;
    CUdeviceptr opened, base;
    gpu_ptr first, block, large;
    size_t bytes;

    APP_OK(gpu_malloc(&first, 4096));
    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_malloc(&large, 4 * APP_MIB));
    APP_OK(CU(cuIpcGetMemHandle)(&handle, gpu_address(block)));
    printf("one's own handle: %s\n", as_text(app_share_open(&opened, handle)));
    printf("nonsense: %s\n", as_text(app_share_open(&opened, nonsense)));
    printf("close of what was never opened: %s\n",
           as_text((int)CU(cuIpcCloseMemHandle)(gpu_address(block))));
    ask_bad(peer, &handle);
    APP_OK(gpu_free(block));
    APP_OK(gpu_free(large));
    printf("export of freed memory: %d %d\n",
           (int)CU(cuIpcGetMemHandle)(&handle, gpu_address(block)),
           (int)CU(cuIpcGetMemHandle)(&handle, gpu_address(large)));
    printf("range of freed memory: %d %d\n",
           (int)CU(cuMemGetAddressRange)(&base, &bytes, gpu_address(block)),
           (int)CU(cuPointerGetAttribute)(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                          gpu_address(large)));
    APP_OK(gpu_free(first));
}

/* ---- the end of a process, and of a context --------------------------------------- */

static void export_and_end(const struct app_peer *peer)
{
    CUipcMemHandle handles[2];
    gpu_ptr beside, block, large;

    APP_OK(gpu_malloc(&beside, 4096));
    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_malloc(&large, 4 * APP_MIB));
    APP_OK(CU(cuIpcGetMemHandle)(&handles[0], gpu_address(block)));
    APP_OK(CU(cuIpcGetMemHandle)(&handles[1], gpu_address(large)));
    app_peer_send(peer, handles, sizeof(handles), -1);
}

static void open_dead(struct app_peer *peer)
{
    CUipcMemHandle handles[2];
    CUdeviceptr opened;

    app_peer_receive(peer, handles, sizeof(handles));
    app_expect(app_peer_end(peer), "end of the other process");
    peer->pid = 0;
    for (int i = 0; i < 2; i++)
        printf("a handle of the dead: %s\n",
               as_text(app_share_open(&opened, handles[i])));
}

static void import_over_reset(const struct app_peer *peer,
                              int (*open)(CUdeviceptr *, CUipcMemHandle))
{
    CUipcMemHandle handles[2];
    CUdeviceptr before[2], after[2];
    gpu_ptr block;
    int right = 1;

    app_peer_receive(peer, handles, sizeof(handles));
    APP_OK(gpu_malloc(&block, 4 * APP_MIB));
    APP_OK(gpu_free(block));
    for (int i = 0; i < 2; i++)
        app_check(open(&before[i], handles[i]), "open", __FILE__, __LINE__);
    app_gpu_reset();
    for (int i = 1; i >= 0; i--) {
        app_check(open(&after[i], handles[i]), "open again", __FILE__, __LINE__);
        right &= app_share_holds(after[i], 4096, 7 + (uint32_t)i);
    }
    for (int i = 0; i < 2; i++)
        APP_OK(CU(cuIpcCloseMemHandle)(after[i]));
    for (int i = 0; i < 2; i++)
        right &= CU(cuIpcCloseMemHandle)(after[i]) != CUDA_SUCCESS;
    app_peer_send(peer, &right, sizeof(right), -1);
}

static void import_again(const struct app_peer *peer)
{
    import_over_reset(peer, app_share_open);
}

static void import_again_old(const struct app_peer *peer)
{
    import_over_reset(peer, app_share_open_old);
}

static void export_over_reset(const struct app_peer *peer)
{
    CUipcMemHandle handles[2];
    gpu_ptr beside, blocks[2];
    int right = 0;

    APP_OK(gpu_malloc(&beside, 4096));
    for (uint32_t i = 0; i < 2; i++) {
        APP_OK(gpu_malloc(&blocks[i], 4096));
        app_share_put(gpu_address(blocks[i]), 4096, 7 + i);
    }
    for (int i = 0; i < 2; i++)
        APP_OK(CU(cuIpcGetMemHandle)(&handles[i], gpu_address(blocks[i])));
    app_peer_send(peer, handles, sizeof(handles), -1);
    app_peer_receive(peer, &right, sizeof(right));
    printf("after the reset: %s\n", right ? "right" : "wrong");
    for (int i = 0; i < 2; i++)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(gpu_free(beside));
}

/* ---- freed while it is open -------------------------------------------------------- */

static void import_kept(const struct app_peer *peer)
{
    CUipcMemHandle handle;
    CUdeviceptr opened = 0;
    int right;

    app_peer_receive(peer, &handle, sizeof(handle));
    right = app_share_open(&opened, handle) == 0 && app_share_holds(opened, 4096, 7);
    app_peer_send(peer, &right, sizeof(right), -1);
    app_peer_receive(peer, &right, sizeof(right));
    right = app_share_holds(opened, 4096, 7);
    APP_OK(CU(cuIpcCloseMemHandle)(opened));
    app_peer_send(peer, &right, sizeof(right), -1);
}

/* New blocks of the same size get other memory than what may still be open elsewhere. */
static void keep(const struct app_peer *peer)
{
    enum { NEW = 64 };
    CUipcMemHandle handle;
    gpu_ptr beside, block, blocks[NEW];
    int right;

    APP_OK(gpu_malloc(&beside, 4096));
    APP_OK(gpu_malloc(&block, 4096));
    app_share_put(gpu_address(block), 4096, 7);
    APP_OK(CU(cuIpcGetMemHandle)(&handle, gpu_address(block)));
    app_peer_send(peer, &handle, sizeof(handle), -1);
    app_peer_receive(peer, &right, sizeof(right));
    printf("open: %s\n", right ? "right" : "wrong");
    APP_OK(gpu_free(block));
    for (int i = 0; i < NEW; i++) {
        APP_OK(gpu_malloc(&blocks[i], 4096));
        app_share_put(gpu_address(blocks[i]), 4096, 8);
    }
    app_peer_send(peer, &right, sizeof(right), -1);
    app_peer_receive(peer, &right, sizeof(right));
    printf("after its free: %s\n", right ? "right" : "wrong");
    for (int i = 0; i < NEW; i++)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(gpu_free(beside));
}

int main(int argc, char **argv)
{
    struct app_peer peer;
    bool imports = app_peer_is(argc, argv, &peer);
    const char *way = argc < 2 ? "" : argv[argc - 1];

    if (!imports)
        app_peer_start(argv, &peer);
    app_gpu_start();
    if (strcmp(way, "bad") == 0)
        (imports ? import_bad : fail_all)(&peer);
    else if (strcmp(way, "reset") == 0)
        (imports ? import_again : export_over_reset)(&peer);
    else if (strcmp(way, "reopen") == 0)
        (imports ? import_again_old : export_over_reset)(&peer);
    else if (strcmp(way, "kept") == 0)
        (imports ? import_kept : keep)(&peer);
    else if (imports)
        export_and_end(&peer);
    else
        open_dead(&peer);
    if (imports && strcmp(way, "dead") == 0)
        return 0;
    if (peer.pid != 0)
        app_expect(app_peer_end(&peer), "end of the other process");
    app_gpu_stop();
    return 0;
}
