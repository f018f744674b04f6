"""Numba without waits: the free of an array waits for nothing.

    import gpushim.numba
    gpushim.numba.use()              # before Numba's first array on a GPU
    gpushim.numba.uses(array, s)     # s: a stream that does not wait for the default stream

Numba allocates each array with CUDA, so gpushim sees each array without this module, too. But
Numba frees with cuMemFree, which waits for the GPU. With this module the memory is reused once
the work is complete that the default stream and the streams of numba.cuda.stream() had when the
last reference to the array went away. Streams of other packages (numba.cuda.external_stream,
such as PyTorch's) do not wait for the default stream: name them with uses().
"""
from typing import Any

import gpushim
from gpushim import _memory


def _manager():
    """The External Memory Manager, a class over Numba's own; numba.cuda is imported here only."""
    from numba import cuda
    from numba.cuda.cudadrv import driver

    class Pointer(cuda.MemoryPointer):
        """Frees its memory with the last reference to it. Numba's finalizers would leave lost arrays out of the
        report: they run for all arrays when the interpreter ends."""

        def __init__(self, context, pointer, size):
            super().__init__(context, pointer, size)
            self.memory = _memory.Memory(int(getattr(pointer, "value", pointer)), context.device.id, 0)

        def free(self):
            """Frees it now; it must not be used any more."""
            self.memory = None

    class Manager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
        """Device memory of Numba's kind, which any stream can use at once. The base class has the rest."""
        interface_version = 1

        def initialize(self):
            """Lets the base class keep freed host memory for later, as Numba's own manager does."""
            self.deallocations.memory_capacity = self.get_memory_info().total

        def memalloc(self, size):
            """A MemoryPointer to `size` bytes in the current context. Raises CudaAPIError."""
            return Pointer(self.context, self._attempt_allocation(lambda: driver.driver.cuMemAlloc(size)), size)

        def get_memory_info(self):
            """(free, total) bytes of the current context's device."""
            return cuda.MemoryInfo(*driver.driver.cuMemGetInfo())

    return Manager


def use() -> bool:
    """Makes Numba free arrays through gpushim. Returns False, with nothing changed, where the library is not in
    the process. Contexts that Numba had before keep their memory manager."""
    if not gpushim.version():
        return False
    from numba import cuda

    cuda.set_memory_manager(_manager())
    return True


def uses(array: Any, stream: Any) -> None:
    """Declares that work of `stream` uses a device array, for streams that do not wait for the default stream.

    Call it while there is a reference to the array. `stream` is Numba's. Raises ValueError, MemoryError (of the
    host). No effect where the library is not in the process.
    """
    handle = stream.handle
    _memory.uses(array.__cuda_array_interface__["data"][0], int(getattr(handle, "value", handle) or 0))
