"""Queries and controls gpushim from within a Python program.

    gpushim python train.py          # or LD_PRELOAD=.../libgpushim.so

    import gpushim
    with gpushim.scope("forward"):   # a name for the allocations made here, in the report
        ...
    print(gpushim.statistics().live_bytes)

If the library is not in the process, every function returns the values of a process
without memory, and has no effect: gpushim.active() is False. Sizes are in bytes. The
manual is docs/api.md; gpushim.h has the same for C and C++.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import enum
import itertools
import operator
import os
import warnings

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar

from gpushim import _native

if TYPE_CHECKING:
    import asyncio

    from gpushim.memory import Buffer

__all__ = ["ALL_DEVICES", "EVERYWHERE", "IMPORTED", "PINNED", "REGISTERED", "Allocation", "Change", "Class",
           "Difference", "Error", "Level", "Released", "Scope", "ScopeTotals", "Snapshot", "Stack", "Statistics", "Stretch", "active",
           "allocate_async", "allocation_at", "allocations", "classes", "off_pressure", "on_pressure", "option",
           "pressure", "record", "release", "report", "resume", "scope",
           "scope_statistics", "set_option", "snapshot", "statistics",
           "stretch", "trim", "version", "warm_up"]

__version__ = "0.1.0"  # of this module; version() is the library's

ALL_DEVICES: int = -100
PINNED, REGISTERED, IMPORTED = -1, -2, -3
EVERYWHERE = -101  # all of these: for allocations and snapshot
_MEMORY = {ALL_DEVICES: "all devices", PINNED: "pinned memory", REGISTERED: "registered memory",
           IMPORTED: "imported memory", EVERYWHERE: "all memory"}

_OK, _INACTIVE, _INVALID, _NOT_FOUND, _NO_MEMORY, _TOO_OLD, _AT_START, _OFF, _CUDA, _BUSY = range(10)
_TEXTS = ("success", "gpushim is not active in this process", "an argument is not valid", "not found",
          "out of memory", "the library is older than this module", "the option is read at the start only",
          "switched off by an option", "a CUDA call failed", "not possible now")
_CLASSES = 131
_COUNTERS = ("allocs", "frees", "failed", "hits", "misses", "thread_hits", "stream_hits", "global_hits",
             "segments_mapped", "segments_unmapped", "driver_calls", "driver_ns")


def _where(device: int) -> str:
    return _MEMORY.get(device, "device %s" % device)


class Error(RuntimeError):
    """A call of the library that failed."""


class _Statistics(ctypes.Structure):  # struct gpushim_statistics
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "allocs", "frees", "failed", "live_bytes", "live_count", "peak_bytes", "hits", "misses", "thread_hits",
        "stream_hits", "global_hits", "segments_mapped", "segments_unmapped", "driver_calls", "driver_ns",
        "reserved_bytes", "reserved_peak_bytes", "used_bytes", "pending_bytes", "cached_bytes", "idle_bytes",
        "holes", "hole_bytes", "largest_hole_bytes", "device_free_bytes", "device_total_bytes",
        "tensor_bytes", "tensor_peak_bytes")]


class _Class(ctypes.Structure):  # struct gpushim_class
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "bytes", "hits", "misses", "live", "live_bytes", "cached", "cached_bytes", "rounding_bytes")]


_KEEPS = ("pinned", "plain", "discard")  # gpushim_keep
_LEFT = ("shared", "stream", "held", "other")  # GPUSHIM_LEFT_...


class _Released(ctypes.Structure):  # struct gpushim_released
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "count", "bytes", "device_bytes", "host_bytes")] + [
            (name, ctypes.c_uint64 * len(_LEFT)) for name in ("left_count", "left_bytes")]


class _ScopeTotals(ctypes.Structure):  # struct gpushim_scope_totals
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "begun", "allocs", "alloc_bytes", "frees", "free_bytes", "live_count", "live_bytes", "peak_bytes",
        "lost_count", "lost_bytes", "missed")]


_PressureCall = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)  # gpushim_pressure_call


class _Functions(ctypes.Structure):  # struct gpushim_functions
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_char_p),
        ("statistics", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Statistics))),
        ("classes", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Class), ctypes.c_size_t,
                                     ctypes.c_size_t)),
        ("trim", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))),
        ("get_option", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)),
        ("set_option", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p,
                                        ctypes.c_size_t)),
        ("report", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("record", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("scope_begin", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)),
        ("scope_end", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("stream_alloc", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t,
                                          ctypes.c_int, ctypes.c_void_p)),
        ("stream_free", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)),
        ("stream_uses", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("warm_up", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p)),
        ("get_pressure", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                          ctypes.POINTER(ctypes.c_double))),
        ("on_pressure", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _PressureCall, ctypes.c_void_p)),
        ("off_pressure", ctypes.CFUNCTYPE(ctypes.c_int, _PressureCall, ctypes.c_void_p)),
        ("release", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(_Released))),
        ("resume", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_Released))),
        ("stretch_begin", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))),
        ("stretch_get", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Statistics))),
        ("stretch_end", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("find_allocation", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("visit_allocations", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_stack", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t,
                                       ctypes.POINTER(ctypes.c_size_t))),
        ("snapshot_take", ctypes.c_void_p),
        ("snapshot_difference", ctypes.c_void_p),
        ("snapshot_free", ctypes.c_void_p),
        ("scope_statistics", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int,
                                              ctypes.POINTER(_ScopeTotals))),
        ("scope_path", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)),
    ]


def _find() -> Any:
    ask: Any = None
    for name, mode in ((None, ctypes.DEFAULT_MODE), ("libgpushim.so", os.RTLD_NOLOAD)):  # the second: attached
        try:
            ask = ask or ctypes.CDLL(name, mode).gpushim_functions
        except (AttributeError, OSError):
            pass
    if ask is None:
        return None
    ask.restype = ctypes.POINTER(_Functions)
    functions = ask()
    return functions.contents if functions else None


_library = _find()
_missed = itertools.count(1)


def _call(name: str, *arguments: Any) -> int:
    """Calls a function of the library's table; returns its result. Without the library it looks again at each 256th
    call: gpushim attach may have loaded it."""
    global _library  # pylint: disable=global-statement
    if _library is None and next(_missed) % 256 == 0:
        _library = _find()
    if _library is None:
        return _INACTIVE
    field = getattr(_Functions, name)
    if _library.size < field.offset + field.size:
        return _TOO_OLD
    result: int = getattr(_library, name)(*arguments)
    return result


def _check(result: int, about: str = "") -> bool:
    """True: done; False: there is no library. Raises for every other result."""
    if result in (_OK, _INACTIVE):
        return result == _OK
    text = _TEXTS[result] if result < len(_TEXTS) else "unknown result"
    text = "%s: %s" % (about, text) if about else text
    if result == _INVALID:
        raise ValueError(text)
    if result == _NOT_FOUND:
        raise KeyError(text)
    if result == _NO_MEMORY:
        raise MemoryError(text)
    raise Error(text)


def version() -> str:
    """The version of the library in this process; "" if there is none."""
    return str(_library.version.decode()) if _library is not None else ""


def active() -> bool:
    """Whether the library is in this process and serves it: from the first CUDA call on."""
    return _call("statistics", ALL_DEVICES, ctypes.byref(_Statistics(ctypes.sizeof(_Statistics)))) != _INACTIVE


# ---- statistics ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Statistics:
    """The members are those of struct gpushim_statistics in gpushim.h.

    after - before is the change between the two: counters are differences, all other members
    those of `after`.
    """
    allocs: int = 0
    frees: int = 0
    failed: int = 0
    live_bytes: int = 0
    live_count: int = 0
    peak_bytes: int = 0
    hits: int = 0
    misses: int = 0
    thread_hits: int = 0
    stream_hits: int = 0
    global_hits: int = 0
    segments_mapped: int = 0
    segments_unmapped: int = 0
    driver_calls: int = 0
    driver_ns: int = 0
    reserved_bytes: int = 0
    reserved_peak_bytes: int = 0
    used_bytes: int = 0
    pending_bytes: int = 0
    cached_bytes: int = 0
    idle_bytes: int = 0
    holes: int = 0
    hole_bytes: int = 0
    largest_hole_bytes: int = 0
    device_free_bytes: int = 0
    device_total_bytes: int = 0
    tensor_bytes: int = 0
    tensor_peak_bytes: int = 0

    def __sub__(self, before: Statistics) -> Statistics:
        return dataclasses.replace(self, **{name: getattr(self, name) - getattr(before, name) for name in _COUNTERS})

    @property
    def hit_rate(self) -> float:
        """The share of requests that needed no driver call, 0 to 1; 1 without any request."""
        requests = self.hits + self.misses
        return self.hits / requests if requests else 1.0

    @property
    def fragmentation(self) -> float:
        """The share of the free bytes in shared segments outside the largest free block, 0 to 1."""
        return 1 - self.largest_hole_bytes / self.hole_bytes if self.hole_bytes > self.largest_hole_bytes else 0.0


@dataclasses.dataclass(frozen=True)
class Class:
    """A class of block sizes of the pool: struct gpushim_class in gpushim.h."""
    bytes: int
    hits: int
    misses: int
    live: int
    live_bytes: int
    cached: int
    cached_bytes: int
    rounding_bytes: int


_Values = TypeVar("_Values")


def _values(of: Type[_Values], raw: Any) -> _Values:
    names = [field.name for field in dataclasses.fields(of)]  # type: ignore[arg-type] # a class of data
    return of(**{name: getattr(raw, name) for name in names})


def statistics(device: int = ALL_DEVICES) -> Statistics:
    """The statistics of a device (its ordinal), of all, or of PINNED, REGISTERED, IMPORTED memory."""
    raw = _Statistics(ctypes.sizeof(_Statistics))
    _check(_call("statistics", device, ctypes.byref(raw)), _where(device))
    return _values(Statistics, raw)


def classes(device: int = ALL_DEVICES) -> List[Class]:
    """The pool's classes of block sizes that were used, smallest first."""
    raw = (_Class * _CLASSES)()
    if not _check(_call("classes", device, raw, ctypes.sizeof(_Class), _CLASSES), _where(device)):
        return []
    return [_values(Class, one) for one in raw if one.hits + one.misses + one.live + one.cached]


