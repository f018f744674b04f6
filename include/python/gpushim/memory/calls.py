"""gpushim_memory.h by ctypes: its structures, its functions, its results as exceptions.

The functions are in libgpushim-python.so (shim/api/python_memory.c). The structures here repeat those of the header,
and are compared with its sizes before the first call.
"""
from __future__ import annotations

import ctypes
import operator
import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar

import gpushim
from gpushim import _native

SYNC = (1 << (8 * ctypes.sizeof(ctypes.c_void_p))) - 1  # GPUSHIM_SYNC: complete on return
LEGACY = 1  # CU_STREAM_LEGACY

_NAMES = ("OK", "INACTIVE", "INVALID", "NOT_FOUND", "NO_MEMORY", "TOO_OLD", "AT_START", "OFF", "CUDA", "BUSY")
OK, INACTIVE, INVALID, NOT_FOUND, NO_MEMORY, TOO_OLD, _, OFF, CUDA, BUSY = range(10)
_TEXTS = {INACTIVE: "there is no CUDA in this process, or no device"}  # others: as of gpushim.h
_MOST = (1 << 63) - 1
_C = TypeVar("_C", bound="Closing")


# ---- errors ----------------------------------------------------------------------------


class Error(gpushim.Error):
    """A function of gpushim.memory failed.

    name: "INVALID" (also a ValueError), "NO_MEMORY" (also a MemoryError), "CUDA", "INACTIVE" (no CUDA, no device, or
    gpushim's C part is missing), "NOT_FOUND", "BUSY" (another thread is using the object), "OFF", "TOO_OLD".
    code: the driver's CUresult, 0 if no call of the driver failed. cuda_name: its name, such as
    "CUDA_ERROR_INVALID_HANDLE".
    """

    def __init__(self, text: str, name: str, code: int = 0, cuda_name: str = "") -> None:
        super().__init__(text)
        self.name, self.code, self.cuda_name = name, code, cuda_name


class _Invalid(Error, ValueError):
    """INVALID."""


class _NoMemory(Error, MemoryError):
    """NO_MEMORY."""


_Invalid.__name__ = _NoMemory.__name__ = "Error"

_KINDS: Dict[int, Type[Error]] = {INVALID: _Invalid, NO_MEMORY: _NoMemory}


def error(result: int, about: str, why: str = "") -> Error:
    """The exception for a gpushim_result; `why` takes the place of the result's own text."""
    code = _found[0]["code"]() if _found and result in (CUDA, NO_MEMORY) else 0
    cuda_name = _cuda_name(code) if code else ""
    text = why or _TEXTS.get(result) or (
        gpushim._TEXTS[result] if result < len(gpushim._TEXTS) else "unknown result")
    name = _NAMES[result] if result < len(_NAMES) else str(result)
    text = "%s: %s" % (about, text) + (" (%s)" % cuda_name if cuda_name else "")
    return _KINDS.get(result, Error)(text, name, code, cuda_name)


def _cuda_name(code: int) -> str:
    text = ctypes.c_char_p()
    try:
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
    except (AttributeError, OSError):
        pass
    return text.value.decode() if text.value else "CUDA error %d" % code


def invalid(about: str, why: str) -> Error:
    """The exception for a wrong argument."""
    return error(INVALID, about, why)


def number(value: Any, what: str, least: int = 0) -> int:
    """An integer from `least` to 2^63 - 1. Raises TypeError, Error "INVALID"."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise TypeError("%s: an integer is needed, not %s" % (what, type(value).__name__)) from None
    if not least <= found <= _MOST:
        raise invalid(what, "%d is not %d to 2^63 - 1" % (found, least))
    return found


def seconds(value: Any, what: str) -> float:
    """A time, 0 or more. Raises TypeError, Error "INVALID"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("%s: seconds are a number, not %s" % (what, type(value).__name__))
    if not 0 <= value < 1e9:
        raise invalid(what, "%r is not a number of seconds from 0" % value)
    return float(value)


