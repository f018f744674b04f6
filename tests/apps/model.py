import ctypes

cuda = ctypes.CDLL("libcudart.so.13")

def load(megabytes):
    block = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(megabytes << 20))
    return block

weights = load(192)
batch = load(16)
cuda.cudaFree(batch)
