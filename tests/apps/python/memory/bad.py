"""bad.py - wrong arguments, closed objects and foreign pointers for every class of gpushim.memory: each is an exception
of Python, and all data is as before. Prints a line for each, the same with the library and without it.

It alone sees: a size that wraps around, a use of freed memory, a memoryview that outlives its memory, an exception of a
callback that is lost, a failure that leaks or moves a buffer, a copy whose end frees the memory of another object.
"""
import copy
import ctypes
import os
import pickle
import sys

from gpushim import memory
from gpushim.memory import (Advice, Batch, Bridge, Buffer, Buffers, BufferType, Cache, Copy, Error, Place, Readback, Ring,
                            StagingPool, Streams, Warming, copy_batch, copy_rows, defragment, upload)

BIG = 2**64


def told(name, *functions):
    found = []
    for function in functions:
        try:
            found.append(repr(function())[:30])
        except (AttributeError, BufferError, EOFError, IndexError, OSError, TypeError, ValueError, Error) as error:
            found.append(error.name if isinstance(error, Error) else type(error).__name__)
    print("%s:" % name, " ".join(map(str, found)))


class Wrong:
    """A stream that is none, an array that is none."""
    ptr = "7"
    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (64, False), "version": 3}


class Strided:
    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (64, False), "version": 3, "strides": (8,)}


told("sizes", *(lambda size=size: Buffer(size) for size in (0, -1, 2**63, BIG, BIG + 4096, 1.5, "4", None, True)))
told("places", *(lambda place=place: Buffer(4, place) for place in (4, -1, "device", None)))
told("too much", *(lambda place=place: Buffer(2**62, place) for place in Place))
told("alignment", *(lambda value=value: Buffer(4, alignment=value) for value in (3, -2, BIG, 2.0)))
told("growth", *(lambda value=value: Buffer(4, growth=value) for value in (0, 17, float("nan"), "2")))
told("in place", *(lambda place=place: Buffer(4, place, in_place=True).in_place for place in Place))
told("limit", lambda: Buffer(4, limit=-1), lambda: Buffer(10, limit=5), lambda: Buffer(4, limit=100).resize(101))

with Buffer(4) as one, Buffer(4) as other:
    with one.view(0, 2) as part:
        told("defragment", lambda: defragment([one, Buffer(4, Place.HOST)]), lambda: defragment([part]), lambda: defragment(7),
             lambda: defragment([one, "two"]), lambda: defragment([one], Wrong()), lambda: defragment([one, one, other]).before <= 1)
    other.close()
    told("defragment", lambda: defragment([one, other]), lambda: defragment([Buffer(4, Place.MANAGED)]))

# Sets of named buffers: a memoryview, a wrong name or a request that does not fit leaves all as it was.
told("types", *(lambda kind=kind: Buffers(0, {"a": kind}) for kind in (
    7, BufferType("device"), BufferType(growth=0.5), BufferType(growth="2"), BufferType(limit=-1), BufferType(idle_seconds=1.5),
    BufferType(alignment=3), BufferType(Place.HOST, in_place=True))), lambda: Buffers(-1), lambda: Buffers(default=None))
with Buffers(1000, {"pinned": BufferType(Place.PINNED, limit=600)}) as named:
    one = named.resize("one", 500, "pinned")
    one.put(b"kept")
    told("names", *(lambda name=name: named.resize(name, 1) for name in ("", "n" * 128, "a\0b", b"a", None)),
         lambda: named.drop("none"), lambda: named.empty("none"), lambda: named.find("none"), lambda: named.find(""))
    told("requests", *(lambda size=size: named.resize("two", size) for size in (0, -1, BIG, "4", 2**62, 501)),
         lambda: named.resize("two", 1, "none"), lambda: named.resize("one", 1, stream=Wrong()), lambda: one.resize(601))
    view = one.memory(0, 4)
    told("a memoryview", lambda: named.resize("one", 510), lambda: named.resize("two", 400), lambda: named.clean(True),
         lambda: named.empty("one"), lambda: named.drop("one"), lambda: one.close(), lambda: named.close(), lambda: bytes(view))
    view.release()
    told("a buffer of a set", lambda: one.__dlpack__(), lambda: one.resize(510), lambda: one.capacity, lambda: one.get(4),
         lambda: named.empty("one"), lambda: one.get(), lambda: one.close(), lambda: one.resize(1),
         lambda: named.resize("one", 750 - 250, None).address > 0, lambda: named.statistics.refused_count)
told("a closed set", lambda: named.resize("one", 1), lambda: named.statistics, lambda: named.clean(), lambda: named.close(),
     lambda: named.find("one"), lambda: named.closed, lambda: copy.copy(named))
