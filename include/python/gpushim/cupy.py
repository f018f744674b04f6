"""CuPy over gpushim's pool: every array is an allocation with an owner.

    import gpushim.cupy
    gpushim.cupy.use()                                       # for all arrays from here on
    with cupy.cuda.using_allocator(gpushim.cupy.malloc):     # for those of a block
        ...

CuPy's own pool hands out parts of large blocks, and gpushim sees only the blocks. With this
module each array is an allocation in the order of CuPy's current stream, and is freed in that
order, as in CuPy's pool; so nothing waits. The stream is kept as long as its arrays. Keep a
cupy.cuda.ExternalStream as long yourself: CuPy does not own it.
"""
import gc
from typing import Any

import gpushim
from gpushim import _memory


def malloc(size: int) -> Any:
    """Allocates for CuPy: takes bytes, returns a cupy.cuda.MemoryPointer on the current device.

    Raises cupy.cuda.memory.OutOfMemoryError. Where the library does not serve, CuPy's default pool does.
    """
    import cupy

    device, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream()
    handle, owner, address = stream.ptr, None, 0
    if size:
        address = _memory.alloc(size, device, handle)
        if address == 0 and gc.collect():  # arrays in cycles, as CuPy's pool does it
            address = _memory.alloc(size, device, handle)
        if address is None:
            return cupy.get_default_memory_pool().malloc(size)
        if address == 0:
            raise cupy.cuda.memory.OutOfMemoryError(size, -1)
        owner = _memory.Memory(address, device, handle, stream)
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, owner, device), 0)


def use() -> bool:
    """Makes CuPy allocate through gpushim: malloc is its allocator. Returns False, with nothing changed, where
    the library is not in the process. Raises CuPy's ValueError in a using_allocator block."""
    import cupy

    if not gpushim.version():
        return False
    cupy.cuda.set_allocator(malloc)
    return True
