/*
 * thrust.cpp - Thrust of the CUDA toolkit: vectors whose memory comes from cudaMalloc by
 * a resource, pools above it. Compiled for the host, so that no kernel runs.
 */
#include <thrust/host_vector.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/mr/new.h>

#include "take.h"

/* Memory of the device, which nothing gives back. */
class Device final : public thrust::mr::memory_resource<>
{
  public:
    void *do_allocate(std::size_t bytes, std::size_t) override
    {
        return take(int(bytes >> 20));
    }
    void do_deallocate(void *, std::size_t, std::size_t) override
    {
    }
};
using Allocator = thrust::mr::allocator<char, Device>;

KEEP static std::size_t reserved(std::size_t mib)
{
    Device device;
    thrust::host_vector<char, Allocator> vector{Allocator(&device)};
    vector.reserve(mib << 20);
    return vector.capacity();
}

KEEP static char *allocated(std::size_t mib)
{
    Device device;
    return Allocator(&device).allocate(mib << 20);
}

template <typename Vector> static std::size_t grow(Vector &vector, std::size_t mib)
{
    vector.reserve(mib << 20);
    vector.reserve((mib + 1) << 20);
    return vector.capacity();
}

KEEP static std::size_t grown(std::size_t mib)
{
    Device device;
    thrust::host_vector<char, Allocator> vector{Allocator(&device)};
    return grow(vector, mib);
}

int main()
{
    reserved(1);
    allocated(2);
    return grown(3) < (4 << 20);
}
