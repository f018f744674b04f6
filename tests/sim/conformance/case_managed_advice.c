/*
 * case_managed_advice.c - managed memory: cuMemAdvise, cuMemPrefetchAsync and what
 * cuMemRangeGetAttribute tells of them.
 *
 * The functions that take a CUmemLocation are those of CUDA 12.2; they are looked up by
 * name.
 */
#include "case_memory_help.h"

#include "work.h"

#define BYTES ((size_t)4 * GS_MIB)

/* Numbers of CUDA 12.2, not in all headers. */
#define HOST              2
#define HOST_NUMA         3
#define TYPE_OF_PREFERRED ((CUmem_range_attribute)5)
#define ID_OF_PREFERRED   ((CUmem_range_attribute)6)
#define TYPE_OF_PREFETCH  ((CUmem_range_attribute)7)
#define ID_OF_PREFETCH    ((CUmem_range_attribute)8)

typedef CUresult advise_call(CUdeviceptr, size_t, CUmem_advise, CUmemLocation);
typedef CUresult prefetch_call(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);

static CUmemLocation at_device(void)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()};
}

static CUmemLocation at(int type)
{
    return (CUmemLocation){.type = (CUmemLocationType)type};
}

/* What each case has: both functions and a block of managed memory. */
static advise_call *advise;
static prefetch_call *prefetch;
static CUdeviceptr pointer;

static bool begin(void)
{
    advise = (advise_call *)driver_function("cuMemAdvise_v2");
    prefetch = (prefetch_call *)driver_function("cuMemPrefetchAsync_v2");
    if (!advise || !prefetch || driver_version() < 12020) {
        skip("a driver older than CUDA 12.2");
        return false;
    }
    return device_has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                      "no concurrent access to managed memory") &&
           CHECK_OK(cuMemAllocManaged(&pointer, BYTES, CU_MEM_ATTACH_GLOBAL));
}

static void end(void)
{
    CHECK_OK(cuMemFree(pointer));
}

#define ADVICE_CASE(label, ...) FIXTURE_CASE(begin, end, managed, label, __VA_ARGS__)

/* An attribute of a range that is one number. */
static int told(CUdeviceptr start, size_t bytes, CUmem_range_attribute attribute)
{
    int value = -77;

    CHECK_OK(cuMemRangeGetAttribute(&value, sizeof(value), attribute, start, bytes));
    return value;
}

ADVICE_CASE(
    read_mostly, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: the result will be 1 if all pages in the "
    "given memory range have read-duplication enabled, or 0 otherwise")
{
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, at_device()));
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_UNSET_READ_MOSTLY, at_device()));
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
}

ADVICE_CASE(
    read_mostly_in_part, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: 1 if all pages in the given memory range "
    "have read-duplication enabled, or 0 otherwise")
{
    const size_t half = BYTES / 2;

    CHECK_OK(advise(pointer, half, CU_MEM_ADVISE_SET_READ_MOSTLY, at_device()));
    CHECK_EQUAL(told(pointer, half, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    CHECK_EQUAL(told(pointer + half, half, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
}

ADVICE_CASE(
    preferred_device, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: a GPU device id if all pages in the "
    "memory range have that GPU as their preferred location, CU_DEVICE_INVALID if "
    "some don't have one at all")
{
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;

    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_INVALID);
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at_device()));
    CHECK_EQUAL(told(pointer, BYTES, asked), the_device());
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, at_device()));
    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_INVALID);
}

ADVICE_CASE(
    preferred_host, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: CU_DEVICE_CPU if all pages in the "
    "memory range have the CPU as their preferred location")
{
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at(HOST)));
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION),
                CU_DEVICE_CPU);
    CHECK_EQUAL(told(pointer, BYTES, TYPE_OF_PREFERRED), HOST);
}

