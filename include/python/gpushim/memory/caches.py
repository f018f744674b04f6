"""Caches of buffers by key, and read-back through a cache of pinned memory."""
from __future__ import annotations

import asyncio
import ctypes
import threading
from typing import Any, Callable, Generator, Optional, Union

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer, Place, place_of
from gpushim.memory.calls import BufferStruct, CacheStruct, ReadbackStruct, Use, check, invalid, number, stream_handle
from gpushim.memory.host import Windows, window

Key = Union[bytes, str]


def _key(value: Any) -> bytes:
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        raise TypeError("key: bytes or str are needed, not %s" % type(value).__name__)
    if not value:
        raise invalid("key", "it is empty")
    return value


class Taken(Buffer):
    """A buffer of a cache. close(), the end of a `with`, or its last reference returns the buffer to the cache, under
    .key. It has no export by DLPack."""

    cache: "Cache"
    key: bytes

    def _release(self) -> None:
        self.cache._give(self, self.key)


class Cache(calls.Ending):
    """Buffers for reuse, by key: bytes or text that say what a buffer is for.

        cache = Cache(Place.DEVICE, most=4)
        with cache.take("sum:float32", 4096) as buffer: ...    # returned at the end

    most: idle buffers a key that it keeps, from 1. limit: bytes of all its buffers, taken or idle; 0: none. Any
    thread may call any method. Raises Error "INVALID", TypeError.
    """

    def __init__(self, place: Place = Place.DEVICE, most: int = 1, limit: int = 0) -> None:
        self._struct, self._windows = CacheStruct(), Windows()  # those of chunks that a callback has kept
        check("Cache", "cache_create", self._struct, place_of(place), number(most, "most", 1), number(limit, "limit"))

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return bool(self._struct.most == 0)

    @property
    def place(self) -> Place:
        """Where its memory is."""
        return Place(self._struct.place)

    @property
    def hits(self) -> int:
        """Takes that reused a buffer."""
        return int(self._struct.hits)

    @property
    def misses(self) -> int:
        """Takes that allocated."""
        return int(self._struct.misses)

    @property
    def held_bytes(self) -> int:
        """Bytes of its buffers, taken and idle."""
        return int(self._struct.held_bytes)

    @property
    def idle_count(self) -> int:
        """Idle buffers."""
        return int(self._struct.idle_count)

    @property
    def hit_rate(self) -> float:
        """The share of takes that reused a buffer, 0 to 1; 1 without any take."""
        rate: float = calls.functions()["cache_hit_rate"](self._struct)
        return rate

    def take(self, key: Key, nbytes: int) -> Taken:
        """A buffer of nbytes bytes with undefined contents: an idle one of the key that is large enough, or a new one.
        Raises Error: as of Buffer; "NO_MEMORY" also at the limit, "INVALID" also of a closed cache."""
        name, nbytes, struct = _key(key), number(nbytes, "nbytes", 1), BufferStruct()
        self._before_take()
        try:
            check("take(%d)" % nbytes, "cache_take", self._struct, name, len(name), nbytes, struct)
        except BaseException:
            self._after_give()
            raise
        taken = Taken._of(struct)
        taken.cache, taken.key = self, name
        self._after_take()
        return taken

    def give(self, buffer: Buffer, key: Optional[Key] = None) -> None:
        """Returns a buffer that take() gave, under its key or another one. Work that uses the memory must be complete,
        or ordered before that of the next take. Raises Error "INVALID" of a closed buffer, or one of another cache;
        BufferError while there is a memoryview."""
        if not isinstance(buffer, Taken) or buffer.cache is not self:
            raise invalid("give", "the buffer is not from this cache")
        buffer._live("give")
        buffer.key = buffer.key if key is None else _key(key)
        buffer.close()

    def _give(self, buffer: Buffer, key: bytes) -> None:
        check("give", "cache_give", self._struct, key, len(key), buffer._struct)
        self._after_give()

    def _before_take(self) -> None:
        """StagingPool: raises Error where the cap is reached."""

    def _after_take(self) -> None:
        """StagingPool: frees idle buffers beyond the cap."""

    def _after_give(self) -> None:
        """StagingPool: a buffer has returned, or was not taken."""

    def trim(self, seconds: int = 0) -> int:
        """Frees the buffers that have been idle for so many whole seconds. Returns their bytes."""
        freed = ctypes.c_size_t()
        self._windows.check("trim")
        check("trim", "cache_trim", self._struct, number(seconds, "seconds"), ctypes.byref(freed))
        return freed.value

    def close(self) -> None:
        """Frees its idle buffers; those taken are freed as they return, and take() raises Error "INVALID". Closed
        already: no effect."""
        self._windows.check("close")
        check("close", "cache_free", self._struct)


