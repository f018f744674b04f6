"""typed.py - a program that mypy --strict accepts: every name of gpushim.memory, and gpushim beside it. typed_wrong.py
has a mistake in each line, and mypy finds each."""
import asyncio
from typing import List, Optional

import gpushim
import gpushim.torch
from gpushim.buffer import Buffer as TypedBuffer
from gpushim.memory import (Advice, Batch, Bridge, Buffer, Buffers, BuffersStatistics, BufferType, Cache, Copy, Error,
                            Memory, NamedBuffer, Place, Readback, Ring, StagingPool, Strategy, Stream, Streams, Taken,
                            Transfer, Visibility, Warming, allocate_async, copy_batch, copy_rows, enable_peers, get_memory,
                            get_visibility, load, read_back, read_file, save, stream_after, stream_wait, upload)


async def main() -> int:
    buffer: Buffer = await allocate_async(4096, Place.PINNED)
    other: Buffer = await gpushim.allocate_async(100)
    pool = StagingPool(2)
    await upload(buffer, b"data", pool=pool)
    data: memoryview = await Readback(pool, buffer)
    await Warming("4K:1")
    return buffer.nbytes + other.nbytes + len(data)


def moves(buffer: Buffer, cache: Cache) -> List[int]:
    sizes: List[int] = []
    read_back(cache, buffer, lambda data, at: sizes.append(len(data) + at), chunk_bytes=64)
    read_file("file", lambda chunk, at, stream: sizes.append(chunk.nbytes + at + stream))
    with cache.take("key", 10) as taken, load("file") as loaded, Batch([1, 2]) as batch:
        kept: Taken = taken
        sizes.append(save(kept, "file") + loaded.nbytes + len(batch))
    copy_rows(buffer, buffer, width=1, rows=1, dst_pitch=1, src_pitch=1)
    buffer.advise(Advice.PREFER, 0)
    return sizes + [copy_batch([Copy(buffer, buffer, 1)]), enable_peers()]


def named() -> int:
    with Buffers(1 << 20, {"node": BufferType(growth=2)}) as buffers:
        nodes: NamedBuffer = buffers.resize("positions", 100, "node")
        found: Optional[NamedBuffer] = buffers.find("positions")
        now: BuffersStatistics = buffers.statistics
        return nodes.nbytes + now.held_bytes + buffers.clean(all=True) + (found is None)


@gpushim.scope("scoped")
def scoped(name: str) -> int:
    with gpushim.scope(name) as block:
        totals: gpushim.ScopeTotals = block.statistics
    kept: gpushim.Scope = block
    return totals.peak_bytes + len(kept.path) + gpushim.scope_statistics(kept.path, 0).live_bytes


def device() -> Optional[Error]:
    memory: Memory = get_memory(0)
    visibility: Visibility = get_visibility()
    with Streams() as streams, Ring(2, 64) as ring, Bridge(64, Strategy.ASYNC, stream=streams.upload) as bridge:
        stream: Stream = streams.compute
        stream_after(stream, 0)
        stream_wait(stream)
        slot: Optional[Buffer] = ring.space()
        sent: Optional[Transfer] = bridge.flush_to_device()
        ring.push()
        try:
            print(memory.free, visibility.name, slot, sent)
        except Error as error:
            print(error.name, error.code)
            return error
    return None


with gpushim.scope("all"), gpushim.stretch() as found:
    print(asyncio.run(main()), moves(Buffer(4), Cache()), named(), device(), TypedBuffer((1, 2), "<f4").pointer)
print(found.statistics.allocs, gpushim.statistics().hit_rate, gpushim.torch.use(), gpushim.active())
