"""Buffers of one piece of work, allocated one by one and freed together.

    from gpushim.group import Group

    with Group("bfs_traversal") as group:
        frontier = group.allocate(1024)
        distances = group.allocate(nodes, "<u4")
        print(group.statistics.peak_bytes)

Each is a gpushim.buffer.Buffer. In reports the group's name is a scope of the allocations. Any thread may allocate.
"""
import collections
import dataclasses
import functools
import threading
import weakref

import gpushim
from gpushim.buffer import DEVICE, Buffer, _extents


@dataclasses.dataclass(frozen=True)
class GroupStatistics:
    """current_bytes and peak_bytes: held, with what is preallocated. Counts are of allocations so far, those with a
    typestr, and those that preallocated memory served; live_count of those not freed."""
    current_bytes: int = 0
    peak_bytes: int = 0
    count: int = 0
    typed_count: int = 0
    reused_count: int = 0
    live_count: int = 0


def _freed(group, buffer):
    """Of a reference: the group keeps its buffers alive, not they the group."""
    if group() is not None:
        group()._leaves(buffer)


class Group:
    """name: of a scope, None for none. place and device: as of Buffer. Raises ValueError for a wrong name."""

    def __init__(self, name=None, place=DEVICE, device=0):
        if name is not None and (not name or "\0" in name or len(name.encode()) > 127):
            raise ValueError("name %r: not 1 to 127 bytes without a NUL" % (name,))
        self.name, self.place, self.device = name, place, device
        self._lock = threading.RLock()  # a collection may free a buffer of another group in the midst of a call
        self._live, self._ahead = {}, {}  # by id(); lists of buffers by shape and typestr
        self._leaving = []  # freed, but for consumers by DLPack
        self._bytes = self._peak = self._count = self._typed = self._reused = 0

    def _make(self, shape, typestr):
        if self.name is None:
            made = Buffer(shape, typestr, self.place, self.device)
        else:
            with gpushim.scope(self.name):
                made = Buffer(shape, typestr, self.place, self.device)
        made._at_free = functools.partial(_freed, weakref.ref(self))
        return made

    def _enters(self, made):
        """The lock is held."""
        self._bytes += made.nbytes
        self._peak = max(self._peak, self._current())

    def _leaves(self, one):
        """A buffer that the program has freed."""
        with self._lock:
            if id(one) in self._live:
                self._leaving.append(one)

    def _current(self):
        """The bytes that the group holds. Buffers that the program has freed leave it. The lock is held."""
        leaving, self._leaving = self._leaving, []
        for one in leaving:
            if one.pointer is not None:
                self._leaving.append(one)
            elif self._live.pop(id(one), None):
                self._bytes -= one.nbytes
        return self._bytes

    def preallocate(self, shape, typestr="|u1"):
        """Allocates memory ahead: the next allocate() with the same arguments takes it. Raises as Buffer does."""
        made = self._make(shape, typestr)
        with self._lock:
            self._ahead.setdefault((made.shape, typestr), collections.deque()).append(made)
            self._enters(made)

    def allocate(self, shape, typestr=None):
        """A Buffer of the group. Raises as Buffer does."""
        element = "|u1" if typestr is None else typestr
        made = self._take(shape, element) or self._keep(self._make(shape, element))
        with self._lock:
            self._count += 1
            self._typed += typestr is not None
        return made

    def _take(self, shape, typestr):
        """A preallocated buffer; None: there is none of this form."""
        form = (_extents(shape), str(typestr))
        with self._lock:
            ready = self._ahead.get(form)
            if not ready:
                return None
            one = ready.popleft()
            self._live[id(one)] = one
            self._reused += 1
            return one

    def _keep(self, made):
        with self._lock:
            self._live[id(made)] = made
            self._enters(made)
        return made

    @property
    def statistics(self):
        """The GroupStatistics of now."""
        with self._lock:
            current = self._current()
            return GroupStatistics(current, self._peak, self._count, self._typed, self._reused, len(self._live))

    def free(self):
        """Frees all memory of the group, also what is preallocated; peak and counts stay. Consumers by DLPack keep
        their part until they let it go."""
        with self._lock:
            every = [*self._live.values(), *(one for ready in self._ahead.values() for one in ready)]
            self._live, self._ahead, self._leaving, self._bytes = {}, {}, [], 0
        for one in every:
            one.free()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.free()
