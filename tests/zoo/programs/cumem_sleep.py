"""cumem_sleep.py - the shape of vLLM's cumem allocator: memory by address ranges and handles of the driver, unmapped while it
sleeps and mapped again at the same address, beside PyTorch's own tensors.
"""
# zoo: prints awake True True
import ctypes

import torch

from common.driver import call

GRANULE = 2 << 20


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


ON_DEVICE = Location(1, 0)


class Sleeper:
    """Memory that keeps its address."""

    def __init__(self, size):
        self.size = (size + GRANULE - 1) // GRANULE * GRANULE
        self.pointer = ctypes.c_uint64()
        call("cuMemAddressReserve", ctypes.byref(self.pointer), ctypes.c_size_t(self.size), ctypes.c_size_t(0),
             ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.wake()

    def wake(self):
        properties = Properties(type=1, location=ON_DEVICE)
        self.handle = ctypes.c_uint64()
        call("cuMemCreate", ctypes.byref(self.handle), ctypes.c_size_t(self.size), ctypes.byref(properties),
             ctypes.c_uint64(0))
        call("cuMemMap", self.pointer, ctypes.c_size_t(self.size), ctypes.c_size_t(0), self.handle, ctypes.c_uint64(0))
        access = Access(ON_DEVICE, 3)
        call("cuMemSetAccess", self.pointer, ctypes.c_size_t(self.size), ctypes.byref(access), ctypes.c_size_t(1))

    def sleep(self):
        call("cuMemUnmap", self.pointer, ctypes.c_size_t(self.size))
        call("cuMemRelease", self.handle)

    def end(self):
        self.sleep()
        call("cuMemAddressFree", self.pointer, ctypes.c_size_t(self.size))

    def write(self, data):
        call("cuMemcpyHtoD_v2", self.pointer, data, ctypes.c_size_t(len(data)))

    def read(self, count):
        back = ctypes.create_string_buffer(count)
        call("cuMemcpyDtoH_v2", back, self.pointer, ctypes.c_size_t(count))
        return back.raw


normal = torch.arange(100000).cuda()
sleepers = [Sleeper(size) for size in (1 << 20, 40 << 20, 300 << 20)]
contents = [bytes((turn + place) % 251 for place in range(100000)) for turn in range(3)]
right = True
for turn in range(5):
    for sleeper, data in zip(sleepers, contents):
        sleeper.write(data)
    backup = [sleeper.read(100000) for sleeper in sleepers]
    for sleeper in sleepers:
        sleeper.sleep()
    other = torch.empty(500 << 20, dtype=torch.uint8, device="cuda")
    del other
    torch.cuda.empty_cache()
    for sleeper, data in zip(sleepers, backup):
        sleeper.wake()
        sleeper.write(data)
    right &= [sleeper.read(100000) for sleeper in sleepers] == contents
print("awake", right, int(normal.cpu().sum()) == 4999950000)
for sleeper in sleepers:
    sleeper.end()
