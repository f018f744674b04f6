"""PyTorch over gpushim's pool: every tensor is an allocation with an owner.

    import gpushim.torch
    gpushim.torch.use()     # before the first tensor on a GPU

PyTorch's own cache hands out parts of large blocks, and gpushim sees the blocks alone. With
use() PyTorch asks gpushim for each tensor and says the stream of each free, so memory is
reused in the order of the streams and nothing waits. Without any code the launcher does
nearly the same: gpushim --torch=tensors python train.py (docs/api.md, "Frameworks").
"""
import ctypes

import gpushim


def use():
    """Makes PyTorch allocate through gpushim. Returns False, with nothing changed, where the library is not in
    the process. Raises PyTorch's RuntimeError once it has allocated memory of its own."""
    import torch

    if not gpushim.version():
        return False
    allocator = torch.cuda.memory.CUDAPluggableAllocator(None, "gpushim_torch_malloc", "gpushim_torch_free")
    record = ctypes.cast(ctypes.CDLL(None).gpushim_torch_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)
    torch.cuda.memory.change_current_allocator(allocator)
    return True
