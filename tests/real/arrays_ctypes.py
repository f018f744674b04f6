"""arrays_ctypes.py - arrays of many sizes through the CUDA runtime, with no package at all.

Each step makes arrays, sends data through them, and keeps some for later steps.
"""
# real: cudart
# real: way plain
# real: way lazy GPUSHIM_FREE_SYNC=lazy
# real: trace plain
import ctypes
import random
import zlib

import work

HOST_TO_DEVICE, DEVICE_TO_DEVICE, DEVICE_TO_HOST = 1, 3, 2
STEPS, ARRAYS = 60, 24


def find_runtime():
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit("the CUDA runtime is not found: set LD_LIBRARY_PATH")


runtime = find_runtime()


def check(code):
    if code:
        raise SystemExit(f"CUDA error {code}")


def allocate(size):
    pointer = ctypes.c_void_p()
    check(runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer


def copy(to, source, size, kind):
    check(runtime.cudaMemcpy(to, source, ctypes.c_size_t(size), kind))


def pattern(seed, size):
    piece = bytes((seed * 31 + index * 7) & 255 for index in range(256))
    return (piece * (size // 256 + 1))[:size]


def step(number, chance, kept):
    """A chain of copies through arrays of one step, the last of which may stay."""
    size = chance.choice((700, 4096, 60000, 300000, 2000000)) + number
    host = ctypes.create_string_buffer(pattern(number, size), size)
    arrays = [allocate(size + chance.randrange(100000)) for _ in range(ARRAYS)]
    copy(arrays[0], host, size, HOST_TO_DEVICE)
    for source, to in zip(arrays, arrays[1:]):
        copy(to, source, size, DEVICE_TO_DEVICE)
    back = ctypes.create_string_buffer(size)
    copy(back, arrays[-1], size, DEVICE_TO_HOST)
    if number % 4 == 0:
        kept.append(arrays.pop())
    for array in arrays:
        check(runtime.cudaFree(array))
    return zlib.crc32(back.raw)


def main():
    chance, kept, total = random.Random(7), [], 0
    check(runtime.cudaFree(None))
    work.begin()
    for number in range(STEPS):
        total = zlib.crc32(step(number, chance, kept).to_bytes(4, "little"), total)
        if len(kept) > 8:
            check(runtime.cudaFree(kept.pop(chance.randrange(len(kept)))))
    for array in kept:
        check(runtime.cudaFree(array))
    work.done()
    print(f"{STEPS} steps, checksum {total:08x}")


main()
