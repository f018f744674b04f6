"""numba_arrays.py - arrays of Numba's: streams, page-locked and managed ones, a kernel that
is compiled and launched.
"""
# zoo: prints too much: True
# zoo: prints arrays: 0 wrong
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")


@cuda.jit
def increment(values):
    place = cuda.grid(1)
    if place < values.size:
        values[place] += 1


def main():
    stream, wrong, kept = cuda.stream(), 0, []
    for turn in range(60):
        data = np.arange(turn * 131 + 1, dtype=np.int64) + turn
        there = cuda.to_device(data, stream=stream)
        copied = cuda.device_array_like(data)
        copied.copy_to_device(there, stream=stream)
        increment[8, 64, stream](cuda.device_array(64, stream=stream))
        kept.append((copied, data))
        if len(kept) > 5:
            copied, data = kept.pop(0)
            stream.synchronize()
            wrong += not (copied.copy_to_host() == data).all()
    pinned = cuda.pinned_array(5000, dtype=np.int32)
    pinned[:] = np.arange(5000)
    there = cuda.to_device(pinned, stream=stream)
    wrong += not (there.copy_to_host(stream=stream) == pinned).all()
    managed = cuda.managed_array(5000, dtype=np.int32)
    managed[:] = np.arange(5000)
    wrong += not (managed == np.arange(5000)).all()
    with cuda.defer_cleanup():
        for _ in range(10):
            cuda.device_array(100000)
    try:
        cuda.device_array(1 << 40)
    except Exception as error:  # pylint: disable=broad-exception-caught
        print("too much:", "OUT_OF_MEMORY" in str(error))
    cuda.synchronize()
    print("arrays:", wrong, "wrong")


main()
