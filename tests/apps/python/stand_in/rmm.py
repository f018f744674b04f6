"""rmm.py - stands in for RMM, whose runtime asks NVIDIA's driver for private tables: its resources and buffers as
far as gpushim.rmm knows them. The real one is for a machine with a GPU (tests/real/rmm_buffers.py).
"""
import types

import cuda


class Stream:
    def __init__(self, handle=0):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


class CudaMemoryResource:
    def allocate(self, size, stream):
        return cuda.malloc(size).value

    def deallocate(self, address, size, stream):
        cuda.free(cuda.ctypes.c_void_p(address))


class CallbackMemoryResource:
    def __init__(self, allocate_func, deallocate_func):
        self.allocate, self.deallocate = allocate_func, deallocate_func


resources = {}


class DeviceBuffer:
    def __init__(self, size, stream=Stream()):
        self.size, self.stream = size, stream
        self.resource = resources.get(0) or CudaMemoryResource()  # alive as long as its buffers
        self.ptr = self.resource.allocate(size, stream)

    def __del__(self):
        if getattr(self, "ptr", 0):
            self.resource.deallocate(self.ptr, self.size, self.stream)


mr = types.SimpleNamespace(CudaMemoryResource=CudaMemoryResource, CallbackMemoryResource=CallbackMemoryResource,
                           set_per_device_resource=resources.__setitem__)
