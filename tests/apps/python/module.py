"""module.py - what the module gpushim finds, with the library and without it."""
import ctypes
import threading
import warnings

import gpushim

import cuda

print("early:", gpushim.statistics() == gpushim.Statistics(), gpushim.active())
cuda.free(cuda.malloc(1))
print("active:", gpushim.active())


def told(what, *arguments):
    try:
        return what(*arguments)
    except (TypeError, ValueError, KeyError, gpushim.Error) as error:
        return "%s: %s" % (type(error).__name__, error.args[0])


def lose(size):
    cuda.malloc(size)


@gpushim.scope("decorated")
def decorated():
    lose(7000)


with gpushim.scope("step"):
    with gpushim.scope("forward"):
        lose(5000)
    thread = threading.Thread(target=lose, args=(6000,))
    thread.start()
    thread.join()
decorated()
step = gpushim.scope_statistics("step")
print("scope: begun %d, live %d, peak %d, forward %d" % (
    step.begun, step.live_bytes, step.peak_bytes, gpushim.scope_statistics("step/forward", 0).alloc_bytes))
with gpushim.scope("outer"), gpushim.scope("GET /v1") as block:
    lost = cuda.malloc(3000)
    during = block.statistics
cuda.free(lost)
print("block: %r %d %d, then %d %d; not entered: %r %d" % (
    block.path, during.live_bytes, during.peak_bytes, block.statistics.live_bytes, block.statistics.peak_bytes,
    gpushim.scope("x").path, gpushim.scope("x").statistics.allocs))
named = gpushim.scope("called")


@named
def twice(again):
    cuda.free(cuda.malloc(1000))
    if again:
        twice(False)  # in a scope of its own, within


twice(True)
print("decorated: %r %d; %r" % (named.path, named.statistics.begun, twice.__name__))
print("no scope:", told(gpushim.scope_statistics, "forward"), told(gpushim.scope_statistics, ""))
try:
    with gpushim.scope("raises"):
        raise RuntimeError("in a scope")
except RuntimeError as error:
    print("raised:", error)


def nested(levels):
    with gpushim.scope("level"):
        return 1 + (nested(levels - 1) if levels > 1 else 0)


with warnings.catch_warnings():
    warnings.simplefilter("error")  # ends nothing
    with gpushim.scope("around"), gpushim.scope("n" * 128):
        lost = cuda.malloc(700)
    print("bad scope:", gpushim.scope_statistics("around").live_bytes, nested(40), nested(3))
cuda.free(lost)
with gpushim.stretch(0) as found:
    for _ in range(10):
        cuda.free(cuda.malloc(40000))
print("stretch: %d allocations, %d frees, hit rate %.1f, live %d" % (
    found.statistics.allocs, found.statistics.frees, found.statistics.hit_rate, found.statistics.live_count))
cuda.free(cuda.malloc(64 << 20))
before = gpushim.statistics(0).live_bytes
outer, other = gpushim.stretch(0), gpushim.stretch(gpushim.PINNED)
cuda.free(cuda.malloc(8 << 20))
with gpushim.stretch(0) as inner:
    cuda.free(cuda.malloc(3 << 20))
print("peaks of stretches:", [(one.statistics.peak_bytes - before) >> 20 for one in (outer, inner)],
      outer.end().allocs, inner.end().allocs, other.end().peak_bytes)
print("an ended stretch:", outer.statistics.allocs, outer.end() == outer.statistics, told(gpushim.stretch, 1000))
print("fragmentation: %.1f" % gpushim.statistics(0).fragmentation)
print("classes:", [one.bytes for one in gpushim.classes(0) if one.live])
print("no such device:", told(gpushim.statistics, 1000))
print("option:", gpushim.option("POOL_LIMIT"), told(gpushim.option, "NO_SUCH_OPTION"))
print("set:", gpushim.set_option("LEAK_MAX", 3), gpushim.option("GPUSHIM_LEAK_MAX"))
print("bad value:", told(gpushim.set_option, "LEAK_MAX", "lots"))
print("at start:", told(gpushim.set_option, "POOL", "off"))
large = cuda.malloc(8 << 20)
cuda.free(large)
print("trim:", gpushim.trim(0) >= 8 << 20, gpushim.trim(bytes=0), gpushim.trim(bytes=1 << 70) >= 0)
print("wrong:", told(gpushim.trim, 0, -5), told(gpushim.trim, "x"), told(gpushim.scope, None))
print("warm up:", gpushim.warm_up("4K:10"), told(gpushim.warm_up, "lots"))
print("pressure:", gpushim.pressure()[0].name, told(gpushim.pressure, 63))
risen = []


def rises(device, level):
    block = cuda.malloc(1000)
    risen.append((device, level.name, gpushim.pressure(device)[0] == level))
    cuda.free(block)
    raise ValueError("nobody is told")


def fill():
    for block in [cuda.malloc(8 << 20) for _ in range(54)]:  # of 512 MiB
        cuda.free(block)
    gpushim.trim(0)
    return gpushim.pressure()[0].name


print("on:", gpushim.on_pressure(rises), told(gpushim.on_pressure, print, 0))
print("filled:", fill(), risen)
print("off:", told(gpushim.off_pressure, rises), told(gpushim.off_pressure, rises))
print("filled again:", fill(), risen)
print("releasable:", gpushim.set_option("RELEASABLE", "cache"))
with gpushim.scope("cache"):
    cache = cuda.malloc(5 << 20)
    tiny = cuda.malloc(100)
print("release:", told(gpushim.release, "cache"))
print("resume:", told(gpushim.resume, "cache"), told(gpushim.resume, "nobody"), told(gpushim.release, "cache", "some"))
cuda.free(cache)
cuda.free(tiny)
print("record:", gpushim.record(False), gpushim.record(True))
print("report:", gpushim.report())

# A thread that calls a function of on_pressure so late that the interpreter has ended: here a handler of exit.
if gpushim.on_pressure(rises):
    passes = ctypes.cast(gpushim._native.find()["pass"], ctypes.c_void_p)
    ctypes.CDLL(None).__cxa_atexit(passes, ctypes.c_void_p(gpushim._calls[rises][1]), None)
