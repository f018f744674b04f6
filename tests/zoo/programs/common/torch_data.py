"""torch_data.py - tensors that come and go, for the programs beside this folder: how many came
back other than they went. No result depends on a kernel.
"""
import random
import threading

import torch

SIZES = (100, 5000, 70000, 400000, 3000000)


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
