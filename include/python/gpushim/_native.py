"""C functions that Python hands out as callbacks: shim/api/python_calls.h.

A callback of ctypes is Python code: it must not run once the interpreter has ended, and not while an exception is
set. C functions may. They are in the preloaded library; without it, libgpushim-python.so has them: beside this
file (the wheel), beside libgpushim.so (an installation), or where the dynamic linker finds it (LD_LIBRARY_PATH).
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional

FILE = "libgpushim-python.so"


class Unique:
    """An object that frees what it has: a copy would free the same once more. copy, deepcopy and pickle raise
    TypeError."""
    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a %s cannot be copied or pickled: it owns memory or handles of CUDA" % type(self).__name__)


class Tensor(ctypes.Structure):  # struct gpushim_python_tensor
    _fields_ = [("shape", ctypes.POINTER(ctypes.c_int64)), ("ndim", ctypes.c_int32),
                ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("versioned", ctypes.c_uint8)]


class _Capsules(ctypes.Structure):  # struct gpushim_python_capsules
    _fields_ = [("is_valid", ctypes.c_void_p), ("get_pointer", ctypes.c_void_p)]


def address(function: Any) -> Any:
    """The address of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value


class _Place(ctypes.Structure):  # Dl_info
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("at", ctypes.c_void_p)]


def _beside_the_library() -> str:
    """libgpushim-python.so in the folder of the preloaded library, where both are installed; "": no library."""
    place = _Place()
    try:
        process = ctypes.CDLL(None)
        process.dladdr(ctypes.cast(process.gpushim_functions, ctypes.c_void_p), ctypes.byref(place))
    except (AttributeError, OSError):
        return ""
    return os.path.join(os.path.dirname(os.fsdecode(place.file)), FILE) if place.file else ""


def paths() -> List[str]:
    """Where libgpushim-python.so may be, the best place first."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE)
    return [path for path in (beside, _beside_the_library()) if os.path.exists(path)] + [FILE]


_FUNCTIONS: Dict[str, Any] = {  # name: result, arguments
    "set_capsules": (None, [ctypes.POINTER(_Capsules)]),
    "own_object": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]),
    "close": (ctypes.c_int, [ctypes.c_void_p]),
    "forget": (None, [ctypes.c_void_p]),
    "holds": (ctypes.c_uint, [ctypes.c_void_p]),
    "export": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.POINTER(Tensor)]),
    "drop_capsule": (None, [ctypes.c_void_p]),
    "gate": (ctypes.c_void_p, [ctypes.c_void_p]),
    "pass": (None, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    "close_gate": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_uint]),
}


def _open(path: Optional[str]) -> Optional[Dict[str, Any]]:
    """The functions of a library, or of the process (None); None where they are not there."""
    try:
        library = ctypes.CDLL(path)
        found = {name: getattr(library, "gpushim_python_" + name) for name in _FUNCTIONS}
    except (AttributeError, OSError):
        return None
    for name, function in found.items():
        function.restype, function.argtypes = _FUNCTIONS[name]
    python = ctypes.pythonapi
    found["set_capsules"](_Capsules(address(python.PyCapsule_IsValid), address(python.PyCapsule_GetPointer)))
    return found


_found: List[Dict[str, Any]] = []


def find() -> Any:
    """The functions by their names; None where there is neither library."""
    if not _found:
        for path in (None, *paths()):
            functions = _open(path)
            if functions:
                _found.append(functions)
                break
    return _found[0] if _found else None
