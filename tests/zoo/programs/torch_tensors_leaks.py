"""torch_tensors_leaks.py - PyTorch that asks gpushim for each tensor (gpushim.torch.use, also in
a script that gpushim --torch=tensors starts: PyTorch fails with two allocators): streams that
share tensors, threads, a training loop, no memory while the line marked HELD has all of it, and
tensors that are lost at lines marked LEAK. Without the library PyTorch's own cache serves.
"""
# zoo: prints one allocator: True
# zoo: prints churn: 0 wrong
# zoo: prints streams: 0 wrong
# zoo: prints threads: \[0, 0, 0, 0\] wrong
# zoo: prints refused: True True
# zoo: prints trained
# zoo: prints counted: True True True True True
import contextlib
import ctypes
import io
import os
import time

import torch
from torch.cuda import reset_peak_memory_stats

import gpushim.torch
from common.torch_data import churn, streams, threads

said = io.StringIO()
with contextlib.redirect_stderr(said):
    gpushim.torch.use()
print("one allocator:", ("changes nothing" in said.getvalue()) == ("ZOO_LAUNCHER" in os.environ))


def refused():
    kept = []
    try:
        while len(kept) < 100:
            kept.append(torch.empty(32 << 20, dtype=torch.uint8, device="cuda"))  # HELD
    except RuntimeError as error:
        return len(kept) > 8, "out of memory" in str(error)
    return False, len(kept)


def counted():
    """What training scripts ask PyTorch for, whoever allocates."""
    before = torch.cuda.memory_allocated()
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    more = torch.cuda.memory_allocated() - before == len(tensor)
    most = torch.cuda.max_memory_allocated() >= before + len(tensor)
    del tensor
    torch.cuda.synchronize()  # cudaMallocAsync's memory is in use until then
    reset_peak_memory_stats()
    least = torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
    asked = getattr(getattr(torch, "accelerator", None), "memory_allocated", torch.cuda.memory_allocated)
    return more, most, least, "allocated_bytes.all.current" in torch.cuda.memory_stats(), \
        "ZOO_LAUNCHER" in os.environ or asked() == torch.cuda.memory_allocated() > 0


def lose(tensor):
    """Nobody gives this one back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))


class Layer(torch.nn.Module):  # without cuBLAS, which needs a GPU
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, given):
        found = given * self.weight + self.bias
        if Layer.loses:
            lose(found.new_empty(2001))  # LEAK
            Layer.loses = False
        return found


def train():
    Layer.loses = True
    model = torch.nn.Sequential(Layer(64), torch.nn.ReLU(), Layer(64)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(20):
        with gpushim.scope("step"):
            loss = model(torch.empty(32, 64, device="cuda")).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    lose(torch.empty(2003, device="cuda"))  # LEAK


print("churn:", churn(1, 150), "wrong")
print("streams:", streams(), "wrong")
print("threads:", threads(), "wrong")
print("refused:", *refused())
torch.cuda.synchronize()
train()
torch.cuda.synchronize()
print("trained")
print("counted:", *counted())
time.sleep(0.5)  # PyTorch's engine drops the last graph: a thread that comes while Python ends aborts