data = bytes(range(100))
device, host, managed = Buffer(100), Buffer(100, Place.HOST), Buffer(100, Place.MANAGED)
device.put(data)
host.put(data)
for buffer in (device, host):
    told(
        "ranges", lambda: buffer.put(data, 1), lambda: buffer.put(data, -1), lambda: buffer.put(b"", 0),
        lambda: buffer.get(1, 100), lambda: buffer.get(BIG, 0), lambda: buffer.get(2, BIG - 1), lambda: buffer.get(-1),
        lambda: buffer.get(20, into=bytearray(10)), lambda: buffer.get(into=bytearray()),
        lambda: buffer.get_slot(4, 25), lambda: buffer.get_slot(BIG, 25), lambda: buffer.get_slot(0, 0),
        lambda: buffer.view(90, 11), lambda: buffer.view(100), lambda: buffer.view(0, 0),
        lambda: buffer.fill(256), lambda: buffer.fill(-1), lambda: buffer.fill(0, 50, 51))
    told("moves", lambda: buffer.resize(0), lambda: buffer.resize(-5), lambda: buffer.resize(2**62),
         lambda: buffer.view(10, 10).resize(11), lambda: buffer.view(10, 10).shrink(), lambda: buffer.shrink(-1))
    told("objects", lambda: buffer.put("text"), lambda: buffer.put(7), lambda: buffer.get(4, into=b"1234"),
         lambda: buffer.copy_from(data), lambda: buffer.copy_from(buffer), lambda: buffer.copy_from(None),
         lambda: buffer.put(memoryview(bytearray(20))[::2]))
    told("streams", *(lambda stream=stream: buffer.zero(stream) for stream in (-1, BIG, "0", 1.0, True, Wrong())))
    told("managed", lambda: buffer.prefetch(0), lambda: buffer.advise(Advice.PREFER), lambda: buffer.advise(3))
    assert buffer.get() == data
told("devices", lambda: managed.prefetch(-2), lambda: managed.prefetch("0"), lambda: managed.prefetch(BIG),
     lambda: memory.get_memory(-1), lambda: memory.get_memory(99), lambda: memory.get_visibility(BIG),
     lambda: memory.get_visibility("0"))
told("no address", lambda: device.memory(), lambda: host.device_address, lambda: host.__cuda_array_interface__,
     lambda: device.view().__dlpack__())

# ---- foreign pointers ----

around = bytearray(100)
inside = ctypes.addressof((ctypes.c_char * 100).from_buffer(around))
told("foreign", lambda: Buffer.around(inside, 100, Place.HOST), lambda: Buffer.around(inside, 100, Place.DEVICE),
     lambda: Buffer.around(64, 8, Place.MANAGED), lambda: Buffer.around(0, 8, Place.DEVICE),
     lambda: Buffer.around(device.address, 101, Place.PINNED), lambda: Buffer.around(device.address, BIG, Place.DEVICE),
     lambda: Buffer.around(device.address, 2**40, Place.DEVICE), lambda: Buffer.around(device.address, 100),
     lambda: Buffer.around(-1, 1, Place.DEVICE), lambda: Buffer.around(b"read only"), lambda: Buffer.around("text"),
     lambda: Buffer.around(Wrong()), lambda: Buffer.around(Strided()), lambda: Buffer.around(bytearray()))
told("batches", lambda: Batch([]), lambda: Batch([4, 0]), lambda: Batch([4, -1]), lambda: Batch([4, "4"]),
     lambda: Batch([2**62, 2**62, 2**62]), lambda: Batch(4), lambda: Batch([4])[1])
told("copies", lambda: Copy(device, data, 4), lambda: copy_batch([7]), lambda: copy_batch([]),
     lambda: copy_batch([Copy(host, device, 10), Copy(host, device, 101)]), lambda: Copy(host, device, -1),
     lambda: copy_rows(host, device, width=8, rows=20, dst_pitch=8, src_pitch=8),
     lambda: copy_rows(host, device, width=8, rows=2, dst_pitch=4, src_pitch=8),
     lambda: copy_rows(host, host, width=8, rows=2, dst_pitch=8, src_pitch=8),
     lambda: copy_rows(host, device, width=8, rows=-2, dst_pitch=8, src_pitch=8))

# ---- caches, read-back, rings ----

cache, pool = Cache(Place.DEVICE, 2, 1000), StagingPool(1)
taken = cache.take("key", 100)
told("caches", lambda: Cache(Place.DEVICE, 0), lambda: Cache(9), lambda: cache.take("", 4), lambda: cache.take(7, 4),
     lambda: cache.take("key", 0), lambda: cache.take("key", 901), lambda: cache.give(device), lambda: cache.give(None),
     lambda: Cache().give(taken), lambda: cache.trim(-1), lambda: cache.give(taken), lambda: cache.give(taken),
     taken.get, lambda: taken.__dlpack__())
