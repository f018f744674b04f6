"""Stream-ordered memory, for the modules of the frameworks."""
import ctypes
import sys
import threading
from typing import Any, Optional

import gpushim
from gpushim import _native

LEGACY, PER_THREAD = 1, 2  # handles of streams: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD


def alloc(size: int, device: int, stream: int) -> Optional[int]:
    """An address; 0: there is no memory; None: the library does not serve this process.

    size in bytes, above 0; device an ordinal; stream a handle, 0: the legacy default stream. Raises ValueError
    or gpushim.Error where a CUDA call fails.
    """
    memory = ctypes.c_void_p()
    result = gpushim._call("stream_alloc", ctypes.byref(memory), size, device, stream)
    if result == gpushim._NO_MEMORY:
        return 0
    return memory.value if gpushim._check(result, "%d bytes on GPU %d" % (size, device)) else None


def free(address: int, device: int, stream: int) -> None:
    """Frees in the order of `stream`, after the streams of uses(). Raises as alloc does."""
    gpushim._check(gpushim._call("stream_free", address, device, stream), "the free of 0x%x" % address)


def uses(address: int, stream: int) -> None:
    """Says that work of another stream uses the memory. Raises ValueError, MemoryError (of the host)."""
    gpushim._check(gpushim._call("stream_uses", address, stream), "the use of 0x%x" % address)


class Memory(_native.Unique):
    """Owns memory of alloc(): freed when nothing refers to it any more, in whatever thread that is.

    keep: what the free needs, such as the object of the stream, which ends no earlier than its memory.
    """
    __slots__ = ("address", "device", "stream", "keep", "thread", "__weakref__")

    def __init__(self, address: int, device: int, stream: int, keep: Any = None) -> None:
        self.address, self.device, self.stream, self.keep = address, device, stream, keep
        self.thread = threading.get_ident()

    # Defaults: while the interpreter ends, the module's names may be gone.
    def __del__(self, free: Any = free, uses: Any = uses, this_thread: Any = threading.get_ident,
                ends: Any = sys.is_finalizing) -> None:
        try:
            if self.stream == PER_THREAD and self.thread != this_thread():
                # No thread can name another one's stream: behind the legacy one, which waits for it.
                uses(self.address, LEGACY)
                self.stream = 0
            free(self.address, self.device, self.stream)
        except Exception:  # there is nobody left to tell once the interpreter ends
            if not ends():
                raise
