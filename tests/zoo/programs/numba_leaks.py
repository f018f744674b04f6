"""numba_leaks.py - arrays of Numba's that nobody gives back: more than it keeps itself, and it does not
free them at the end, as it does where Python ends.
"""
# zoo: prints lost
import ctypes
import os

import numpy as np
from numba import cuda


def lose(array):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))


def function():
    lose(cuda.device_array(1001))  # LEAK


lose(cuda.to_device(np.arange(2002)))  # LEAK
lose(cuda.pinned_array(3003))  # LEAK
lose(cuda.managed_array(4004))  # LEAK
function()
for turn in range(10):
    lose(cuda.device_array(100 + turn))  # LEAK
cuda.synchronize()
print("lost", flush=True)
os._exit(0)
