"""numba_tensors_leaks.py - Numba whose frees do not wait (gpushim.numba.use): arrays and streams
that come and go, streams that do not wait for the default one, threads, deferred clean-up, no
memory, page-locked and managed arrays, and arrays that are lost at lines marked LEAK.
Without the library Numba's own memory manager serves.
"""
# zoo: prints churn: 0 wrong
# zoo: prints streams: 0 wrong
# zoo: prints threads: \[0, 0, 0, 0\] wrong
# zoo: prints host: 0 wrong
# zoo: prints every device: 0 wrong
# zoo: prints deferred: True
# zoo: prints refused: True True
# zoo: prints memory: True
# zoo: prints lost
import warnings

import numpy as np
from numba import cuda
from numba.cuda.cudadrv import driver

import gpushim.numba
from common.arrays import churn, lose, pattern, threads

warnings.simplefilter("ignore")


def is_as_sent(array, data):
    return bool((array[:data.size].copy_to_host() == data).all())


def filled(count, data):
    array = cuda.device_array(count, dtype=np.int32)
    array[:data.size].copy_to_device(data)
    return array


def streams():
    """Arrays are freed while streams still read them, and the next owner writes from another one."""
    wrong = 0
    side = [cuda.stream() for _ in range(3)]
    other = driver.driver.cuStreamCreate(1)  # does not wait for the default stream
    side.append(cuda.external_stream(int(other)))
    for turn in range(60):
        stream = side[turn % 4]
        data = pattern(turn, 50000)
        first = cuda.to_device(data, stream=stream)
        second = cuda.device_array(50000, dtype=np.int32, stream=stream)
        second.copy_to_device(first, stream=stream)
        gpushim.numba.uses(first, stream)
        gpushim.numba.uses(second, stream)
        back = cuda.pinned_array(50000, dtype=np.int32)
        second.copy_to_host(back, stream=stream)
        del first, second
        third = cuda.device_array(50000, dtype=np.int32)
        driver.device_memset(third, 170, third.nbytes, stream=side[(turn + 1) % 3])
        stream.synchronize()
        wrong += not (back == data).all()
    return wrong


def host():
    wrong = 0
    for turn in range(30):
        data = pattern(turn, 3000)
        for kind in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
            array = kind(3000, dtype=np.int32)
            array[:] = data
            wrong += not (array == data).all()
    return wrong


def every_device():
    """Arrays of one device that are freed while another one is current."""
    wrong, kept = 0, []
    for turn in range(20):
        with cuda.gpus[turn % len(cuda.gpus)]:
            data = pattern(turn, 9000)
            kept.append((filled(data.size, data), data))
            if len(kept) > len(cuda.gpus):
                wrong += not is_as_sent(*kept.pop(0))
    return wrong


def deferred():
    with cuda.defer_cleanup():
        for _ in range(30):
            cuda.device_array(100000)
            cuda.pinned_array(1000)
    return True


def refused():
    try:
        cuda.device_array(1 << 40)
    except driver.CudaAPIError as error:
        message = "OUT_OF_MEMORY" in str(error)
    total = cuda.current_context().get_memory_info().total
    return message, cuda.device_array(total // 2 + 4096, dtype=np.int8).size > 0


def function():
    lose(cuda.device_array(1001))  # LEAK


print("active:", gpushim.numba.use() == bool(gpushim.version()))
print("churn:", churn(filled, is_as_sent, 1, 150), "wrong")
print("streams:", streams(), "wrong")
print("threads:", threads(filled, is_as_sent), "wrong")
print("host:", host(), "wrong")
print("every device:", every_device(), "wrong")
print("deferred:", deferred())
print("refused:", *refused())
free, total = cuda.current_context().get_memory_info()
print("memory:", 0 < free <= total)
function()
lose(cuda.to_device(np.arange(2002)))  # LEAK
lose(cuda.pinned_array(3003))  # of host memory Numba's own manager frees the last arrays late, if at all
at_exit = cuda.device_array(7007)  # freed while the interpreter ends
cuda.synchronize()
print("lost")
