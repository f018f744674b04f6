"""workers.py - Python processes that use CUDA by ctypes: workers.py fork|spawn|forkserver

Four workers of multiprocessing allocate, copy and free through a runtime that is loaded
RTLD_LOCAL, as Python's packages load it; each keeps 128 KiB to its end. The first process
calls CUDA after them, for a context does not outlive a fork.
"""
import ctypes
import multiprocessing
import sys

WORKERS = 4
KEPT = 128 << 10


def use_cuda(number):
    cuda = ctypes.CDLL("libcudart.so.13")
    kept, block = ctypes.c_void_p(), ctypes.c_void_p()
    source = bytes([number]) * 4096
    target = ctypes.create_string_buffer(4096)
    codes = [
        cuda.cudaMalloc(ctypes.byref(kept), ctypes.c_size_t(KEPT)),
        cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096)),
        cuda.cudaMemcpy(block, source, ctypes.c_size_t(4096), 1),
        cuda.cudaMemcpy(target, block, ctypes.c_size_t(4096), 2),
        cuda.cudaFree(block),
    ]
    return number, codes, target.raw == source


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(WORKERS, maxtasksperchild=1) as pool:
        for answer in pool.map(use_cuda, range(WORKERS), chunksize=1):
            print(*answer, flush=True)
        pool.close()
        pool.join()
    print(*use_cuda(WORKERS), flush=True)