held = pool.take("a", 10)
told("pools", lambda: pool.take("b", 10), lambda: Readback(pool, device), lambda: upload(device, b"1", pool=pool),
     held.close, lambda: pool.taken, lambda: upload(device, data + data, pool=pool), lambda: pool.taken,
     lambda: upload(device, b"1", pool=cache), lambda: upload(device, b"1", pool=pool, interval=-1))
told("read-back", lambda: Readback(cache, device), lambda: Readback(pool, device, 1, 100), lambda: Readback(pool, data),
     lambda: Readback(None, device))
read = Readback(pool, device, 10, 20)
told("read-back", lambda: read.memory(0, 21), lambda: read.memory(-1), lambda: read.memory(20), read.close, read.poll,
     read.wait, read.memory, read.close)
ring, streams = Ring(1, 10), Streams()
told("rings", lambda: Ring(0, 1), lambda: Ring(1, -1), lambda: Ring(2**62, 2**62), ring.pop, ring.next, ring.push,
     ring.push, ring.space)
told("streams", lambda: memory.stream_wait(None), lambda: memory.stream_after(0, None), lambda: memory.stream_wait(-1))
told("bridges", lambda: Bridge(0), lambda: Bridge(4, "sync"), lambda: Bridge(4, interval="1"),
     lambda: Bridge(4, device=-1), lambda: Bridge(4).flush_to_device(2, 3))
told("blocks", lambda: Warming(4), lambda: Warming("4K:1", -1), lambda: Warming("4\0K"))

# ---- memoryviews hold the memory ----

pinned, slot = Buffer(64, Place.PINNED), ring.next()
view, part, of_slot = pinned.memory(), pinned.view(8).memory(), slot.memory()
told("viewed", pinned.close, lambda: pinned.resize(1000), pinned.shrink, ring.close)
view[:] = bytes(64)
view.release()
told("viewed", pinned.close)
part.release()
of_slot.release()
kept = []
told("kept", lambda: memory.read_back(pool, device, lambda chunk, at: kept.append(chunk), chunk_bytes=50),
     pool.trim, pool.close, lambda: kept[0].release(), pool.trim)

# ---- closed ----

for one in (pinned, ring, streams, cache, held):
    one.close()
    one.close()
told("closed", lambda: pinned.put(b"1"), lambda: pinned.address, lambda: pinned.resize(4), pinned.view, pinned.memory,
     lambda: pinned.__dlpack__(), lambda: pinned.device_address, lambda: device.copy_from(pinned), slot.get, ring.space,
     ring.push, lambda: ring.pushed, lambda: streams.upload.handle, lambda: streams.upload.wait(),
     lambda: device.zero(streams.compute), lambda: cache.take("key", 4))
moved = Buffer(100)
before = moved.view(0, 10)
moved.resize(1000)
told("moved", before.get, before.close, lambda: moved.nbytes)

# ---- callbacks and files ----


class Stop(Exception):
    """What a callback raises."""


def stops(chunk, at, *unused):
    if at:
        raise Stop("at %d" % at)


with open("file", "wb") as file:
    file.write(bytes(10000))
roomy = StagingPool(4)
for function in (lambda: memory.read_file("file", stops, chunk_bytes=4096),
                 lambda: memory.read_back(roomy, moved, stops, chunk_bytes=300)):
    try:
        function()
    except Stop as stop:
        print("stopped:", stop)
told("copies", *(lambda way=way, one=one: way(one) for way in (copy.copy, copy.deepcopy, pickle.dumps)
                 for one in (device, device.view(0, 10), Cache(), roomy, Ring(2, 64), Streams(), Batch([5, 6]))))
chunks = []
told("files", lambda: memory.read_file("none", stops), lambda: memory.read_file(".", stops),
     lambda: memory.read_file("file", None), lambda: memory.read_file("file", stops, offset=-1),
     lambda: memory.read_file("file", stops, nbytes=0), lambda: memory.read_file("file", stops, chunk_bytes=0),
     lambda: memory.read_file("file", lambda chunk, *_: chunks.append(chunk)),
     lambda: memory.read_file("a\0b", stops), lambda: memory.load("none"), lambda: memory.load("file", device),
     lambda: memory.load("file", offset=10000), lambda: memory.load("file", nbytes=20000),
     lambda: memory.save(device, "no/such/folder"), lambda: memory.save(pinned, "saved"),
     lambda: memory.save(device, "saved", offset=101), lambda: os.listdir("."))
told("chunks", lambda: chunks[0].get())
try:
    memory.Buffer(2**50)
except Error as error:
    print("an error:", isinstance(error, MemoryError), error.name, error.code, error.cuda_name)
assert device.get() == data and sys.exc_info() == (None, None, None)
assert pool.taken == 0
