"""A scope for each module of a PyTorch model: gpushim.torch.modules."""
from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

import gpushim

_BACKWARD = "backward"


class _Thread(threading.local):
    """forward: the calls of modules that this thread is in, each with its scope. backward: the scopes that the
    gradients of the last module began; path: their names."""

    def __init__(self) -> None:
        self.forward: List[Tuple[Any, gpushim.Scope]] = []
        self.backward: List[gpushim.Scope] = []
        self.path: Tuple[str, ...] = ()


_thread = _Thread()


def _begin(name: str) -> gpushim.Scope:
    return gpushim.scope(name).__enter__()


def _switch(path: Tuple[str, ...]) -> None:
    """The thread's backward pass goes on in the scope of this path; (): in none."""
    if path == _thread.path:
        return
    while _thread.backward:
        _thread.backward.pop().__exit__()
    _thread.path = path
    if path:
        _thread.backward = [_begin(name) for name in path + (_BACKWARD,)]


def _end_with_pass() -> None:
    """Ends the thread's scopes at the end of its backward pass, which a model whose inputs need no gradient does not
    tell otherwise. PyTorch's own packages use this function; without it, the scopes end with the next pass."""
    with contextlib.suppress(ImportError, AttributeError, RuntimeError):
        from torch.autograd import Variable

        Variable._execution_engine.queue_callback(functools.partial(_switch, ()))


def _enter(path: Tuple[str, ...], _: Any) -> None:
    """A gradient of a module's output is there: the module's part of the backward pass begins, or that of a module
    within, whose output it is, too, has begun."""
    if not _thread.path:
        _end_with_pass()
    if _thread.path[:len(path)] != path:
        _switch(path)


def _leave(path: Tuple[str, ...], _: Any) -> None:
    """A gradient of a module's input is there: what follows is the part of the module around."""
    if _thread.path[:len(path)] == path:
        _switch(path[:-1])


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors of a module's arguments or output that a backward pass leads through. Their hooks end with the
    graph; those of a leaf would not."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif getattr(value, "grad_fn", None) is not None and getattr(value, "is_cuda", False):
        yield value


def _watch(tensors: Iterable[Any], scope: gpushim.Scope, then: Callable[..., None]) -> None:
    path = tuple(scope.path.split("/")) if scope.path else ()
    for tensor in tensors if path else ():
        tensor.register_hook(functools.partial(then, path))


def _end_forward(module: Any) -> gpushim.Scope:
    """Ends the scopes of a call and of all calls within, which have failed if they did not end."""
    entered = None
    while entered is not module:
        entered, scope = _thread.forward.pop()
        scope.__exit__()
    return scope


def _before(name: str, module: Any, arguments: Any) -> None:
    if _thread.forward and _thread.forward[0][0] is module:  # its last call failed, and PyTorch (2.0) did not tell
        _end_forward(module)
    scope = _begin(name)
    _thread.forward.append((module, scope))
    _watch(_tensors(arguments), scope, _leave)


def _after(module: Any, arguments: Any, output: Any) -> None:
    if not any(entered is module for entered, _ in _thread.forward):
        return
    given = list(_tensors(arguments))  # passed through, it has a gradient once the module has done its part
    _watch([tensor for tensor in _tensors(output) if not any(tensor is one for one in given)], _end_forward(module),
           _enter)


def _has_forward(module: Any) -> bool:
    """ModuleList and ModuleDict are no scopes: they are never called."""
    function = getattr(type(module), "forward", None)
    return function is not None and getattr(function, "__name__", "") != "_forward_unimplemented"


def _names(model: Any, name: str) -> Iterator[Tuple[str, Any]]:
    """Each module that can be called, with its name in the one around it."""
    called: Dict[str, bool] = {}
    for path, module in model.named_modules():
        called[path] = _has_forward(module)
        around = path.rpartition(".")[0]
        while around and not called[around]:
            around = around.rpartition(".")[0]
        if called[path]:
            yield path[len(around) + 1 if around else 0:] or name, module


class Modules:
    """What modules() returns. remove() ends it, as does the end of a `with`."""

    def __init__(self, model: Any, name: str) -> None:
        self._hooks: List[Any] = []
        if not gpushim.version():
            return
        for own, module in _names(model, name):
            self._hooks.append(module.register_forward_pre_hook(functools.partial(_before, own)))
            try:
                self._hooks.append(module.register_forward_hook(_after, always_call=True))
            except TypeError:  # before PyTorch 2.1
                self._hooks.append(module.register_forward_hook(_after))

    def remove(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def __enter__(self) -> Modules:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
