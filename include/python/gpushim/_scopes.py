"""Scopes: names for what a thread allocates, and the memory of each."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import warnings
from typing import Any, Callable, List, TypeVar, cast

import gpushim

_PATH_BYTES = 1024  # GPUSHIM_SCOPE_BYTES

_Function = TypeVar("_Function", bound=Callable[..., Any])

_warned = False


def _warn(name: str) -> None:
    """Once a process; a warning that is an error ends no program."""
    global _warned  # pylint: disable=global-statement
    if not _warned:
        _warned = True
        with contextlib.suppress(RuntimeWarning):
            warnings.warn("gpushim.scope(%.140r): not 1 to 127 bytes, or too deep; its allocations belong to the scope "
                          "around" % name, RuntimeWarning, stacklevel=3)


def _path() -> str:
    """The path of the thread's scopes; "" where the library is older."""
    path = ctypes.create_string_buffer(_PATH_BYTES)
    known = gpushim._call("scope_path", path, _PATH_BYTES) == gpushim._OK
    return path.value.decode(errors="surrogateescape") if known else ""


@dataclasses.dataclass(frozen=True)
class ScopeTotals:
    """The memory of a scope, the scopes within it included (struct gpushim_scope_totals). If `missed` is not 0, so
    many allocations are in no other member: the table of call stacks was full (GPUSHIM_STACK=table). Of the blocks that
    PyTorch's caching allocator keeps, the tensors count."""
    begun: int = 0
    allocs: int = 0
    alloc_bytes: int = 0
    frees: int = 0
    free_bytes: int = 0
    live_count: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    lost_count: int = 0
    lost_bytes: int = 0
    missed: int = 0


def scope_statistics(path: str, device: int = gpushim.ALL_DEVICES) -> ScopeTotals:
    """What was allocated in a scope so far, by all threads. `path` begins with the outermost scope: "step/forward".
    Raises KeyError if no such scope was begun."""
    raw = gpushim._ScopeTotals(size=ctypes.sizeof(gpushim._ScopeTotals))
    result = gpushim._call("scope_statistics", path.encode(errors="surrogateescape"), device, ctypes.byref(raw))
    if not gpushim._check(result, "scope %r" % path):
        return ScopeTotals()
    return ScopeTotals(*(getattr(raw, field.name) for field in dataclasses.fields(ScopeTotals)))


class Scope:
    """What scope() returns.

    name: as given. path: of the block that was entered last, "step/forward"; "" before, where the library is not
    active, and of a name that was refused.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError("scope: a name is a str, not %s" % type(name).__name__)
        self.name = name
        self.path = ""
        self._begun: List[int] = []

    def __enter__(self) -> Scope:
        begun = gpushim._call("scope_begin", self.name.encode(errors="replace"))
        self._begun.append(begun)
        if begun == gpushim._INVALID:
            _warn(self.name)
        self.path = _path() if begun == gpushim._OK else ""
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun.pop() not in (gpushim._INACTIVE, gpushim._NO_MEMORY):
            gpushim._call("scope_end")

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def within(*arguments: Any, **named: Any) -> Any:
            with Scope(self.name) as entered:  # of its own: threads may be in it at once
                self.path = entered.path
                return function(*arguments, **named)
        return cast(_Function, within)

    @property
    def statistics(self) -> ScopeTotals:
        """scope_statistics(self.path), during the block and after it: of all blocks and threads with this path, not of
        the last block alone (gpushim.stretch has the peak of a block). All 0 where there is no path, or CUDA has not
        started."""
        try:
            return scope_statistics(self.path) if self.path else ScopeTotals()
        except KeyError:
            return ScopeTotals()


def scope(name: str) -> Scope:
    """Names the allocations of its body in the report; nests: "step/forward". Also a decorator.

        with gpushim.scope("forward") as forward:
            ...
        print(forward.statistics.peak_bytes)

    A name has 1 to 127 bytes; each "/" of it is ":" in paths and reports. Up to 32 nest, in a path of at most 1,023
    bytes. Otherwise there is one RuntimeWarning, and the body's allocations belong to the scope around."""
    return Scope(name)
