"""attach_share.py PACKAGE - allocations of a package before and while gpushim records (attach_share.sh)."""
import os
import sys
import time

import numpy as np

folder = os.environ["ZOO_WAITS"]


def step(done, wanted):
    with open(f"{folder}/{done}", "w", encoding="utf-8"):
        pass
    while not os.path.exists(f"{folder}/{wanted}"):
        time.sleep(0.05)


def torch():
    import torch as package

    return lambda data: package.from_numpy(data).cuda()


def cupy():
    import cupy_shared  # noqa: F401 # pylint: disable=unused-import # before cupy
    import cupy as package

    package.cuda.set_allocator(None)

    def put(data):  # past its pool of pinned memory, which takes more where a copy is late
        there = package.empty(data.shape, data.dtype)
        there.data.copy_from_host(data.ctypes.data, data.nbytes)
        return there

    return put


def numba():
    os.environ["NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT"] = "0"  # frees at once
    from numba import cuda

    return cuda.to_device


def jax():
    os.environ["JAX_PLATFORMS"] = "cuda"
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # asks CUPTI, which needs a real driver
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "cuda_async"
    import jax as package
    from jax._src import hardware_utils

    hardware_utils.has_visible_nvidia_gpu = lambda: True  # asks for /dev/nvidia0
    return package.device_put


def tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
    import tensorflow as package

    def put(data):
        with package.device("/GPU:0"):
            return package.constant(data)

    return put


def bindings():
    from cuda.bindings import driver

    class Block:
        def __init__(self, data):
            self.address = driver.cuMemAlloc(data.nbytes)[1]

        def __del__(self):
            driver.cuMemFree(self.address)

    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    return Block


def core():
    from cuda.core import Device

    device = Device()
    device.set_current()
    stream = device.create_stream()
    return lambda data: device.allocate(data.nbytes, stream=stream)


def pycuda():
    import pycuda.autoinit  # noqa: F401 # pylint: disable=unused-import
    import pycuda.gpuarray as package

    return package.to_gpu


def work(put, turns):
    kept = []
    for turn in range(turns):
        kept.append(put(np.arange(300_000 + 1000 * turn, dtype=np.float32)))
        if turn % 3 == 2:
            kept.pop(turn % 7 % len(kept))
    return kept


put = globals()[sys.argv[1]]()
first = work(put, 5)
step("ready", "begin")
second = work(put, 40)
step("done", "end")
print("kept", len(first), len(second))
