"""driver.py - the driver's functions by ctypes, for programs without any package."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        raise SystemExit(f"{name}: {code}")


def start():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


def allocate(size):
    pointer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer


def free(pointer):
    call("cuMemFree_v2", pointer)


def sent(data):
    """The bytes, to the device and back."""
    pointer, back = allocate(len(data)), ctypes.create_string_buffer(len(data))
    call("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
    call("cuMemcpyDtoH_v2", back, pointer, ctypes.c_size_t(len(data)))
    free(pointer)
    return back.raw
