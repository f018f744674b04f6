"""cupy_start.py - CuPy brings NVIDIA's runtime within itself, which asks the driver for its
private tables: how far it gets is printed.
"""
# zoo: prints (stops: .*|arrays: 6)
import cupy

try:
    print("devices:", cupy.cuda.runtime.getDeviceCount())
    print("arrays:", int(cupy.asarray([1, 2, 3]).get().sum()))
except cupy.cuda.runtime.CUDARuntimeError as error:
    print("stops:", error)
