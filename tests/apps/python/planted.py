"""planted.py - leaks at known places, one after the other, each of its own size.

The leak NUMBER is one of PAGE times NUMBER bytes. Which functions and lines of this file
(and of what it loads and makes) its stack has, from the inside out, stands in expected.txt;
a function that calls itself there stands once.
"""
import asyncio
import atexit
import ctypes
import functools
import importlib
import os
import sys
import tempfile
import threading

import cuda

PAGE = 4096


def leak(number):
    cuda.malloc(PAGE * number)


class Encoder:
    def forward(self, number):
        leak(number)

    @property
    def weights(self):
        leak(2)
        return 0


def numbers():
    leak(3)
    yield 1


def recursion(depth):
    if depth == 0:
        leak(4)
    else:
        recursion(depth - 1)


def in_flight():
    try:
        raise KeyError("in flight")
    except KeyError:
        leak(5)


def over_lines():
    cuda.malloc(
        max(
            PAGE * 6,
            1,
        ),
    )


def größe():
    leak(7)


def 数(値):
    leak(値)


async def awaited():
    await asyncio.sleep(0)
    leak(9)


def lock_kept():
    cuda.malloc(PAGE * 10, cuda.held)


def executed():
    exec(compile("\n\nleak(11)\n", "made of text.py", "exec"), {"leak": leak})


def compared(left, right):
    if not compared.done:
        compared.done = True
        leak(12)
    return left - right


compared.done = False


def deep(depth):
    return deep(depth - 1) if depth else leak(13)


def reloaded():
    """A module that is loaded again, a line further down each time, from the same name:
    its code objects lie where those of the one before last lay."""
    folder = tempfile.mkdtemp()
    sys.path.insert(0, folder)
    path = os.path.join(folder, "again.py")
    module = None
    sys.dont_write_bytecode = True
    for turn in range(6):
        with open(path, "w") as file:
            file.write("def run(leak):\n    a = 1\n" + "\n" * turn + "    leak(%d)\n" % 14)
        importlib.invalidate_caches()
        module = importlib.reload(module) if module else importlib.import_module("again")
        module.run(leak)
    os.remove(path)
    os.rmdir(folder)


def in_thread():
    def body():
        leak(15)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


class Dying:
    def __init__(self, number):
        self.number = number

    def __del__(self, leak=leak):
        leak(self.number)


def at_exit():
    leak(17)


def qsorted():
    libc = ctypes.PyDLL(None)
    compare = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    once = []

    def called_back(_left, _right):
        if not once:
            once.append(1)
            leak(18)
        return 0

    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, ctypes.c_size_t(2), ctypes.c_size_t(4), compare(called_back))


def main():
    Encoder().forward(1)
    Encoder().weights
    list(numbers())
    recursion(3)
    in_flight()
    over_lines()
    größe()
    数(8)
    asyncio.new_event_loop().run_until_complete(awaited())
    lock_kept()
    executed()
    sorted([2, 1], key=functools.cmp_to_key(compared))
    deep(300)
    reloaded()
    in_thread()
    dying = Dying(16)
    del dying
    qsorted()


atexit.register(at_exit)
kept_to_the_end = Dying(19)
main()
