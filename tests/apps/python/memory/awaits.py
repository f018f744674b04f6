"""awaits.py - awaited allocations: the loop goes on meanwhile, a cancelled one leaves no memory, failures are at the
await, the context is the caller's. Prints the same with the library and without it.

It alone sees: an allocation in the loop's thread, memory of a cancelled future, a buffer of another device.
"""
import asyncio
import ctypes
import gc
import threading

from gpushim.memory import Buffer, Error, Place, Readback, StagingPool, allocate_async, calls, upload

functions = calls.functions()
begun, slow = threading.Event(), threading.Event()
made, ended, real = [], [], {name: functions[name] for name in ("create", "buffer_create")}


def waits(name):
    def call(struct, *arguments):
        made.append(threading.current_thread() is threading.main_thread())
        begun.set()
        slow.wait(30)
        try:
            return real[name](struct, *arguments)
        finally:
            ended.append(name)
    return call


async def ticks(while_running):
    count = 0
    while not while_running.done():
        count += 1
        if count == 20:
            slow.set()
        await asyncio.sleep(0.001)
    return count


async def blocked():
    Buffer(1).close()  # the context
    for name in real:
        functions[name] = waits(name)
    future = allocate_async(1 << 20)
    count = await ticks(future)
    with await future as buffer:
        print("the loop went on:", count >= 20, buffer.nbytes, "in its thread:", made)


async def cancelled():
    slow.clear()
    begun.clear()
    future = allocate_async(64 << 20)
    while not begun.is_set():
        await asyncio.sleep(0.001)
    future.cancel()
    try:
        await future
    except asyncio.CancelledError:
        print("cancelled:", future.cancelled())
    slow.set()
    waiting = allocate_async(64 << 20)
    waiting.cancel()  # before it has begun, or in its midst
    await asyncio.sleep(0.1)  # both calls end, if they have begun
    while len(ended) < len(made):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    gc.collect()
    print("nothing is left:", sum(isinstance(one, Buffer) and not one.closed for one in gc.get_objects()))


async def fails():
    slow.set()
    for arguments in ((0,), ("4",), (-1,), (1 << 62,), (4, 9)):
        try:
            await allocate_async(*arguments)
        except (Error, TypeError) as error:
            print("fails:", error.name if isinstance(error, Error) else type(error).__name__)
    for name, function in real.items():
        functions[name] = function


async def devices():
    driver, other = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1) == 0
    assert driver.cuCtxPushCurrent_v2(other) == 0
    try:
        future = allocate_async(4096)
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    with await future as there, await allocate_async(4096) as here:
        print("devices:", there.device, here.device)


async def reads(pool, buffer):
    with Readback(pool, buffer, 0, 5, stream=0) as read:
        return bytes(await read)


async def many():
    buffers = await asyncio.gather(*(allocate_async(4096, place) for place in Place for _ in range(10)))
    with StagingPool(40) as pool:
        await asyncio.gather(*(upload(buffer, b"%5d" % number, pool=pool)
                               for number, buffer in enumerate(buffers)))
        found = await asyncio.gather(*(reads(pool, buffer) for buffer in buffers))
        print("many:", found == [b"%5d" % number for number in range(40)], pool.taken)
    for buffer in buffers:
        buffer.close()


for test in (blocked, cancelled, fails, devices, many):
    asyncio.run(test())
try:
    allocate_async(10)
except RuntimeError as error:
    print("without a loop:", type(error).__name__)
