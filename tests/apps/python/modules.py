"""modules.py - gpushim.torch.modules over a model with the hooks of PyTorch's: each module is a scope, in the backward
pass too, whose part another thread runs; calls that fail leave no scope behind. `old`: hooks as before PyTorch 2.1,
which say nothing of a call that failed. Prints the scopes' allocations; natively there are none.
"""
import sys
import threading

import cuda
import gpushim.torch

old = sys.argv[1:] == ["old"]


class Hook:
    def __init__(self, hooks, function):
        self.hooks, self.function = hooks, function
        hooks.append(function)

    def remove(self):
        self.hooks.remove(self.function)


class Tensor:
    is_cuda, requires_grad = True, True

    def __init__(self, leaf=False):
        self.grad_fn = None if leaf else self
        self.hooks = []

    def register_hook(self, function):
        assert self.grad_fn, "the hook of a leaf stays for ever"
        return Hook(self.hooks, function)


class Module:
    def __init__(self, **modules):
        self.modules, self.before, self.after = modules, [], []

    def named_modules(self, around=""):
        yield around, self
        for name, module in self.modules.items():
            yield from module.named_modules(around + "." * bool(around) + name)

    def register_forward_pre_hook(self, function):
        return Hook(self.before, function)

    def register_forward_hook(self, function, **options):
        if old and options:
            raise TypeError("always_call")
        self.always = options.get("always_call", False)
        return Hook(self.after, function)

    def __call__(self, *arguments):
        output = None
        for hook in self.before:
            hook(self, arguments)
        try:
            output = self.forward(*arguments)
            return output
        finally:
            for hook in self.after:
                if self.always or output is not None:
                    hook(self, arguments, output)


class List(Module):  # torch.nn.ModuleList: nobody calls it
    def _forward_unimplemented(self, *_):
        raise NotImplementedError
    forward = _forward_unimplemented


class Layer(Module):
    fails = False

    def forward(self, given):
        cuda.malloc(1000)
        if self.fails:
            raise ValueError("planted")
        made.append(Tensor())
        return {"out": [made[-1], "no tensor"], "given": given}


class Net(Module):
    def forward(self, given):
        cuda.malloc(2000)
        for layer in self.modules["layers"].modules.values():
            given = layer(given)["out"][0]
        return (given, Tensor(leaf=True))


def run_hooks(tensor):
    """As the engine does once a tensor's gradient is there."""
    for hook in tensor.hooks:
        hook(None)


def backward(given):
    cuda.malloc(100)  # of the loss
    run_hooks(made[1])  # the output of the last layer, and of the model
    cuda.malloc(3000)
    run_hooks(made[0])
    cuda.malloc(4000)
    run_hooks(given)
    cuda.malloc(200)  # of what was before the model


def show(*paths):
    for path in paths:
        try:
            found = gpushim.scope_statistics(path)
            print("%s: %d of %d B" % (path, found.allocs, found.alloc_bytes))
        except KeyError:
            print("%s: none" % path)


made = []
layers = {"0": Layer(), "1": Layer()}
model = Net(layers=List(**layers))
given = Tensor()
with gpushim.torch.modules(model):
    with gpushim.scope("step"):
        model(given)
    thread = threading.Thread(target=backward, args=(given,))
    thread.start()
    thread.join()
    layers["1"].fails = True
    for _ in range(40):  # more than scopes may nest
        try:
            model(Tensor())
            print("it did not fail")
        except ValueError:
            pass
    layers["1"].fails = False
    model(Tensor())
    cuda.malloc(5000)  # in no scope
model(Tensor())
print("hooks left:", sum(len(module.before) + len(module.after) for _, module in model.named_modules()))
show("step", "step/backward", "step/Net", "step/Net/backward", "step/Net/layers.0", "step/Net/layers.0/backward",
     "step/Net/layers.1", "step/Net/layers.1/backward", "step/Net/layers", "Net", "Net/layers.0", "Net/layers.1", "Net/Net")
try:
    gpushim.torch.pool()
except RuntimeError as error:
    print(error)  # the stand-in has none
