"""dlpack.py - gpushim.buffer by DLPack, as a consumer in C sees it: the arguments of the protocol, both kinds of
capsule, a consumer that refuses, sizes, and tensors that outlive the interpreter. Its output is the same with the
library and without it.

It alone sees: a deleter or a destructor that runs Python's code (at the interpreter's end, with an exception set,
without the GIL), a context that ends before the memory or stays after it, an argument of __dlpack__ that is ignored, a
size or an element that wraps around.
"""
import ctypes
import gc
import sys
import threading

from gpushim.buffer import Buffer, MANAGED, PINNED


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


NAMES = {b"dltensor": (b"used_dltensor", Plain), b"dltensor_versioned": (b"used_dltensor_versioned", Versioned)}
python, libc = ctypes.pythonapi, ctypes.CDLL(None)
python.PyCapsule_GetName.restype = ctypes.c_char_p
python.PyCapsule_GetName.argtypes = [ctypes.py_object]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


def take(capsule):
    """As a consumer: the tensor is its own from here on."""
    name = python.PyCapsule_GetName(capsule)
    used, kind = NAMES[name]
    managed = kind.from_address(python.PyCapsule_GetPointer(capsule, name))
    python.PyCapsule_SetName(capsule, used)
    return managed


def delete(managed):
    """In a thread of its own, without the GIL."""
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
    thread = threading.Thread(target=deleter, args=(ctypes.addressof(managed),))
    thread.start()
    thread.join()


def told(function, *arguments, **named):
    try:
        function(*arguments, **named)
        return "accepted"
    except (BufferError, MemoryError, ValueError) as error:
        return type(error).__name__


# ---- both kinds of capsule ----

for version in (None, (0, 8), (1, 0), (7, 3)):
    buffer = Buffer((3, 5, 2), "<c16", PINNED)
    managed = take(buffer.__dlpack__(max_version=version))
    tensor = managed.tensor
    print(version, type(managed).__name__, getattr(managed, "major", 0), getattr(managed, "flags", 0),
          tensor.data == buffer.pointer, (tensor.kind, tensor.ordinal), tensor.shape[:3], tensor.strides[:3],
          (tensor.code, tensor.bits, tensor.lanes, tensor.offset))
    buffer.free()
    print("held:", buffer.pointer is not None)
    delete(managed)
    print("let go:", buffer.pointer is None)

# ---- the context: of device 1, which nothing else uses ----


def active():
    flags, state = ctypes.c_uint(), ctypes.c_int()
    assert ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(1, ctypes.byref(flags), ctypes.byref(state)) == 0
    return bool(state.value)


buffer = Buffer(8, device=1)
managed = take(buffer.__dlpack__())
buffer.free()
print("context, held:", active())
delete(managed)
print("context, let go:", active())
with Buffer(8, device=1):
    print("context, of a buffer:", active())
print("context, freed:", active())

# ---- the arguments ----

buffer = Buffer((8,), "<f4", PINNED)
managed_memory = Buffer((8,), "<f4", MANAGED)
device = Buffer((8,), "<f4")
print("copy:", [told(buffer.__dlpack__, copy=copy) for copy in (None, False, True)])
print("device:", [told(device.__dlpack__, dl_device=of) for of in (None, (2, 0), (2, 1), (1, 0), (3, 0))])
print("pinned:", [told(buffer.__dlpack__, dl_device=of) for of in ((3, 0), (1, 0), (2, 0))])
print("managed:", [told(managed_memory.__dlpack__, dl_device=of) for of in ((13, 0), (2, 0), (2, 1), (1, 0))])
managed = take(buffer.__dlpack__(dl_device=(1, 0)))
print("on the host:", (managed.tensor.kind, managed.tensor.ordinal))
delete(managed)
print("stream:", [told(device.__dlpack__, stream=of) for of in (None, -1, 1, 2, 1 << 40, 0, -2, "1")])

# ---- a consumer that refuses ----


def refuses(capsule_of, **named):
    capsule = capsule_of.__dlpack__(**named)  # it goes while the exception is set
    raise RuntimeError("unsupported device, as %s says" % type(capsule).__name__)


for version in (None, (1, 0)):
    refused = Buffer((8,), "<f4")
    try:
        refuses(refused, max_version=version)
    except RuntimeError as error:
        print("refused:", error)
    refused.free()
    print("let go:", refused.pointer is None)

# ---- sizes ----

print("too much:", [told(Buffer, shape, typestr) for shape, typestr in (
    ((2**62 + 1, 4), "|u1"), (2**63, "|u1"), (2**64 + 4, "|u1"), ((2**32, 2**32), "<f4"), (2**61, "<c8"))])
print("elements:", [told(Buffer, 4, typestr) for typestr in (
    "<i33", "<i3", "<f16", "<f1", "<c4", "|b2", "<u32", "<f4x", "<f\u00b2", 4, None)])
print("devices:", [told(Buffer, 4, device=of) for of in (2**32, -1, "0", None)])


class Number:
    def __index__(self):
        return 4


print("numbers:", Buffer((Number(), 2)).nbytes, told(Buffer, 2.0), told(Buffer, (2.0,)), told(Buffer, None))

# ---- past the end ----

for version in (None, (1, 0)):
    last = take(Buffer((8,), "<f4", PINNED).__dlpack__(max_version=version))
    libc.__cxa_atexit(ctypes.c_void_p(last.deleter), ctypes.c_void_p(ctypes.addressof(last)), None)


class Holder:
    pass


holder = Holder()
holder.itself, holder.capsule, holder.buffer = holder, Buffer(100).__dlpack__(), Buffer(100)
gc.disable()
sys.modules.pop("gpushim.buffer")
