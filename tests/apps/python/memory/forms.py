"""forms.py HEADER... - every function of gpushim_memory.h by its Python form, with the data checked. Prints what it
found, the same with the library and without it; ends with 1 where a header has a function that no form has called.

It alone sees: a function without a Python form, a form that calls another function, arguments in a wrong order.
"""
import asyncio
import os
import re
import sys

import gpushim
from gpushim.group import Group
from gpushim.memory import (Advice, Batch, Bridge, Buffer, Buffers, BufferType, Cache, Copy, Error, Place, Readback, Ring,
                            StagingPool, Strategy, Streams, Warming, allocate_async, calls, copy_batch, copy_rows, defragment,
                            enable_peers, get_memory, get_visibility, load, read_back, read_file, save, stream_after, stream_wait,
                            upload)

called = set()


def counted(name, function):
    def call(*arguments):
        called.add(name)
        return function(*arguments)
    return call


functions = calls.functions()
for one in calls.FUNCTIONS:
    functions[one] = counted(one, functions[one])


def pattern(count, begin=0):
    return bytes((begin + 7 * number) % 251 for number in range(count))


def buffers():
    for place in Place:
        with Buffer(1000, place, alignment=4096, zeroed=True, limit=5000) as buffer:
            assert buffer.address % 4096 == 0 and buffer.get() == bytes(1000), place
            buffer.put(pattern(500), 100)
            assert buffer.get(500, 100) == pattern(500) and buffer.get_slot(1, 100) == pattern(100), place
            buffer.resize(1200)
            assert (buffer.nbytes, buffer.capacity) == (1200, 1500), place
            assert buffer.get(500, 100) == pattern(500) and buffer.get(600, 600) == bytes(600), place
            buffer.shrink()
            assert buffer.capacity == 1200 and buffer.get(500, 100) == pattern(500), place
            buffer.fill(9, 0, 10)
            part = buffer.view(5, 10)
            assert part.is_view and part.get() == b"\x09" * 5 + bytes(5), place
            buffer.zero(0)
            stream_wait(0)
            assert buffer.get(into=bytearray(1200)) == bytes(1200), place
            print(place.name, buffer.device if place == Place.HOST else buffer.device_address != 0, repr(buffer)[:42])
        assert buffer.closed and buffer.nbytes == 0 and part.closed
    with Buffer(4096, Place.MANAGED) as managed:
        managed.advise(Advice.PREFER, 0)
        managed.prefetch(0)
        managed.prefetch(-1, 10, 100, stream=0)
        stream_wait(0)
    with Buffer(1000, in_place=True, zeroed=True, growth=2) as grows, grows.view(100, 100) as part:
        grows.put(pattern(1000))
        place = grows.address
        for size in (3 << 20, 5 << 20, 30 << 20):
            grows.resize(size)
        assert (grows.address, grows.capacity, part.get()) == (place, 30 << 20, pattern(1000)[100:200])
        assert grows.get(1000) == pattern(1000) and grows.get(nbytes=5, offset=(30 << 20) - 5) == bytes(5)
        grows.resize(1000)
        grows.shrink()
        print("in place:", grows.in_place, grows.address == place, grows.capacity >> 20, grows.get(3))
    host = bytearray(64)
    with Buffer.around(host) as around, Buffer(64) as device:
        around.put(b"around")
        device.copy_from(around)
        with Buffer.around(device.address, 64, Place.DEVICE) as foreign, Buffer.around(device) as same:
            print("around:", bytes(host[:6]), foreign.get(6), same.get(6))


def copies():
    with Buffer(256) as one, Buffer(256, Place.PINNED) as two, Buffer(256, Place.HOST) as three:
        two.put(pattern(256))
        print("batch:", copy_batch([Copy(one, two, 256), Copy(three, one, 200, 20, 10)]))
        assert three.get(200, 20) == pattern(256)[10:210]
        one.zero()
        copy_rows(one, two, width=8, rows=4, dst_pitch=16, src_pitch=32, dst_offset=3, src_offset=5)
        for row in range(4):
            assert one.get(8, 3 + 16 * row) == pattern(256)[5 + 32 * row:13 + 32 * row]
        assert sum(one.get()) == sum(sum(pattern(256)[5 + 32 * row:13 + 32 * row]) for row in range(4))
    with Batch([100, 5, 4096], alignment=512, zeroed=True) as (first, second, third):
        print("parts:", [part.nbytes for part in (first, second, third)], (second.address - first.address),
              third.get() == bytes(4096))


