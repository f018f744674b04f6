"""rmm_use.py - buffers of RMM through gpushim.rmm: each has an owner, and no free waits."""
import ctypes
import sys

import rmm

import cuda
import gpushim.rmm


def loses(size):
    rmm.DeviceBuffer(size).ptr = 0  # and nobody frees it


early = rmm.DeviceBuffer(3000)
print("used:", gpushim.rmm.use() == bool(gpushim.version()))
del early  # by the resource it came from
stream = ctypes.c_void_p()
cuda.check(cuda.released.cudaStreamCreate(ctypes.byref(stream)))
with gpushim.stretch(0) as found:
    for _ in range(10):
        one = rmm.DeviceBuffer(100000, rmm.Stream(stream.value))
        del one
print("served:", not gpushim.active() or found.statistics.hits >= 9)
print("empty:", rmm.DeviceBuffer(0).size)
try:
    rmm.DeviceBuffer(1 << 60)
except (MemoryError, RuntimeError) as error:
    print("too much:", "memory" in str(error) or "CUDA error 2" in str(error))
cuda.check(cuda.released.cudaStreamDestroy(stream))
if "lose" in sys.argv:
    loses(5000)
