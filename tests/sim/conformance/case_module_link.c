/*
 * case_module_link.c - variables of modules, the linker, and the block size that fills a
 * multiprocessor.
 */
#include "conformance.h"

#include <string.h>

/* Each text is a whole module: a kernel and a variable. */
#define PTX(kernel, variable)                                                            \
    ".version 6.0\n.target sm_50\n.address_size 64\n" variable                           \
    "\n.visible .entry " kernel "()\n{\n\tret;\n}\n"

static const char left[] = PTX("left", ".visible .global .align 4 .b8 table[4096];");
static const char right[] = PTX("right", ".visible .global .align 8 .u64 total;");

CASE(
    module, global_memory, DRIVER_API, "cuModuleGetGlobal",
    "Returns in *dptr and *bytes the base pointer and size of the global name located in "
    "module hmod. It is memory: what is copied there is there")
{
    unsigned char sent[4096], back[4096];
    CUmodule module;
    CUdeviceptr table = 0, again = 0;
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (unsigned char)(i * 7);
    if (!CHECK_OK(cuModuleLoadData(&module, left)))
        return;
    CHECK_OK(cuModuleGetGlobal(&table, &bytes, module, "table"));
    CHECK_EQUAL(bytes, sizeof(sent));
    CHECK_OK(cuMemcpyHtoD(table, sent, sizeof(sent)));
    CHECK_OK(cuModuleGetGlobal(&again, NULL, module, "table"));
    CHECK(again == table);
    CHECK_OK(cuMemcpyDtoH(back, again, sizeof(back)));
    CHECK(memcmp(sent, back, sizeof(sent)) == 0);
    CHECK_OK(cuModuleGetGlobal(NULL, &bytes, module, "table"));
    CHECK_CODE(cuModuleGetGlobal(&table, &bytes, module, "left"), CUDA_ERROR_NOT_FOUND);
    CHECK_OK(cuModuleUnload(module));
}

CASE(module, linked, DRIVER_API, "cuLinkComplete",
     "Completes the pending linker action and returns the cubin image for the linked "
     "device code, which can be used with cuModuleLoadData")
{
    CUlinkState link;
    CUmodule module;
    CUfunction function;
    CUdeviceptr total;
    size_t bytes = 0;
    void *image = NULL;

    if (!CHECK_OK(cuLinkCreate(0, NULL, NULL, &link)))
        return;
    CHECK_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)left, sizeof(left), "left", 0,
                           NULL, NULL));
    CHECK_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)right, sizeof(right), "right",
                           0, NULL, NULL));
    if (CHECK_OK(cuLinkComplete(link, &image, &bytes)) && CHECK(image && bytes > 0) &&
        CHECK_OK(cuModuleLoadData(&module, image))) {
        CHECK_OK(cuModuleGetFunction(&function, module, "left"));
        CHECK_OK(cuModuleGetFunction(&function, module, "right"));
        CHECK_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        CHECK_OK(cuModuleGetGlobal(&total, &bytes, module, "total"));
        CHECK_EQUAL(bytes, 8);
        CHECK_OK(cuCtxSynchronize());
        CHECK_OK(cuModuleUnload(module));
    }
    CHECK_OK(cuLinkDestroy(link));
}

CASE(module, link_without_memory, DRIVER_API, "cuLinkAddData",
     "CUDA_ERROR_INVALID_VALUE; cuLinkAddFile: CUDA_ERROR_FILE_NOT_FOUND")
{
    CUlinkState link;

    CHECK_INVALID(cuLinkCreate(0, NULL, NULL, NULL));
    if (!CHECK_OK(cuLinkCreate(0, NULL, NULL, &link)))
        return;
    CHECK_CODE(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere/at.ptx", 0, NULL, NULL),
               CUDA_ERROR_FILE_NOT_FOUND);
    CHECK_OK(cuLinkDestroy(link));
}

static size_t CUDA_CB half_a_byte(int size)
{
    return (size_t)size / 2;
}

CASE(module, best_block_size, DRIVER_API, "cuOccupancyMaxPotentialBlockSize",
     "Returns in *blockSize a reasonable block size that can achieve the maximum "
     "occupancy, "
     "and in *minGridSize the minimum grid size to achieve the maximum occupancy")
{
    CUmodule module;
    CUfunction function;
    int grid = 0, block = 0, blocks = 0;
    int multiprocessors = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);

    if (!CHECK_OK(cuModuleLoadData(&module, left)))
        return;
    CHECK_OK(cuModuleGetFunction(&function, module, "left"));
    CHECK_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0));
    CHECK(block >= 1 && block <= 1024);
    CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, block, 0));
    CHECK_EQUAL(grid, blocks * multiprocessors);
    CHECK_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 100));
    CHECK(block >= 1 && block <= 100);
    CHECK_OK(cuOccupancyMaxPotentialBlockSizeWithFlags(
        &grid, &block, function, half_a_byte, 0, 256, CU_OCCUPANCY_DEFAULT));
    CHECK(block >= 1 && block <= 256 && grid >= 1);
    CHECK_OK(cuModuleUnload(module));
}