# ---- the header's structures -----------------------------------------------------------

_size, _pointer, _u64 = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64


class BufferStruct(ctypes.Structure):  # struct gpushim_buffer
    _fields_ = [("data", _pointer), ("bytes", _size), ("capacity", _size), ("place", ctypes.c_int),
                ("device", ctypes.c_int), ("flags", ctypes.c_uint), ("growth", ctypes.c_double), ("limit", _size),
                ("alignment", _size), ("charged", _size), ("base", _pointer), ("context", _pointer),
                ("cache", _pointer), ("used_at", _u64), ("pages", _pointer)]


class CopyStruct(ctypes.Structure):  # struct gpushim_copy
    _fields_ = [("dst", ctypes.POINTER(BufferStruct)), ("dst_offset", _size), ("src", ctypes.POINTER(BufferStruct)),
                ("src_offset", _size), ("bytes", _size)]


class CacheStruct(ctypes.Structure):  # struct gpushim_cache
    _fields_ = [("place", ctypes.c_int), ("most", _size), ("limit", _size), ("hits", _u64), ("misses", _u64),
                ("held_bytes", _size), ("idle_count", _size), ("buckets", _pointer), ("bucket_count", _size),
                ("key_count", _size), ("newest", _pointer), ("oldest", _pointer), ("lock", ctypes.c_ubyte)]


class BufferTypeStruct(ctypes.Structure):  # struct gpushim_buffer_type
    _fields_ = [("place", ctypes.c_int), ("flags", ctypes.c_uint), ("alignment", _size), ("growth", ctypes.c_double),
                ("limit", _size), ("idle_seconds", _u64)]


class BuffersStruct(ctypes.Structure):  # struct gpushim_buffers
    _fields_ = [("limit", _size), ("held_bytes", _size), ("peak_bytes", _size), ("count", _size), ("grown_count", _u64),
                ("refused_count", _u64), ("cleaned_bytes", _u64), ("buckets", _pointer), ("bucket_count", _size),
                ("type_count", _size), ("types", _pointer)]


class BuffersStatisticsStruct(ctypes.Structure):  # struct gpushim_buffers_statistics
    _fields_ = [(name, _size) for name in ("held_bytes", "peak_bytes", "used_bytes", "count", "empty_count")] + [
        (name, _u64) for name in ("grown_count", "refused_count", "cleaned_bytes")] + [("utilization", ctypes.c_double)]


class ReadbackStruct(ctypes.Structure):  # struct gpushim_readback
    _fields_ = [("data", BufferStruct), ("cache", ctypes.POINTER(CacheStruct)), ("event", _pointer),
                ("class_bytes", _size), ("complete", ctypes.c_int)]


class StreamsStruct(ctypes.Structure):  # struct gpushim_streams
    _fields_ = [("compute", _pointer), ("upload", _pointer), ("download", _pointer)]


class CountsStruct(ctypes.Structure):  # struct gpushim_ring_counts
    _fields_ = [("pushed", _u64), ("gap", ctypes.c_char * 120), ("popped", _u64), ("gap2", ctypes.c_char * 120)]


class RingStruct(ctypes.Structure):  # struct gpushim_ring
    _fields_ = [("memory", BufferStruct), ("counts", ctypes.POINTER(CountsStruct)), ("slots", _size),
                ("slot_bytes", _size), ("stride", _size), ("filling", _u64), ("reading", _u64)]


class WarmingStruct(ctypes.Structure):  # struct gpushim_warming
    _fields_ = [("thread", ctypes.c_ulong), ("device", ctypes.c_int), ("begun", ctypes.c_int),
                ("done", ctypes.c_int), ("blocks", _pointer), ("result", ctypes.c_int)]


class DefragmentedStruct(ctypes.Structure):  # struct gpushim_defragmented
    _fields_ = [(name, _u64) for name in (
        "moved_count", "moved_bytes", "returned_bytes", "holes_before", "hole_bytes_before",
        "largest_hole_bytes_before", "holes_after", "hole_bytes_after", "largest_hole_bytes_after")] + [
            (name, ctypes.c_double) for name in ("before", "after")]


