"""train.py - a model over the stand-in for PyTorch: train.py right | leaks | model | reused | unreported | uncached

right       all tensors are deleted; the allocator keeps their memory
leaks       three tensors are not, one behind a layer, one on a line that a thread runs
model       a fourth, of a layer within a layer; reused: one, in a block that another line made the allocator take
killed      as leaks, and SIGKILL
grows       a line keeps one tensor after the other, in blocks that another line made the allocator take; fills: in few
graph       a graph holds the tensors of `leaks` to the end; graphs: and a line keeps one graph after the other; _async
list        a line keeps one tensor after the other; Python deletes them as it ends; list_interrupted: by Ctrl-C
unreported  as leaks, and the allocator does not say which tensors there are; unreported_leak: one past the cache, too
uncached    one tensor past the cache; scopes: tensors in scopes, of new and of cached blocks, and past the cache
"""
import os
import signal
import sys
import threading
import time

import torch
import torch.nn


class Block(torch.nn.Module):
    def forward(self, size):
        kept.append(torch.empty(size, REPORTED))


class Encoder(torch.nn.Module):
    def forward(self, size):
        Block()(size)


def load_batch(size):
    kept.append(torch.empty(size, REPORTED))


def train():
    Block()(4 << 20)
    load_batch(3 << 20)
    worker = threading.Thread(target=load_batch, args=(2 << 20,))
    worker.start()
    worker.join()
    torch.delete(torch.empty(6 << 20, REPORTED))


def keep_again(size):
    kept.append(torch.empty(size, REPORTED))


def count_scopes():
    import gpushim
    with gpushim.scope("new") as new:
        torch.delete(torch.empty(8 << 20, REPORTED))
        kept.append(torch.empty(3 << 20, REPORTED))
    with gpushim.scope("cached") as cached:
        for _ in range(2):
            torch.delete(torch.empty(8 << 20, REPORTED))
        with gpushim.scope("within") as within:
            kept.append(torch.empty(8 << 20, REPORTED))
    with gpushim.scope("own") as own:
        torch.uncached(1 << 20)
        torch.delete(torch.empty(2 << 20, REPORTED))
        torch.uncached(1 << 20)
    for scope in (new, cached, within, own):
        found = scope.statistics
        print(scope.path, found.peak_bytes, found.live_bytes, found.alloc_bytes, found.allocs, found.frees)


kept = []
REPORTED = not sys.argv[1].startswith("unreported")
if sys.argv[1] == "uncached":
    torch.uncached(1 << 20)
elif sys.argv[1] == "scopes":
    count_scopes()
elif sys.argv[1] == "reused":
    torch.delete(torch.empty(5 << 20, REPORTED))
    keep_again(5 << 20)
elif sys.argv[1] == "grows":
    for made in [torch.empty(1 << 20, REPORTED) for _ in range(30)]:
        torch.delete(made)
    for _ in range(30):
        keep_again(1 << 20)
        time.sleep(0.1)
elif sys.argv[1] == "fills":
    for turn in range(28):
        torch.delete(torch.empty((turn + 1) << 20, REPORTED))
        keep_again(1 << 10)
        time.sleep(0.1)
elif sys.argv[1].startswith("list"):
    torch.delete(torch.empty(20 << 20, REPORTED))
    kept += [torch.Tensor(1 << 20) for _ in range(40)]
elif sys.argv[1] == "graphs":
    for _ in range(40):
        keep_again(1 << 20)
elif sys.argv[1].startswith("graphs"):
    kept.append(torch.stream_ordered(1 << 20))
    time.sleep(0.2)
    for _ in range(20):
        kept.append(torch.stream_ordered(1 << 20))
        time.sleep(0.2 if sys.argv[1] == "graphs_async_grow" else 0)
    kept.append(torch.stream_ordered(1 << 20))
else:
    train()
if sys.argv[1].startswith("graph"):
    for made in kept:
        torch.graph(made)
if sys.argv[1] == "model":
    Encoder()(8 << 20)
if sys.argv[1] == "unreported_leak":
    torch.uncached(1 << 20)
if sys.argv[1] == "right":
    while kept:
        torch.delete(kept.pop())
if sys.argv[1] == "list_interrupted":
    raise KeyboardInterrupt
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
print("reports:", torch.reports())
