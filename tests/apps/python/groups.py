"""groups.py - gpushim.group: counters, preallocated memory, wrong arguments, threads. Its output is the same with the
library and without it."""
import gc
import threading
import weakref

from gpushim.group import Group


def told(what, *arguments):
    try:
        return what(*arguments)
    except (ValueError, MemoryError) as error:
        return "%s: %s" % (type(error).__name__, error)


with Group("bfs_traversal") as group:
    frontier = group.allocate(1024)
    distances = group.allocate((10, 100), "<u4")
    print("two:", group.statistics)
    frontier.free()
    print("one freed:", group.statistics)
print("all freed:", group.statistics, frontier.pointer, distances.pointer)
again = group.allocate(10)
print("goes on:", group.statistics)
group.free()

with Group("pagerank", "pinned") as group:
    group.preallocate(4000, "<f4")
    group.preallocate([8, 8])
    print("ahead:", group.statistics)
    other, taken, listed = group.allocate(4000), group.allocate(4000, "<f4"), group.allocate((8, 8))
    print("taken:", group.statistics, taken.place, other.nbytes, listed.shape)
    for name in ("", "n" * 128, "a\0b"):
        print("name:", told(Group, name)[:40])
    print("bad:", told(group.allocate, 0), told(group.allocate, 8, "x"), told(group.preallocate, -1))
    print("too much:", told(group.allocate, 1 << 60)[:11])
    print("as before:", group.statistics.count, group.statistics.current_bytes)
    print("no place:", told(Group("a", "nowhere").allocate, 8))

# What is freed while a consumer holds it stays until that ends; a group that ends does not wait for a collection.
try:
    import numpy
except ImportError:
    numpy = None
gc.disable()
with Group(None, "pinned") as group:
    one, other = group.allocate(100), group.allocate(200)
    held = numpy.from_dlpack(one) if numpy else None
    one.free()
    other.free()
    print("held:", group.statistics.current_bytes == 100 * bool(numpy), group.statistics.live_count == bool(numpy))
    del held
    print("let go:", group.statistics)
    print("wrong forms:", told(group.allocate, ([1], 2)), told(group.allocate, 8, ["<f4"]))
    ended = weakref.ref(group.allocate(8))
group = None
print("ended:", ended() is None)
gc.enable()

group = Group()


def work():
    for _ in range(50):
        group.allocate(64, "<u4")


for _ in range(20):
    group.preallocate(64, "<u4")
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads:", group.statistics)
group.free()
print("freed:", group.statistics.current_bytes, group.statistics.live_count)