EachChunk = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.POINTER(BufferStruct), _u64, _pointer)

_STRUCTURES: Dict[str, Any] = {
    "buffer": BufferStruct, "copy": CopyStruct, "buffer_type": BufferTypeStruct, "buffers": BuffersStruct,
    "buffers_statistics": BuffersStatisticsStruct, "cache": CacheStruct, "readback": ReadbackStruct,
    "streams": StreamsStruct, "ring": RingStruct, "ring_counts": CountsStruct, "warming": WarmingStruct,
    "defragmented": DefragmentedStruct}

# ---- the header's functions ------------------------------------------------------------

_int, _buffer, _cache = ctypes.c_int, ctypes.POINTER(BufferStruct), ctypes.POINTER(CacheStruct)
_readback, _streams, _ring = (ctypes.POINTER(one) for one in (ReadbackStruct, StreamsStruct, RingStruct))
_warming, _text, _sizes = ctypes.POINTER(WarmingStruct), ctypes.c_char_p, ctypes.POINTER(_size)
_pointers, _ints = ctypes.POINTER(_pointer), ctypes.POINTER(_int)
_buffers = ctypes.POINTER(BuffersStruct)

# gpushim_NAME of the header: its arguments; the result is a gpushim_result but for cache_hit_rate.
FUNCTIONS: Dict[str, List[Any]] = {
    "buffer_create": [_buffer, _int, _size, _size, ctypes.c_uint],
    "buffer_free": [_buffer],
    "buffer_view": [_buffer, _buffer, _size, _size],
    "buffer_around": [_buffer, _pointer, _size, _int],
    "buffer_device_address": [_buffer, _pointers],
    "copy_batch": [ctypes.POINTER(CopyStruct), _size, _pointer, _sizes],
    "buffer_copy": [_buffer, _size, _buffer, _size, _size, _pointer],
    "buffer_put": [_buffer, _size, _pointer, _size, _pointer],
    "buffer_get": [_buffer, _size, _pointer, _size, _pointer],
    "buffer_get_slot": [_buffer, _size, _size, _pointer, _pointer],
    "buffer_copy_rows": [_buffer, _size, _size, _buffer, _size, _size, _size, _size, _pointer],
    "buffer_fill": [_buffer, _size, _size, ctypes.c_ubyte, _pointer],
    "buffer_zero": [_buffer, _pointer],
    "buffer_prefetch": [_buffer, _size, _size, _int, _pointer],
    "buffer_advise": [_buffer, _int, _int],
    "buffer_resize": [_buffer, _size, _pointer],
    "buffer_shrink": [_buffer, _u64, _pointer],
    "defragment": [ctypes.POINTER(_buffer), _size, _pointer, ctypes.POINTER(DefragmentedStruct)],
    "batch_create": [_buffer, _buffer, _sizes, _size, _int, _size, ctypes.c_uint],
    "buffers_create": [_buffers, _size, ctypes.POINTER(BufferTypeStruct), _size],
    "buffers_resize": [_buffers, _text, _size, _size, _pointer, ctypes.POINTER(_buffer)],
    "buffers_find": [_buffers, _text, ctypes.POINTER(_buffer)],
    "buffers_drop": [_buffers, _text],
    "buffers_clean": [_buffers, _int, _sizes],
    "buffers_get_statistics": [_buffers, ctypes.POINTER(BuffersStatisticsStruct)],
    "buffers_free": [_buffers],
    "cache_create": [_cache, _int, _size, _size],
    "cache_take": [_cache, _text, _size, _size, _buffer],
    "cache_give": [_cache, _text, _size, _buffer],
    "cache_trim": [_cache, _u64, _sizes],
    "cache_free": [_cache],
    "cache_hit_rate": [_cache],
    "readback_start": [_readback, _cache, _buffer, _size, _size, _pointer],
    "readback_poll": [_readback, _ints],
    "readback_wait": [_readback],
    "readback_range": [_readback, _size, _size, _pointers],
    "readback_end": [_readback],
    "read_back": [_cache, _buffer, _size, _size, _size, _pointer, EachChunk, _pointer],
    "streams_create": [_streams],
    "streams_free": [_streams],
    "stream_after": [_pointer, _pointer],
    "stream_wait": [_pointer],
    "ring_create": [_ring, _size, _size],
    "ring_free": [_ring],
    "ring_device_address": [_ring, _pointers],
    "ring_space": [_ring, _buffer],
    "ring_next": [_ring, _buffer],
    "ring_push": [_ring, _pointer],
    "ring_pop": [_ring, _pointer],
    "read_file": [_text, _u64, _u64, _size, _pointer, EachChunk, _pointer, ctypes.POINTER(_u64)],
    "get_visibility": [_int, _ints],
    "get_memory": [_int, _sizes, _sizes],
    "enable_peers": [_ints],
    "warming_start": [_warming, _int, _text],
    "warming_poll": [_warming, _ints],
    "warming_wait": [_warming],
}

