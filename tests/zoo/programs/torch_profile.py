"""torch_profile.py - sizes a cache as vLLM does: a run of the model after a reset of the peaks, the device's free memory
less what the run needs, blocks of that many bytes, and the run once more beside them. With gpushim.torch.use().
"""
# zoo: prints peak: 64.0
# zoo: prints blocks: True
# zoo: prints beside: True
# zoo: prints full: True
import torch

import gpushim.torch

MIB = 1 << 20
BLOCK, SHARE = 2 * MIB, 0.9


class Layer(torch.nn.Module):  # without cuBLAS, which needs a GPU
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1024))

    def forward(self, given):
        return torch.nn.functional.gelu(given * self.weight)


@torch.inference_mode()
def run(model, rows):
    """Four tensors of `rows` times 4 KiB are live at once: the batch, and in a layer what it is given and two more."""
    model(torch.ones(rows, 1024, device="cuda"))
    torch.cuda.synchronize()


gpushim.torch.use()
torch.cuda.init()  # a driver that PyTorch refuses is told here
model = torch.nn.Sequential(*(Layer() for _ in range(4))).cuda()
junk = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")  # what loading took for a while
del junk
torch.cuda.synchronize()
torch.cuda.reset_peak_memory_stats()
weights = torch.cuda.memory_allocated()
run(model, 4096)
activations = torch.cuda.max_memory_allocated() - weights
print("peak:", activations / MIB)

free, total = torch.cuda.mem_get_info()
other = total - free - torch.cuda.memory_reserved()
blocks = int(total * SHARE - weights - activations - max(other, 0)) // BLOCK
print("blocks:", 100 < blocks < total // BLOCK)
cache = [torch.empty(BLOCK, dtype=torch.uint8, device="cuda") for _ in range(blocks)]
torch.cuda.reset_peak_memory_stats()
run(model, 4096)
print("beside:", torch.cuda.max_memory_allocated() <= total * SHARE)
try:
    run(model, 1 << 17)  # 512 MiB, which the cache has left to nobody
    print("full: it fits")
except RuntimeError as error:
    print("full:", "out of memory" in str(error))
