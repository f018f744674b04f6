"""PyTorch over gpushim's pool: every tensor is an allocation with an owner.

    import gpushim.torch
    gpushim.torch.use()     # before the first tensor on a GPU

PyTorch's own cache hands out parts of large blocks, and gpushim sees only the blocks. With
use() PyTorch allocates each tensor with gpushim and names the stream of each free, so memory is
reused in the order of the streams and nothing waits. The launcher does nearly the same without
any code: gpushim --torch=tensors python train.py (docs/api.md, "Frameworks").
"""
import ctypes
import functools
import sys
from typing import Any, List

import gpushim
from gpushim._modules import Modules


_since = {}  # by device: the Stretch since peaks were reset, and the statistics when counters were


def _memory_stats(index):
    """What torch.cuda.memory_stats, memory_allocated and their relatives are made from: PyTorch refuses them
    to a program with an allocator of its own. All of the process's memory of the device counts. Peaks are those
    since torch.cuda.reset_peak_memory_stats, but that of reserved memory, which is the whole run's. What gpushim
    does not count is missing: without a recorded allocation (GPUSHIM_TRACK=off), peaks and numbers. A call asks
    the driver for its free memory."""
    import torch

    if not 0 <= index < torch.cuda.device_count():
        raise RuntimeError(f"invalid device index {index}")
    now = gpushim.statistics(index)
    since, before = _since.get(index, (None, gpushim.Statistics()))
    counted, peak = now - before, since.statistics.peak_bytes if since else now.peak_bytes
    stats = {
        "allocated_bytes": {"all": {"current": now.used_bytes}},
        "active_bytes": {"all": {"current": now.used_bytes + now.pending_bytes}},
        "inactive_split_bytes": {"all": {"current": now.hole_bytes}},
        "reserved_bytes": {"all": {"current": now.reserved_bytes, "peak": now.reserved_peak_bytes}},
        "num_ooms": counted.failed,
        "num_device_alloc": counted.segments_mapped,
        "num_device_free": counted.segments_unmapped,
    }
    if now.allocs:
        stats["allocation"] = {
            "all": {"current": now.live_count, "allocated": counted.allocs, "freed": counted.frees}}
        stats["allocated_bytes"] = stats["requested_bytes"] = {"all": {"current": now.live_bytes, "peak": peak}}
    return stats


def _reset_peaks(index):
    since, before = _since.get(index, (None, gpushim.Statistics()))
    _since[index] = gpushim.Stretch(index), before
    if since:
        since.end()


def _reset_counters(index):
    since, _ = _since.get(index, (None, None))
    _since[index] = since, gpushim.statistics(index)


def _is_initialized():
    import torch

    return torch.cuda.is_initialized()


def _memory_summary(device=None, abbreviated=False):
    """torch.cuda.memory_summary, a line for each figure of memory_stats."""
    import torch

    return "\n".join(f"{name:34}{value:>18,}" for name, value in torch.cuda.memory_stats(device).items())


def _answer_memory_stats(torch):
    """The functions of torch.cuda and torch.accelerator call these by their names, however early a program has imported
    them. torch.accelerator's ask first whether PyTorch's own allocator has begun, which it never does."""
    for name, function in (("_cuda_memoryStats", _memory_stats), ("_cuda_resetPeakMemoryStats", _reset_peaks),
                           ("_cuda_resetAccumulatedMemoryStats", _reset_counters),
                           ("_accelerator_isAllocatorInitialized", _is_initialized),
                           ("_accelerator_getDeviceStats", _memory_stats),
                           ("_accelerator_resetPeakStats", _reset_peaks),
                           ("_accelerator_resetAccumulatedStats", _reset_counters)):
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
    torch.cuda.memory_summary = torch.cuda.memory.memory_summary = _memory_summary


@functools.lru_cache(maxsize=None)
def _allocator():
    """For ever: a MemPool of PyTorch 2.8 calls it without a reference."""
    import torch

    return torch.cuda.memory.CUDAPluggableAllocator(None, "gpushim_torch_malloc", "gpushim_torch_free")


_used: List[Any] = []  # PyTorch's allocator once use() has set it; PyTorch calls it until the process ends


def use() -> bool:
    """Makes PyTorch allocate through gpushim, and torch.cuda.memory_allocated and its relatives answer from
    gpushim. Returns False, with nothing changed, where the library is not in the process. Raises PyTorch's
    RuntimeError once it has allocated memory of its own.

    A second call changes nothing. Neither does a call where PyTorch asks CUDA for each tensor already
    (gpushim --torch=tensors, backend:cudaMallocAsync): PyTorch fails with two allocators, so a line says it."""
    import torch

    if not gpushim.version():
        return False
    if _used:
        return True
    backend = getattr(torch.cuda.memory, "get_allocator_backend", lambda: "")()
    if backend == "cudaMallocAsync":
        print("gpushim: gpushim.torch.use() changes nothing: PyTorch's allocator is cudaMallocAsync already, by "
              "gpushim --torch=tensors or PYTORCH_CUDA_ALLOC_CONF", file=sys.stderr)
        return True
    allocator = _allocator()
    record = ctypes.cast(ctypes.CDLL(None).gpushim_torch_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)
    torch.cuda.memory.change_current_allocator(allocator)
    _used.append(allocator)
    _answer_memory_stats(torch)
    return True


def modules(model: Any, name: str = "") -> Modules:
    """Makes each module of a model a scope, by PyTorch's hooks: what its forward() allocates belongs to it, and what
    its part of the backward pass allocates, to a scope "backward" in it. A scope is named as the attribute, in the
    scope of the module around: "Net/encoder/layers.0/backward". `name` is that of the model itself, by default the
    name of its class. Hooks end with remove(), or at the end of a `with`. No effect where the library is not in the
    process.

        with gpushim.torch.modules(model):
            model(batch).sum().backward()
        print(gpushim.scope_statistics("Net/encoder").peak_bytes)

    Gradients of parameters belong to the module whose gradient came last. Of a module that returns no tensor in a
    tuple, list or dict, only forward() has a scope."""
    return Modules(model, name or type(model).__name__)


def pool() -> Any:
    """A torch.cuda.MemPool (PyTorch 2.5 and later) whose blocks gpushim's pool serves, each with its line of Python
    in the report. PyTorch caches them for the tensors of

        with torch.cuda.use_mem_pool(gpushim.torch.pool()):
            ...

    Raises RuntimeError where the library is not in the process, or PyTorch is older."""
    import torch

    if not gpushim.version():
        raise RuntimeError("gpushim.torch.pool: libgpushim.so is not in the process: gpushim python ...")
    kind = getattr(torch.cuda, "MemPool", None)
    if kind is None:
        raise RuntimeError("gpushim.torch.pool: this version of PyTorch has no torch.cuda.MemPool")
    return kind(_allocator().allocator())
