"""Memory of CUDA as an object of Python, for every package that takes
__cuda_array_interface__ or DLPack: PyTorch, CuPy, Numba, JAX.

    from gpushim.buffer import Buffer

    with Buffer((1024, 1024), "<f4") as matrix:      # freed at the end
        tensor = torch.from_dlpack(matrix)           # the same memory
        array = cupy.asarray(matrix)

It is plain memory of CUDA's driver, with the library and without it. What was made from it by
DLPack keeps it, also past the end of the interpreter; whatever uses it by
__cuda_array_interface__ has to be done when it is freed.

PyTorch takes device memory alone. Pinned memory is the CPU's to it, managed memory the GPU's:
    torch.from_dlpack(pinned.__dlpack__(dl_device=(1, 0)))
    torch.from_dlpack(managed.__dlpack__(dl_device=(2, 0)))
"""
from __future__ import annotations

import ctypes
import operator
import re
from typing import Any, List, Optional, Tuple

from gpushim import _dlpack, _native
from gpushim._dlpack import DEVICE, MANAGED, PINNED, _lock

# By the letter of a typestr: DLDataTypeCode, sizes of an element in bytes.
_KINDS = {"i": (0, (1, 2, 4, 8)), "u": (1, (1, 2, 4, 8)), "f": (2, (2, 4, 8)), "c": (5, (8, 16)), "b": (6, (1,))}
_MOST = (1 << 63) - 1  # bytes, as ssize_t and DLPack's extents have them
_OUT_OF_MEMORY = 2

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


def _check(call: str, code: int) -> None:
    if code == _OUT_OF_MEMORY:
        raise MemoryError("%s: out of memory" % call)
    if code != 0:
        raise CudaError(call, code)


class _Context:
    """The primary context of a device, which lives at least as long as this object's memory."""

    def __init__(self, device: int) -> None:
        self.device, self.handle = device, ctypes.c_void_p()
        _check("cuDevicePrimaryCtxRetain",
               _driver().cuDevicePrimaryCtxRetain(ctypes.byref(self.handle), ctypes.c_int(device)))

    def __enter__(self) -> Any:
        """Makes it current for a while. Returns the driver."""
        _check("cuCtxPushCurrent", _driver().cuCtxPushCurrent_v2(self.handle))
        return _driver()

    def __exit__(self, *unused: Any) -> None:
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

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

    def __init__(self, shape: Any, typestr: str = "|u1", place: str = DEVICE, device: int = 0) -> None:
        self._pointer: Optional[int] = None
        self.shape = _extents(shape)
        self.typestr, self.place, self.device = typestr, place, device
        self._code, itemsize = _element(typestr)
        if place not in (DEVICE, PINNED, MANAGED):
            raise ValueError("place %r: not device, pinned or managed" % (place,))
        if not isinstance(device, int) or not 0 <= device < 1 << 31:
            raise ValueError("device %r: not the ordinal of a device" % (device,))
        self._bits, self.nbytes = 8 * itemsize, itemsize
        for extent in self.shape:
            self.nbytes *= extent
        if self.nbytes > _MOST:
            raise MemoryError("shape %r of %s: more than 2^63 bytes" % (shape, typestr))
        self._pointer = self._allocate()

    def _allocate(self) -> Optional[int]:
        pointer, size = ctypes.c_uint64(), ctypes.c_size_t(self.nbytes)
        context = _Context(self.device)
        try:
            with context as driver:
                if self.place == DEVICE:
                    _check("cuMemAlloc", driver.cuMemAlloc_v2(ctypes.byref(pointer), size))
                elif self.place == MANAGED:
                    _check("cuMemAllocManaged", driver.cuMemAllocManaged(ctypes.byref(pointer), size, 1))
                else:
                    _check("cuMemHostAlloc", driver.cuMemHostAlloc(ctypes.byref(pointer), size, 3))
        except BaseException:
            context.release()
            raise
        self._context = context
        return pointer.value

    def free(self) -> None:
        """Frees the memory: now, or when the last consumer by DLPack lets it go. Freed already: no effect."""
        with _lock:
            closed, self._closed = self._closed, True
            owned, pointer = self._owned, self._pointer
        if closed or pointer is None:
            return
        if owned:
            _check("cuMemFree", _native.find()["close"](owned))
            return
        try:
            with self._context as driver:
                if self.place == PINNED:
                    _check("cuMemFreeHost", driver.cuMemFreeHost(ctypes.c_void_p(pointer)))
                else:
                    _check("cuMemFree", driver.cuMemFree_v2(ctypes.c_uint64(pointer)))
        finally:
            self._context.release()

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
            if self._owned:
                _native.find()["forget"](self._owned)
        except Exception:  # pylint: disable=broad-except # while the interpreter ends
            pass

    def _live(self) -> int:
        if self._closed or self._pointer is None:
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
        native, driver, host = _dlpack.functions(), _driver(), self.place == PINNED
        source = _native.Source(
            _native.address(driver.cuCtxPushCurrent_v2), _native.address(driver.cuCtxPopCurrent_v2),
            None if host else _native.address(driver.cuMemFree_v2),
            _native.address(driver.cuMemFreeHost) if host else None,
            _native.address(driver.cuDevicePrimaryCtxRelease_v2), self._context.handle, self._pointer, self.device)
        self._owned = native["own"](source)
        if not self._owned:
            raise MemoryError("no host memory for an export by DLPack")
