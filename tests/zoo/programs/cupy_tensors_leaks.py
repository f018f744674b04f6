"""cupy_tensors_leaks.py - CuPy that asks gpushim for each array (gpushim.cupy.use): streams
that end before their arrays, threads, devices, blocks with another allocator, no memory, and
arrays that are lost at lines marked LEAK. Without the library CuPy's own pool serves.

The package contains NVIDIA's runtime, which needs a GPU; cupy_shared (run builds it from
CuPy's source) takes the runtime from a library.
"""
# zoo: prints churn: 0 wrong
# zoo: prints streams: 0 wrong
# zoo: prints threads: \[0, 0, 0, 0\] wrong
# zoo: prints handed over: 0 wrong
# zoo: prints every device: 0 wrong
# zoo: prints blocks: 0 wrong
# zoo: prints refused: True True
# zoo: prints lost
import queue
import sys
import threading

import cupy_shared  # pylint: disable=unused-import # before cupy
import cupy

import gpushim.cupy
from common.arrays import churn, lose, pattern, threads


def is_as_sent(array, data):
    return bool((array[:data.size].get() == data).all())


def filled(count, data):
    """An array of `count` that begins with the data; by copies, as kernels do nothing here."""
    array = cupy.empty(count, dtype=cupy.int32)
    array[:data.size].set(data)
    return array


def streams():
    """Arrays of streams that nobody refers to any more, and memory that goes round in a stream."""
    wrong, kept = 0, []
    for turn in range(40):
        with cupy.cuda.Stream(non_blocking=turn % 2 == 0) as stream:
            data = pattern(turn, 50000 + turn)
            array = filled(data.size, data)
            copied = cupy.empty_like(array)
            copied.data.copy_from_device_async(array.data, array.nbytes, stream)
            array.data.memset_async(255, array.nbytes, stream)
            del array
            again = cupy.empty_like(copied)
            again.data.memset_async(170, again.nbytes, stream)
        stream.synchronize()
        kept.append((copied, data))
        if len(kept) > 3:
            wrong += not is_as_sent(*kept.pop(0))
    return wrong


def handed_over():
    """Arrays that another thread frees than the one that allocated them."""
    wrong, items = [], queue.Queue(4)

    def take():
        while True:
            item = items.get()
            if item is None:
                return
            wrong.append(not is_as_sent(*item))
            del item

    taker = threading.Thread(target=take)
    taker.start()
    for turn in range(60):
        data = pattern(turn, 3000 + turn)
        array = filled(data.size, data)
        cupy.cuda.get_current_stream().synchronize()
        items.put((array, data))
        del array
    items.put(None)
    taker.join()
    return sum(wrong)


def every_device():
    """Arrays of one device that are freed while another one is current."""
    wrong, kept = 0, []
    for turn in range(20):
        with cupy.cuda.Device(turn % cupy.cuda.runtime.getDeviceCount()) as device:
            data = pattern(turn, 9000)
            array = filled(data.size, data)
            wrong += array.device != device
            kept.append((array, data))
        if len(kept) > 3:
            wrong += not is_as_sent(*kept.pop(0))
    return wrong


def blocks():
    """CuPy's pool and ours, one within the other; memory goes back to where it came from."""
    wrong = 0
    own = cupy.cuda.MemoryPool()
    for turn in range(10):
        data = pattern(turn, 20000)
        first = filled(data.size, data)
        with cupy.cuda.using_allocator(own.malloc):
            second = filled(data.size, data)
            with cupy.cuda.using_allocator(gpushim.cupy.malloc):
                third = filled(data.size, data)
                wrong += cupy.empty(0, dtype=cupy.int32).get().size
        wrong += sum(not is_as_sent(array, data) for array in (first, second, third))
        wrong += own.used_bytes() == 0
        del first, second, third
        wrong += own.used_bytes() != 0
    own.free_all_blocks()
    return wrong


def refused():
    try:
        cupy.empty(1 << 42, dtype=cupy.int8)
    except cupy.cuda.memory.OutOfMemoryError as error:
        message = "Out of memory allocating 4,398,046,511,104 bytes" in str(error)
    total = cupy.cuda.runtime.memGetInfo()[1]
    cycle = [cupy.empty(total // 2 + 4096, dtype=cupy.int8)]
    cycle.append(cycle)
    del cycle  # only the garbage collector sees that it is free
    return message, cupy.empty(total // 2 + 4096, dtype=cupy.int8).size > 0


def lose_in_stream():
    with cupy.cuda.Stream():
        lose(cupy.empty(2001, dtype=cupy.int32))  # LEAK


cupy.cuda.runtime.getDeviceCount()  # without a device it ends here, with either allocator
print("active:", gpushim.cupy.use() == bool(gpushim.version()))
print("churn:", churn(filled, is_as_sent, 1, 150), "wrong")
print("streams:", streams(), "wrong")
print("threads:", threads(filled, is_as_sent), "wrong")
print("handed over:", handed_over(), "wrong")
print("every device:", every_device(), "wrong")
print("blocks:", blocks(), "wrong")
print("refused:", *refused())
lose_in_stream()
lose(filled(2003, pattern(1, 2003)))  # LEAK
lose(cupy.asarray(pattern(2, 5005)))  # LEAK
at_exit = cupy.empty(7007)  # freed while the interpreter ends
sys.modules["kept_at_exit"] = [filled(7008, pattern(3, 100)), cupy.cuda.Stream()]
cupy.cuda.Device().synchronize()
print("lost")