class Stretch:
    """A stretch of time with a peak of its own, such as a request, a phase or a test. Any number may be open, in
    any threads, and end in any order; all allocations of the process count. Before the first CUDA call a stretch
    begins with it.

        with gpushim.stretch() as found:
            ...
        print(found.statistics.peak_bytes)  # the most that was live at once within
    """

    def __init__(self, device: int = ALL_DEVICES) -> None:
        self._last, self._open = Statistics(), ctypes.c_void_p()
        _check(_call("stretch_begin", device, ctypes.byref(self._open)), _where(device))

    @property
    def statistics(self) -> Statistics:
        """What has happened since the beginning, up to now or to the end: counters are differences, peak_bytes
        is the stretch's own, other members are current values."""
        if self._open:
            raw = _Statistics(ctypes.sizeof(_Statistics))
            if _check(_call("stretch_get", self._open, ctypes.byref(raw)), "a stretch of another process"):
                self._last = _values(Statistics, raw)
        return self._last

    def end(self) -> Statistics:
        """Ends the stretch, and returns its statistics; later calls return the same."""
        last = self.statistics
        if self._open and _check(_call("stretch_end", self._open)):
            self._open = ctypes.c_void_p()
        return last

    def __enter__(self) -> Stretch:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.end()


def stretch(device: int = ALL_DEVICES) -> Stretch:
    """Begins a Stretch: `with stretch() as found: ...`, then found.statistics."""
    return Stretch(device)


