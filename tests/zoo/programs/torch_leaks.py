"""torch_leaks.py - tensors that are lost on purpose, each at a line marked LEAK, behind as
many layers of PyTorch as a program may put before its own. Without PyTorch's cache, so that
each tensor is an allocation.
"""
# zoo: prints lost
import ctypes
import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

data = torch.ones(1000, device="cuda")
free_at_end = []


def lose(tensor):
    """Nobody gives this one back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return tensor


class Layer(torch.nn.Module):
    def forward(self, given):
        lose(torch.empty(2001, device="cuda"))  # LEAK
        return given * 2


class Function(torch.autograd.Function):
    @staticmethod
    def forward(context, given):
        lose(given.clone())  # LEAK
        return given.view_as(given)

    @staticmethod
    def backward(context, slope):
        lose(slope.new_empty(2003))  # LEAK
        return slope


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        lose(torch.ops.aten.clone.default(data))  # LEAK
        return found


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        lose(torch.zeros(2005, device="cuda"))  # LEAK
        return super().__torch_function__(function, types, args, kwargs or {})


def deep(depth):
    if depth:
        return deep(depth - 1)
    return lose(torch.full((2006,), 1.0, device="cuda"))  # LEAK


def operators():
    lose(data + 1)  # LEAK
    lose(torch.cat([data, data]))  # LEAK
    lose(data.to(torch.float64))  # LEAK
    lose(torch.arange(1000.0).cuda())  # LEAK
    lose(torch.nn.functional.layer_norm(data, (1000,)))  # LEAK
    lose(torch.randn(2010, device="cuda"))  # LEAK
    lose(data.view(10, 100).t().contiguous())  # LEAK
    lose(torch.sort(data)[0])  # LEAK
    lose(data[data.new_zeros(10, dtype=torch.int64)])  # LEAK
    lose(torch.einsum("i,i->i", data, data))  # LEAK
    lose(torch.where(data > 0, data, data))  # LEAK
    lose(torch.nn.Parameter(data * 3))  # LEAK
    lose(torch.stack([data] * 4))  # LEAK
    lose(torch.nn.functional.embedding(data.new_zeros(5, dtype=torch.int64), data.view(10, 100)))  # LEAK
    lose(torch.softmax(data, 0))  # LEAK


def transformed(given):
    lose(torch.empty(2012, device="cuda"))  # LEAK
    return given * 2


def nested(given):
    """Each layer of transformation is a turn through the dispatcher."""
    lose(torch.nn.functional.layer_norm(given, given.shape[-1:]))  # LEAK
    return lose(torch.linalg.vector_norm(torch.nn.functional.gelu(given)))  # LEAK


def hooked(slope):
    lose(torch.empty(2013, device="cuda"))  # LEAK
    return slope


def checkpointed(given):
    if torch.is_grad_enabled() and not free_at_end:
        free_at_end.append(1)
        lose(torch.empty(2014, device="cuda"))  # LEAK
    return given.exp()


def in_thread():
    lose(torch.empty(2015, device="cuda"))  # LEAK


@torch.jit.script
def scripted(given):
    for _ in range(3):
        given = given.repeat(2)
    return given


def generated():
    yield lose(torch.empty_like(data))  # LEAK


def scattered():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        lose(torch.empty(2016, device="cuda"))  # LEAK


def main():
    Layer()(data)
    slope = torch.ones(1000, device="cuda", requires_grad=True)
    Function.apply(slope).sum().backward()
    with Dispatched():
        torch.neg(data)
    torch.abs(data.as_subclass(Subclass))
    deep(40)
    operators()
    torch.func.grad(lambda given: transformed(given).sum())(data)
    torch.func.vmap(transformed)(data.view(10, 100))
    layered = nested
    for _ in range(3):
        layered = torch.func.grad(layered) if layered is nested else torch.func.vmap(layered)
    torch.func.vjp(layered, data.view(10, 10, 10))
    again = torch.ones(1000, device="cuda", requires_grad=True)
    (again * 2).register_hook(hooked).remove()
    product = again * 2
    product.register_hook(hooked)
    product.sum().backward()
    checkpoint(checkpointed, again, use_reentrant=False).sum().backward()
    worker = threading.Thread(target=in_thread)
    worker.start()
    worker.join()
    lose(scripted(data))  # LEAK
    list(generated())
    scattered()
    torch.cuda.synchronize()
    print("lost")


main()
