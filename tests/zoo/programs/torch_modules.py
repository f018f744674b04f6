"""torch_modules.py - gpushim.torch.modules over real models: each module's forward and backward pass has a scope whose
allocations are those that PyTorch counts; calls that fail leave none. And gpushim.torch.pool, where PyTorch has it.
"""
# zoo: prints forward: 0 wrong
# zoo: prints backward: 0 wrong
# zoo: prints failed: 0 wrong
# zoo: prints pool: 0 wrong
import gc

import torch

import gpushim
import gpushim.torch

MIB = 1 << 20
WIDTH, ROWS = 512, 4096  # a float32 tensor of 8 MiB


class Scale(torch.nn.Module):  # without cuBLAS, which needs a GPU
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, given):
        return torch.nn.functional.gelu(given * self.weight)


class Wide(torch.nn.Module):
    fails = False

    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(Scale(), Scale()) for _ in range(2))

    def forward(self, given):
        given = self.first(given)
        for layer in self.layers:
            given = layer(given)
            if self.fails:
                raise ValueError("planted")
        return given


def totals(path):
    """The allocations of a scope, in tensors of 8 MiB."""
    try:
        return gpushim.scope_statistics(path).alloc_bytes // (8 * MIB)
    except KeyError:
        return -1


def wrong(wanted):
    """Natively there is nothing to compare."""
    if not gpushim.active():
        return 0
    found = {path: totals(path) for path in wanted}
    if found == wanted:
        return 0
    print({path: (found[path], wanted[path]) for path in wanted if found[path] != wanted[path]})
    return 1


def batch():
    return torch.ones(ROWS, WIDTH, device="cuda")


torch.cuda.init()  # a driver that PyTorch refuses is told here
model, left = Wide().cuda(), batch()
with gpushim.torch.modules(model):
    output = model(left)
    print("forward: %d wrong" % wrong({  # a product and an activation for each module of weights
        "Wide": 10, "Wide/first": 2, "Wide/layers.0": 4, "Wide/layers.0/0": 2, "Wide/layers.0/1": 2,
        "Wide/layers.1": 4}))
    output.backward(left)
    least = gpushim.active() and totals("Wide/layers.1/1/backward") < 2
    print("backward: %d wrong" % (least + wrong({  # not in the module around, and in each one that is within
        "Wide/backward": -1, "Wide/layers.0/backward": -1, "Wide/first/backward": totals("Wide/first/backward") or 1,
        "Wide/layers.0/0/backward": totals("Wide/layers.0/1/backward")})))
    back = gpushim.active() and totals("Wide/first/backward")
    model.fails = True
    for _ in range(40):
        try:
            model(left)
        except ValueError:
            pass
    model.fails = False
    model(left)
    kept = batch()
    print("failed: %d wrong" % wrong({"Wide/Wide": -1, "Wide/layers.0/Wide": -1, "Wide/first": 2 * (1 + 41) + back}))
del output, left, kept

bad = 0
if hasattr(torch.cuda, "MemPool") and gpushim.active():
    pool = gpushim.torch.pool()
    with torch.cuda.use_mem_pool(pool):
        kept = batch()
    calls = [each.stack for each in gpushim.allocations() if "torch_modules" in str(each.stack)]
    bad = not calls
    del kept, pool
    gc.collect()
print("pool: %d wrong" % bad)
