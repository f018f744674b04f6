"""A stand-in for PyTorch: tensors of c10_cuda.c, which stay live until they are deleted."""
import ctypes
import os

_folder = os.environ["TORCH_LIBRARIES"]
_c10 = ctypes.CDLL(_folder + "/libc10.so")
_cuda = ctypes.CDLL(_folder + "/libc10_cuda.so")
_python = ctypes.CDLL(_folder + "/libtorch_python.so")
_python.torch_graph.argtypes = [ctypes.c_void_p]
_cuda.torch_empty.restype = _cuda.torch_uncached.restype = _cuda.torch_async.restype = ctypes.c_void_p
_cuda.torch_reserved.restype = ctypes.c_size_t
_cuda.torch_delete.argtypes = [ctypes.c_void_p]


def empty(size, reported=1):
    return _cuda.torch_empty(ctypes.c_size_t(size), reported)


def uncached(size):
    return _cuda.torch_uncached(ctypes.c_size_t(size))


def stream_ordered(size):
    return _cuda.torch_async(ctypes.c_size_t(size))


def delete(tensor):
    _cuda.torch_delete(tensor)


class Tensor:
    """One that Python deletes, by its last reference."""

    def __init__(self, size):
        self.memory, self.delete = empty(size), _cuda.torch_delete

    def __del__(self):
        self.delete(self.memory)


class cuda:
    """As torch.cuda of the same names."""
    @staticmethod
    def memory_reserved(_device=None):
        return _cuda.torch_reserved()

    @staticmethod
    def empty_cache():
        """Nothing: here a block has no tensor, or is one."""


def graph(tensor):
    _python.torch_graph(tensor)


def reports():
    return _c10.c10_reports()
