"""workers.py - Python processes that use CUDA by ctypes: workers.py fork|spawn|forkserver

Four processes of multiprocessing allocate, copy and free through a runtime that is loaded
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


def answer(pipe, number):
    pipe.send(use_cuda(number))


if __name__ == "__main__":
    # No multiprocessing.Pool: its thread forks new workers while this thread prints, and a child
    # that inherits the lock of stdout hangs at its end.
    context = multiprocessing.get_context(sys.argv[1])
    workers = []
    for number in range(WORKERS):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=answer, args=(sender, number))
        worker.start()
        workers.append((worker, receiver))
    for worker, receiver in workers:
        print(*receiver.recv(), flush=True)
        worker.join()
    print(*use_cuda(WORKERS), flush=True)
