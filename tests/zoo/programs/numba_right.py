"""numba_right.py - arrays that come and go. Numba frees them late, and the last ones not at all."""
# zoo: prints 25 right
import numpy as np
from numba import cuda


def work(turn):
    data = np.arange(100000 + turn)
    there = cuda.to_device(data)
    other = cuda.device_array_like(there)
    other.copy_to_device(there)
    return bool((other.copy_to_host() == data).all())


print(sum(work(turn) for turn in range(25)), "right")
