"""bitsandbytes_paged.py - optimizer states in managed memory, which bitsandbytes' own library allocates beside
PyTorch's blocks and never frees.
"""
# zoo: prints ^paged: 524800$
# zoo: prints ^states: 2 managed of 1024 KiB$
# zoo: prints ^steps: 3$
import bitsandbytes
import bitsandbytes.functional as functional
import torch


def fill_page():
    page = functional.get_paged(32, 32, dtype=torch.float32)  # LEAK
    page[:] = torch.arange(1, 1025, dtype=torch.float32).reshape(32, 32)
    functional.prefetch_tensor(page)
    torch.cuda.synchronize()
    print(f"paged: {int(page.sum())}")


def train(steps):
    layer = torch.nn.Linear(512, 512, bias=False, device="cuda")
    optimizer = bitsandbytes.optim.PagedAdam32bit(layer.parameters())
    for _ in range(steps):
        layer.weight.grad = torch.zeros_like(layer.weight)
        optimizer.step()  # LEAK
    torch.cuda.synchronize()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    managed = sum(getattr(value, "is_paged", False) for value in states)
    print(f"states: {managed} managed of {states[0].nbytes >> 10} KiB")
    print(f"steps: {steps}")


fill_page()
train(3)
