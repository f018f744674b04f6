"""Host memory: that of Python's objects for C, and that of buffers for Python."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict

from gpushim.memory import calls

_SIMPLE, _WRITABLE = 0, 1  # PyBUF_SIMPLE, PyBUF_WRITABLE


class _PyBuffer(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


class Bytes(calls.Ending):
    """The contiguous memory of an object with the buffer protocol, held until close().

    Raises TypeError for another object, BufferError for one that is not contiguous or, if written to, read-only.
    """

    def __init__(self, of: Any, writable: bool = False) -> None:
        self._held, self._view = False, _PyBuffer()
        _get_buffer(of, ctypes.byref(self._view), _WRITABLE if writable else _SIMPLE)
        self._held = True
        self.address: int = self._view.buf or 0
        self.nbytes: int = self._view.len

    def close(self) -> None:
        """Lets the memory go."""
        held, self._held = self._held, False
        if held:
            _release_buffer(ctypes.byref(self._view))


class Windows:
    """The memoryviews of an object's memory, which must not outlive the memory."""

    def __init__(self) -> None:
        self._arrays: Dict[int, Any] = {}  # references by id: arrays have no hash

    def add(self, array: Any) -> None:
        """Notes an array of window()."""
        number, arrays = id(array), self._arrays
        arrays[number] = weakref.ref(array, lambda unused: arrays.pop(number, None))

    def check(self, about: str) -> None:
        """Raises BufferError while there is a memoryview."""
        # While the interpreter ends an array may go without its callback.
        if any(one() is not None for one in list(self._arrays.values())):
            raise BufferError("%s: there are memoryviews of this memory; release them first" % about)


def window(address: int, nbytes: int, owner: Any, *windows: Windows) -> memoryview:
    """A memoryview of bytes at an address; it keeps `owner`."""
    array = (ctypes.c_ubyte * nbytes).from_address(address)
    array.owner = owner  # type: ignore[attr-defined]
    for one in windows:
        one.add(array)
    return memoryview(array).cast("B")
