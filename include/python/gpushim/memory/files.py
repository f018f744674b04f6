"""Files through the device, in chunks."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Optional, Union

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer, Place
from gpushim.memory.caches import Cache, Chunks, read_back
from gpushim.memory.calls import invalid, number, stream_handle

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_CHUNK = 8 << 20


def read_file(path: Path, each: Callable[[Buffer, int, int], Any], *, offset: int = 0, nbytes: Optional[int] = None,
              chunk_bytes: int = _CHUNK, stream: Any = None) -> int:
    """Streams bytes [offset, offset + nbytes) of a file, None: to its end, through the device, larger than its memory
    if need be. Returns the bytes whose call has returned; fewer than nbytes where the file is shorter.

    Calls each(chunk, offset, stream) for each chunk, in order: chunk, a view of device memory, is for the work that
    the function queues in `stream` (a handle); offset: of the chunk in the file. While the stream works, the next chunk
    is read, past the page cache where the file system can and `offset` is a multiple of 4096. chunk_bytes: of device
    memory and of half of the pinned memory, rounded up to 4096. Returns when the stream's work is complete.

    Raises OSError for a file that cannot be opened or read, what `each` raises, and Error as of Buffer.
    """
    if not callable(each):
        raise TypeError("read_file: each is a function, not %s" % type(each).__name__)
    name, begin = os.fsencode(path), number(offset, "offset")
    count = (1 << 64) - 1 if nbytes is None else number(nbytes, "nbytes", 1)
    size = number(chunk_bytes, "chunk_bytes", 1)
    handle, done = stream_handle(stream), ctypes.c_uint64()
    if b"\0" in name:
        raise invalid("read_file", "the path has a NUL")
    chunks = Chunks(lambda chunk: each(chunk, chunks.offset, chunks.stream))
    ctypes.set_errno(0)
    result = calls.call("read_file", name, begin, count, size, handle, chunks.call, None, ctypes.byref(done))
    if result == calls.NOT_FOUND and chunks.problem is None:
        number_of_error = ctypes.get_errno()
        raise OSError(number_of_error, os.strerror(number_of_error), os.fsdecode(name))
    chunks.done("read_file", result)
    return done.value


def load(path: Path, into: Optional[Buffer] = None, *, offset: int = 0, nbytes: Optional[int] = None,
         place: Place = Place.DEVICE, chunk_bytes: int = _CHUNK) -> Buffer:
    """Reads bytes [offset, offset + nbytes) of a file, None: to its end, into a buffer: `into`, from its beginning, or
    a new one of a place. Returns the buffer; complete on return. Raises OSError, EOFError where the file is shorter,
    Error "INVALID" also for an empty part or one that does not fit, and as read_file."""
    begin = number(offset, "offset")
    count = os.stat(path).st_size - begin if nbytes is None else number(nbytes, "nbytes", 1)
    if count <= 0:
        raise invalid("load", "there are no bytes from %d on" % begin)
    if into is not None and (not isinstance(into, Buffer) or into.nbytes < count):
        raise invalid("load", "into is not a buffer of %d bytes" % count)
    buffer = Buffer(count, place) if into is None else into

    def one(chunk: Buffer, at: int, _: int) -> None:
        # Complete at once: memory of the host is not in the order of the stream.
        buffer.copy_from(chunk, chunk.nbytes, offset=at - begin)

    try:
        got = read_file(path, one, offset=begin, nbytes=count, chunk_bytes=chunk_bytes)
        if got < count:
            raise EOFError("load: %s has %d of %d bytes from %d on" % (os.fsdecode(path), got, count, begin))
    except BaseException:
        if into is None:
            buffer.close()
        raise
    return buffer


def save(buffer: Buffer, path: Path, *, offset: int = 0, nbytes: Optional[int] = None, chunk_bytes: int = _CHUNK,
         cache: Optional[Cache] = None) -> int:
    """Writes bytes [offset, offset + nbytes) of a buffer, None: the rest, to a file, which is replaced as a whole once
    all is written. Returns the bytes. Work that writes the buffer must be complete or in the legacy default stream.
    cache: of pinned memory, None: one for the call. Raises OSError, and Error as read_back."""
    name = os.fsencode(path)
    part = b"%s.%s" % (name, os.urandom(4).hex().encode())
    own = Cache(Place.PINNED, 2) if cache is None else cache
    try:
        with open(part, "xb") as file:
            read_back(own, buffer, lambda data, _: file.write(data), chunk_bytes=chunk_bytes, offset=offset,
                      nbytes=nbytes)
            written = file.tell()
        os.replace(part, name)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
    finally:
        if cache is None:
            own.close()
    return written
