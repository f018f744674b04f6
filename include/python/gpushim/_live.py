"""Live allocations: by address, all of them, and what has changed between two snapshots."""
import collections
import ctypes
import dataclasses
import os
import typing

import gpushim

_STACK_BYTES = 16 << 10
_SCOPE_BYTES = 1024  # GPUSHIM_SCOPE_BYTES

_stacks = {}  # texts by (process, number)


class Raw(ctypes.Structure):  # struct gpushim_allocation
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "number", "address", "bytes", "age_ns", "stream")] + [
            ("thread", ctypes.c_uint32), ("stack", ctypes.c_uint32), ("device", ctypes.c_int),
            ("has_address", ctypes.c_int)] + [(name, ctypes.c_char_p) for name in (
                "kind", "call", "owner", "no_stack")] + [("scope", ctypes.c_char * _SCOPE_BYTES)]


VisitCall = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Raw))  # gpushim_visit_call


@dataclasses.dataclass(frozen=True)
class Stack:
    """A call stack; equal call stacks have equal numbers. bool(): whether it was recorded."""
    number: int
    missing: str  # why it was not recorded; "": it was

    def __bool__(self):
        return self.number != 0

    def __str__(self):
        """The lines as the report writes them; the first time takes tens of milliseconds. Raises gpushim.Error where no
        names could be found."""
        if not self.number:
            return self.missing
        key = os.getpid(), self.number
        text = _stacks.get(key) or self._ask()
        if text:
            _stacks[key] = text
        return text

    def _ask(self):
        room = _STACK_BYTES
        while True:
            text, length = ctypes.create_string_buffer(room), ctypes.c_size_t()
            gpushim._check(gpushim._call("get_stack", self.number, text, room, ctypes.byref(length)),
                           "stack %d" % self.number)
            if length.value < room:
                return text.value.decode(errors="replace")
            room = length.value + 1


@dataclasses.dataclass(frozen=True)
class Allocation:
    """A live allocation: struct gpushim_allocation in gpushim.h."""
    number: int  # no other allocation of the process ever has it
    address: typing.Optional[int]  # None: it has a handle
    handle: typing.Optional[int]
    bytes: int
    age: float  # seconds
    device: int  # an ordinal, or PINNED, REGISTERED, IMPORTED
    kind: str
    call: str
    owner: str
    scope: str
    stream: int
    thread: int
    stack: Stack


@dataclasses.dataclass(frozen=True)
class Change:
    """What a call site has allocated and freed between two snapshots."""
    stack: Stack
    device: int
    kind: str
    call: str
    owner: str
    scope: str
    new_count: int
    new_bytes: int
    freed_count: int
    freed_bytes: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """What a later snapshot has more and less than an earlier one. Memory that was allocated and freed in
    between is in neither."""
    new: typing.Tuple[Allocation, ...]
    freed: typing.Tuple[Allocation, ...]  # as they were in the earlier snapshot

    @property
    def changes(self):
        """A list with the Change of each call site, the one with the most growth in bytes first."""
        sums = collections.defaultdict(lambda: [0, 0, 0, 0])
        for at, allocations in ((0, self.new), (2, self.freed)):
            for one in allocations:
                found = sums[one.stack, one.device, one.kind, one.call, one.owner, one.scope]
                found[at] += 1
                found[at + 1] += one.bytes
        changes = [Change(*site, *counts) for site, counts in sums.items()]
        return sorted(changes, key=lambda one: (one.freed_bytes - one.new_bytes, one.stack.number, one.device))


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The live allocations of one time. after - before is their Difference."""
    allocations: typing.Tuple[Allocation, ...]
    device: int
    process: int

    def __sub__(self, before):
        if (self.process, self.device) != (before.process, before.device):
            raise ValueError("snapshots of process %d, device %d, and of process %d, device %d" % (
                self.process, self.device, before.process, before.device))
        known, left = ({one.number for one in snapshot.allocations} for snapshot in (before, self))
        return Difference(tuple(one for one in self.allocations if one.number not in known),
                          tuple(one for one in before.allocations if one.number not in left))


def _text(raw):
    return raw.decode(errors="replace")


def _allocation(raw):
    address = raw.address if raw.has_address else None
    return Allocation(raw.number, address, None if raw.has_address else raw.address, raw.bytes, raw.age_ns / 1e9,
                      raw.device, _text(raw.kind), _text(raw.call), _text(raw.owner), _text(raw.scope), raw.stream,
                      raw.thread, Stack(raw.stack, _text(raw.no_stack)))


def allocation_at(address):
    """The live Allocation that contains an address; None if there is none, or where the library is not active."""
    raw = Raw(ctypes.sizeof(Raw))
    result = gpushim._call("find_allocation", address, ctypes.byref(raw))
    if result == gpushim._NOT_FOUND:
        return None
    return _allocation(raw) if gpushim._check(result, "address %r" % (address,)) else None


def allocations(device=gpushim.EVERYWHERE):
    """A list of the live allocations of a device (its ordinal), of ALL_DEVICES, of PINNED, REGISTERED, IMPORTED
    memory, or of EVERYWHERE. Other threads may allocate and free meanwhile."""
    found = []

    @VisitCall
    def visit(_, raw):
        found.append(_allocation(raw.contents))
        return 0

    gpushim._check(gpushim._call("visit_allocations", device, visit, None), gpushim._where(device))
    return found


def snapshot(device=gpushim.EVERYWHERE):
    """A Snapshot of allocations(device)."""
    return Snapshot(tuple(allocations(device)), device, os.getpid())
