"""buffers.py - gpushim.buffer without any package: memory, what its interfaces say, wrong arguments. Its output is
the same with the library and without it.
"""
import ctypes
import gc

from gpushim.buffer import Buffer, CudaError

driver = ctypes.CDLL("libcuda.so.1")


def told(*arguments, **named):
    try:
        return Buffer(*arguments, **named).nbytes
    except (ValueError, MemoryError, CudaError) as error:
        return "%s: %s" % (type(error).__name__, error)


def pushed(function):
    context = ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    try:
        return function()
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))


def there_and_back(buffer, data):
    back = ctypes.create_string_buffer(len(data))

    def copies():
        assert driver.cuMemcpyHtoD_v2(ctypes.c_uint64(buffer.pointer), data, ctypes.c_size_t(len(data))) == 0
        assert driver.cuMemcpyDtoH_v2(back, ctypes.c_uint64(buffer.pointer), ctypes.c_size_t(len(data))) == 0
    pushed(copies)
    return back.raw == data


for place in ("device", "pinned", "managed"):
    with Buffer((3, 5), "<f4", place) as buffer:
        face = buffer.__cuda_array_interface__
        print(place, buffer.nbytes, face["shape"], face["typestr"], face["version"], face["data"][1],
              buffer.__dlpack_device__(), there_and_back(buffer, bytes(range(60))))
    buffer.free()
    try:
        print(buffer.__cuda_array_interface__)
    except ValueError as error:
        print("freed:", error)
with Buffer(100) as buffer:
    capsule = buffer.__dlpack__()
print("held:", buffer.pointer is not None)
try:
    print(buffer.__dlpack__())
except ValueError as error:
    print("freed:", error)
del capsule
print("let go:", buffer.pointer is None)
capsules = [Buffer(1000).__dlpack__() for _ in range(3)]
print("capsules:", all(type(capsule).__name__ == "PyCapsule" for capsule in capsules))
del capsules
kept = Buffer(5000)
kept.itself = kept  # a cycle
del kept
gc.collect()
print("bytes:", told(100), told((2, 3), "<c16"), told([4, 4], "|b1"))
print("no shape:", told(()), told(0), told((3, -1)), told("ab"))
print("no type:", told(1, "f4"), told(1, ">f4"), told(1, "<q8"), told(1, ""))
print("no place:", told(1, place="disk"))
print("no device:", told(1, device=1000))
print("too much:", told(1 << 44))
