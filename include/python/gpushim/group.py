"""Buffers of one piece of work, allocated one by one and freed together.

    from gpushim.group import Group

    with Group("bfs_traversal") as group:
        frontier = group.allocate(1024)
        distances = group.allocate(nodes, "<u4")
        print(group.statistics.peak_bytes)

Each is a gpushim.buffer.Buffer. In reports the group's name is a scope of the allocations. Any thread may allocate.
"""
import dataclasses
import threading

import gpushim
from gpushim.buffer import DEVICE, Buffer


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


class Group:
    """name: of a scope, None for none. place and device: as of Buffer. Raises ValueError for a wrong name."""

    def __init__(self, name=None, place=DEVICE, device=0):
        if name is not None and (not name or "\0" in name or len(name.encode()) > 127):
            raise ValueError("name %r: not 1 to 127 bytes without a NUL" % (name,))
        self.name, self.place, self.device = name, place, device
        self._lock = threading.RLock()  # a collection may free a buffer of another group in the midst of a call
        self._live, self._ahead = [], []
        self._peak = self._count = self._typed = self._reused = 0

    def _make(self, shape, typestr):
        if self.name is None:
            return Buffer(shape, typestr, self.place, self.device)
        with gpushim.scope(self.name):
            return Buffer(shape, typestr, self.place, self.device)

    def _current(self):
        """The bytes that the group holds. Buffers that the program has freed leave it. The lock is held."""
        self._live = [one for one in self._live if one.pointer is not None]
        return sum(one.nbytes for one in self._live + self._ahead)

    def preallocate(self, shape, typestr="|u1"):
        """Allocates memory ahead: the next allocate() with the same arguments takes it. Raises as Buffer does."""
        made = self._make(shape, typestr)
        with self._lock:
            self._ahead.append(made)
            self._peak = max(self._peak, self._current())

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
        wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        with self._lock:
            for one in self._ahead:
                if (one.shape, one.typestr) == (wanted, typestr):
                    self._ahead.remove(one)
                    self._live.append(one)
                    self._reused += 1
                    return one
        return None

    def _keep(self, made):
        with self._lock:
            self._live.append(made)
            self._peak = max(self._peak, self._current())
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
            every, self._live, self._ahead = self._live + self._ahead, [], []
        for one in every:
            one.free()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.free()