def holes():
    held = [Buffer(60000) for _ in range(12)]
    for number, one in enumerate(held):
        one.put(pattern(60000, number))
    part, stays = held[11].view(10, 10), held[1::2]
    for one in held[::2]:
        one.close()
    before = [one.address for one in stays]
    found = defragment(stays, 0)
    moved = sum(one.address != place for one, place in zip(stays, before))
    assert moved == found.moved_count and found.moved_bytes == 60000 * moved, found
    if gpushim.active():
        assert moved and found.after < found.before and found.holes_after < found.holes_before, found
    assert all(one.get() == pattern(60000, number) for number, one in enumerate(held) if number % 2)
    print("holes: the data stays;", part.closed or stays[5].address == before[5], defragment().moved_count)
    for one in stays:
        one.close()


def named():
    kinds = {"node": BufferType(growth=2, idle_seconds=3600), "label": BufferType(Place.PINNED, zeroed=True, limit=300),
             "page": BufferType(in_place=True)}
    with Buffers(10000, kinds, BufferType(Place.HOST, alignment=512)) as buffers:
        nodes = buffers.resize("positions", 1000, "node")
        nodes.put(pattern(1000))
        part = nodes.view(5, 10)
        assert buffers.resize("positions", 1001) is nodes and part.closed and nodes.capacity == 2000
        nodes.resize(900)
        labels, host = buffers.resize("labels", 10, "label"), buffers.resize("host", 4000)
        assert (labels.place, host.place, host.address % 512, bytes(labels.memory())) == (Place.PINNED, Place.HOST, 0, bytes(10))
        print("named:", buffers.find("positions") is nodes, buffers.find("velocities"), buffers.statistics)
        buffers.empty("host")
        nodes.resize(9000)
        assert host.closed and nodes.capacity == 9000 and nodes.get(900) == pattern(1000)[:900]
        nodes.resize(1000)
        print("cleaned:", buffers.clean(), buffers.clean(all=True), nodes.capacity, nodes.get(3))
        kept = buffers.resize("labels", 11)
        del labels, kept
        labels = buffers.find("labels")
        labels.close()
        print("dropped:", labels.closed, buffers.statistics.count, buffers.limit, nodes.nbytes)
        buffers.limit = 0
        grows = buffers.resize("grows", 1000, "page")
        address = grows.address
        assert buffers.resize("grows", 5 << 20).address == address
    print("closed:", buffers.closed, nodes.closed, grows.closed)


def caches():
    with Cache(Place.DEVICE, most=1, limit=10000) as cache:
        with cache.take("sum", 4096) as buffer:
            address = buffer.address
        with cache.take(b"sum", 1000) as buffer:
            assert (buffer.address == address, buffer.nbytes) == (True, 1000)
            cache.give(buffer, "other")
        print("cache:", cache.hits, cache.misses, cache.hit_rate, cache.idle_count, cache.held_bytes)
        print("trimmed:", cache.trim(), cache.held_bytes)
    with StagingPool(most=2) as pool:  # its cap counts all sizes
        idle = []
        for size in (1000, 2000, 3000):
            with pool.take(str(size), size):
                pass
            idle.append(pool.idle_count)
        print("idle:", idle, pool.held_bytes)
    with StagingPool(most=2) as pool, Buffer(100000, zeroed=True) as buffer:
        buffer.put(pattern(5000), 70000)
        with Readback(pool, buffer, 70000, 5000, stream=0) as read:
            while not read.poll():
                pass
            assert read.memory(10, 100) == pattern(5000)[10:110]
        with Readback(pool, buffer) as read:
            read.wait()
            assert bytes(read.memory()[70000:75000]) == pattern(5000)
        with upload(buffer, b"uploaded", 3, pool=pool, interval=0) as transfer:
            transfer.wait()
        print("upload:", buffer.get(8, 3), pool.taken, pool.hit_rate)
        with Streams() as streams:
            for turn in range(20):
                with upload(buffer, pattern(3000, turn), 3000 * turn, pool=pool, stream=streams.upload):
                    pass  # the end of the block waits: the next turn writes to the same staging memory
        assert buffer.get(60000) == b"".join(pattern(3000, turn) for turn in range(20))
        found = []
        read_back(pool, buffer, lambda data, at: found.append((at, bytes(data))), chunk_bytes=30000)
        print("chunks:", [(at, len(data)) for at, data in found])
        assert b"".join(data for _, data in found) == buffer.get()


