"""deep.py - modules in modules, three Python frames a level as torch.nn calls them: LEVELS [LIBRARY]."""

import ctypes
import sys

cuda = ctypes.CDLL(sys.argv[2])
kept = []


class Module:
    def __init__(self, inner=None):
        self.inner = inner

    def _wrapped_call_impl(self, size):
        return self._call_impl(size)

    def _call_impl(self, size):
        return self.forward(size)

    def forward(self, size):
        if self.inner:
            return self.inner._wrapped_call_impl(size)
        block = ctypes.c_void_p()
        cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size))
        kept.append(block)


model = Module()
for _ in range(int(sys.argv[1])):
    model = Module(model)


def warm_up():
    model._wrapped_call_impl(1 << 20)


def train():
    model._wrapped_call_impl(2 << 20)


warm_up()
train()
