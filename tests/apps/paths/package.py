# package.py - copied as the __init__.py of two packages: equal functions and lines.
import ctypes


def make(library, size):
    pointer = ctypes.c_void_p()
    assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer


def step(library, size):
    return make(library, size)