# gpushim_python_memory_NAME of python_memory.h: result, arguments.
_MORE: Dict[str, Tuple[Any, List[Any]]] = {
    "function": (_pointer, [_text]),
    "bytes": (_size, [_text]),
    "code": (_int, []),
    "context": (_pointer, []),
    "create": (_int, [_buffer, _pointer, _int, _size, _size, ctypes.c_uint]),
    "known": (_int, [_pointer, _size, _int]),
    "mark": (_int, [_pointers, _pointer]),
    "passed": (_int, [_pointer, _ints]),
    "reach": (_int, [_pointer]),
    "unmark": (_int, [_pointer]),
    "own": (_pointer, [_buffer, _int]),
    "end": (_int, [_pointer]),
}

_found: List[Dict[str, Any]] = []


def _open(path: str) -> Optional[Dict[str, Any]]:
    """The functions of a file by name; None: it is not there, or of another version."""
    try:
        library = ctypes.CDLL(path)
        found: Dict[str, Any] = {name: getattr(library, "gpushim_python_memory_" + name) for name in _MORE}
    except (AttributeError, OSError):
        return None
    for name, (result, arguments) in _MORE.items():
        found[name].restype, found[name].argtypes = result, arguments
    if any(found["bytes"](name.encode()) != ctypes.sizeof(of) for name, of in _STRUCTURES.items()):
        return None
    for name, arguments in FUNCTIONS.items():
        address = found["function"](name.encode())
        if not address:
            return None
        result = ctypes.c_double if name == "cache_hit_rate" else _int
        found[name] = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)(address)  # errno: read_file's
    return found


def functions() -> Dict[str, Any]:
    """The functions by name. Raises Error "INACTIVE" where gpushim's C part is missing."""
    if not _found:
        for path in _native.paths():
            opened = _open(path)
            if opened:
                _found.append(opened)
                break
        else:
            raise error(INACTIVE, "gpushim.memory", "gpushim's C part is missing or of another version: have %s beside "
                        "the module, beside libgpushim.so or in LD_LIBRARY_PATH" % _native.FILE)
    return _found[0]


def call(name: str, *arguments: Any) -> int:
    """Calls a function; returns its result. The GIL is free meanwhile."""
    found = functions()
    found["code"]()  # forgets an earlier failure of this thread
    result: int = found[name](*arguments)
    return result


def check(about: str, name: str, *arguments: Any) -> None:
    """Calls a function. Raises Error for every result but OK."""
    result = call(name, *arguments)
    if result != OK:
        raise error(result, about)


# ---- streams ---------------------------------------------------------------------------


