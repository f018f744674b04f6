"""Streams, and what devices see of each other and of the host."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, NamedTuple, Optional, Tuple

from gpushim.memory import calls
from gpushim.memory.calls import StreamsStruct, Use, check, invalid, number, stream_handle


class Stream:
    """One of the streams of Streams; has __cuda_stream__, as streams of cuda.core, CuPy and Numba have."""

    def __init__(self, of: "Streams", name: str) -> None:
        self._of, self._name = of, name

    @property
    def handle(self) -> int:
        """The CUstream. Raises Error "INVALID" of closed Streams."""
        self._of._live(self._name)
        return int(getattr(self._of._struct, self._name))

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle

    def wait(self) -> None:
        """stream_wait(self)"""
        stream_wait(self)

    def after(self, other: Any) -> None:
        """stream_after(self, other)"""
        stream_after(self, other)


class Streams(calls.Held):
    """Three streams that the legacy default stream does not wait for: .compute, .upload, .download, of the current
    context. close() destroys them; queued work still runs. Raises Error "CUDA", "INACTIVE"."""

    _struct: Optional[StreamsStruct] = None

    def __init__(self) -> None:
        struct = StreamsStruct()
        check("Streams", "streams_create", struct)
        self._struct = struct
        self.compute, self.upload, self.download = (Stream(self, name) for name in ("compute", "upload", "download"))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._struct is None or not self._struct.download

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "the streams are closed")

    def close(self) -> None:
        """Destroys them. Closed already: no effect. Raises Error "CUDA": those not destroyed remain."""
        if not self.closed:
            with Use("close", alone=self):
                check("close", "streams_free", self._struct)


def _one(stream: Any, about: str) -> int:
    if stream is None:
        raise invalid(about, "None is no stream; 0 is the legacy default stream")
    return stream_handle(stream)


def stream_after(stream: Any, other: Any) -> None:
    """Makes later work of `stream` wait for the work queued so far in `other`; the thread does not wait. Both: a
    handle, 0: the legacy default stream, or a stream of a framework. Raises Error "INVALID" for None, "CUDA"."""
    check("stream_after", "stream_after", _one(stream, "stream_after"), _one(other, "stream_after"))


def stream_wait(stream: Any) -> None:
    """Waits for the work of one stream, without the GIL. stream, errors: as of stream_after."""
    check("stream_wait", "stream_wait", _one(stream, "stream_wait"))


class Visibility(enum.IntEnum):
    """When host and device see what the other has written to managed memory: enum gpushim_visibility."""
    SYSTEM_SCOPE = 0  # while a kernel runs, too
    DEVICE_SCOPE = 1  # after a synchronize
    COPIES_ONLY = 2  # the device has no managed memory


def _ordinal(device: Any) -> int:
    found = number(device, "device")
    if found >= 1 << 31:
        raise invalid("device", "%d is not an ordinal" % found)
    return found


def get_visibility(device: int = 0) -> Visibility:
    """The Visibility of a device (its ordinal). Raises Error "CUDA" without such a device, "INACTIVE"."""
    found = ctypes.c_int()
    check("device %s" % device, "get_visibility", _ordinal(device), ctypes.byref(found))
    return Visibility(found.value)


class Memory(NamedTuple):
    """Bytes of a device."""
    free: int
    total: int


def get_memory(device: int = 0) -> Memory:
    """Free and total bytes of a device (its ordinal). One without an active primary context gets one for the call,
    which takes long. Raises: as get_visibility."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check("device %s" % device, "get_memory", _ordinal(device), ctypes.byref(free), ctypes.byref(total))
    return Memory(free.value, total.value)


def enable_peers() -> int:
    """Lets every device use the memory of every other, where the hardware can; their primary contexts exist from then
    on. Returns the ordered pairs that have access. Raises Error "CUDA": one pair failed; the others have been tried."""
    pairs = ctypes.c_int()
    check("enable_peers", "enable_peers", ctypes.byref(pairs))
    return pairs.value
