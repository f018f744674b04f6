"""work.py - what the scripts of this folder share: the line that says how long they worked.

A script prints what it computed, so that its output is the same with and without gpushim,
and ends with `work.done()`. Its head says what it needs and in which ways it is run
(tests/gpu/parts/real.sh reads it).
"""
import sys
import time

_began = 0.0


def begin():
    """After imports, and after what a program does once."""
    global _began
    _began = time.perf_counter()


def done():
    """The work is done, and the device has nothing more to do."""
    print(f"real: {1000 * (time.perf_counter() - _began):.1f} ms", file=sys.stderr)
