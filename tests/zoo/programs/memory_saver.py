"""memory_saver.py MODE - torch_memory_saver, by its preloaded library or as PyTorch's allocator: memory that is given away and comes back."""
# zoo: prints 2 .* True
# zoo: prints backup 41943040
import sys

import torch
from torch_memory_saver import torch_memory_saver as saver

saver.hook_mode = sys.argv[1]
normal = torch.arange(100000).to("cuda")
with saver.region(tag="weights", enable_cpu_backup=True):
    weights = [torch.arange(count).to("cuda") for count in (1000, 500000, 3000000)]
with saver.region(tag="cache"):
    cache = torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
want = [tensor.cpu().sum().item() for tensor in weights]
for turn in range(3):
    saver.pause("cache")
    saver.pause("weights")
    saver.resume("weights")
    saver.resume("cache")
    print(turn, "same", [tensor.cpu().sum().item() for tensor in weights] == want)
cache.copy_(torch.ones(40 << 20, dtype=torch.uint8))
print("backup", int(cache.cpu().sum()))
print(normal.cpu().sum().item())
