"""torch_tensors_leaks.py - PyTorch that asks gpushim for each tensor (gpushim.torch.use):
streams that share tensors, threads, a training loop, no memory, and tensors that are lost
at lines marked LEAK. Without the library PyTorch's own cache serves.
"""
# real: needs torch
# real: way tensors
# real: prints churn: 0 wrong
# real: prints streams: 0 wrong
# real: prints threads: \[0, 0, 0, 0\] wrong
# real: prints refused: True
# real: prints trained
# real: stops driver on your system is too old|[Nn]o CUDA GPUs|no CUDA-capable device
import ctypes
import random
import threading
import time

import torch

import gpushim.torch

SIZES = (100, 5000, 70000, 400000, 3000000)
gpushim.torch.use()


def pattern(seed, count):
    return (torch.arange(count, dtype=torch.int64) * 7919 + seed).to(torch.int32)


def churn(seed, steps):
    """How many tensors came back other than they went."""
    chance, kept, wrong = random.Random(seed), [], 0
    for step in range(steps):
        count = chance.choice(SIZES) + step
        data = pattern(seed + step, min(count, 4000))
        there = torch.empty(count, dtype=torch.int32, device="cuda")
        there[:data.numel()].copy_(data)
        kept.append((there, data))
        if len(kept) > 6:
            there, data = kept.pop(chance.randrange(len(kept)))
            wrong += not torch.equal(there[:data.numel()].cpu(), data)
    return wrong


def streams():
    wrong = 0
    side = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(60):
        data = pattern(turn, 50000 + turn).pin_memory()
        with torch.cuda.stream(side[turn % 3]):
            there = torch.empty(data.numel(), dtype=torch.int32, device="cuda")
            there.copy_(data, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record()
        other = side[(turn + 1) % 3]
        other.wait_event(ready)
        with torch.cuda.stream(other):
            copied = torch.empty_like(there)
            copied.copy_(there, non_blocking=True)
            back = torch.empty(data.numel(), dtype=torch.int32, pin_memory=True)
            back.copy_(copied, non_blocking=True)
            there.record_stream(other)
        del there
        with torch.cuda.stream(side[turn % 3]):
            torch.empty(data.numel(), dtype=torch.int32, device="cuda").fill_(-1)
        other.synchronize()
        wrong += not torch.equal(back, data)
    return wrong


def threads():
    found = []
    workers = [threading.Thread(target=lambda seed=seed: found.append(churn(seed, 30))) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def refused():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        return "out of memory" in str(error)


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
print("refused:", refused())
train()
torch.cuda.synchronize()
print("trained")
time.sleep(0.5)  # PyTorch's engine drops the last graph: a thread that comes while Python ends aborts
