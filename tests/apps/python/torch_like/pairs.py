"""pairs.py - what a tensor and its end take over the stand-in for PyTorch, with and without the allocator's reports to the
profiler, which gpushim reads: the least processor time of 40 turns each. Set PYTHONPATH and TORCH_LIBRARIES as
families.sh does.
"""
import time

import torch

PAIRS = 500


def pair(reported):
    torch.delete(torch.empty(1 << 20, reported))


def turn(reported):
    began = time.process_time_ns()
    for _ in range(PAIRS):
        pair(reported)
    return (time.process_time_ns() - began) / PAIRS


turns = [(turn(False), turn(True)) for _ in range(40)]
without, reported = (min(column) for column in zip(*turns))
print(f"{without:.0f} ns a pair, {reported - without:.0f} more with its reports")
