"""cupy_right.py - arrays that come and go, in CuPy's own pools of device and of pinned memory, which keep it."""
# zoo: prints 25 right
import cupy_shared  # pylint: disable=unused-import # before cupy
import cupy
import numpy as np


def work(turn):
    data = np.arange(100000 + turn)
    there = cupy.asarray(data)
    other = cupy.empty_like(there)
    other.data.copy_from_device(there.data, there.nbytes)
    return bool((other.get() == data).all())


print(sum(work(turn) for turn in range(25)), "right")
