"""arrays.py - arrays that come and go, for the programs of CuPy and Numba: how many came back other than they
went. Each program says how it makes an array and reads one. No result depends on a kernel.
"""
import ctypes
import random
import threading

import numpy

SIZES = (100, 5000, 70000, 400000, 3000000)


def pattern(seed, count):
    return (numpy.arange(count, dtype=numpy.int64) * 7919 + seed).astype(numpy.int32)


def churn(filled, is_as_sent, seed, steps):
    """How many arrays came back other than they went. filled(count, data): an array that begins with the data;
    is_as_sent(array, data): it still does."""
    chance, kept, wrong = random.Random(seed), [], 0
    for step in range(steps):
        count = chance.choice(SIZES) + step
        data = pattern(seed + step, min(count, 4000))
        kept.append((filled(count, data), data))
        if len(kept) > 6:
            wrong += not is_as_sent(*kept.pop(chance.randrange(len(kept))))
    return wrong


def threads(filled, is_as_sent):
    """The same in four threads at once."""
    found = []
    workers = [threading.Thread(target=lambda seed=seed: found.append(churn(filled, is_as_sent, seed, 30)))
               for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def lose(array):
    """Nobody frees this array."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
