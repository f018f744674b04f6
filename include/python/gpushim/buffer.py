"""Memory of CUDA as an object of Python, for every package that takes
__cuda_array_interface__ or DLPack: PyTorch, CuPy, Numba, JAX.

    from gpushim.buffer import Buffer

    with Buffer((1024, 1024), "<f4") as matrix:      # freed at the end
        tensor = torch.from_dlpack(matrix)           # the same memory
        array = cupy.asarray(matrix)

It is plain memory of CUDA's driver, with the library and without it. What was made from it by
DLPack keeps it; whatever uses it by __cuda_array_interface__ has to be done when it is freed.
"""
import ctypes
import threading

DEVICE, PINNED, MANAGED = "device", "pinned", "managed"

_DLPACK_DEVICES = {DEVICE: 2, PINNED: 3, MANAGED: 13}  # kDLCUDA, kDLCUDAHost, kDLCUDAManaged
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}      # DLDataTypeCode by the letter of a typestr
_OUT_OF_MEMORY = 2

_lock = threading.RLock()  # a collection may free a buffer in the midst of another's free
_found = []


class CudaError(RuntimeError):
    """A call of CUDA's driver failed; .code is its CUresult."""

    def __init__(self, call, code):
        super().__init__("%s: CUDA error %d" % (call, code))
        self.code = code


def _driver():
    """CUDA's driver, initialized. Raises OSError where there is none."""
    with _lock:
        if not _found:
            driver = ctypes.CDLL("libcuda.so.1")
            driver.cuInit(0)
            _found.append(driver)
    return _found[0]


def _check(call, code):
    if code == _OUT_OF_MEMORY:
        raise MemoryError("%s: out of memory" % call)
    if code != 0:
        raise CudaError(call, code)


class _Context:
    """The primary context of a device, which lives at least as long as this object's memory."""

    def __init__(self, device):
        self.device, self.handle = device, ctypes.c_void_p()
        _check("cuDevicePrimaryCtxRetain",
               _driver().cuDevicePrimaryCtxRetain(ctypes.byref(self.handle), ctypes.c_int(device)))

    def __enter__(self):
        """Makes it current for a while. Returns the driver."""
        _check("cuCtxPushCurrent", _driver().cuCtxPushCurrent_v2(self.handle))
        return _driver()

    def __exit__(self, *unused):
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def release(self):
        _driver().cuDevicePrimaryCtxRelease_v2(ctypes.c_int(self.device))


# ---- DLPack (dlpack.h, version 0): DLManagedTensor ---------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]
_held = {}  # address of a _Managed: what it needs, the Buffer among it


def _let_go(address):
    held = _held.pop(address, None)
    if held:
        held[0]._unexport()


@_DELETER
def _delete(managed):
    _let_go(ctypes.addressof(managed.contents))


_PYTHON = ctypes.pythonapi
_PYTHON.PyCapsule_New.restype = ctypes.py_object
_PYTHON.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_PYTHON.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_PYTHON.PyCapsule_GetPointer.restype = ctypes.c_void_p
_PYTHON.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule):
    """Nobody took it: a consumer renames the capsule."""
    if _PYTHON.PyCapsule_IsValid(capsule, b"dltensor"):
        _let_go(_PYTHON.PyCapsule_GetPointer(capsule, b"dltensor"))


# ---- the buffer ----------------------------------------------------------------------------


class Buffer:
    """Memory of `shape` elements of a typestr ("<f4", "|u1", ... as in NumPy's array interface).

    shape: an int or a tuple of them, every one above 0. place: DEVICE, PINNED or MANAGED. device: an ordinal.
    Raises ValueError for wrong arguments, MemoryError, CudaError, and OSError without CUDA's driver.
    """

    def __init__(self, shape, typestr="|u1", place=DEVICE, device=0):
        self.pointer, self._exports, self._waits = None, 0, False
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.typestr, self.place, self.device = typestr, place, device
        if not self.shape or any(not isinstance(extent, int) or extent <= 0 for extent in self.shape):
            raise ValueError("shape %r: not one or more numbers above 0" % (shape,))
        if len(typestr) < 3 or typestr[0] not in "<|" or typestr[1] not in _KINDS or not typestr[2:].isdigit():
            raise ValueError("typestr %r: not one such as '<f4'" % typestr)
        if place not in _DLPACK_DEVICES:
            raise ValueError("place %r: not device, pinned or managed" % (place,))
        self.nbytes = int(typestr[2:])
        for extent in self.shape:
            self.nbytes *= extent
        self.pointer = self._allocate()

    def _allocate(self):
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

    def free(self):
        """Frees the memory: now, or when the last consumer by DLPack lets it go. Freed already: no effect."""
        with _lock:
            self._waits = self._exports > 0
            if self._waits:
                return
            pointer, self.pointer = self.pointer, None
        if pointer is None:
            return
        try:
            with self._context as driver:
                if self.place == PINNED:
                    _check("cuMemFreeHost", driver.cuMemFreeHost(ctypes.c_void_p(pointer)))
                else:
                    _check("cuMemFree", driver.cuMemFree_v2(ctypes.c_uint64(pointer)))
        finally:
            self._context.release()

    def _unexport(self):
        with _lock:
            self._exports -= 1
            free = self._waits and self._exports == 0
        if free:
            self.free()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.free()

    def __del__(self):
        try:
            self.free()
        except Exception:  # pylint: disable=broad-except # while the interpreter ends
            pass

    def _live(self):
        if self.pointer is None or self._waits:
            raise ValueError("the buffer is freed")
        return self.pointer

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.typestr, "data": (self._live(), False), "version": 3,
                "strides": None, "stream": None}

    def __dlpack_device__(self):
        return (_DLPACK_DEVICES[self.place], self.device)

    def __dlpack__(self, stream=None, **unused):  # pylint: disable=unused-argument
        """A capsule for a consumer, which holds the buffer. The buffer has no work of its own that `stream`
        would have to wait for."""
        count = len(self.shape)
        shape = (ctypes.c_int64 * count)(*self.shape)
        bits = 8 * int(self.typestr[2:])
        managed = _Managed(
            _Tensor(self._live(), _DLPACK_DEVICES[self.place], self.device, count, _KINDS[self.typestr[1]], bits, 1,
                    ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0), None, _delete)
        address = ctypes.addressof(managed)
        with _lock:
            self._exports += 1
        _held[address] = (self, shape, managed)
        return _PYTHON.PyCapsule_New(address, b"dltensor", ctypes.cast(_drop_capsule, ctypes.c_void_p))
