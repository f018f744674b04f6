"""torch_scopes.py - what gpushim counts in a scope is what PyTorch counts there, to the byte: in new and cached blocks, in
threads, within other scopes, and beside memory of the driver.
"""
# zoo: prints sizes: 0 wrong
# zoo: prints churn: 0 wrong
# zoo: prints within: 0 wrong
# zoo: prints threads: 0 wrong
# zoo: prints beside: 0 wrong
# zoo: prints emptied: 0 wrong
import ctypes
import random
import threading

import torch

import gpushim

MIB = 1 << 20


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def unequal(scope, peak, live):
    """Natively there is nothing to compare."""
    found = scope.statistics
    if not gpushim.active() or (found.peak_bytes, found.live_bytes) == (peak, live):
        return 0
    print(scope.path, found, "PyTorch:", peak, live)
    return 1


def measured(name, work):
    """Runs work() in a scope that has nothing yet."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with gpushim.scope(name) as scope:
        kept = work()
    wrong = unequal(scope, torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before)
    del kept
    return wrong + unequal(scope, torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before)


def churn(seed):
    chance, kept = random.Random(seed), []
    for _ in range(300):
        if kept and chance.random() < 0.5:
            kept.pop(chance.randrange(len(kept)))
        else:
            kept.append(empty(chance.choice((1, 700, 5000, 300 << 10, MIB + 1, 3 * MIB, 11 * MIB))))
    return kept


def within():
    wrong = 0

    def work():
        nonlocal wrong
        first = empty(2 * MIB)
        wrong += measured("inner", lambda: churn(7))
        return first, empty(30 * MIB)
    return measured("outer", work) + wrong


def in_threads():
    """Each has a scope; PyTorch counts them together, and tensors of up to 1 MiB with the bytes that they have."""
    wrong = []

    def work(number):
        with gpushim.scope("thread %d" % number) as scope:
            sizes = [(number + 1 + i % 5) << 16 for i in range(100)]
            kept = [empty(size) for size in sizes]
            wrong.append(unequal(scope, sum(sizes), sum(sizes)))
            kept.clear()
            wrong.append(unequal(scope, sum(sizes), 0))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(wrong) + len(wrong) - 8


def beside():
    """Memory of the driver, before and after a tensor, is no memory of PyTorch's."""
    driver, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    with gpushim.scope("beside") as scope:
        status = driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(3 * MIB))
        kept = [empty(700 << 10)]
        status += driver.cuMemFree_v2(block)
        kept.append(empty(300 << 10))
    most = 3 * MIB + (700 << 10)
    wrong = unequal(scope, most, 1000 << 10)
    kept.clear()
    return status + wrong + unequal(scope, most, 0)


torch.cuda.init()  # a driver that PyTorch refuses is told here
print("sizes: %d wrong" % sum(measured("of %d" % size, lambda size=size: [empty(size) for _ in range(3)])
                              for size in (1, 512, 600 << 10, MIB, MIB + 1, 9 * MIB, 10 * MIB, 33 * MIB)))
print("churn: %d wrong" % sum(measured("churn %d" % seed, lambda seed=seed: churn(seed)) for seed in range(5)))
print("within: %d wrong" % within())
print("threads: %d wrong" % in_threads())
print("beside: %d wrong" % beside())
torch.cuda.empty_cache()
print("emptied: %d wrong" % sum(measured("emptied %d" % seed, lambda seed=seed: churn(seed)) for seed in range(2)))
