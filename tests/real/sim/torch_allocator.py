"""torch_allocator.py - tensors that come and go: many sizes, streams, page-locked memory,
threads, a full device. No result depends on a kernel.
"""
# real: needs torch
# real: way caching
# real: way uncached PYTORCH_NO_CUDA_MEMORY_CACHING=1
# real: way expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
# real: way async PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
# real: prints churn: 0 wrong
# real: prints streams: 0 wrong
# real: prints full: \[\([0-9]+, True\), \([0-9]+, True\)\]
# real: prints threads: \[0, 0, 0, 0\] wrong
# real: prints allocated at the end: 0
# real: stops driver on your system is too old|[Nn]o CUDA GPUs|no CUDA-capable device
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
    for turn in range(30):
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
        other.synchronize()
        wrong += not torch.equal(back, data)
    return wrong


def full():
    """Blocks of 250 MiB until there is no more, with 96 MiB to spare for what a stream or a
    red zone keeps; then the memory is there again."""
    found = []
    torch.cuda.synchronize()
    for _ in range(2):
        kept = []
        try:
            while len(kept) < 100:
                kept.append(torch.empty(250 << 20, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            found.append((len(kept), "memory" in str(error)))
        del kept
        torch.cuda.empty_cache()
    return found


def threads():
    found = []
    workers = [threading.Thread(target=lambda seed=seed: found.append(churn(seed, 30)))
               for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


print("churn:", churn(1, 150), "wrong")
print("streams:", streams(), "wrong")
print("full:", full())
print("threads:", threads(), "wrong")
torch.cuda.synchronize()
print("allocated at the end:", torch.cuda.memory_allocated())
