"""RMM over gpushim's pool: RAPIDS' packages allocate through a memory resource of RMM.

    import gpushim.rmm
    gpushim.rmm.use()                # for device 0, before the first buffer

RMM names the stream of each allocation and of each free, so nothing waits.
"""
from typing import Any

import gpushim
from gpushim import _memory


def resource(device: int = 0) -> Any:
    """An rmm.mr.CallbackMemoryResource of memory in the order of a stream, on a device (its ordinal).

    Its allocations raise MemoryError where there is no memory, which RMM turns into its own out of memory.
    Where the library does not serve, the memory is that of rmm.mr.CudaMemoryResource.
    """
    import rmm

    native, addresses = rmm.mr.CudaMemoryResource(), set()

    def allocate(size, stream):
        if not size:
            return 0
        address = _memory.alloc(size, device, stream.__cuda_stream__()[1])
        if address is None:
            address = native.allocate(size, stream)
            addresses.add(address)
        elif not address:
            raise MemoryError("out of memory: %d bytes on GPU %d" % (size, device))
        return address

    def deallocate(address, size, stream):
        if address in addresses:
            addresses.discard(address)
            native.deallocate(address, size, stream)
        elif address:
            _memory.free(address, device, stream.__cuda_stream__()[1])

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def use(device: int = 0) -> bool:
    """Makes RMM allocate on a device through gpushim. Returns False, with nothing changed, where the library is
    not in the process. Buffers that there are keep the resource they came from."""
    if not gpushim.version():
        return False
    import rmm

    rmm.mr.set_per_device_resource(device, resource(device))
    return True
