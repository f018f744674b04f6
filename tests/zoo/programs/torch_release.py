"""torch_release.py - PyTorch's tensors of a scope go to the device and come back (gpushim.release): those of a MemPool of
PyTorch's own cache, and those of gpushim.torch, with a graph that names them.
"""
# zoo: prints (pool|tensors): 0 wrong, 0 elsewhere
import sys

import torch

import gpushim
import gpushim.torch

COUNT = 3 << 20  # 12 MiB each


def numbers(seed):
    return torch.arange(seed, seed + COUNT, dtype=torch.int32)


def sleep(scope, bytes):
    """What is released, and whether other tensors find that memory meanwhile."""
    before = torch.cuda.mem_get_info()[0]
    try:
        released = gpushim.release(scope)
    except gpushim.Error as error:
        if "switched off" not in str(error):  # GPUSHIM_POOL=off
            raise
        return
    more = torch.cuda.mem_get_info()[0] - before
    if gpushim.active() and (released.count == 0 or released.bytes < bytes or more < bytes):
        raise SystemExit("%s: %r, %d bytes more" % (scope, released, more))


def wake(scope):
    try:
        gpushim.resume(scope)
    except gpushim.Error as error:
        if "switched off" not in str(error):
            raise


def turns(kind, scope, made, other):
    wrong = elsewhere = 0
    places = [one.data_ptr() for one in made]
    for turn in range(3):
        for number, one in enumerate(made):
            one.copy_(numbers(100 * turn + number))
        sleep(scope, 4 * COUNT * len(made))
        wrong += not torch.equal(other.cpu(), numbers(7))
        wake(scope)
        wrong += sum(not torch.equal(one.cpu(), numbers(100 * turn + number)) for number, one in enumerate(made))
        elsewhere += [one.data_ptr() for one in made] != places
    print("%s: %d wrong, %d elsewhere" % (kind, wrong, elsewhere))


def of_pool(other):
    pool = torch.cuda.MemPool()
    with gpushim.scope("kv_cache"), torch.cuda.use_mem_pool(pool):
        made = [torch.empty(COUNT, dtype=torch.int32, device="cuda") for _ in range(3)]
    turns("pool", "kv_cache", made, other)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made[1].copy_(made[0])
        made[2].copy_(made[1])
    wrong = 0
    for turn in range(3):
        sleep("kv_cache", 4 * COUNT * len(made))
        wake("kv_cache")
        made[0].copy_(numbers(turn))
        graph.replay()
        wrong += not torch.equal(made[2].cpu(), numbers(turn))
    print("graph: %d wrong" % wrong)


def of_tensors(other):
    with gpushim.scope("weights"):
        made = [torch.empty(COUNT, dtype=torch.int32, device="cuda") for _ in range(3)]
    turns("tensors", "weights", made, other)


if "tensors" in sys.argv:
    gpushim.torch.use()
other = numbers(7).cuda()
gpushim.set_option("RELEASABLE", "kv_cache,weights")
if "tensors" in sys.argv:
    of_tensors(other)
else:
    of_pool(other)