class StagingPool(Cache):
    """A cache of pinned memory with a cap on buffers of all sizes and keys together: `most`, taken or idle. limit: as
    of Cache. A take raises Error "NO_MEMORY" while `most` are taken; one that would exceed it with idle buffers of
    other sizes frees those. Read-backs and uploads through the pool count as takes."""

    def __init__(self, most: int = 16, limit: int = 0) -> None:
        super().__init__(Place.PINNED, most, limit)
        self._cap, self._taken = int(self._struct.most), 0
        self._lock = threading.RLock()  # a collection may return a buffer in the midst of a take

    @property
    def taken(self) -> int:
        """Buffers taken and not yet returned."""
        return self._taken

    def _before_take(self) -> None:
        with self._lock:
            if self._taken >= self._cap:
                raise calls.error(calls.NO_MEMORY, "take", "%d buffers are taken, the most" % self._taken)
            self._taken += 1

    def _after_take(self) -> None:
        if self._taken + self.idle_count > self._cap:
            self.trim()

    def _after_give(self) -> None:
        with self._lock:
            self._taken -= 1


# ---- read-back -------------------------------------------------------------------------


class Readback(calls.Held):
    """A read of a part of a buffer into pinned memory of a cache, under way after the stream's work.

        pool = StagingPool(most=4)
        with Readback(pool, buffer, stream=stream) as read:
            read.wait()
            use(read.memory())

    cache: of Place.PINNED; its limit caps the pinned memory, and its hit_rate is the reuse rate. offset, nbytes: of
    src in bytes, None: the rest. stream: a handle, 0: the legacy default stream, or a stream of a framework; None:
    complete on return. `await read` waits without blocking the loop, and yields the memoryview.

    close(), the end of a `with`, or the last reference waits, and returns the memory to the cache. src must not be
    closed before. Raises Error: as of Cache.take.
    """

    _struct: Optional[ReadbackStruct] = None

    def __init__(self, cache: Cache, src: Buffer, offset: int = 0, nbytes: Optional[int] = None,
                 stream: Any = None) -> None:
        if not isinstance(cache, Cache) or not isinstance(src, Buffer):
            raise TypeError("Readback: a Cache and a Buffer are needed")
        if cache.place != Place.PINNED:
            raise invalid("Readback", "the cache is of %s memory, not PINNED" % cache.place.name)
        self._cache, self._src, self._windows, struct = cache, src, Windows(), ReadbackStruct()
        handle = stream_handle(stream)
        with Use("Readback", src):
            begin, count = src._range(offset, nbytes, "Readback")
            cache._before_take()
            try:
                check("Readback", "readback_start", struct, cache._struct, src._struct, begin, count, handle)
            except BaseException:
                cache._after_give()
                raise
        self._struct = struct
        cache._after_take()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._struct is None or not self._struct.event

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "the read-back is closed")

    @property
    def nbytes(self) -> int:
        """Bytes that it reads; 0: closed."""
        return 0 if self._struct is None or self.closed else int(self._struct.data.bytes)

    def poll(self) -> bool:
        """Whether it is complete; does not wait. Raises Error "CUDA"."""
        ready = ctypes.c_int()
        with Use("poll", self):
            check("poll", "readback_poll", self._struct, ctypes.byref(ready))
        return bool(ready.value)

    def wait(self) -> None:
        """Waits until it is complete. Raises Error "CUDA"."""
        with Use("wait", self):
            check("wait", "readback_wait", self._struct)

    def memory(self, offset: int = 0, nbytes: Optional[int] = None) -> memoryview:
        """A read-only memoryview of bytes [offset, offset + nbytes) of the data. Raises Error "INVALID" until poll()
        or wait() has found it complete."""
        begin = number(offset, "memory: offset")
        count = self.nbytes - begin if nbytes is None else number(nbytes, "memory: nbytes")
        found = ctypes.c_void_p()
        with Use("memory", self):
            check("memory: %d bytes from %d" % (count, begin), "readback_range", self._struct, begin, max(count, 0),
                  ctypes.byref(found))
            return window(found.value or 0, count, self, self._windows).toreadonly()

    def __await__(self) -> Generator[Any, None, memoryview]:
        return self._completes().__await__()

    async def _completes(self) -> memoryview:
        while not self.poll():
            await asyncio.sleep(0.0005)
        return self.memory()

    def close(self) -> None:
        """Waits, and returns the memory to the cache. Closed already: no effect. Raises BufferError while there is a
        memoryview, Error "CUDA": it has ended, too."""
        if self.closed:
            return
        with Use("close", alone=self):
            self._windows.check("close")
            try:
                check("close", "readback_end", self._struct)
            finally:
                self._cache._after_give()


