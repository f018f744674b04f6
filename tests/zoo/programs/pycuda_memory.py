"""pycuda_memory.py - memory of PyCUDA's: plain, pooled, page-locked, managed, with streams."""
# zoo: prints plain: 0 wrong
# zoo: prints pooled: \(0, True\) wrong
# zoo: prints streams: 0 wrong
# zoo: prints too much
import numpy as np
import pycuda.driver as driver
from pycuda import tools

driver.init()
context = driver.Device(0).make_context()


def plain():
    wrong, kept = 0, []
    for turn in range(100):
        data = np.arange(turn * 331 + 1, dtype=np.int32) * turn
        there = driver.mem_alloc(data.nbytes)
        driver.memcpy_htod(there, data)
        kept.append((there, data))
        if len(kept) > 5:
            there, data = kept.pop(turn % 5)
            found = np.empty_like(data)
            driver.memcpy_dtoh(found, there)
            wrong += not (found == data).all()
            there.free()
    return wrong


def pooled():
    pool, wrong = tools.DeviceMemoryPool(), 0
    for turn in range(100):
        there = pool.allocate(1000 + 7919 * turn)
        driver.memset_d8(int(there), turn, 1000)
        found = np.empty(1000, dtype=np.uint8)
        driver.memcpy_dtoh(found, int(there))
        wrong += not (found == turn).all()
    held = pool.held_blocks > 0
    del there
    pool.stop_holding()
    return wrong, held


def streams():
    stream, wrong = driver.Stream(), 0
    for turn in range(30):
        source = driver.pagelocked_empty(5000 + turn, dtype=np.int32)
        target = driver.pagelocked_zeros(5000 + turn, dtype=np.int32)
        source[:] = turn
        there = driver.mem_alloc(source.nbytes)
        driver.memcpy_htod_async(there, source, stream)
        driver.memcpy_dtoh_async(target, there, stream)
        stream.synchronize()
        wrong += not (target == turn).all()
    managed = driver.managed_zeros(5000, dtype=np.int32,
                                   mem_flags=driver.mem_attach_flags.GLOBAL)
    managed[:] = 7
    return wrong + int(managed.sum() != 35000)


print("plain:", plain(), "wrong")
print("pooled:", pooled(), "wrong")
print("streams:", streams(), "wrong")
try:
    driver.mem_alloc(1 << 44)
except driver.MemoryError:
    print("too much")
context.pop()
context.detach()
