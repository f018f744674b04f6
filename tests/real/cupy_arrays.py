"""cupy_arrays.py - arrays of CuPy's: many temporaries, with CuPy's memory pool and without."""
# real: needs cupy
# real: nvidia
# real: way unpooled REAL_POOL=off
# real: way pool
# real: trace unpooled
import os

import cupy

import work

STEPS = 150


def step(field, number):
    """A step of heat on a grid; each operator makes an array."""
    moved = (cupy.roll(field, 1, 0) + cupy.roll(field, -1, 0) + cupy.roll(field, 1, 1)
             + cupy.roll(field, -1, 1))
    field = field + 0.1 * (moved - 4 * field)
    part = field[:64 + number % 64, :64].copy()
    return field + 1e-3 * cupy.sort(part.ravel())[-1]


def main():
    if os.environ.get("REAL_POOL") == "off":
        cupy.cuda.set_allocator(None)
        cupy.cuda.set_pinned_memory_allocator(None)
    field = cupy.arange(512 * 512, dtype=cupy.float64).reshape(512, 512) % 97
    step(field, 0)
    cupy.cuda.Device().synchronize()
    work.begin()
    for number in range(STEPS):
        field = step(field, number)
    cupy.cuda.Device().synchronize()
    work.done()
    print(f"mean {float(field.mean()):.6f}, checksum {work.checksum(field.ravel().tolist(), 8)}")


main()
