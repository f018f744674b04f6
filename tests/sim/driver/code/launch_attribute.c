/*
 * launch_attribute.c - the attributes of launches and of kernels' nodes: which values are
 * allowed. Most are hints and change nothing here.
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, CUlaunchAttributeID, cuLaunchKernelEx.
 */
#include <string.h>

#include "launch.h"

#define SYNC_DOMAINS 4 /* CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT */

bool sim_attribute_of_node(unsigned id)
{
    switch (id) {
    case SIM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case SIM_ATTRIBUTE_COOPERATIVE:
    case SIM_ATTRIBUTE_CLUSTER_DIMENSION:
    case SIM_ATTRIBUTE_CLUSTER_POLICY:
    case SIM_ATTRIBUTE_PRIORITY:
    case SIM_ATTRIBUTE_DOMAIN_MAP:
    case SIM_ATTRIBUTE_DOMAIN:
    case SIM_ATTRIBUTE_PREFERRED_CLUSTER:
    case SIM_ATTRIBUTE_DEVICE_UPDATABLE:
    case SIM_ATTRIBUTE_CARVEOUT:
    case SIM_ATTRIBUTE_NVLINK:
        return true;
    default:
        return false;
    }
}

static CUresult check_cluster(const CUlaunchAttributeValue *value, const unsigned *grid)
{
    unsigned cluster[3];

    memcpy(cluster, value, sizeof(cluster));
    for (unsigned i = 0; i < 3; i++) {
        if (cluster[i] == 0 || (grid && grid[i] % cluster[i] != 0))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return CUDA_SUCCESS;
}

static CUresult if_valid(bool valid)
{
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Of an access policy window: how much of it hits, and what becomes of the two parts. */
static bool window_is_valid(const CUlaunchAttributeValue *value)
{
    const CUaccessPolicyWindow *window = &value->accessPolicyWindow;

    return window->hitRatio >= 0.0f && window->hitRatio <= 1.0f &&
           (unsigned)window->hitProp <= CU_ACCESS_PROPERTY_PERSISTING &&
           (unsigned)window->missProp <= CU_ACCESS_PROPERTY_STREAMING;
}

CUresult sim_attribute_check(unsigned id, const CUlaunchAttributeValue *value,
                             const unsigned *grid)
{
    unsigned number;

    memcpy(&number, value, sizeof(number));
    switch (id) {
    case SIM_ATTRIBUTE_IGNORE:
    case SIM_ATTRIBUTE_COOPERATIVE:
    case SIM_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION:
    case SIM_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case SIM_ATTRIBUTE_COMPLETION_EVENT:
    case SIM_ATTRIBUTE_PRIORITY:
        return CUDA_SUCCESS;
    case SIM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return if_valid(window_is_valid(value));
    case SIM_ATTRIBUTE_CLUSTER_DIMENSION:
    case SIM_ATTRIBUTE_PREFERRED_CLUSTER:
        return check_cluster(value, grid);
    case SIM_ATTRIBUTE_CLUSTER_POLICY: /* default, spread, load balancing */
        return if_valid(number <= 2);
    case SIM_ATTRIBUTE_DOMAIN_MAP:
        return if_valid(((const unsigned char *)value)[0] < SYNC_DOMAINS &&
                        ((const unsigned char *)value)[1] < SYNC_DOMAINS);
    case SIM_ATTRIBUTE_DOMAIN: /* default, remote */
    case SIM_ATTRIBUTE_NVLINK:
        return if_valid(number <= 1);
    case SIM_ATTRIBUTE_CARVEOUT: /* per cent, or -1: the driver's choice */
        return if_valid(number <= 100 || number == UINT32_MAX);
    case SIM_ATTRIBUTE_DEVICE_UPDATABLE:
        return number == 1 ? CUDA_ERROR_NOT_SUPPORTED : if_valid(number == 0);
    default: /* that of streams alone, and those nobody knows */
        return CUDA_ERROR_INVALID_VALUE;
    }
}

void sim_attribute_set(struct sim_attributes *attributes, unsigned id,
                       const CUlaunchAttributeValue *value)
{
    attributes->set |= 1u << id;
    memcpy(&attributes->values[id], value, sizeof(*value));
}

int sim_attribute_int(const struct sim_attributes *attributes, unsigned id)
{
    int number = 0;

    if (attributes && (attributes->set >> id & 1u))
        memcpy(&number, &attributes->values[id], sizeof(number));
    return number;
}
