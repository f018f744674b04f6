"""Buffers: memory with its size and place, its copies, its resize."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, List, Optional, Tuple, Type, TypeVar, cast

from gpushim import _dlpack, _native
from gpushim.memory import calls
from gpushim.memory.calls import BufferStruct, Event, Use, check, invalid, number, stream_handle
from gpushim.memory.host import Bytes, Windows, window

ZEROED, _VIEW, _IN_PLACE = 1, 2, 4  # GPUSHIM_ZEROED, GPUSHIM_VIEW, GPUSHIM_IN_PLACE
_B = TypeVar("_B", bound="Buffer")


class Place(enum.IntEnum):
    """Where memory is: enum gpushim_place."""
    DEVICE = 0  # of the current context's device
    HOST = 1  # malloc; needs no CUDA
    PINNED = 2  # page-locked, seen by every context
    MANAGED = 3  # seen by host and devices


class Advice(enum.IntEnum):
    """Advice for managed memory: enum gpushim_advice, the values of CUmem_advise."""
    READ_MOSTLY = 1
    NOT_READ_MOSTLY = 2
    PREFER = 3
    PREFER_NONE = 4
    ACCESSED_BY = 5
    NOT_ACCESSED_BY = 6


_KINDS = {Place.DEVICE: _dlpack.DEVICE, Place.HOST: _dlpack.HOST, Place.PINNED: _dlpack.PINNED,
          Place.MANAGED: _dlpack.MANAGED}


def place_of(value: Any) -> Place:
    """A Place. Raises TypeError, Error "INVALID"."""
    if isinstance(value, Place):
        return value
    try:
        return Place(number(value, "place"))
    except ValueError:
        raise invalid("place", "%r is not a Place" % (value,)) from None


def _device(value: Any) -> int:
    """An ordinal, -1: the host."""
    return -1 if value == -1 else min(number(value, "device"), (1 << 31) - 1)


class Buffer(calls.Held, _dlpack.Exporter):
    """Memory of `nbytes` bytes, freed by close(), at the end of a `with`, or with the last reference.

        with Buffer(4096, Place.PINNED, zeroed=True) as buffer:
            buffer.put(b"data")

    nbytes: from 1. alignment: of .address, a power of two in bytes; 0: 256, or 16 of plain host memory. zeroed: zero
    at the start, and so is what a resize adds. growth: a resize beyond .capacity multiplies it by this, 1 to 16.
    limit: maximum of .capacity in bytes, 0: none. in_place: of device memory: it grows in whole pages at its address,
    without a copy, and views stay; no other device sees it (.in_place: whether the device could).

    A memoryview, an array of NumPy by `numpy.asarray` and a tensor by DLPack share the memory, as one dimension of
    bytes: close() and resize() raise BufferError while there is a memoryview; a tensor by DLPack keeps the memory also
    past the end of Python, and the buffer has no resize() from then on. What uses the memory by
    __cuda_array_interface__ must be done when it is freed.

    Raises Error: "INVALID", "NO_MEMORY", "CUDA", "INACTIVE"; TypeError. Any thread may copy from and to a buffer;
    close() and resize() raise Error "BUSY" in the midst of another thread's call.
    """

    _code, _bits = 1, 8  # bytes, for DLPack
    _wanted_context: Optional[int] = None  # of make()
    _primary = -1  # an ordinal: the memory releases this device's primary context if DLPack has it

    def __init__(self, nbytes: int, place: Place = Place.DEVICE, *, alignment: int = 0, zeroed: bool = False,
                 growth: float = 1.5, limit: int = 0, in_place: bool = False) -> None:
        self._init(BufferStruct())
        wanted = number(nbytes, "nbytes", 1), number(alignment, "alignment")
        place, most = place_of(place), number(limit, "limit")
        if 0 < most < wanted[0]:
            raise invalid("Buffer(%d, limit=%d)" % (wanted[0], most), "it begins beyond its limit")
        self._create(place, wanted, (ZEROED if zeroed else 0) | (_IN_PLACE if in_place else 0))
        try:
            self.growth, self.limit = growth, most
        except BaseException:
            self.close()
            raise

    def _create(self, place: Place, wanted: Tuple[int, int], flags: int) -> None:
        about, context = "Buffer(%d, %s)" % (wanted[0], place.name), self._wanted_context
        if context:
            check(about, "create", self._struct, context, place, *wanted, flags)
        else:
            check(about, "buffer_create", self._struct, place, *wanted, flags)

    def _init(self, struct: BufferStruct, base: Optional[calls.Held] = None, keep: Any = None) -> None:
        self._struct, self._base, self._keep = struct, base, keep
        self._of_generation = base._generation if base is not None else 0
        self._windows = Windows()
        self._ended = False  # a view that is over, such as a chunk of a file
        self._pending: List[Event] = []  # of transfers that a free waits for

    @classmethod
    def _of(cls: Type[_B], struct: BufferStruct, base: Optional[calls.Held] = None, keep: Any = None) -> _B:
        buffer = cls.__new__(cls)
        Buffer._init(buffer, struct, base, keep)
        return buffer

    # ---- what it is ----

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "the buffer is closed, or the buffer that it is a view of is closed or has moved")

    def _under(self) -> Optional[calls.Held]:
        return self._base

    @property
    def closed(self) -> bool:
        """Whether the memory is freed, or, of a view, whether that it belongs to is freed or has moved."""
        base = self._base
        if self._closed or self._ended or not self._struct.data:
            return True
        return base is not None and (base.closed or base._generation != self._of_generation)

    @property
    def nbytes(self) -> int:
        """Length in bytes; 0: closed."""
        return 0 if self.closed else self._struct.bytes

    def __len__(self) -> int:
        return self.nbytes

    @property
    def shape(self) -> Tuple[int, ...]:  # type: ignore[override]
        """(nbytes,)"""
        return (self.nbytes,)

    @property
    def capacity(self) -> int:
        """Bytes that a resize needs no new memory for."""
        return 0 if self.closed else self._struct.capacity

    @property
    def address(self) -> int:
        """The address. Raises Error "INVALID" for a closed buffer. A resize may change it."""
        self._live("address")
        return cast(int, self._struct.data)

    @property
    def device_address(self) -> int:
        """The address by which a kernel reaches the memory. Raises Error "INVALID" of plain host memory, too."""
        found = ctypes.c_void_p()
        with Use("device_address", self):
            check("device_address", "buffer_device_address", self._struct, ctypes.byref(found))
        return found.value or 0

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self._struct.place)

    @property
    def device(self) -> int:  # type: ignore[override]
        """Ordinal; -1: plain host memory, or memory of the program's (around)."""
        return -1 if self.closed else self._struct.device

    @property
    def is_view(self) -> bool:
        """Whether it does not own its memory."""
        return bool(self._struct.flags & _VIEW)

    @property
    def in_place(self) -> bool:
        """Whether it grows at its address."""
        return bool(self._struct.flags & _IN_PLACE)

    @property
    def growth(self) -> float:
        """A resize beyond .capacity multiplies it by this, 1 to 16."""
        return float(self._struct.growth)

    @growth.setter
    def growth(self, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError("growth: a number is needed, not %s" % type(value).__name__)
        if not 1 <= value <= 16:
            raise invalid("growth", "%r is not 1 to 16" % value)
        self._struct.growth = value

    @property
    def limit(self) -> int:
        """Maximum of .capacity in bytes; 0: none."""
        return cast(int, self._struct.limit)

    @limit.setter
    def limit(self, value: int) -> None:
        self._struct.limit = number(value, "limit")

    def __repr__(self) -> str:
        if self.closed:
            return "<gpushim.memory.Buffer, closed>"
        return "<gpushim.memory.Buffer of %d bytes, %s at 0x%x>" % (self.nbytes, self.place.name, self._struct.data)

    # ---- its end ----

    def close(self) -> None:
        """Frees the memory; of a view, ends the view. Closed already: no effect. Raises BufferError while there is
        a memoryview, Error "BUSY", "CUDA"."""
        if self._closed or self._ended or not self._struct.data:
            return
        if self._base is not None:  # what it is a part of has the memory
            self._end_view()
            return
        with Use("close", alone=self):
            if self.is_view:
                self._end_view()
                return
            self._windows.check("close")
            for event in self._pending:
                if not event.closed:
                    event.wait()
            self._release()
            self._generation += 1

    def _end_view(self) -> None:
        self._windows.check("close")
        self._ended = True
        keep, self._keep = self._keep, None
        if isinstance(keep, Bytes):
            keep.close()

    def _awaits(self, event: Event) -> None:
        """Work behind which the memory may be freed. CUDA's frees of pinned memory may not wait."""
        self._pending = [one for one in self._pending if not one.closed] + [event]

    def _release(self) -> None:
        if self._owned:
            with _dlpack._lock:  # no export from here on
                self._closed = True
            result = _native.find()["close"](self._owned)
            if result != calls.OK:
                raise calls.error(result, "close")
        else:
            check("close", "buffer_free", self._struct)

    def _finish(self) -> None:
        self.close()
        owned, self._owned = self._owned, None
        if owned:
            _native.find()["forget"](owned)

    def __del__(self, ended: Any = calls.ended) -> None:
        if getattr(self, "_struct", None) is not None:
            ended(self._finish)

    # ---- parts, and memory of the program's ----

    def _range(self, offset: Any, nbytes: Any, about: str) -> Tuple[int, int]:
        """offset and nbytes (None: the rest) as integers within the buffer."""
        self._live(about)
        offset = number(offset, "%s: offset" % about)
        nbytes = self._struct.bytes - offset if nbytes is None else number(nbytes, "%s: nbytes" % about)
        if nbytes <= 0 or offset + nbytes > self._struct.bytes:
            raise invalid(about, "%d bytes from %d are not within the buffer's %d" % (
                nbytes, offset, self._struct.bytes))
        return offset, nbytes

    def view(self, offset: int = 0, nbytes: Optional[int] = None) -> "Buffer":
        """A buffer that is bytes [offset, offset + nbytes) of this one, None: to its end. It ends with a close or a
        move of this one."""
        struct = BufferStruct()
        with Use("view", self):
            check("view", "buffer_view", struct, self._struct, *self._range(offset, nbytes, "view"))
            return Buffer._of(struct, self)

    @staticmethod
    def around(memory: Any, nbytes: Optional[int] = None, place: Optional[Place] = None) -> "Buffer":
        """A view of memory that the program owns.

        memory: a writable object with the buffer protocol (plain host memory; the view holds it), an object with
        __cuda_array_interface__ (contiguous; the view refers to it), or, with nbytes and place, an address in CUDA's
        memory, which must outlive the view. Raises Error "INVALID" for an address that CUDA does not know as `place`
        with `nbytes` bytes, such as plain host memory; TypeError, BufferError for a wrong object.
        """
        struct, keep = BufferStruct(), memory
        if hasattr(memory, "__cuda_array_interface__"):
            address, nbytes = _array_bytes(memory.__cuda_array_interface__)
            place = place_of(Place.DEVICE if place is None else place)
        elif isinstance(memory, int):
            if nbytes is None or place is None:
                raise TypeError("around: an address needs nbytes and place")
            address, nbytes, keep = number(memory, "around: address", 1), number(nbytes, "around: nbytes", 1), None
            place = place_of(place)
        else:
            keep = Bytes(memory, writable=True)
            address, nbytes, place = keep.address, keep.nbytes, Place.HOST
        if place != Place.HOST or keep is None:
            _known(address, nbytes, place)
        check("around", "buffer_around", struct, address, nbytes, place)
        return Buffer._of(struct, None, keep)

    # ---- the memory for Python and frameworks ----

    def memory(self, offset: int = 0, nbytes: Optional[int] = None) -> memoryview:
        """A writable memoryview of bytes [offset, offset + nbytes) of plain, pinned or managed memory. Work of
        streams must be complete. Raises Error "INVALID" of device memory."""
        with Use("memory", self):
            offset, nbytes = self._range(offset, nbytes, "memory")
            if self.place == Place.DEVICE:
                raise invalid("memory", "the host cannot address device memory: use get() and put()")
            windows, under = [self._windows], self._base
            while under is not None:
                windows.append(under._windows)
                under = under._under()
            return window(self._struct.data + offset, nbytes, self, *windows)

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later
        return self.memory()

    @property
    def __array_interface__(self) -> Any:
        if self.place == Place.DEVICE:
            raise AttributeError("device memory has no __array_interface__")
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": self.memory(), "version": 3}

    @property
    def __cuda_array_interface__(self) -> Any:
        if self.place == Place.HOST:
            raise AttributeError("plain host memory has no __cuda_array_interface__")
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.device_address, False), "version": 3,
                "strides": None, "stream": None}

    def _kind(self) -> str:
        return _KINDS[self.place]

    def _exportable(self) -> None:
        self._live("__dlpack__")
        if self.is_view or self._struct.cache:
            raise BufferError("DLPack: a view, or a buffer of a cache, does not own its memory")

    def _give(self) -> None:
        more, native = calls.functions(), _dlpack.functions()
        with Use("__dlpack__", alone=self):
            kept = more["own"](self._struct, self._primary)
            self._owned = kept and native["own_object"](_native.address(more["end"]), kept, self._struct.data)
        if not self._owned:
            raise MemoryError("no host memory for an export by DLPack")

    # ---- copies and fills ----

    def copy_from(self, src: "Buffer", nbytes: Optional[int] = None, *, offset: int = 0, src_offset: int = 0,
                  stream: Any = None) -> None:
        """Copies `nbytes` bytes of src, from its src_offset on, to `offset` of this buffer. None: what both have.

        stream: None: complete on return; else queued there: a handle (0: the legacy default stream), or a stream of
        a framework. Raises Error "INVALID" also if the two overlap.
        """
        if not isinstance(src, Buffer):
            raise TypeError("copy_from: src is a Buffer, not %s; put() takes bytes" % type(src).__name__)
        if nbytes is None:
            nbytes = min(self.nbytes - number(offset, "offset"), src.nbytes - number(src_offset, "src_offset"))
        with Use("copy_from", self, src):
            to = self._range(offset, nbytes, "copy_from")
            begin, _ = src._range(src_offset, nbytes, "copy_from: src")
            check("copy_from", "buffer_copy", self._struct, to[0], src._struct, begin, to[1], stream_handle(stream))

    def put(self, data: Any, offset: int = 0, stream: Any = None) -> None:
        """Writes a bytes-like object to `offset`. stream: as of copy_from; pinned memory must live until the
        stream's work is complete. Raises TypeError for another object."""
        with Bytes(data) as host, Use("put", self):
            self._range(offset, host.nbytes, "put")
            check("put", "buffer_put", self._struct, offset, host.address, host.nbytes, stream_handle(stream))

    def get(self, nbytes: Optional[int] = None, offset: int = 0, *, into: Any = None, stream: Any = None) -> Any:
        """Reads `nbytes` bytes from `offset` on; None: the length of `into`, or the rest. Returns a new bytearray, or
        `into`, a writable bytes-like object that has the room. stream: as of put."""
        target = into
        if target is None:
            with Use("get", self):
                offset, nbytes = self._range(offset, nbytes, "get")
            target = bytearray(nbytes)
        with Bytes(target, writable=True) as host, Use("get", self):
            begin, count = self._range(offset, host.nbytes if nbytes is None else nbytes, "get")
            if count > host.nbytes:
                raise invalid("get", "%d bytes do not fit into %d" % (count, host.nbytes))
            check("get", "buffer_get", self._struct, begin, host.address, count, stream_handle(stream))
        return target

    def get_slot(self, slot: int, slot_bytes: int) -> bytearray:
        """Reads slot number `slot`, from 0, of slots of slot_bytes bytes each."""
        slot, slot_bytes = number(slot, "get_slot: slot"), number(slot_bytes, "get_slot: slot_bytes", 1)
        with Use("get_slot", self):
            self._range(slot * slot_bytes, slot_bytes, "get_slot")
            data = bytearray(slot_bytes)
            with Bytes(data, writable=True) as host:
                check("get_slot", "buffer_get_slot", self._struct, slot, slot_bytes, host.address, calls.SYNC)
        return data

    def fill(self, value: int, offset: int = 0, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Sets bytes to `value`, 0 to 255. stream: as of copy_from."""
        value = number(value, "fill: value")
        if value > 255:
            raise invalid("fill", "%d is not a byte" % value)
        with Use("fill", self):
            offset, nbytes = self._range(offset, nbytes, "fill")
            check("fill", "buffer_fill", self._struct, offset, nbytes, value, stream_handle(stream))

    def zero(self, stream: Any = None) -> None:
        """Sets all bytes to zero. stream: as of copy_from."""
        with Use("zero", self):
            check("zero", "buffer_zero", self._struct, stream_handle(stream))

    def prefetch(self, device: int, offset: int = 0, nbytes: Optional[int] = None, stream: Any = None) -> None:
        """Moves pages of managed memory to a device, -1: to the host. Raises Error "INVALID" of other memory, "CUDA"
        where the device has no prefetch."""
        with Use("prefetch", self):
            offset, nbytes = self._range(offset, nbytes, "prefetch")
            check("prefetch", "buffer_prefetch", self._struct, offset, nbytes, _device(device), stream_handle(stream))

    def advise(self, advice: Advice, device: int = -1) -> None:
        """Advises the driver on all of managed memory, as cuMemAdvise. device: an ordinal, -1: the host."""
        if not isinstance(advice, Advice):
            raise TypeError("advise: advice is an Advice, not %s" % type(advice).__name__)
        with Use("advise", self):
            check("advise", "buffer_advise", self._struct, advice, _device(device))

    # ---- growing and shrinking ----

    def _movable(self, about: str) -> None:
        self._windows.check(about)
        if self._owned:
            raise BufferError("%s: the buffer was exported by DLPack, and keeps its memory" % about)

    def _moved(self, before: int) -> None:
        self._generation += self._struct.data != before

    def resize(self, nbytes: int, stream: Any = None) -> None:
        """Changes the length to nbytes bytes and keeps the data that fits. Beyond .capacity the data moves: .address
        changes, and views end. stream: whose work wrote the data; a move waits for it.

        Raises Error "NO_MEMORY" also beyond .limit, "INVALID" of a view beyond itself; BufferError while there is a
        memoryview, or after an export by DLPack.
        """
        nbytes = number(nbytes, "resize: nbytes", 1)
        with Use("resize", alone=self):
            self._movable("resize")
            before = self._struct.data
            try:
                check("resize(%d)" % nbytes, "buffer_resize", self._struct, nbytes, stream_handle(stream))
            finally:
                self._moved(before)

    def shrink(self, seconds: int = 0, stream: Any = None) -> None:
        """Frees memory beyond the length, if no function here has used the buffer for so many whole seconds. Kernels
        are not seen. stream, errors: as of resize."""
        seconds = number(seconds, "shrink: seconds")
        with Use("shrink", alone=self):
            self._movable("shrink")
            before = self._struct.data
            check("shrink", "buffer_shrink", self._struct, seconds, stream_handle(stream))
            self._moved(before)


def _known(address: int, nbytes: int, place: Place) -> None:
    """Raises Error "INVALID" for what is not CUDA's memory of the place, "INACTIVE" without CUDA."""
    result = calls.call("known", address, nbytes, place)
    about = "around: 0x%x, %d bytes" % (address, nbytes)
    if result == calls.INVALID:
        raise invalid(about, "this is not within one allocation of CUDA's %s memory" % place.name)
    if result != calls.OK:
        raise calls.error(result, about)


def _array_bytes(interface: Any) -> Tuple[int, int]:
    """Address and bytes of a __cuda_array_interface__. Raises Error "INVALID", BufferError."""
    try:
        count = int(interface["typestr"][2:])
        for extent in interface["shape"]:
            count *= number(extent, "around: shape")
        address, read_only = interface["data"]
    except (KeyError, TypeError, ValueError):
        raise invalid("around", "not a __cuda_array_interface__") from None
    if read_only or interface.get("strides") is not None:
        raise BufferError("around: the array is read-only or not contiguous")
    return number(address, "around: address", 1), number(count, "around: bytes", 1)


def make(context: Optional[int], nbytes: int, place: Place, **options: Any) -> Buffer:
    """A Buffer(nbytes, place, ...) in a CUDA context, by its handle; None: the thread's current one."""
    buffer = Buffer.__new__(Buffer)
    buffer._wanted_context = context
    Buffer.__init__(buffer, nbytes, place, **options)
    return buffer
