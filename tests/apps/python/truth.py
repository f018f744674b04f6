"""truth.py - random call trees: truth.py SEED TREES FILE

Each tree ends in an allocation that is never freed. What Python itself says of the stack
at that moment goes into FILE, with the size; compare.py compares it with the report.
"native" stands where a call goes through C code that is not the interpreter's.
"""
import asyncio
import contextlib
import ctypes
import functools
import json
import random
import sys
import threading

import cuda

seed, trees, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
generator = random.Random(seed)
records = []
lock = threading.Lock()
libc = ctypes.PyDLL(None)
# asyncio steps coroutines in C; its module may be part of the interpreter.
CALLED_BY_C = {"called_back"}
if hasattr(sys.modules.get("_asyncio"), "__file__"):
    CALLED_BY_C.add("stepped")
COMPARE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def leaf(plan):
    library = cuda.held if plan["held"] else cuda.released
    pointer = ctypes.c_void_p()
    size = plan["size"]
    codes = (library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), note(size))
    cuda.check(codes[0])


def note(size):
    frames = []
    for function, file, line in cuda.stack()[1:]:
        frames.append("%s %s:%d" % (function, file, line))
        if function.split(".")[-1] in CALLED_BY_C:
            frames.append("native")
    with lock:
        records.append((size, frames))


def go(plan, depth):
    if depth == len(plan["steps"]):
        leaf(plan)
    else:
        STEPS[plan["steps"][depth]](plan, depth + 1)
    return 1


class Base:
    def method(self, plan, depth):
        return go(plan, depth)

    @classmethod
    def of_class(cls, plan, depth):
        return go(plan, depth)

    @staticmethod
    def of_nobody(plan, depth):
        return go(plan, depth)

    def __call__(self, plan, depth):
        return go(
            plan,
            depth,
        )

    def __getattr__(self, name):
        if name != "wanted":
            raise AttributeError(name)
        return go(*self.__dict__["arguments"])

    def __iter__(self):
        yield go(*self.__dict__["arguments"])

    def __lt__(self, other):
        go(*self.__dict__["arguments"])
        return True

    @property
    def computed(self):
        return go(*self.__dict__["arguments"])


class Derived(Base):
    def method(self, plan, depth):
        return super().method(plan, depth)


def with_arguments(plan, depth):
    base = Base()
    base.__dict__["arguments"] = (plan, depth)
    return base


def by_method(plan, depth):
    return Base().method(plan, depth)


def by_super(plan, depth):
    return Derived().method(plan, depth)


def by_class(plan, depth):
    return Base.of_class(plan, depth)


def by_static(plan, depth):
    return Base.of_nobody(plan, depth)


def by_call(plan, depth):
    return Base()(plan, depth)


def by_getattr(plan, depth):
    return with_arguments(plan, depth).wanted


def by_property(plan, depth):
    return with_arguments(plan, depth).computed


def by_iteration(plan, depth):
    for value in with_arguments(plan, depth):
        return value


def by_comparison(plan, depth):
    return with_arguments(plan, depth) < 3


def by_lambda(plan, depth):
    return (lambda a, b: go(a, b))(plan, depth)


def by_closure(plan, depth):
    def inner():
        return go(plan, depth)

    return inner()


def by_generator(plan, depth):
    def numbers():
        yield go(plan, depth)
        yield 2

    return next(numbers())


def by_yield_from(plan, depth):
    def inner():
        yield go(plan, depth)

    def outer():
        yield from inner()

    return list(outer())[0]


def by_sent(plan, depth):
    def waiting():
        while True:
            (yield)
            go(plan, depth)

    coroutine = waiting()
    next(coroutine)
    coroutine.send(1)
    coroutine.close()


def by_comprehension(plan, depth):
    return [go(plan, depth) for _ in range(1)][0]


def by_expression(plan, depth):
    return sum(go(plan, depth) for _ in range(1))


