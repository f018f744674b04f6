"""Memory of CUDA as an object of Python, for every package that takes
__cuda_array_interface__ or DLPack: PyTorch, CuPy, Numba, JAX.

    from gpushim.buffer import Buffer

    with Buffer((1024, 1024), "<f4") as matrix:      # freed at the end
        tensor = torch.from_dlpack(matrix)           # the same memory
        array = cupy.asarray(matrix)

It is plain memory of CUDA's driver, with the library and without it: a gpushim.memory.Buffer with
a shape and a type. What was made from it by DLPack keeps it, also past the end of the interpreter; whatever uses it by
__cuda_array_interface__ has to be done when it is freed.

PyTorch takes device memory alone. Pinned memory is the CPU's to it, managed memory the GPU's:
    torch.from_dlpack(pinned.__dlpack__(dl_device=(1, 0)))
    torch.from_dlpack(managed.__dlpack__(dl_device=(2, 0)))
"""
from __future__ import annotations

import ctypes
import operator
import re
from typing import Any, Callable, List, Optional, Tuple

from gpushim import _dlpack
from gpushim._dlpack import DEVICE, MANAGED, PINNED, _lock
from gpushim.memory import buffers, calls
from gpushim.memory.buffers import Place

# By the letter of a typestr: DLDataTypeCode, sizes of an element in bytes.
_KINDS = {"i": (0, (1, 2, 4, 8)), "u": (1, (1, 2, 4, 8)), "f": (2, (2, 4, 8)), "c": (5, (8, 16)), "b": (6, (1,))}
_MOST = (1 << 63) - 1  # bytes, as ssize_t and DLPack's extents have them
_PLACES = {DEVICE: Place.DEVICE, PINNED: Place.PINNED, MANAGED: Place.MANAGED}
# The driver's call that allocates, and the one that frees.
_CALLS = {DEVICE: ("cuMemAlloc", "cuMemFree"), PINNED: ("cuMemHostAlloc", "cuMemFreeHost"),
          MANAGED: ("cuMemAllocManaged", "cuMemFree")}

_found: List[Any] = []


class CudaError(RuntimeError):
    """A call of CUDA's driver failed; .code is its CUresult."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__("%s: CUDA error %d" % (call, code))
        self.code = code


def _driver() -> Any:
    """CUDA's driver, initialized. Raises OSError where there is none."""
    with _lock:
        if not _found:
            driver = ctypes.CDLL("libcuda.so.1")
            driver.cuInit(0)
            _found.append(driver)
    return _found[0]


def _as_cuda(call: str, problem: calls.Error) -> Exception:
    """An exception of gpushim.memory as this module's."""
    if isinstance(problem, MemoryError):
        return MemoryError("%s: out of memory" % call)
    return CudaError(call, problem.code) if problem.code else OSError(str(problem))


class _Context:
    """The primary context of a device, which lives at least as long as this object's memory."""

    def __init__(self, device: int) -> None:
        self.device, self.handle = device, ctypes.c_void_p()
        code = _driver().cuDevicePrimaryCtxRetain(ctypes.byref(self.handle), ctypes.c_int(device))
        if code != 0:
            raise CudaError("cuDevicePrimaryCtxRetain", code)

    def release(self) -> None:
        _driver().cuDevicePrimaryCtxRelease_v2(ctypes.c_int(self.device))


# ---- the buffer ----------------------------------------------------------------------------

def _extents(shape: Any) -> Tuple[int, ...]:
    """A shape as a tuple. Raises ValueError."""
    try:
        extents = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(map(operator.index, shape))
    except TypeError:
        extents = ()
    if not extents or min(extents) <= 0:
        raise ValueError("shape %r: not one or more numbers above 0" % (shape,))
    return extents


def _element(typestr: Any) -> Tuple[int, int]:
    """DLDataTypeCode and bytes of an element. Raises ValueError."""
    parts = re.fullmatch("[<|]([a-z])([0-9]{1,2})", typestr) if isinstance(typestr, str) else None
    code, sizes = _KINDS.get(parts.group(1), (0, ())) if parts else (0, ())
    if not parts or int(parts.group(2)) not in sizes:
        raise ValueError("typestr %r: not one such as '<f4'" % (typestr,))
    return code, int(parts.group(2))


class Buffer(_dlpack.Exporter):
    """Memory of `shape` elements of a typestr ("<f4", "|u1", ... as in NumPy's array interface).

    shape: an integer or a sequence of them, each above 0. place: DEVICE, PINNED or MANAGED. device: an ordinal.
    Raises ValueError for wrong arguments, MemoryError, CudaError, and OSError without CUDA's driver.
    """

    _at_free: Optional[Callable[["Buffer"], None]] = None  # of a group

    def __init__(self, shape: Any, typestr: str = "|u1", place: str = DEVICE, device: int = 0) -> None:
        self._memory: Optional[buffers.Buffer] = None
        self.shape = _extents(shape)
        self.typestr, self.place, self.device = typestr, place, device
        self._code, itemsize = _element(typestr)
        if place not in _PLACES:
            raise ValueError("place %r: not device, pinned or managed" % (place,))
        if not isinstance(device, int) or not 0 <= device < 1 << 31:
            raise ValueError("device %r: not the ordinal of a device" % (device,))
        self._bits, self.nbytes = 8 * itemsize, itemsize
        for extent in self.shape:
            self.nbytes *= extent
        if self.nbytes > _MOST:
            raise MemoryError("shape %r of %s: more than 2^63 bytes" % (shape, typestr))
        self._memory = self._allocate()
        self._pointer = self._memory.address

    def _allocate(self) -> buffers.Buffer:
        self._context = _Context(self.device)
        try:
            made = buffers.make(self._context.handle.value, self.nbytes, _PLACES[self.place])
        except calls.Error as problem:
            self._context.release()
            raise _as_cuda(_CALLS[self.place][0], problem) from None
        except BaseException:
            self._context.release()
            raise
        made._primary = self.device
        return made

    def free(self) -> None:
        """Frees the memory: now, or when the last consumer by DLPack lets it go. Freed already: no effect."""
        with _lock:
            closed, self._closed = self._closed, True
        if closed or self._memory is None:
            return
        try:
            self._memory.close()
        except calls.Error as problem:
            raise _as_cuda(_CALLS[self.place][1], problem) from None
        finally:
            if not self._owned:  # else the C part does
                self._context.release()
            if self._at_free:
                self._at_free(self)

    @property
    def pointer(self) -> Optional[int]:
        """The address; None: the memory is freed."""
        return None if self._closed and not self._exports else self._pointer

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.free()

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # pylint: disable=broad-except # while the interpreter ends
            pass

    def _live(self) -> int:
        if self._closed or self._memory is None:
            raise ValueError("the buffer is freed")
        return self._pointer

    @property
    def __cuda_array_interface__(self) -> Any:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self._live(), False), "version": 3,
                "strides": None, "stream": None}

    # ---- DLPack ----

    def _kind(self) -> str:
        return self.place

    def _exportable(self) -> None:
        self._live()

    def _give(self) -> None:
        assert self._memory is not None
        self._memory._give()
        self._owned = self._memory._owned