def stream_handle(stream: Any) -> int:
    """The handle for a stream argument: None: complete on return; 0: the legacy default stream; a CUstream as an
    integer; or an object of a framework (__cuda_stream__, PyTorch's .cuda_stream, CuPy's .ptr).

    Raises TypeError, Error "INVALID".
    """
    if stream is None:
        return SYNC
    if not isinstance(stream, int):
        if hasattr(stream, "__cuda_stream__"):
            stream = stream.__cuda_stream__()[1]
        else:
            stream = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError("stream: None, a handle or a stream of a framework, not %s" % type(stream).__name__)
    handle = operator.index(stream)
    if not 0 <= handle < SYNC:
        raise invalid("stream", "%d is not a handle" % handle)
    return handle or LEGACY


# ---- the end of an object --------------------------------------------------------------


def ended(close: Callable[[], None]) -> None:
    """Ends an object that nothing refers to any more. While the interpreter ends there is nobody to tell."""
    try:
        close()
    except Exception:  # pylint: disable=broad-except
        pass


class Closing(_native.Unique):
    """An object that the end of a `with` closes."""

    def close(self) -> None:
        """Closes it. Closed already: no effect."""
        raise NotImplementedError

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class Ending(Closing):
    """An object that its last reference closes, too."""

    # A default: while the interpreter ends, the module's names may be gone.
    def __del__(self, ended: Any = ended) -> None:
        ended(self.close)


# ---- one object, many threads ----------------------------------------------------------

_lock = threading.RLock()  # a collection may end an object in the midst of another's call


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)  # the child has none of the threads that may hold it


class Held(Ending):
    """An object that calls use. No thread ends or moves the object in the midst of a call of another."""
    _uses = 0  # calls that use it; -1: one call has it alone
    _generation = 0  # changes when the memory moves: views of before end
    _windows: Any = None  # host.Windows of its memory

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        raise NotImplementedError

    def _live(self, about: str) -> None:
        """Raises Error "INVALID" for a closed object."""
        raise NotImplementedError

    def _under(self) -> Optional["Held"]:
        """What it is a part of, and must live as long."""
        return None


class Use:
    """For the time of a call: objects that other calls may use too, or that it has alone. Raises Error "BUSY"."""

    def __init__(self, about: str, *shared: Held, alone: Optional[Held] = None) -> None:
        self._about, self._alone = about, alone
        self._shared: List[Held] = []
        for one in shared:
            link: Optional[Held] = one
            while link is not None:
                self._shared.append(link)
                link = link._under()
        under = None if alone is None else alone._under()
        while under is not None:
            self._shared.append(under)
            under = under._under()

    def __enter__(self) -> "Use":
        with _lock:
            for one in self._shared + ([] if self._alone is None else [self._alone]):
                one._live(self._about)
            if any(one._uses < 0 for one in self._shared) or (self._alone is not None and self._alone._uses):
                raise error(BUSY, self._about, "another thread is using it")
            for one in self._shared:
                one._uses += 1
            if self._alone is not None:
                self._alone._uses = -1
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        with _lock:
            for one in self._shared:
                one._uses -= 1
            if self._alone is not None:
                self._alone._uses = 0


class Event(Held):
    """An event of the driver: mark() puts it behind a stream's work so far. The stream may end before it."""

    _handle: Optional[int] = None

    def mark(self, stream: int) -> None:
        """Behind the work of a stream, by its handle. Raises Error "CUDA"."""
        event = ctypes.c_void_p(self._handle)
        check("event", "mark", ctypes.byref(event), stream)
        self._handle = event.value

    @property
    def closed(self) -> bool:
        """Whether there is no event."""
        return not self._handle

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "it has ended")

    def poll(self) -> bool:
        """Whether the work is complete. Raises Error "CUDA"."""
        ready = ctypes.c_int()
        with Use("poll", self):
            check("poll", "passed", self._handle, ctypes.byref(ready))
        return bool(ready.value)

    def wait(self) -> None:
        """Waits until the work is complete. Raises Error "CUDA"."""
        with Use("wait", self):
            check("wait", "reach", self._handle)

    def close(self) -> None:
        """Frees it; its work goes on. Closed already: no effect."""
        if self._handle:
            with Use("close", alone=self):
                handle, self._handle = self._handle, None
                check("close", "unmark", handle)