# ---- memory pressure -------------------------------------------------------------------


class Level(enum.IntEnum):
    """Levels of memory pressure: enum gpushim_pressure in gpushim.h."""
    NORMAL = 0
    ELEVATED = 1
    WARNING = 2
    CRITICAL = 3
    OUT_OF_MEMORY = 4


_calls: Dict[Any, Tuple[Any, Any]] = {}  # of on_pressure: function: (its C function, the gate in front of that)
_ended: List[Tuple[Any, Any]] = []  # the same of off_pressure: other threads may still be in them


def pressure(device: int = 0) -> Tuple[Level, float]:
    """(the Level of a device, the share of its memory in use). Raises KeyError without a context there."""
    level, share = ctypes.c_int(), ctypes.c_double()
    _check(_call("get_pressure", device, ctypes.byref(level), ctypes.byref(share)), _where(device))
    return Level(level.value), share.value


def on_pressure(function: Callable[[int, Level], Any], level: int = Level.WARNING) -> bool:
    """Calls function(device, level) each time a device's level rises to `level` or above.

    gpushim_on_pressure in gpushim.h says in which thread, and what the function may do. The call takes the GIL:
    no allocation may hold a lock that another thread waits for with the GIL. Returns False where the library is
    not active.
    """
    native = _native.find()
    if not native:
        return _check(_INACTIVE if _library is None else _TOO_OLD, "on_pressure")
    call, gate = _calls.get(function) or (None, None)
    if not gate:
        call = _PressureCall(lambda _, device, now: function(device, Level(now)))
        gate = native["gate"](_native.address(call))
        if not gate:
            raise MemoryError("on_pressure: out of memory")
    if not _check(_call("on_pressure", level, _passes(native), gate), "on_pressure"):
        return False
    if not _calls and not _ended:
        atexit.register(_end_calls)  # later there is no interpreter to call
    _calls[function] = call, gate
    return True