# ---- chunks ----------------------------------------------------------------------------


class Chunks:
    """The C callback of a transfer in chunks, around a function of Python whose exception ends the transfer."""

    def __init__(self, each: Callable[[Buffer], None]) -> None:
        self.problem: Optional[BaseException] = None
        self.call = calls.EachChunk(self._chunk)
        self._each = each
        self.offset = 0
        self.stream = 0

    def _chunk(self, _: Any, struct: Any, offset: int, stream: Optional[int]) -> int:
        chunk = _view(struct.contents)
        self.offset, self.stream = offset, stream or calls.LEGACY
        try:
            self._each(chunk)
            chunk._end_view()
        except BaseException as problem:  # pylint: disable=broad-except # raised by the caller
            self.problem = problem
            chunk._ended = True
            return calls.BUSY
        return calls.OK

    def done(self, about: str, result: int) -> None:
        """Raises what the function raised, or Error for the result."""
        problem, self.problem = self.problem, None
        if problem is not None:
            raise problem
        if result != calls.OK:
            raise calls.error(result, about)


def _view(struct: BufferStruct) -> Buffer:
    """A view of a chunk, which ends with the callback."""
    view = BufferStruct()
    check("chunk", "buffer_view", view, struct, 0, struct.bytes)
    return Buffer._of(view)


def read_back(cache: Cache, src: Buffer, each: Callable[[memoryview, int], Any], *, chunk_bytes: int,
              offset: int = 0, nbytes: Optional[int] = None, stream: Any = None) -> None:
    """Reads a part of a buffer in chunks: while each(data, offset) has one in pinned memory, the next is copied.

    data: a memoryview, until the function returns (copy what you keep); offset: of the chunk in the part, in bytes.
    cache: as of Readback, with room for two chunks, rounded up to powers of two. chunk_bytes: from 1. stream: one of
    its own, ordered after the work that writes src; None: the legacy default stream.

    Raises what `each` raises, after which no more is read; BufferError if it keeps a memoryview; Error as Readback.
    """
    if not isinstance(cache, Cache) or not isinstance(src, Buffer):
        raise TypeError("read_back: a Cache and a Buffer are needed")
    if not callable(each):
        raise TypeError("read_back: each is a function, not %s" % type(each).__name__)
    size, handle = number(chunk_bytes, "chunk_bytes", 1), stream_handle(stream)

    def one(chunk: Buffer) -> None:
        chunk._windows = cache._windows
        each(chunk.memory(), chunks.offset)

    chunks = Chunks(one)
    with Use("read_back", src):
        begin, count = src._range(offset, nbytes, "read_back")
        result = calls.call("read_back", cache._struct, src._struct, begin, count, size, handle, chunks.call, None)
    chunks.done("read_back", result)
