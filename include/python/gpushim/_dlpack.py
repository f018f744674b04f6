"""DLPack, for objects that have memory of CUDA: gpushim.buffer.Buffer, gpushim.memory.Buffer."""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Dict, Optional, Tuple

from gpushim import _native

DEVICE, PINNED, MANAGED, HOST = "device", "pinned", "managed", "host"

_CPU = (1, 0)  # kDLCPU
_DEVICES = {DEVICE: 2, PINNED: 3, MANAGED: 13}  # kDLCUDA, kDLCUDAHost, kDLCUDAManaged

_lock = threading.RLock()  # a collection may free a buffer in the midst of another's free

_CAPSULE_NEW = ctypes.pythonapi.PyCapsule_New
_CAPSULE_NEW.restype = ctypes.py_object
_CAPSULE_NEW.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def functions() -> Dict[str, Any]:
    """The C part's functions. Raises BufferError where it is missing."""
    found: Optional[Dict[str, Any]] = _native.find()
    if not found:
        raise BufferError("DLPack needs gpushim's C part: preload libgpushim.so, install the wheel, or have "
                          "%s in LD_LIBRARY_PATH" % _native.FILE)
    return found


class Exporter(_native.Unique):
    """The methods of DLPack. A consumer holds the memory, which the C part owns from the first export on."""
    shape: Tuple[int, ...]
    device: int
    _code: int  # DLDataTypeCode
    _bits: int  # of an element
    _owned: Optional[int] = None  # struct gpushim_python_memory
    _closed = False

    def _kind(self) -> str:
        """Where the memory is: DEVICE, PINNED, MANAGED, HOST."""
        raise NotImplementedError

    def _exportable(self) -> None:
        """Raises ValueError for freed memory, BufferError for memory that cannot be exported."""
        raise NotImplementedError

    def _give(self) -> None:
        """Gives the memory to the C part: sets _owned. The lock is held. Raises BufferError, MemoryError."""
        raise NotImplementedError

    @property
    def _exports(self) -> int:
        """Consumers by DLPack, and capsules that none has taken."""
        return _native.find()["holds"](self._owned) - (not self._closed) if self._owned else 0

    def __dlpack_device__(self) -> Tuple[int, int]:
        kind = self._kind()
        return _CPU if kind == HOST else (_DEVICES[kind], self.device)

    def _dlpack_device(self, wanted: Optional[Tuple[int, int]]) -> Tuple[int, int]:
        """The device that a capsule names: the buffer's, or, if the consumer asks for it, the CPU for pinned memory
        and the GPU for managed memory."""
        mine = self.__dlpack_device__()
        if wanted is None or tuple(wanted) == mine:
            return mine
        other = {PINNED: _CPU, MANAGED: (_DEVICES[DEVICE], self.device)}.get(self._kind())
        if other and tuple(wanted) == other:
            return other
        raise BufferError("dl_device %r: the buffer is on %r and is not copied" % (tuple(wanted), mine))

    def __dlpack__(self, stream: Any = None, *, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """A capsule for a consumer, which holds the buffer. The buffer has no work of its own that `stream`
        would have to wait for. Raises BufferError for what it cannot do: a copy, another device; ValueError for
        a freed buffer."""
        self._exportable()
        if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
            raise BufferError("stream %r: not None, -1, 1, 2 or the handle of a stream" % (stream,))
        if copy:
            raise BufferError("copy=%r: the buffer exports its own memory alone" % (copy,))
        kind, ordinal = self._dlpack_device(dl_device)
        versioned = max_version is not None and max_version[0] >= 1
        name = b"dltensor_versioned" if versioned else b"dltensor"
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        native = functions()
        with _lock:
            self._exportable()
            if not self._owned:
                self._give()
            managed = native["export"](self._owned, _native.Tensor(
                shape, len(shape), kind, ordinal, self._code, self._bits, versioned))
        if not managed:
            raise MemoryError("no host memory for an export by DLPack")
        return _CAPSULE_NEW(managed, name, _native.address(native["drop_capsule"]))