def _passes(native: Dict[str, Any]) -> Any:
    """The C function that the library calls with a gate: a thread that comes late finds it closed."""
    return ctypes.cast(native["pass"], _PressureCall)


def off_pressure(function: Callable[[int, Level], Any]) -> None:
    """Ends on_pressure(function). Raises KeyError if there is none."""
    if function not in _calls:
        raise KeyError("off_pressure: not found")
    call, gate = _calls.pop(function)
    _ended.append((call, gate))
    native = _native.find()
    native["close_gate"](gate, 0)
    _check(_call("off_pressure", _passes(native), gate), "off_pressure")


def _end_calls() -> None:
    """No thread enters Python from here on; those that are inside have a second to leave."""
    for function in list(_calls):
        off_pressure(function)
    left = [one for one in _ended if not _native.find()["close_gate"](one[1], 1000)]
    _ended[:] = left  # the others are never called: what their functions refer to ends with Python


# ---- control ---------------------------------------------------------------------------


_ALL_BYTES = (1 << 64) - 1


def trim(device: int = ALL_DEVICES, bytes: Optional[int] = None) -> int:
    """Returns idle memory to the driver: at least `bytes`, or all. The result is the number of bytes. Raises TypeError,
    and ValueError for fewer bytes than 0."""
    given = ctypes.c_uint64()
    wanted = _ALL_BYTES if bytes is None else operator.index(bytes)
    if wanted < 0:
        raise ValueError("trim: %d bytes are fewer than 0" % wanted)
    device, wanted = operator.index(device), min(wanted, _ALL_BYTES)
    _check(_call("trim", device, wanted, ctypes.byref(given)), _where(device))
    return given.value


