"""Sets of named buffers that grow by type, under one limit."""
from __future__ import annotations

import ctypes
import dataclasses
import weakref
from typing import Any, Dict, List, Mapping, Optional

from gpushim.memory import calls
from gpushim.memory.buffers import ZEROED, _IN_PLACE, Buffer, Place, place_of
from gpushim.memory.calls import (BuffersStatisticsStruct, BuffersStruct, BufferStruct, BufferTypeStruct, Use, check, invalid,
                                  number, stream_handle)
from gpushim.memory.host import Windows


@dataclasses.dataclass(frozen=True)
class BufferType:
    """How the buffers of one type are allocated, grow and are cleaned up.

    growth: a resize beyond the capacity multiplies it by this, 1 to 16. limit: maximum of one buffer in bytes, 0: none.
    idle_seconds: a clean-up takes buffers that are unused for so many whole seconds. place, alignment, zeroed, in_place:
    as of Buffer.
    """
    place: Place = Place.DEVICE
    growth: float = 1.5
    limit: int = 0
    idle_seconds: int = 0
    alignment: int = 0
    zeroed: bool = False
    in_place: bool = False

    def _struct(self) -> BufferTypeStruct:
        if isinstance(self.growth, bool) or not isinstance(self.growth, (int, float)):
            raise TypeError("growth: a number is needed, not %s" % type(self.growth).__name__)
        if not 1 <= self.growth <= 16:
            raise invalid("growth", "%r is not 1 to 16" % self.growth)
        return BufferTypeStruct(place_of(self.place), (ZEROED if self.zeroed else 0) | (_IN_PLACE if self.in_place else 0),
                                number(self.alignment, "alignment"), self.growth, number(self.limit, "limit"),
                                number(self.idle_seconds, "idle_seconds"))


@dataclasses.dataclass(frozen=True)
class BuffersStatistics:
    """held_bytes and peak_bytes: sum of the capacities, now and at most. used_bytes: sum of the lengths. count: buffers,
    with empty ones. grown_count: resizes beyond a capacity. refused_count: requests that did not fit. cleaned_bytes: that
    clean-ups have freed. utilization: used_bytes / held_bytes, 1 if nothing is held."""
    held_bytes: int = 0
    peak_bytes: int = 0
    used_bytes: int = 0
    count: int = 0
    empty_count: int = 0
    grown_count: int = 0
    refused_count: int = 0
    cleaned_bytes: int = 0
    utilization: float = 1.0


