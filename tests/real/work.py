"""work.py - what the scripts of this folder share: the line that says how long they worked.

A script prints what it computed, a checksum of all of it, so that its output is the same with
and without gpushim only if the results are, and ends with `work.done()`. Its head says what it needs and in which ways it is run
(tests/gpu/parts/real.sh reads it).
"""
import math
import os
import sys
import time

_began = 0.0


def begin():
    """After imports, and after what a program does once."""
    global _began
    _began = time.perf_counter()


def steady(torch, seed):
    """What a run of PyTorch computes depends on its seed alone, as far as PyTorch can say.
    Memory that nobody wrote stays as it is: who reads it is to be seen."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if hasattr(torch.utils, "deterministic"):
        torch.utils.deterministic.fill_uninitialized_memory = False
    for kind in ("flash", "mem_efficient", "cudnn"):
        switch = getattr(torch.backends.cuda, f"enable_{kind}_sdp", None)
        if switch:
            switch(False)


def checksum(values, digits=4):
    """Text of so many digits that depends on each of the numbers and on its place."""
    total = 0.0
    for index, value in enumerate(values):
        total += value * ((index * 2654435761 >> 7 & 1023) - 511.5)
    if not math.isfinite(total):
        raise SystemExit("what was computed is not finite")
    return f"{total:.{digits}g}"


def done():
    """The work is done, and the device has nothing more to do."""
    print(f"real: {1000 * (time.perf_counter() - _began):.1f} ms", file=sys.stderr)
