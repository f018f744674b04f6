"""Rings of slots between the host and a device."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer
from gpushim.memory.calls import BufferStruct, Event, RingStruct, Use, check, invalid, number, stream_handle
from gpushim.memory.host import Windows


def _mark(event: Event, stream: int) -> None:
    if stream != calls.SYNC:
        event.mark(stream)


class Ring(calls.Held):
    """A ring of `slots` slots of slot_bytes bytes in pinned memory, between one producer and one consumer: each a
    thread, work of a stream, or a kernel.

        slot = ring.space()          # None: it is full
        slot.put(message)
        ring.push()
        slot = ring.next()           # None: it is empty
        ring.pop()

    A kernel finds the counts at .device_address (struct gpushim_ring_counts: pushed, at 128 popped), and slot number n
    of all ever pushed at 256 + (n % slots) * stride bytes from there. Raises Error: as of Buffer.
    """

    _struct: Optional[RingStruct] = None

    def __init__(self, slots: int, slot_bytes: int) -> None:
        struct = RingStruct()
        wanted = number(slots, "slots", 1), number(slot_bytes, "slot_bytes", 1)
        check("Ring of %d slots of %d bytes" % wanted, "ring_create", struct, *wanted)
        self._struct, self._windows = struct, Windows()
        self._pushes, self._pops = Event(), Event()  # behind those in streams

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._struct is None or not self._struct.memory.data

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "the ring is closed")

    def _open(self, about: str) -> RingStruct:
        self._live(about)
        assert self._struct is not None
        return self._struct

    @property
    def slots(self) -> int:
        """Slots."""
        return int(self._open("slots").slots)

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot."""
        return int(self._open("slot_bytes").slot_bytes)

    @property
    def stride(self) -> int:
        """Bytes from slot to slot, a multiple of 64."""
        return int(self._open("stride").stride)

    def _count(self, name: str) -> int:
        with Use(name, self):
            return int(getattr(self._open(name).counts.contents, name))

    @property
    def pushed(self) -> int:
        """Slots handed over by the producer, ever."""
        return self._count("pushed")

    @property
    def popped(self) -> int:
        """Slots returned by the consumer, ever."""
        return self._count("popped")

    @property
    def device_address(self) -> int:
        """Where a kernel finds the counts and the slots."""
        found = ctypes.c_void_p()
        with Use("device_address", self):
            check("device_address", "ring_device_address", self._struct, ctypes.byref(found))
        return found.value or 0

    def _slot(self, name: str) -> Optional[Buffer]:
        struct = BufferStruct()
        with Use(name, self):
            result = calls.call("ring_" + name, self._struct, struct)
            if result == calls.NOT_FOUND:
                return None
            if result != calls.OK:
                raise calls.error(result, name)
            return Buffer._of(struct, self)

    def space(self) -> Optional[Buffer]:
        """The producer's next slot, to be filled; None: the ring is full. Does not wait."""
        return self._slot("space")

    def next(self) -> Optional[Buffer]:
        """The consumer's next slot; None: the ring is empty. Does not wait."""
        return self._slot("next")

    def push(self, stream: Any = None) -> None:
        """Hands the slot of space() to the consumer: now, or, with a stream, when its work so far is complete. All
        pushes of a ring use one stream, or none. Raises Error "NOT_FOUND": it is full; "INVALID": also without a stream
        while a push in a stream is not complete."""
        handle = stream_handle(stream)
        with Use("push", self):
            check("push", "ring_push", self._struct, handle)
            _mark(self._pushes, handle)

    def pop(self, stream: Any = None) -> None:
        """Returns the slot of next() to the producer. stream, errors: as of push; "NOT_FOUND": it is empty."""
        handle = stream_handle(stream)
        with Use("pop", self):
            check("pop", "ring_pop", self._struct, handle)
            _mark(self._pops, handle)

    def _settle(self) -> None:
        """Waits for pushes and pops in streams, which write the counts. Raises Error where they cannot complete."""
        struct = self._open("close")
        for event, counted, called in ((self._pushes, "pushed", "filling"), (self._pops, "popped", "reading")):
            if not event.closed and getattr(struct.counts.contents, counted) < getattr(struct, called):
                event.wait()

    def close(self) -> None:
        """Waits for pushes and pops in streams, and frees the ring; other work that uses it must be complete. Closed
        already: no effect. Raises BufferError while there is a memoryview, Error."""
        if self.closed:
            return
        with Use("close", alone=self):
            self._windows.check("close")
            self._settle()
            check("close", "ring_free", self._struct)
            self._pushes.close()
            self._pops.close()