def files():
    with open("data.bin", "wb") as file:
        file.write(pattern(30000))
    with load("data.bin", chunk_bytes=4096) as buffer, load("data.bin", offset=100, nbytes=50) as part:
        assert buffer.get() == pattern(30000) and part.get() == pattern(30000)[100:150]
        print("saved:", save(buffer, "saved.bin", chunk_bytes=7000), sorted(os.listdir(".")).count("saved.bin"))
        with open("saved.bin", "rb") as file:
            assert file.read() == pattern(30000)
        seen = []
        print("read:", read_file("data.bin", lambda chunk, at, stream: seen.append((at, chunk.nbytes)), offset=1,
                                 nbytes=9000, chunk_bytes=4096), seen)


def rings():
    with Ring(2, 100) as ring, Streams() as streams:
        while True:
            slot = ring.space()
            if slot is None:
                break
            slot.put(b"message %d" % ring.pushed)
            ring.push()
        print("ring:", ring.slots, ring.slot_bytes, ring.stride, ring.device_address != 0, ring.pushed)
        assert ring.next().get(9) == b"message 0"
        ring.pop()
        assert ring.next().get(9) == b"message 1"
        ring.pop(streams.compute)
        streams.upload.after(streams.compute)
        stream_after(streams.download, streams.upload)
        streams.download.wait()
        print("popped:", ring.popped, ring.next())
    for strategy in Strategy:
        with Bridge(5000, strategy) as bridge:
            bridge.host.put(pattern(5000))
            sent = bridge.flush_to_device()
            if sent is not None:
                sent.wait()
            assert bridge.device.get() == pattern(5000)
            if strategy != Strategy.UNIFIED:
                bridge.host.zero()
            sent = bridge.flush_to_host(100, 300)
            if sent is not None:
                sent.wait()
            assert bridge.host.get(300, 100) == pattern(5000)[100:400]
            print("bridge:", strategy.name, bridge.to_device, bridge.to_host)


async def ahead():
    with await allocate_async(5000, Place.PINNED, zeroed=True) as buffer, await gpushim.allocate_async(10) as other:
        print("awaited:", buffer.nbytes, other.nbytes)
        with StagingPool(2) as pool:
            await upload(buffer, b"ahead", pool=pool)
            with Readback(pool, buffer, 0, 5, stream=0) as read:
                print("awaited:", bytes(await read))
    try:
        with Warming("4K:2") as warming:
            await warming
        with Warming("4K:2") as warming:
            warming.wait()
    except Error as error:
        assert error.name in ("INACTIVE", "OFF"), error


def devices():
    memory = get_memory(0)
    assert 0 < memory.free <= memory.total
    print("device:", get_visibility(0).name, enable_peers())


buffers()
copies()
holes()
named()
caches()
files()
rings()
asyncio.run(ahead())
devices()
offered = set()
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as header:
        offered |= set(re.findall(r"^static inline [^;{(]*?\bgpushim_(\w*[a-z])\(", header.read(), re.M))
# gpushim.group.Group is written in Python, of gpushim.buffer's buffers (tests/apps/python/groups.py).
groups = {"group_create", "group_preallocate", "group_alloc", "group_alloc_typed", "group_get", "group_clear", "group_free"}
assert groups <= offered and {"preallocate", "allocate", "statistics", "free"} <= set(dir(Group)), dir(Group)
lacking = offered - called - groups
if not gpushim.active():
    lacking -= {"warming_poll", "warming_wait"}  # nothing to warm up
assert len(offered) > 45, offered
if lacking or called - offered:
    sys.exit("no Python form calls %s; not of the header: %s" % (sorted(lacking), sorted(called - offered)))
