"""ways.py - one odd way to run Python a process: ways.py WAY

fork            a child of a process without CUDA allocates
subinterpreter  an interpreter inside the interpreter does
daemon          threads that nobody waits for allocate while the interpreter ends
busy LIBRARY    threads that nobody waits for wait for their turn while it ends
exits           threads allocate at each depth of a recursion
deep LIBRARY    C calls itself 60 times between Python and the allocation
"""
import ctypes
import os
import sys
import threading
import time

import cuda

PAGE = 4096


def in_child():
    cuda.malloc(PAGE)


def fork():
    child = os.fork()
    if child == 0:
        in_child()
        sys.exit(0)
    sys.exit(os.waitpid(child, 0)[1])


INSIDE = """
import sys
sys.path.insert(0, %r)
import cuda
def inside():
    cuda.malloc(4096)
inside()
"""


def subinterpreter():
    try:
        import _interpreters as interpreters
        made = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters
        shared = {} if sys.version_info[:2] == (3, 8) else {"isolated": False}
        made = interpreters.create(**shared)
    interpreters.run_string(made, INSIDE % os.path.dirname(__file__))
    interpreters.destroy(made)


def allocate_for_ever():
    while True:
        cuda.free(cuda.malloc(PAGE))


def daemon():
    for _ in range(4):
        threading.Thread(target=allocate_for_ever, daemon=True).start()
    time.sleep(0.05)


def compute_for_ever():
    while True:
        pass


def busy():
    deep_call(ctypes.PyDLL(sys.argv[2]), PAGE)
    for _ in range(4):
        threading.Thread(target=compute_for_ever, daemon=True).start()
    time.sleep(0.05)


def exits():
    def recurse(depth):
        cuda.free(cuda.malloc(PAGE))
        if depth > 0:
            recurse(depth - 1)

    threads = [threading.Thread(target=recurse, args=(100,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def deep_call(library, size):
    pointer = ctypes.c_void_p()
    cuda.check(library.deep_malloc(60, ctypes.byref(pointer), ctypes.c_size_t(size)))


def deep():
    deep_call(ctypes.PyDLL(sys.argv[2]), PAGE)


globals()[sys.argv[1]]()
