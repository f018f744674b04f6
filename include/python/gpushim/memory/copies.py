"""Many copies with one wait, copies of rows, defragmentation, and batches of buffers."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from typing import Any, Iterable, Iterator, Sequence

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer, Place, ZEROED, place_of
from gpushim.memory.calls import BufferStruct, Use, check, invalid, number, stream_handle

# ---- many copies, rows -----------------------------------------------------------------


class Copy:
    """A copy for copy_batch: `nbytes` bytes from src_offset of src to dst_offset of dst."""

    def __init__(self, dst: Buffer, src: Buffer, nbytes: int, dst_offset: int = 0, src_offset: int = 0) -> None:
        if not isinstance(dst, Buffer) or not isinstance(src, Buffer):
            raise TypeError("Copy: dst and src are Buffers")
        self.dst, self.src, self.nbytes = dst, src, number(nbytes, "Copy: nbytes", 1)
        self.dst_offset, self.src_offset = number(dst_offset, "Copy: dst_offset"), number(src_offset, "src_offset")


def copy_batch(copies: Iterable[Copy], stream: Any = None) -> int:
    """Makes many copies with one wait at most; all are checked before the first. Returns their number.

    stream: as of Buffer.copy_from. Raises Error, of which "CUDA" says how many were queued before it.
    """
    wanted, handle, done = list(copies), stream_handle(stream), ctypes.c_size_t()
    if not all(isinstance(one, Copy) for one in wanted):
        raise TypeError("copy_batch: Copy objects are needed")
    if not wanted:
        return 0
    with Use("copy_batch", *(one.dst for one in wanted), *(one.src for one in wanted)):
        rows = (calls.CopyStruct * len(wanted))(*(
            calls.CopyStruct(ctypes.pointer(one.dst._struct), one.dst_offset, ctypes.pointer(one.src._struct),
                             one.src_offset, one.nbytes) for one in wanted))
        result = calls.call("copy_batch", rows, len(wanted), handle, ctypes.byref(done))
    if result != calls.OK:
        raise calls.error(result, "copy_batch, after %d of %d copies" % (done.value, len(wanted)))
    return done.value


def copy_rows(dst: Buffer, src: Buffer, *, width: int, rows: int, dst_pitch: int, src_pitch: int,
              dst_offset: int = 0, src_offset: int = 0, stream: Any = None) -> None:
    """Copies `rows` rows of `width` bytes, which begin dst_pitch and src_pitch bytes apart. stream: as of
    Buffer.copy_from. Raises Error "INVALID" also if rows overlap or leave a buffer, "CUDA" also for a pitch beyond
    the device's limit."""
    if not isinstance(dst, Buffer) or not isinstance(src, Buffer):
        raise TypeError("copy_rows: dst and src are Buffers")
    to, from_ = number(dst_offset, "dst_offset"), number(src_offset, "src_offset")
    pitches = number(dst_pitch, "dst_pitch", 1), number(src_pitch, "src_pitch", 1)
    shape = number(width, "width", 1), number(rows, "rows", 1)
    with Use("copy_rows", dst, src):
        check("copy_rows", "buffer_copy_rows", dst._struct, to, pitches[0], src._struct, from_, pitches[1], *shape,
              stream_handle(stream))


# ---- defragmentation -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Defragmented:
    """The answer of defragment (struct gpushim_defragmented). before and after: the share of the pool's free bytes
    outside the largest hole, 0 to 1."""
    moved_count: int = 0
    moved_bytes: int = 0
    returned_bytes: int = 0
    holes_before: int = 0
    hole_bytes_before: int = 0
    largest_hole_bytes_before: int = 0
    holes_after: int = 0
    hole_bytes_after: int = 0
    largest_hole_bytes_after: int = 0
    before: float = 0.0
    after: float = 0.0


def defragment(buffers: Iterable[Buffer] = (), stream: Any = None) -> Defragmented:
    """Moves buffers of device memory into holes of the pool, so that its free memory becomes one piece, or returns to
    the driver. The .address of one that moves changes, and its views end. Waits for all work of the context. stream: as
    of Buffer.resize. Without the library, and without its pool, nothing moves: all 0.

    Raises Error "INVALID" for other memory, views and several devices; BufferError while there is a memoryview, or
    after an export by DLPack.
    """
    wanted, handle, found = list(dict.fromkeys(buffers)), stream_handle(stream), calls.DefragmentedStruct()
    if not all(isinstance(one, Buffer) for one in wanted):
        raise TypeError("defragment: Buffers are needed")
    with contextlib.ExitStack() as held:
        for one in wanted:
            held.enter_context(Use("defragment", alone=one))
            one._movable("defragment")
        before = [one._struct.data for one in wanted]
        rows = (ctypes.POINTER(BufferStruct) * max(len(wanted), 1))(*(ctypes.pointer(one._struct) for one in wanted))
        result = calls.call("defragment", rows, len(wanted), handle, ctypes.byref(found))
        for one, place in zip(wanted, before):
            one._moved(place)
    if result not in (calls.OK, calls.INACTIVE, calls.OFF):
        raise calls.error(result, "defragment %d buffers" % len(wanted))
    return Defragmented(*(getattr(found, field.name) for field in dataclasses.fields(Defragmented)))


# ---- batches ---------------------------------------------------------------------------


class Batch(calls.Closing, Sequence[Buffer]):
    """Buffers of `sizes` bytes as neighbours in one allocation: all of them, or none.

        with Batch([4096, 100]) as (weights, bias): ...

    .block owns the memory, and its copy copies all; the items are views of it. alignment: of each, 0: 256. Errors,
    place, zeroed: as of Buffer.
    """

    def __init__(self, sizes: Iterable[int], place: Place = Place.DEVICE, *, alignment: int = 0,
                 zeroed: bool = False) -> None:
        wanted = [number(one, "Batch: a size", 1) for one in sizes]
        if not wanted:
            raise invalid("Batch", "no sizes")
        block, parts = BufferStruct(), (BufferStruct * len(wanted))()
        check("Batch of %d" % len(wanted), "batch_create", block, parts, (ctypes.c_size_t * len(wanted))(*wanted),
              len(wanted), place_of(place), number(alignment, "alignment"), ZEROED if zeroed else 0)
        self.block = Buffer._of(block)
        self._parts = [Buffer._of(BufferStruct.from_buffer_copy(one), self.block) for one in parts]

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._parts)

    @property
    def closed(self) -> bool:
        """Whether the memory is freed."""
        return self.block.closed

    def close(self) -> None:
        """Frees the memory of all. Errors: as of Buffer.close."""
        self.block.close()
