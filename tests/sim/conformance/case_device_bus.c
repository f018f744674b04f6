/*
 * case_device_bus.c - devices by their place on the PCI bus.
 */
#include "case_context_help.h"

#include <stdio.h>
#include <string.h>

#define ID_ROOM 13 /* "should be large enough to store 13 characters" */

/* Domain, bus, device and function out of a device's id. */
static bool split_id(unsigned part[4], CUdevice device)
{
    char id[ID_ROOM + 7];

    return CHECK_OK(cuDeviceGetPCIBusId(id, sizeof(id), device)) &&
           CHECK(sscanf(id, "%x:%x:%x.%x", &part[0], &part[1], &part[2], &part[3]) == 4);
}

static void finds(const char *id, CUdevice device)
{
    CUdevice found = -1;

    if (CHECK_OK(cuDeviceGetByPCIBusId(&found, id)))
        CHECK_EQUAL(found, device);
}

CASE(device, bus_id_fits, DRIVER_API, "cuDeviceGetPCIBusId",
     "pciBusId should be large enough to store 13 characters including the "
     "NULL-terminator")
{
    char id[ID_ROOM + 1];

    memset(id, '#', sizeof(id));
    CHECK_OK(cuDeviceGetPCIBusId(id, ID_ROOM, the_device()));
    CHECK(memchr(id, '\0', ID_ROOM) != NULL);
    CHECK_EQUAL(id[ID_ROOM], '#');
}

CASE(device, bus_id_round_trip, DRIVER_API, "cuDeviceGetByPCIBusId",
     "Returns a device handle given a PCI bus ID string, [domain]:[bus]:[device]."
     "[function]")
{
    for (int i = 0; i < device_count(); i++) {
        char id[ID_ROOM + 7];
        CUdevice device;
        if (CHECK_OK(cuDeviceGet(&device, i)) &&
            CHECK_OK(cuDeviceGetPCIBusId(id, sizeof(id), device)))
            finds(id, device);
    }
}

CASE(device, bus_id_without_function, DRIVER_API, "cuDeviceGetByPCIBusId",
     "String in one of the following forms: [domain]:[bus]:[device]")
{
    unsigned part[4];
    char id[64];

    if (!split_id(part, the_device()))
        return;
    snprintf(id, sizeof(id), "%04x:%02x:%02x", part[0], part[1], part[2]);
    finds(id, the_device());
}

CASE(device, bus_id_without_domain, DRIVER_API, "cuDeviceGetByPCIBusId",
     "String in one of the following forms: [bus]:[device].[function]")
{
    unsigned part[4];
    char id[64];

    if (!split_id(part, the_device()))
        return;
    if (part[0] != 0) {
        skip("the device is in another PCI domain than 0");
        return;
    }
    snprintf(id, sizeof(id), "%02x:%02x.%x", part[1], part[2], part[3]);
    finds(id, the_device());
}

CASE(device, bus_id_agrees, DRIVER_API, "cuDeviceGetPCIBusId",
     "domain, bus, device, and function are all hexadecimal values: those of the "
     "attributes PCI_DOMAIN_ID, PCI_BUS_ID and PCI_DEVICE_ID")
{
    unsigned part[4];

    if (!split_id(part, the_device()))
        return;
    CHECK_EQUAL(part[0], device_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
    CHECK_EQUAL(part[1], device_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
    CHECK_EQUAL(part[2], device_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

CASE(device, bus_id_of_nothing, DRIVER_API, "cuDeviceGetByPCIBusId",
     "CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE")
{
    unsigned part[4];
    CUdevice device;
    char id[64];
    CUresult absent = cuDeviceGetByPCIBusId(&device, "ffff:fe:1d.6");

    CHECK(absent == CUDA_ERROR_INVALID_DEVICE || absent == CUDA_ERROR_INVALID_VALUE);
    if (split_id(part, the_device())) { /* its place, in another domain */
        snprintf(id, sizeof(id), "%04x:%02x:%02x.%x", part[0] ^ 0xfff0, part[1], part[2],
                 part[3]);
        absent = cuDeviceGetByPCIBusId(&device, id);
        CHECK(absent == CUDA_ERROR_INVALID_DEVICE || absent == CUDA_ERROR_INVALID_VALUE);
    }
    CHECK_INVALID(cuDeviceGetByPCIBusId(&device, NULL));
    CHECK_INVALID(cuDeviceGetByPCIBusId(NULL, "0000:01:00.0"));
    CHECK_CODE(cuDeviceGetPCIBusId(id, sizeof(id), device_count()),
               CUDA_ERROR_INVALID_DEVICE);
}
