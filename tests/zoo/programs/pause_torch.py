"""pause_torch.py FOLDER - PyTorch's tensors, one by one in gpushim's pool, while the process is
paused and resumed (gpushim pause): copies on the GPU and to the host until FOLDER/over is there.
"""
import os
import sys

import gpushim.torch
import torch

folder = sys.argv[1]
assert gpushim.torch.use()
host = [torch.arange(count) for count in (1000, 300_000, 5_000_000)]
kept = [tensor.cuda() for tensor in host]
wrong = rounds = 0
while not os.path.exists(f"{folder}/over"):
    for tensor, right in zip(kept, host):
        copy = torch.empty_like(tensor)
        copy.copy_(tensor)
        wrong += not torch.equal(copy.cpu(), right)
    rounds += 1
    if rounds == 3:
        with open(f"{folder}/number", "w") as file:
            file.write(str(os.getpid()))
print("wrong:", wrong)