ADVICE_CASE(
    preferred_in_part, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: CU_DEVICE_INVALID if all the pages "
    "don't have the same preferred location")
{
    const CUmem_advise set = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    const size_t half = BYTES / 2;

    CHECK_OK(advise(pointer, half, set, at_device()));
    CHECK_OK(advise(pointer + half, half, set, at(HOST)));
    CHECK_EQUAL(told(pointer, half, asked), the_device());
    CHECK_EQUAL(told(pointer + half, half, asked), CU_DEVICE_CPU);
    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_INVALID);
}

ADVICE_CASE(
    preferred_by_type_and_id, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: CU_MEM_LOCATION_TYPE_DEVICE if "
    "all pages have the same GPU as their preferred location; _ID: a valid device "
    "ordinal then")
{
    CHECK_EQUAL(told(pointer, BYTES, TYPE_OF_PREFERRED), CU_MEM_LOCATION_TYPE_INVALID);
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at_device()));
    CHECK_EQUAL(told(pointer, BYTES, TYPE_OF_PREFERRED), CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK_EQUAL(told(pointer, BYTES, ID_OF_PREFERRED), the_device());
}

ADVICE_CASE(
    accessed_by, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: if dataSize is 12 and only device 0 has the "
    "advice set, then the result returned will be { 0, CU_DEVICE_INVALID, "
    "CU_DEVICE_INVALID }")
{
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    int by[3] = {-77, -77, -77};

    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, at_device()));
    CHECK_OK(cuMemRangeGetAttribute(by, sizeof(by), asked, pointer, BYTES));
    CHECK_EQUAL(by[0], the_device());
    CHECK_EQUAL(by[1], CU_DEVICE_INVALID);
    CHECK_EQUAL(by[2], CU_DEVICE_INVALID);
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_UNSET_ACCESSED_BY, at_device()));
    CHECK_OK(cuMemRangeGetAttribute(by, sizeof(by), asked, pointer, BYTES));
    CHECK_EQUAL(by[0], CU_DEVICE_INVALID);
}

ADVICE_CASE(
    accessed_by_in_part, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: if any device does not have that advice set "
    "for the entire memory range, that device will not be included")
{
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    int by = -77;

    CHECK_OK(advise(pointer, BYTES / 2, CU_MEM_ADVISE_SET_ACCESSED_BY, at_device()));
    CHECK_OK(cuMemRangeGetAttribute(&by, sizeof(by), asked, pointer, BYTES / 2));
    CHECK_EQUAL(by, the_device());
    CHECK_OK(cuMemRangeGetAttribute(&by, sizeof(by), asked, pointer, BYTES));
    CHECK_EQUAL(by, CU_DEVICE_INVALID);
}

ADVICE_CASE(
    accessed_by_elsewhere, DRIVER_API, "cuMemAdvise",
    "CU_MEM_ADVISE_SET_ACCESSED_BY: the type must be either "
    "CU_MEM_LOCATION_TYPE_DEVICE or CU_MEM_LOCATION_TYPE_HOST. All other location "
    "types are invalid")
{
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, at(HOST)));
    CHECK_REFUSED(advise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, at(HOST_NUMA)));
    CHECK_REFUSED(advise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, at(0)));
}

ADVICE_CASE(
    advice_on_device_memory, DRIVER_API, "cuMemAdvise",
    "The memory range must refer to managed memory, or to system-allocated pageable "
    "memory")
{
    MEMORY device = device_get(BYTES);
    CHECK_REFUSED(advise(device, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, at_device()));
}

ADVICE_CASE(advice_on_an_unknown_device, DRIVER_API, "cuMemAdvise",
            "CU_MEM_ADVISE_SET_PREFERRED_LOCATION: if the type is "
            "CU_MEM_LOCATION_TYPE_DEVICE, then the id must be a valid device ordinal")
{
    CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1000};

    CHECK_REFUSED(advise(pointer, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere));
    CHECK_EQUAL(told(pointer, BYTES, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION),
                CU_DEVICE_INVALID);
}

