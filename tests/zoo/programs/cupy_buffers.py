"""cupy_buffers.py - gpushim.buffer as the memory of CuPy's arrays, by DLPack and by
__cuda_array_interface__: the same bytes in each, and kept as long as an array has them.

cupy_shared: see cupy_tensors_leaks.py.
"""
# zoo: prints asarray: True True \(4, 256\) float32
# zoo: prints freed: ValueError
# zoo: prints from_dlpack: True True \(4, 256\) float32
# zoo: prints kept: True
# zoo: prints gone: True
# zoo: prints managed: True True
# zoo: prints back into the buffer: True
import gc

import cupy_shared  # pylint: disable=unused-import # before cupy
import cupy
import numpy

from gpushim.buffer import MANAGED, Buffer

cupy.cuda.runtime.getDeviceCount()  # without a device it ends here
data = numpy.arange(1024, dtype=numpy.float32).reshape(4, 256)


def is_there(array, buffer):
    """The array's memory is the buffer's, and holds what is written to it."""
    array.set(data)
    return array.data.ptr == buffer.pointer, numpy.array_equal(array.get(), data)


with Buffer((4, 256), "<f4") as buffer:
    array = cupy.asarray(buffer)
    print("asarray:", *is_there(array, buffer), array.shape, array.dtype)
    del array
try:
    cupy.asarray(buffer)
except ValueError as error:
    print("freed:", type(error).__name__)

with Buffer((4, 256), "<f4") as buffer:
    array = cupy.from_dlpack(buffer)
    print("from_dlpack:", *is_there(array, buffer), array.shape, array.dtype)
print("kept:", buffer.pointer is not None and numpy.array_equal(array.get(), data))
del array
gc.collect()
print("gone:", buffer.pointer is None)

with Buffer((4, 256), "<f4", place=MANAGED) as buffer:
    array = cupy.from_dlpack(buffer)
    print("managed:", *is_there(array, buffer))
    del array
    gc.collect()

with Buffer(data.nbytes) as buffer:
    source = cupy.asarray(buffer)
    source.set(numpy.full(data.nbytes, 7, dtype=numpy.uint8))
    copied = cupy.empty_like(source)
    copied.data.copy_from_device(source.data, source.nbytes)
    print("back into the buffer:", bool((copied.get() == 7).all()))
    del source, copied
cupy.cuda.Device().synchronize()
