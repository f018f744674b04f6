"""pycuda_leaks.py - memory of PyCUDA's that nobody gives back."""
# zoo: prints lost
import ctypes

import numpy as np
import pycuda.driver as driver

driver.init()
context = driver.Device(0).retain_primary_context()
context.push()


def lose(memory):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


class Model:
    def load(self):
        lose(driver.to_device(np.arange(1001)))  # LEAK
        lose(driver.mem_alloc_pitch(1000, 7, 4)[0])  # LEAK


lose(driver.mem_alloc(2002))  # LEAK
lose(driver.pagelocked_empty(3003, np.int32))  # LEAK
Model().load()
context.pop()
print("lost")
