"""torch_allocator.py - tensors that come and go: many sizes, streams, page-locked memory,
threads, a full device. No result depends on a kernel.
"""
# zoo: prints churn: 0 wrong
# zoo: prints streams: 0 wrong
# zoo: prints full: \[\([0-9]+, True\), \([0-9]+, True\)\]
# zoo: prints threads: \[0, 0, 0, 0\] wrong
# zoo: prints allocated at the end: 0
import torch

from common.torch_data import churn, streams, threads


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
            found.append((len(kept), isinstance(error, torch.cuda.OutOfMemoryError) or "memory" in str(error)))
        del kept
        torch.cuda.empty_cache()
    return found


print("churn:", churn(1, 150), "wrong")
print("streams:", streams(), "wrong")
print("full:", full())
print("threads:", threads(), "wrong")
torch.cuda.synchronize()
print("allocated at the end:", torch.cuda.memory_allocated())
