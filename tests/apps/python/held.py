"""held.py - leaks whose addresses Python objects hold, and leaks whose objects are gone.

Each function makes one; its name says what a scan must say of it while the interpreter runs.

    held.py exit    ends by os._exit, with all objects
    held.py         ends as usual: the objects end before the report
"""
import array
import collections
import ctypes
import gc
import os
import sys

from cuda import free, malloc


def number():
    return malloc(4096).value


class Plain:
    pass


class Slots:
    __slots__ = ("pointer",)


class Address(int):
    pass


kept = {}


def held_in_list():
    kept["list"] = [number()]


def held_in_dict():
    kept["dict"] = {"pointer": number()}


def held_in_tuple():
    kept["tuple"] = (1, (number(), 4096))


def held_in_deque():
    kept["deque"] = collections.deque([(number(), 4096)])


def held_in_closure():
    pointer = number()
    kept["closure"] = lambda: pointer


def held_in_slot():
    kept["slot"] = slot = Slots()
    slot.pointer = number()


def held_as_subclass():
    kept["subclass"] = Address(number())


def held_as_c_void_p():
    kept["c_void_p"] = malloc(4096)


def held_in_array():
    kept["array"] = array.array("Q", [number()])


def lost_int():
    pointer = number()
    del pointer


def lost_c_void_p():
    pointer = malloc(4096)
    del pointer


def lost_list():
    pointers = []
    for _ in range(20):  # more than later numbers take the place of
        pointers.append(number())
    pointers.clear()


def lost_cycle():
    loop = Plain()
    loop.self = loop
    loop.pointer = number()


def lost_closure():
    pointer = number()

    def function():
        return pointer
    del function


def lost_slot():
    slot = Slots()
    slot.pointer = number()


first = malloc(512)  # the driver and the runtime know the segment's first block
for make in (lost_int, lost_c_void_p, lost_cycle, lost_closure, lost_slot, held_in_list, held_in_dict,
             held_in_tuple, held_in_deque, held_in_closure, held_in_slot, held_as_subclass, held_in_array,
             lost_list, held_as_c_void_p):  # the last takes the memory of freed objects of ctypes
    make()
gc.collect()
free(first)
del first
if sys.argv[1:] == ["exit"]:
    os._exit(0)
