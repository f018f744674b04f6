"""cuda.py - CUDA by ctypes, and the stack that an allocation was made with, by Python.

The call is made as by any other ctypes program: without the interpreter's lock. With
`held`, it keeps the lock.
"""
import ctypes
import os
import sys

LIBRARY = "libcudart.so.13"
released = ctypes.CDLL(LIBRARY)
held = ctypes.PyDLL(LIBRARY)


def check(code):
    if code != 0:
        raise RuntimeError("CUDA error %d" % code)


def malloc(size, library=released):
    """Allocate; the caller never frees it."""
    pointer = ctypes.c_void_p()
    check(library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer


def free(pointer, library=released):
    check(library.cudaFree(pointer))


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def stack():
    """(function, file, line) of the caller and of its callers, innermost first."""
    frame, out = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        out.append((name_of(code), os.path.basename(code.co_filename), frame.f_lineno))
        frame = frame.f_back
    return out
