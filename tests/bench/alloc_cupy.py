"""alloc_cupy.py - an allocation of 1 KiB and its free by CuPy, from Python.

  alloc_cupy.py pool    by CuPy's memory pool
  alloc_cupy.py none    without it: cudaMalloc and cudaFree, as CuPy calls them

The line: cupy NANOSECONDS, the median of 101 samples of 200 pairs. Python's share of a pair
is in it, the same in both.
"""
import statistics
import sys
import time

try:
    import cupy
except ImportError as missing:
    sys.exit(f"bench: CuPy is not installed ({missing})")

PAIRS, SAMPLES = 200, 101


def main():
    if sys.argv[1:] not in (["pool"], ["none"]):
        sys.exit("usage: alloc_cupy.py pool|none")
    cupy.cuda.Device(0).use()
    if sys.argv[1] == "none":
        cupy.cuda.set_allocator(None)
    cupy.cuda.alloc(1 << 20)
    took = []
    for _ in range(SAMPLES):
        begin = time.perf_counter_ns()
        for _ in range(PAIRS):
            cupy.cuda.alloc(1024)  # its memory goes back with the object, at once
        took.append((time.perf_counter_ns() - begin) / PAIRS)
    print(f"cupy {statistics.median(took):.0f}")


main()
