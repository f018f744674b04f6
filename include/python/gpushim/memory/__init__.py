"""Owned memory and its movement: gpushim_memory.h for Python.

    from gpushim.memory import Buffer, Cache, Place

    with Buffer(4096, zeroed=True) as buffer:        # device memory, freed at the end
        buffer.put(b"weights", offset=16)
        buffer.resize(8192)                          # keeps the data
        data = buffer.get(7, 16)

It works with and without libgpushim.so, with the same results but for Warming and defragment, and has its C functions
in libgpushim-python.so: in the wheel, beside libgpushim.so, or in LD_LIBRARY_PATH. Sizes and offsets are in bytes.
`stream`: None: complete on return; 0: the legacy default stream; a handle, or a stream of a framework. Every failure is
an Error with the .name of gpushim_result, and the driver's code. Objects are context managers, and end with their last
reference.

The manual is docs/api.md; gpushim_memory.h says more of each function.
"""
from gpushim.memory.ahead import Warming, allocate_async
from gpushim.memory.buffers import Advice, Buffer, Place
from gpushim.memory.caches import Cache, Readback, StagingPool, Taken, read_back
from gpushim.memory.calls import Error
from gpushim.memory.copies import Batch, Copy, Defragmented, copy_batch, copy_rows, defragment
from gpushim.memory.devices import (Memory, Stream, Streams, Visibility, enable_peers, get_memory, get_visibility,
                                    stream_after, stream_wait)
from gpushim.memory.files import load, read_file, save
from gpushim.memory.named import Buffers, BuffersStatistics, BufferType, NamedBuffer
from gpushim.memory.rings import Ring
from gpushim.memory.transfers import Bridge, Strategy, Transfer, upload

__all__ = ["Advice", "Batch", "Bridge", "Buffer", "BufferType", "Buffers", "BuffersStatistics", "Cache", "Copy",
           "Defragmented", "Error", "Memory", "NamedBuffer", "Place", "Readback", "Ring", "StagingPool", "Strategy", "Stream",
           "Streams", "Taken", "Transfer", "Visibility", "Warming", "allocate_async", "copy_batch", "copy_rows", "defragment",
           "enable_peers", "get_memory", "get_visibility", "load", "read_back", "read_file", "save", "stream_after",
           "stream_wait", "upload"]
