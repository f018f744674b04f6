/*
 * wild.c - calls whose description lies where nothing can be read.
 *
 *   wild [early]     early: before cuInit
 *
 * Each call has a child of its own and its answer, or the signal that ended it, is
 * printed: where the driver answers without a look at the description, the library must
 * do so, too.
 */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"
#include "driver.h"

/* The page is never mapped. */
#define WILD ((void *)0x10)

static CUgraph graph;
static CUgraphNode node;
static CUdeviceptr addr;

static CUmemGenericAllocationHandle handle;

static CUresult physical_out(void)
{
    return CU(cuMemCreate)(NULL, 2 * APP_MIB, WILD, 0);
}

static CUresult physical_size(void)
{
    return CU(cuMemCreate)(&handle, 0, WILD, 0);
}

static CUresult physical_flags(void)
{
    return CU(cuMemCreate)(&handle, 2 * APP_MIB, WILD, 1);
}

static CUresult physical(void)
{
    return CU(cuMemCreate)(&handle, 2 * APP_MIB, WILD, 0);
}

static CUresult array_out(void)
{
    return CU(cuArrayCreate)(NULL, WILD);
}

static CUresult array(void)
{
    CUarray made;
    return CU(cuArrayCreate)(&made, WILD);
}

static CUresult array3d_out(void)
{
    return CU(cuArray3DCreate)(NULL, WILD);
}

static CUresult array3d(void)
{
    CUarray made;
    return CU(cuArray3DCreate)(&made, WILD);
}

static CUresult mipmap_out(void)
{
    return CU(cuMipmappedArrayCreate)(NULL, WILD, 0);
}

static CUresult mipmap_levels(void)
{
    CUmipmappedArray made;
    return CU(cuMipmappedArrayCreate)(&made, WILD, 0);
}

static CUresult mipmap(void)
{
    CUmipmappedArray made;
    return CU(cuMipmappedArrayCreate)(&made, WILD, 1);
}

static CUresult imported(void)
{
    return CU(cuImportExternalMemory)(NULL, WILD);
}

static CUresult external_buffer(void)
{
    return CU(cuExternalMemoryGetMappedBuffer)(NULL, NULL, WILD);
}

static CUresult external_mipmap(void)
{
    return CU(cuExternalMemoryGetMappedMipmappedArray)(NULL, NULL, WILD);
}

static CUresult alloc_node_out(void)
{
    return CU(cuGraphAddMemAllocNode)(NULL, graph, NULL, 0, WILD);
}

static CUresult alloc_node_graph(void)
{
    return CU(cuGraphAddMemAllocNode)(&node, NULL, NULL, 0, WILD);
}

static CUresult attributes_none(void)
{
    return CU(cuPointerGetAttributes)(0, WILD, WILD, addr);
}

static CUresult attributes_data(void)
{
    return CU(cuPointerGetAttributes)(1, WILD, NULL, addr);
}

static CUresult pool_out(void)
{
    return CU(cuMemPoolCreate)(NULL, WILD);
}

static CUresult pool_attribute(void)
{
    return CU(cuMemPoolSetAttribute)(NULL, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                     WILD);
}

#if CUDA_VERSION >= 13000
#if APP_DRIVER_LINKED /* in a table of calls it would keep all programs from older       \
                         drivers */
static CUresult pool_location(void)
{
    return cuMemSetMemPool(WILD, CU_MEM_ALLOCATION_TYPE_PINNED, NULL);
}
#endif

static CUresult node_out(void)
{
    return CU(cuGraphAddNode)(NULL, graph, NULL, NULL, 0, WILD);
}

static CUresult node_graph(void)
{
    return CU(cuGraphAddNode)(&node, NULL, NULL, NULL, 0, WILD);
}

static CUresult instantiate_out(void)
{
    return CU(cuGraphInstantiateWithParams)(NULL, graph, WILD);
}

static CUresult instantiate_graph(void)
{
    CUgraphExec made;
    return CU(cuGraphInstantiateWithParams)(&made, NULL, WILD);
}
#endif

static const struct {
    const char *what;
    CUresult (*call)(void);
} calls[] = {
    {"cuMemCreate, nowhere to", physical_out},
    {"cuMemCreate, no size", physical_size},
    {"cuMemCreate, flags", physical_flags},
    {"cuMemCreate", physical},
    {"cuArrayCreate, nowhere to", array_out},
    {"cuArrayCreate", array},
    {"cuArray3DCreate, nowhere to", array3d_out},
    {"cuArray3DCreate", array3d},
    {"cuMipmappedArrayCreate, nowhere to", mipmap_out},
    {"cuMipmappedArrayCreate, no levels", mipmap_levels},
    {"cuMipmappedArrayCreate", mipmap},
    {"cuImportExternalMemory, nowhere to", imported},
    {"cuExternalMemoryGetMappedBuffer, nowhere to", external_buffer},
    {"cuExternalMemoryGetMappedMipmappedArray, nowhere to", external_mipmap},
    {"cuGraphAddMemAllocNode, nowhere to", alloc_node_out},
    {"cuGraphAddMemAllocNode, no graph", alloc_node_graph},
    {"cuPointerGetAttributes, none", attributes_none},
    {"cuPointerGetAttributes, nowhere to", attributes_data},
    {"cuMemPoolCreate, nowhere to", pool_out},
    {"cuMemPoolSetAttribute, no pool", pool_attribute},
#if CUDA_VERSION >= 13000
#if APP_DRIVER_LINKED
    {"cuMemSetMemPool, no pool", pool_location},
#endif
    {"cuGraphAddNode, nowhere to", node_out},
    {"cuGraphAddNode, no graph", node_graph},
    {"cuGraphInstantiateWithParams, nowhere to", instantiate_out},
    {"cuGraphInstantiateWithParams, no graph", instantiate_graph},
#endif
};

static void start(void)
{
    CUdevice device;
    CUcontext context;
    APP_OK(CU(cuInit)(0));
    APP_OK(CU(cuDeviceGet)(&device, 0));
    APP_OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
    APP_OK(CU(cuCtxSetCurrent)(context));
    APP_OK(CU(cuMemAlloc)(&addr, 4096));
    APP_OK(CU(cuGraphCreate)(&graph, 0));
}

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    bool early = argc > 1 && strcmp(argv[1], "early") == 0;

    (void)setrlimit(RLIMIT_CORE, &none);
    app_driver_load();
    for (size_t i = 0; i < APP_COUNT(calls); i++) {
        int status = 0;
        pid_t child;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            (void)signal(SIGSEGV, SIG_DFL);
            if (!early)
                start();
            printf("wild: %-55s %d\n", calls[i].what, (int)calls[i].call());
            fflush(stdout);
            _exit(0);
        }
        app_expect(child > 0 && waitpid(child, &status, 0) == child, "a child");
        if (WIFSIGNALED(status))
            printf("wild: %-55s signal %d\n", calls[i].what, WTERMSIG(status));
        else
            app_expect(WEXITSTATUS(status) == 0, "the child's status");
    }
    return 0;
}
