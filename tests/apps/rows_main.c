/*
 * rows_main.c - the program around rows.c or rows_runtime.c, and the other process.
 *
 *   rows list                     the rows there are
 *   rows keep WAY [PLUGIN]        leaves what each call makes
 *   rows end WAY [PLUGIN]         ends it by each call that can
 *
 * A plug-in is opened so that nobody else sees it, and makes the calls itself.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "gpu.h"
#include "rows.h"

/* ---- the other process -------------------------------------------------------------
 */

static void export_block(size_t bytes, struct rows_offer *out)
{
    CUdeviceptr block;

    APP_OK(CU(cuMemAlloc)(&block, bytes));
    APP_OK(CU(cuIpcGetMemHandle)(&out->block, block));
}

static int export_physical(size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle physical;
    int file;

    APP_OK(CU(cuMemCreate)(&physical, bytes, &prop, 0));
    APP_OK(CU(cuMemExportToShareableHandle)(&file, physical,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return file;
}

static int export_pool(size_t bytes, struct rows_offer *out)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdeviceptr block;
    CUmemoryPool pool;
    int file;

    APP_OK(CU(cuMemPoolCreate)(&pool, &props));
    APP_OK(CU(cuMemAllocFromPoolAsync)(&block, bytes, pool, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuMemPoolExportToShareableHandle)(
        &file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemPoolExportPointer)(&out->pointer, block));
    return file;
}

static void export_all(const struct app_peer *peer)
{
    struct rows_request request;
    struct rows_offer offer;

    app_gpu_start();
    for (;;) {
        int file = -1;

        app_peer_receive(peer, &request, sizeof(request));
        memset(&offer, 0, sizeof(offer));
        switch (request.wish) {
        case ROWS_BLOCK:
            export_block(request.bytes, &offer);
            break;
        case ROWS_PHYSICAL:
            file = export_physical(request.bytes);
            break;
        case ROWS_POOL:
            file = export_pool(request.bytes, &offer);
            break;
        case ROWS_END:
            return;
        }
        app_peer_send(peer, &offer, sizeof(offer), file);
        if (file >= 0)
            close(file);
    }
}

/* ---- this one ----------------------------------------------------------------------
 */

static rows_run_fn *open_plugin(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    rows_run_fn *run;

    if (!library)
        app_fail("dlopen", dlerror());
    run = (rows_run_fn *)dlsym(library, "rows_run");
    if (!run)
        app_fail("dlsym", dlerror());
    return run;
}

int main(int argc, char **argv)
{
    const struct rows_request end = {ROWS_END, 0};
    struct app_peer peer;

    if (app_peer_is(argc, argv, &peer)) {
        export_all(&peer);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        rows_list();
        return 0;
    }
    if (argc < 3)
        app_fail("usage", "rows list|keep WAY [PLUGIN]|end WAY [PLUGIN]");

    bool keep = strcmp(argv[1], "keep") == 0;
    rows_run_fn *run = argc > 3 ? open_plugin(argv[3]) : rows_run;

    app_peer_start(argv, &peer);
    run(argv[2], keep, &peer);
    app_peer_send(&peer, &end, sizeof(end), -1);
    app_expect(app_peer_end(&peer), "end of the other process");
    return 0;
}
