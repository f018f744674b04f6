"""torch_model_leaks.py - a model and four leaks that outlive Python: a list in a thread, a cache and a
closure that C++ still refers to, and memory by ctypes. PyTorch's own cache serves, and most tensors lie in
blocks that others made it take. With the argument `right` the same without the leaks.
"""
# zoo: prints trained
import ctypes
import sys
import threading
import time

import torch

planted = sys.argv[1:] != ["right"]
cache = {}
filled = threading.Event()


class Scale(torch.nn.Module):  # without cuBLAS, which needs a GPU
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, given):
        return torch.nn.functional.gelu(given * self.weight + self.bias)


def prefetch(size):
    batches = [torch.ones(size, 512, device="cuda") for _ in range(3)]
    filled.set()
    while batches:
        time.sleep(60)


def positions(length):
    if length not in cache:
        cache[length] = torch.arange(length * 4096, device="cuda")
    return cache[length].float()


def make_hook(scale):
    weights = torch.full((3 << 20,), scale, device="cuda")
    return lambda: weights


def staging(size):
    pointer = ctypes.c_void_p()
    ctypes.CDLL(None).cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer


def train():
    model = torch.nn.Sequential(*(Scale(512) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(4):
        batch = torch.ones(4096 + step, 512, device="cuda")
        loss = model(batch).mean() + positions(256 + step).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return make_hook(0.5)


hook = train()
if planted:
    threading.Thread(target=prefetch, args=(4096,), daemon=True).start()
    filled.wait()
    staging(3 << 20)
    for kept in (cache, hook):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
torch.cuda.synchronize()
print("trained")
time.sleep(0.5)  # PyTorch's engine drops the last graph: a thread that comes while Python ends aborts
