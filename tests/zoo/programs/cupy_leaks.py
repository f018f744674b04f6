"""cupy_leaks.py - memory of CuPy's past its pool that outlives Python, at lines marked LEAK: arrays without the
pool, memory by CuPy's own calls, and pinned and managed memory.
"""
# zoo: prints lost
import ctypes

import cupy_shared  # pylint: disable=unused-import # before cupy
import cupy


def lose(kept):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class Encoder:
    def __init__(self, width):
        self.weights = cupy.empty((width, width), dtype=cupy.float32)  # LEAK


def load_batch(count):
    return [cupy.empty(count, dtype=cupy.int32) for _ in range(3)]  # LEAK


def main():
    cupy.cuda.set_allocator(None)
    lose(Encoder(1024))
    lose(load_batch(1 << 18))
    cupy.cuda.runtime.malloc(3 << 20)  # LEAK
    lose(cupy.cuda.malloc_managed(2 << 20))  # LEAK
    cupy.cuda.runtime.hostAlloc(1 << 20, 0)  # LEAK
    cupy.zeros(1000)
    print("lost")


main()