def by_sorted(plan, depth):
    return sorted([1], key=lambda _: go(plan, depth))


def by_map(plan, depth):
    return list(map(go, [plan], [depth]))


def by_partial(plan, depth):
    return functools.partial(go, plan)(depth)


def by_reduce(plan, depth):
    return functools.reduce(lambda a, b: go(plan, depth), [1, 2])


def by_keywords(plan, depth):
    return go(**{"plan": plan, "depth": depth})


def by_stars(plan, depth):
    return go(*(plan, depth))


def by_exception(plan, depth):
    try:
        raise ValueError("in flight")
    except ValueError:
        return go(plan, depth)


def by_finally(plan, depth):
    with contextlib.suppress(ValueError):
        try:
            raise ValueError("in flight")
        finally:
            go(plan, depth)


def by_with(plan, depth):
    @contextlib.contextmanager
    def managed():
        yield go(plan, depth)

    with managed() as value:
        return value


def by_exit(plan, depth):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            go(plan, depth)

    with Manager():
        pass


def by_delete(plan, depth):
    class Dying:
        def __del__(self):
            go(plan, depth)

    dying = Dying()
    del dying


def by_exec(plan, depth):
    names = {"go": go, "plan": plan, "depth": depth}
    lines = plan["size"] % 7
    exec(compile("\n" * lines + "go(plan, depth)", "made_%d.py" % (lines % 3), "exec"), names)


def by_eval(plan, depth):
    return eval("go(plan, depth)")


def by_class_body(plan, depth):
    class Body:
        value = go(plan, depth)

    return Body.value


def by_asyncio(plan, depth):
    async def inner():
        await asyncio.sleep(0)
        return go(plan, depth)

    async def stepped():
        return await inner()

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(stepped())
    finally:
        loop.close()


def by_coroutine(plan, depth):
    async def inner():
        return go(plan, depth)

    async def outer():
        return await inner()

    try:
        outer().send(None)
    except StopIteration as stop:
        return stop.value


def by_callback(plan, depth):
    def called_back(_left, _right):
        try:
            go(plan, depth)
        except Exception as error:
            print("callback: %r" % error)
        return 0

    function = COMPARE(called_back)
    libc.qsort((ctypes.c_int * 2)(2, 1), ctypes.c_size_t(2), ctypes.c_size_t(4), function)


def by_thread(plan, depth):
    thread = threading.Thread(target=go, args=(plan, depth))
    thread.start()
    thread.join()


def by_recursion(plan, depth, more=5):
    if more > 0:
        return by_recursion(plan, depth, more - 1)
    return go(plan, depth)


def by_düse(plan, depth):
    größe = go
    return größe(plan, depth)


def by_dispatch(plan, depth):
    @functools.singledispatch
    def chosen(value):
        return None

    @chosen.register(int)
    def _(value):
        return go(plan, depth)

    return chosen(3)


def by_cached(plan, depth):
    @functools.lru_cache(maxsize=None)
    def cached():
        return go(plan, depth)

    return cached()


STEPS = [value for name, value in sorted(globals().items()) if name.startswith("by_")]
# asyncio has no loop within a loop, and a thread's stack begins again.
ONCE = [by_asyncio]
PAGE = 256


def plan_tree(number):
    steps = [generator.randrange(len(STEPS)) for _ in range(generator.randrange(1, 7))]
    seen, kept = set(), []
    for step in steps:
        if STEPS[step] in ONCE and step in seen:
            continue
        seen.add(step)
        kept.append(step)
    return {"size": (number + 1) * PAGE, "steps": kept, "held": generator.random() < 0.3}


def main():
    again = []
    for number in range(trees):
        plan = plan_tree(number)
        if again and generator.random() < 0.3: # a stack that was seen before
            plan["steps"] = generator.choice(again)
        again.append(plan["steps"])
        go(plan, 0)


main()
with open(path, "w") as file:
    json.dump(records, file)
print(len(records), "allocations")
