"""CuPy over gpushim's pool: every array is an allocation with an owner.

    import gpushim.cupy
    gpushim.cupy.use()

Memory is allocated in the current stream of CuPy, and freed in the stream that it was
allocated in, as CuPy's own pool does it.
"""
import gpushim
from gpushim import _memory


def use():
    """Makes CuPy allocate through gpushim. Returns False, with nothing changed, where the library is not in the
    process."""
    import cupy

    if not gpushim.version():
        return False

    def malloc(size, device):
        stream = cupy.cuda.get_current_stream().ptr
        address = _memory.alloc(size, device, stream)
        if not address:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0, 0)
        streams[address] = stream
        return address

    def free(address, device):
        _memory.free(address, device, streams.pop(address, 0))

    streams = {}
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)
    return True
