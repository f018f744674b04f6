"""torch.py - what gpushim.torch calls of PyTorch. A second allocator fails, as in PyTorch."""
import os
import types

calls = []


class CUDAPluggableAllocator:
    def __init__(self, path, malloc, free):
        assert (path, malloc, free) == (None, "gpushim_torch_malloc", "gpushim_torch_free")

    def allocator(self):
        return self

    def set_record_stream_fn(self, function):
        assert function
        calls.append("record")


def get_allocator_backend():
    if "change" in calls:
        return "pluggable"
    return "cudaMallocAsync" if "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") else "native"


def change_current_allocator(_):
    if get_allocator_backend() != "native":
        raise RuntimeError("Can't swap an already initialized allocator")
    calls.append("change")


_C = types.SimpleNamespace()
memory = types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator,
                               get_allocator_backend=get_allocator_backend,
                               change_current_allocator=change_current_allocator)
cuda = types.SimpleNamespace(memory=memory)
