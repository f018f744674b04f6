"""torch_dlpack.py - PyTorch's tensors over gpushim.buffer by DLPack: arguments that PyTorch passes,
consumers that refuse, and tensors that outlive the module and the interpreter: in reference
cycles and in other modules. Nothing else keeps gpushim.buffer, whose code is gone when they go.
"""
# zoo: prints same memory: True True True
# zoo: prints copy: (BufferError|not asked)
# zoo: prints refused: True 0 True 0
# zoo: prints elements: 0 wrong
# zoo: prints kept
import gc
import inspect
import sys

import numpy
import torch

from gpushim.buffer import Buffer, DEVICE, MANAGED, PINNED

torch.zeros(1, device="cuda")
data = numpy.arange(64, dtype=numpy.float32)


PLACES = (DEVICE, PINNED, MANAGED)
SEEN_AS = {PINNED: (1, 0), MANAGED: (2, 0)}  # PyTorch knows neither, but the CPU's memory and the GPU's


def taken(buffer):
    if buffer.place not in SEEN_AS:
        return torch.from_dlpack(buffer)
    return torch.from_dlpack(buffer.__dlpack__(dl_device=SEEN_AS[buffer.place]))


def tensor_of(place, count=64, typestr="<f4"):
    return taken(Buffer((count,), typestr, place))


def same_memory(place):
    with Buffer((64,), "<f4", place) as buffer:
        tensor = taken(buffer)
        tensor.copy_(torch.from_numpy(data))
        torch.cuda.synchronize()
        return tensor.data_ptr() == buffer.pointer and numpy.array_equal(tensor.cpu().numpy(), data)


def copied():
    """PyTorch hands copy=True on, from the version on that has the argument."""
    if not hasattr(torch.from_dlpack, "__wrapped__") and "copy" not in str(inspect.signature(torch.from_dlpack)):
        return "not asked"
    try:
        torch.from_dlpack(Buffer((64,), "<f4"), copy=True)
        return "shared"
    except BufferError:
        return "BufferError"


def refused(consumer, place):
    """NumPy cannot use a device's memory, PyTorch managed memory. The capsule goes while their error is set."""
    buffer = Buffer((64,), "<f4", place)
    try:
        consumer(buffer)
        said = False
    except (BufferError, RuntimeError) as error:
        said = "device" in str(error).lower()
    except SystemError as error:
        said = error
    held = buffer._exports
    buffer.free()
    return said, held


def elements():
    """Each kind of element that PyTorch has."""
    wrong = 0
    for typestr, kind in (("|u1", torch.uint8), ("|i1", torch.int8), ("<i2", torch.int16), ("<i4", torch.int32),
                          ("<i8", torch.int64), ("<f2", torch.float16), ("<f8", torch.float64),
                          ("<c8", torch.complex64)):
        wrong += tensor_of(PINNED, 9, typestr).dtype != kind
    return wrong


class Holder:
    pass


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(tensor_of(DEVICE))
        self.itself = [self]  # a cycle


print("same memory:", *map(same_memory, PLACES))
print("copy:", copied())
print("refused:", *refused(numpy.from_dlpack, DEVICE), *refused(torch.from_dlpack, MANAGED))
print("elements:", elements(), "wrong")
for _ in range(20):  # cycles that the collector ends while the program runs
    Network()
gc.collect()
gc.disable()
holder = Holder()
holder.itself, holder.tensors = holder, [tensor_of(place) for place in PLACES]
holder.views = [tensor[3:] for tensor in holder.tensors]
network = Network()
torch.kept_at_exit = [tensor_of(DEVICE), tensor_of(PINNED).view(8, 8)]
sys.modules["kept_at_exit"] = [tensor_of(DEVICE), torch.from_dlpack(tensor_of(DEVICE))]
torch.cuda.synchronize()
print("kept", flush=True)
for module in [name for name in sys.modules if name.startswith("gpushim")]:
    del sys.modules[module]
