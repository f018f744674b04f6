"""nvtx_phases.py - NVTX ranges of the package nvtx and of PyTorch around allocations that stay.

nvtx_phases.sh reads from the report which ranges each of them is in.
"""
import threading

import nvtx
import torch
from cuda.bindings import driver

KIB = 1 << 10


def call(function, *arguments):
    code, *found = function(*arguments)
    if code != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"{function.__name__}: {code}")
    return found[0] if found else None


def allocate(size):
    call(driver.cuMemAlloc, size)


@nvtx.annotate("load", domain="data")
def load():
    allocate(64 * KIB)
    with nvtx.annotate("decode", domain="data", color="green"):
        allocate(128 * KIB)


def work(context):
    call(driver.cuCtxSetCurrent, context)
    with nvtx.annotate("worker"):
        allocate(1024 * KIB)


call(driver.cuInit, 0)
context = call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 0))
call(driver.cuCtxSetCurrent, context)
load()
nvtx.push_range("epoch")
with torch.cuda.nvtx.range("step {}", 1):
    allocate(256 * KIB)
    thread = threading.Thread(target=work, args=(context,))
    thread.start()
    thread.join()
nvtx.pop_range()
allocate(512 * KIB)