def _name(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("name: a str is needed, not %s" % type(value).__name__)
    name = value.encode()
    if not name or len(name) > 127 or b"\0" in name:
        raise invalid("name", "%r is not 1 to 127 bytes without a NUL" % value)
    return name


class NamedBuffer(Buffer):
    """A buffer of a set. The set owns the memory, also past the last reference; close() and the end of a `with` drop the
    buffer. Requests for other names may move it: .address changes, and views end. It has no export by DLPack."""

    owner: "Buffers"
    name: str

    def _exportable(self) -> None:
        self._live("__dlpack__")
        raise BufferError("DLPack: a buffer of a set does not own its memory")

    def resize(self, nbytes: int, stream: Any = None) -> None:
        """As Buffers.resize of its name."""
        self._live("resize")
        self.owner.resize(self.name, nbytes, stream=stream)

    def close(self) -> None:
        """As Buffers.drop of its name. Closed already: no effect."""
        if not self.closed:
            self.owner.drop(self.name)

    def _finish(self) -> None:
        """Its last reference is gone: the set has the memory."""


class Buffers(calls.Held):
    """Named buffers that grow, with settings by type and one limit over all.

        with Buffers(limit=1 << 30, types={"node": BufferType(growth=2), "scratch": BufferType(idle_seconds=60)}) as buffers:
            positions = buffers.resize("positions", 12 * nodes, "node")
            positions.put(data)
            buffers.resize("positions", 24 * nodes)          # keeps the data
            print(buffers.statistics.utilization)

    limit: of the sum of the capacities in bytes, 0: none; a move holds the old memory, too, until the data is copied.
    types: by name; default: for names without a type. close(), the end of a `with`, or the last reference to the set and
    its buffers frees all. A name is a scope of its allocations in reports.

    A method raises Error "BUSY" in the midst of another thread's call of the set or of one of its buffers, and
    BufferError where a memoryview keeps a buffer that it may move.
    """

    def __init__(self, limit: int = 0, types: Optional[Mapping[str, BufferType]] = None,
                 default: BufferType = BufferType()) -> None:
        self._struct, self._windows = BuffersStruct(), Windows()
        self._live_ones: "weakref.WeakValueDictionary[str, NamedBuffer]" = weakref.WeakValueDictionary()
        self._type_of: Dict[str, int] = {}  # of each name that was asked for
        rows = [default, *(types or {}).values()]
        if not all(isinstance(one, BufferType) for one in rows):
            raise TypeError("Buffers: types and default are BufferTypes")
        self._numbers = {name: 1 + place for place, name in enumerate(types or {})}
        structs = (BufferTypeStruct * len(rows))(*(one._struct() for one in rows))
        check("Buffers", "buffers_create", self._struct, number(limit, "limit"), structs, len(rows))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return not self._struct.types

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "the set is closed")

    @property
    def limit(self) -> int:
        """Maximum of the sum of the capacities in bytes; 0: none."""
        return int(self._struct.limit)

    @limit.setter
    def limit(self, value: int) -> None:
        self._struct.limit = number(value, "limit")

    @property
    def statistics(self) -> BuffersStatistics:
        """The BuffersStatistics of now."""
        found = BuffersStatisticsStruct()
        with Use("statistics", alone=self):
            check("statistics", "buffers_get_statistics", self._struct, found)
        return BuffersStatistics(*(getattr(found, field.name) for field in dataclasses.fields(BuffersStatistics)))

    # ---- requests ----

    def _number(self, name: str, kind: Optional[str]) -> int:
        """The number of a type; None: that of the name's earlier requests, or the default."""
        if kind is None:
            return self._type_of.get(name, 0)
        if kind not in self._numbers:
            raise invalid("type", "%r is not one of %s" % (kind, sorted(self._numbers)))
        return self._numbers[kind]

    def resize(self, name: str, nbytes: int, type: Optional[str] = None,  # pylint: disable=redefined-builtin
               stream: Any = None) -> NamedBuffer:
        """Makes the buffer of a name `nbytes` bytes long, from 1, and keeps the data that fits; a new name is allocated.

        type: the same in all requests of a name; None: that of earlier ones, or the default. stream: whose work wrote the
        buffer's data. Beyond the capacity it grows as its type says, or to nbytes where there is no room for more. A
        request that does not fit frees empty buffers, then moves buffers that are idle for the idle_seconds of their
        types to memory of their length; this waits for the work of the context.

        Raises Error: as of Buffer; "NO_MEMORY" also beyond the limit of the type or the set, "INVALID" also of another
        type than before: all buffers keep their data.
        """
        key, number_of, size = _name(name), self._number(name, type), number(nbytes, "nbytes", 1)
        handle, found = stream_handle(stream), ctypes.POINTER(BufferStruct)()
        with Use("resize", alone=self):
            known = self._live_ones.get(name)
            if known is None or size > known._struct.capacity:
                self._windows.check("resize")
            else:
                known._windows.check("resize")
            before = self._addresses()
            try:
                check("resize(%r, %d)" % (name, size), "buffers_resize", self._struct, key, number_of, size, handle,
                      ctypes.byref(found))
            finally:
                self._moved(before)
            self._type_of[name] = number_of
            return self._of_name(name, found)

    def _of_name(self, name: str, found: Any) -> NamedBuffer:
        one = self._live_ones.get(name)
        if one is None:
            one = NamedBuffer._of(found.contents, self)
            one.owner, one.name = self, name
            self._live_ones[name] = one
        return one

    def find(self, name: str) -> Optional[NamedBuffer]:
        """The buffer of a name; None: there is none, or it is empty."""
        key, found = _name(name), ctypes.POINTER(BufferStruct)()
        with Use("find", alone=self):
            result = calls.call("buffers_find", self._struct, key, ctypes.byref(found))
            if result not in (calls.OK, calls.NOT_FOUND):
                raise calls.error(result, "find(%r)" % name)
            return self._of_name(name, found) if result == calls.OK else None

    # ---- the end of a buffer ----

    def empty(self, name: str) -> None:
        """Nothing of the buffer is in use any more: its object is closed, and the memory stays for the next resize of the
        name, until a clean-up or a request that does not fit frees it. A name that is not there: no effect."""
        key = _name(name)
        with Use("empty", alone=self):
            self._leave([name], "empty")
            check("empty(%r)" % name, "buffers_resize", self._struct, key, self._number(name, None), 0, calls.SYNC, None)
            self._detach([name])

    def drop(self, name: str) -> None:
        """Frees the buffer of a name. Raises Error "NOT_FOUND", "CUDA"."""
        key = _name(name)
        with Use("drop", alone=self):
            self._leave([name], "drop")
            check("drop(%r)" % name, "buffers_drop", self._struct, key)
            self._detach([name])
            self._type_of.pop(name, None)

    def clean(self, all: bool = False) -> int:  # pylint: disable=redefined-builtin
        """Cleans up all buffers that are unused for the idle_seconds of their types (all: used just now, too): frees empty
        ones, and the memory of others beyond their length. Kernels are not seen. Waits for the work of the context.
        Returns the bytes that it freed. Raises Error "CUDA"."""
        freed = ctypes.c_size_t()
        with Use("clean", alone=self):
            self._windows.check("clean")
            before = self._addresses()
            try:
                check("clean", "buffers_clean", self._struct, int(all), ctypes.byref(freed))
            finally:
                self._moved(before)
        return freed.value

    def close(self) -> None:
        """Frees the set and its buffers. Closed already: no effect. Raises BufferError, Error "BUSY", "CUDA"."""
        if self.closed:
            return
        with Use("close", alone=self):
            names = list(self._live_ones)
            self._leave(names, "close")
            check("close", "buffers_free", self._struct)
            self._detach(names)

    def _leave(self, names: List[str], about: str) -> None:
        """Waits for transfers of buffers that are to end. Raises BufferError for one with a memoryview."""
        for name in names:
            one = self._live_ones.get(name)
            if one is not None:
                one._windows.check(about)
                for event in one._pending:
                    if not event.closed:
                        event.wait()

    def _detach(self, names: List[str]) -> None:
        """The buffers have ended: their objects refer to no memory of C."""
        for name in names:
            one = self._live_ones.pop(name, None)
            if one is not None:
                one._struct = BufferStruct()
                one._generation += 1

    def _addresses(self) -> List[Any]:
        return [(one, one._struct.data) for one in self._live_ones.values()]

    @staticmethod
    def _moved(before: List[Any]) -> None:
        """Views of what has moved end."""
        for one, address in before:
            one._moved(address)
