"""bindings_driver.py - the driver's functions by cuda-python: memory, pools, virtual memory,
graphs.
"""
# zoo: prints plain: 0 wrong
# zoo: prints stream-ordered: 0 wrong
# zoo: prints virtual: True
# zoo: prints graph: True
# zoo: prints too much: <CUresult.CUDA_ERROR_OUT_OF_MEMORY: 2>
import numpy as np
from cuda.bindings import driver

SIZE = 1 << 20


def call(function, *arguments):
    code, *found = function(*arguments)
    if code != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"{function.__name__}: {code}")
    return found[0] if found else None


def back(pointer, size):
    data = np.empty(size, dtype=np.uint8)
    call(driver.cuMemcpyDtoH, data.ctypes.data, pointer, size)
    return data


def plain():
    wrong = 0
    for turn in range(100):
        size = 100 * turn + 1
        pointer = call(driver.cuMemAlloc, size)
        call(driver.cuMemsetD8, pointer, turn, size)
        wrong += not (back(pointer, size) == turn).all()
        call(driver.cuMemFree, pointer)
    return wrong


def ordered(stream):
    wrong = 0
    for turn in range(50):
        pointers = [call(driver.cuMemAllocAsync, 5000 + turn, stream) for _ in range(3)]
        for number, pointer in enumerate(pointers):
            call(driver.cuMemsetD8Async, pointer, turn + number, 5000, stream)
        call(driver.cuStreamSynchronize, stream)
        wrong += not (back(pointers[1], 5000) == turn + 1).all()
        for pointer in pointers:
            call(driver.cuMemFreeAsync, pointer, stream)
    call(driver.cuStreamSynchronize, stream)
    return wrong


def virtual(device):
    settings = driver.CUmemAllocationProp()
    settings.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    settings.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    settings.location.id = int(device)
    grain = call(driver.cuMemGetAllocationGranularity, settings,
                 driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
    range_ = call(driver.cuMemAddressReserve, 4 * grain, 0, driver.CUdeviceptr(0), 0)
    memory = call(driver.cuMemCreate, grain, settings, 0)
    call(driver.cuMemMap, range_, grain, 0, memory, 0)
    access = driver.CUmemAccessDesc()
    access.location = settings.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    call(driver.cuMemSetAccess, range_, grain, [access], 1)
    call(driver.cuMemsetD8, range_, 9, grain)
    right = (back(range_, grain) == 9).all()
    call(driver.cuMemUnmap, range_, grain)
    call(driver.cuMemRelease, memory)
    call(driver.cuMemAddressFree, range_, 4 * grain)
    return bool(right)


def graph(stream):
    source, target = (call(driver.cuMemAlloc, SIZE) for _ in range(2))
    call(driver.cuMemsetD8, target, 0, SIZE)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call(driver.cuStreamBeginCapture, stream, mode)
    call(driver.cuMemcpyDtoDAsync, target, source, SIZE, stream)
    captured = call(driver.cuStreamEndCapture, stream)
    ready = call(driver.cuGraphInstantiate, captured, 0)
    right = True
    for turn in range(5):
        call(driver.cuMemsetD8, source, turn, SIZE)
        call(driver.cuGraphLaunch, ready, stream)
        call(driver.cuStreamSynchronize, stream)
        right = right and (back(target, SIZE) == turn).all()
    call(driver.cuGraphExecDestroy, ready)
    call(driver.cuGraphDestroy, captured)
    call(driver.cuMemFree, source)
    call(driver.cuMemFree, target)
    return bool(right)


call(driver.cuInit, 0)
gpu = call(driver.cuDeviceGet, 0)
call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, gpu))
queue = call(driver.cuStreamCreate, 0)
print("plain:", plain(), "wrong")
print("stream-ordered:", ordered(queue), "wrong")
print("virtual:", virtual(gpu))
print("graph:", graph(queue))
print("too much:", driver.cuMemAlloc(1 << 44)[0])
call(driver.cuStreamDestroy, queue)
call(driver.cuDevicePrimaryCtxRelease, gpu)