def warm_up(blocks: str, device: int = 0) -> bool:
    """Allocates blocks ahead of need: "4K:50,64K:20". Returns False where the library is not active.

    Raises ValueError for a wrong list, and MemoryError if there is memory for only some of the blocks.
    """
    return _check(_call("warm_up", device, blocks.encode()), "warm_up(%r)" % blocks)


def option(name: str) -> Optional[str]:
    """The value of an option, in the form of its variable; None where the library is not active."""
    value = ctypes.create_string_buffer(1024)
    return value.value.decode() if _check(_call("get_option", name.encode(), value, len(value)), name) else None


def set_option(name: str, value: Any) -> bool:
    """Changes an option, with the values of its variable; before the first CUDA call any. Returns False where the
    library is not in the process.

    Raises ValueError for a bad value, KeyError for an unknown name, and Error for an option that is read at
    the start only.
    """
    problem = ctypes.create_string_buffer(256)
    result = _call("set_option", name.encode(), str(value).encode(), problem, len(problem))
    if result == _INVALID and problem.value:
        raise ValueError(problem.value.decode(errors="replace"))
    return _check(result, name)


def report() -> bool:
    """Writes the current report. Returns False where the library is not active."""
    return _check(_call("report"))


def record(on: bool) -> bool:
    """Stops or restarts the recording of allocations. Returns False where the library is not active."""
    return _check(_call("record", 1 if on else 0))


# ---- the memory of a scope goes to the device, and comes back --------------------------


@dataclasses.dataclass(frozen=True)
class Released:
    """What release or resume has moved: struct gpushim_released in gpushim.h.

    left: {reason: (allocations, bytes)} of what release leaves as it is: "shared", "stream", "held", "other".
    """
    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    host_bytes: int = 0
    left: Dict[str, Tuple[int, int]] = dataclasses.field(default_factory=dict)


def _move(name: str, scope: str, *arguments: Any) -> Released:
    raw = _Released(ctypes.sizeof(_Released))
    if not _check(_call(name, scope.encode(), *arguments, ctypes.byref(raw)), "%s(%r)" % (name, scope)):
        return Released()
    left = {reason: (raw.left_count[i], raw.left_bytes[i]) for i, reason in enumerate(_LEFT) if raw.left_count[i]}
    return Released(raw.count, raw.bytes, raw.device_bytes, raw.host_bytes, left)


def release(scope: str, keep: str = "pinned") -> Released:
    """Frees the device memory of a scope that GPUSHIM_RELEASABLE names; its addresses stay reserved.

    keep: where the contents are kept: in "pinned" or "plain" memory of the host, or nowhere ("discard").
    gpushim_release in gpushim.h says what may be done until resume(scope). Raises KeyError for a scope that the
    option does not name, MemoryError if the host has too little memory, and Error during a capture, for example.
    """
    if keep not in _KEEPS:
        raise ValueError("release: keep is one of %s, not %r" % (", ".join(_KEEPS), keep))
    return _move("release", scope, _KEEPS.index(keep))


def resume(scope: str) -> Released:
    """Restores the memory that release(scope) freed. Raises MemoryError if the device is full; then all of it remains
    released."""
    return _move("resume", scope)


# ---- owned memory ----------------------------------------------------------------------


def allocate_async(nbytes: int, *arguments: Any, **named: Any) -> asyncio.Future[Buffer]:
    """gpushim.memory.allocate_async: `buffer = await gpushim.allocate_async(4096)`."""
    from gpushim import memory  # asyncio is imported where it is needed

    return memory.allocate_async(nbytes, *arguments, **named)


# ---- scopes and live allocations: last, since these modules use this one ------------------

from gpushim._scopes import (  # noqa: E402 pylint: disable=wrong-import-position
    Scope, ScopeTotals, scope, scope_statistics)
from gpushim._live import (  # noqa: E402 pylint: disable=wrong-import-position
    Allocation, Change, Difference, Snapshot, Stack, allocation_at, allocations, snapshot)
