"""exits.py HOLDER [closed] - every kind of object of gpushim.memory is alive when the interpreter ends, or the process,
held by HOLDER: a global, a cycle, the sys module, builtins, a daemon thread that waits, one that calls all the time, a
function of atexit, a function of on_pressure, a forked child, or os._exit. "closed": closed once more by functions that run late. Ends with 0.

It alone sees: a free while the interpreter ends that crashes, blocks, or prints; a free under a thread's call.
"""
import atexit
import builtins
import ctypes
import gc
import os
import sys
import threading
import time

import gpushim
from gpushim import memory
from gpushim.memory import Batch, Bridge, Buffer, Buffers, Cache, Place, Readback, Ring, StagingPool, Strategy, Streams, upload


class Holder:
    """Holds whatever it is told."""


def objects():
    found = Holder()
    found.buffers = [Buffer(1000, place) for place in Place]
    found.view, found.batch = found.buffers[0].view(10, 10), Batch([10, 20])
    found.cache, found.pool, found.streams = Cache(), StagingPool(4), Streams()
    found.taken, found.staged = found.cache.take("key", 100), found.pool.take("key", 100)
    found.read = Readback(found.pool, found.buffers[0], stream=found.streams.download)
    found.target = Buffer(1000)
    found.sent = upload(found.target, b"sent", pool=found.pool, stream=found.streams.upload)
    found.set = Buffers()
    found.named = [found.set.resize("one", 50), Buffers().resize("alone", 50)]
    found.ring = Ring(2, 64)
    found.ring.push(found.streams.compute)
    found.bridges = [Bridge(100, strategy) for strategy in Strategy]
    found.flushes = [bridge.flush_to_device() for bridge in found.bridges]
    found.viewed = [found.buffers[2].memory(), found.ring.space().memory()]
    found.around = Buffer.around(bytearray(10))
    found.exported = Buffer(100, Place.PINNED).__dlpack__()
    try:
        found.warming = memory.Warming("4K:1")
    except memory.Error:
        pass
    return found


def every(found):
    for one in list(vars(found).values()):
        yield from one if isinstance(one, list) else [one]


def close(found):
    for one in list(every(found)) * 2:
        try:
            one.close()
        except (AttributeError, BufferError):
            pass


def calls_on(found, running):
    block = Buffer.around(bytearray(1 << 22))
    host = Buffer(1 << 22, Place.HOST)
    found.host = host
    running.set()
    while True:
        host.copy_from(block)
        found.buffers[0].put(b"1" * 1000)


how = sys.argv[1]
kept = objects()
if how == "cycle":
    kept.itself = kept
    for member in every(kept):
        if hasattr(member, "__dict__"):
            member.holder = kept
    gc.disable()
    del kept, member
elif how == "sys":
    sys.kept = kept
    del kept
elif how == "builtins":
    builtins.kept = kept
    del kept
elif how == "waits":
    threading.Thread(target=lambda found: time.sleep(1000), args=(kept,), daemon=True).start()
    del kept
elif how == "calls":
    running = threading.Event()
    threading.Thread(target=calls_on, args=(kept, running), daemon=True).start()
    running.wait()
elif how == "atexit":
    atexit.register(lambda found=kept: close(found))
    del kept
elif how == "pressure":
    gpushim.on_pressure(lambda device, level, found=kept: None)
    gpushim.on_pressure(lambda device, level: kept)
elif how == "fork":
    child = os.fork()
    if child == 0:
        for one in every(kept):
            try:
                one.close()
            except (AttributeError, BufferError, memory.Error):  # a child has no CUDA
                pass
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
elif how == "deleter":  # a consumer of DLPack that lets the memory go after Python's end and the library's
    python, tensor = ctypes.pythonapi, kept.exported
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = python.PyCapsule_GetPointer(tensor, b"dltensor")
    python.PyCapsule_SetName(ctypes.py_object(tensor), ctypes.c_char_p(b"used_dltensor"))
    deleter = ctypes.c_void_p.from_address(managed + 56).value  # after DLTensor and the context
    ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(managed), None)
    del kept, tensor
elif how == "_exit":
    os._exit(0)
else:
    assert how == "global", how
if len(sys.argv) > 2:
    class Late:
        """Closes what is there once the interpreter clears modules."""

        def __del__(self, found=vars().get("kept"), closes=close):
            if found is not None:
                closes(found)
    sys.modules["late"] = Late()