ADVICE_CASE(
    prefetched, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: a GPU id or CU_DEVICE_CPU "
    "depending on the last location for prefetch; CU_DEVICE_INVALID if any page was "
    "never explicitly prefetched")
{
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;

    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_INVALID);
    CHECK_OK(prefetch(pointer, BYTES, at_device(), 0, NULL));
    CHECK_EQUAL(told(pointer, BYTES, asked), the_device());
    CHECK_EQUAL(told(pointer, BYTES, TYPE_OF_PREFETCH), CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK_EQUAL(told(pointer, BYTES, ID_OF_PREFETCH), the_device());
    CHECK_OK(prefetch(pointer, BYTES, at(HOST), 0, NULL));
    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_CPU);
    CHECK_OK(cuStreamSynchronize(NULL));
}

ADVICE_CASE(
    prefetched_in_part, DRIVER_API, "cuMemRangeGetAttribute",
    "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: if any page in the memory range "
    "was never explicitly prefetched, CU_DEVICE_INVALID will be returned")
{
    const CUmem_range_attribute asked = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;

    CHECK_OK(prefetch(pointer, BYTES / 2, at_device(), 0, NULL));
    CHECK_EQUAL(told(pointer, BYTES / 2, asked), the_device());
    CHECK_EQUAL(told(pointer, BYTES, asked), CU_DEVICE_INVALID);
    CHECK_OK(cuStreamSynchronize(NULL));
}

ADVICE_CASE(
    prefetch_keeps_contents, DRIVER_API, "cuMemPrefetchAsync",
    "Memory accesses to this range are always coherent and are allowed even when the "
    "data is actively being migrated")
{
    void *host = (void *)(uintptr_t)pointer;
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    bytes_fill(host, BYTES, 4);
    CHECK_OK(prefetch(pointer, BYTES, at_device(), 0, stream));
    CHECK(bytes_hold(host, BYTES, 4));
    CHECK_OK(prefetch(pointer, BYTES, at(HOST), 0, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(bytes_hold(host, BYTES, 4));
}

ADVICE_CASE(prefetch_flags, DRIVER_API, "cuMemPrefetchAsync",
            "flags - flags for future use, must be zero now")
{
    CHECK_REFUSED(prefetch(pointer, BYTES, at_device(), 1, NULL));
}

ADVICE_CASE(
    prefetch_of_device_memory, DRIVER_API, "cuMemPrefetchAsync",
    "The memory range must refer to managed memory allocated via cuMemAllocManaged or "
    "declared via __managed__ variables")
{
    MEMORY device = device_get(BYTES);
    CHECK_REFUSED(prefetch(device, BYTES, at_device(), 0, NULL));
}

ADVICE_CASE(range_sizes, DRIVER_API, "cuMemRangeGetAttribute",
            "READ_MOSTLY: dataSize must be 4. ACCESSED_BY: dataSize must be a non-zero "
            "multiple of 4")
{
    int data[4] = {0};

    CHECK_REFUSED(cuMemRangeGetAttribute(data, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                         pointer, BYTES));
    CHECK_REFUSED(cuMemRangeGetAttribute(data, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                         pointer, BYTES));
    CHECK_REFUSED(cuMemRangeGetAttribute(data, 0, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                         pointer, BYTES));
}

ADVICE_CASE(
    range_list, DRIVER_API, "cuMemRangeGetAttributes",
    "The results of the query will be stored in data, one for each of numAttributes "
    "attributes, as cuMemRangeGetAttribute describes them")
{
    CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    int mostly = -77, by[2] = {-77, -77}, preferred = -77;
    void *data[] = {&mostly, by, &preferred};
    size_t sizes[] = {sizeof(mostly), sizeof(by), sizeof(preferred)};

    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, at_device()));
    CHECK_OK(advise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, at_device()));
    CHECK_OK(cuMemRangeGetAttributes(data, sizes, asked, 3, pointer, BYTES));
    CHECK_EQUAL(mostly, 1);
    CHECK_EQUAL(by[0], the_device());
    CHECK_EQUAL(by[1], CU_DEVICE_INVALID);
    CHECK_EQUAL(preferred, CU_DEVICE_INVALID);
}
