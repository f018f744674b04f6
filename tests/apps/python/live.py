"""live.py - live allocations by the Python module: by address, listed, compared, while threads allocate."""
import os
import threading

import gpushim

import cuda


def told(what, *arguments):
    try:
        return what(*arguments)
    except (ValueError, KeyError, gpushim.Error) as error:
        return "%s: %s" % (type(error).__name__, error.args[0])


def shown(one):
    return one and (one.bytes, one.device, one.kind, one.call, os.path.basename(one.owner), one.scope, bool(one.stack))


def keep(size):
    return cuda.malloc(size)


print("early:", gpushim.allocation_at(1), gpushim.allocations(), gpushim.snapshot().allocations)
with gpushim.scope("step"):
    block = keep(5000)
small = keep(300)
print("at:", shown(gpushim.allocation_at(block.value + 4999)))
print("past its end:", gpushim.allocation_at(block.value + 5000), gpushim.allocation_at(1 << 40))
print("bad:", told(gpushim.allocation_at, 0), told(gpushim.allocations, 1000))
found = gpushim.allocation_at(block.value)
if found:
    print("stack:", *(line.split()[1:] for line in str(found.stack).splitlines()[:2]))
    print("again:", str(found.stack) == str(gpushim.allocation_at(block.value).stack), 0 <= found.age < 600)
print("all:", sorted(one.bytes for one in gpushim.allocations()), gpushim.allocations(gpushim.PINNED))

before = gpushim.snapshot(0)
cuda.free(small)
again = [keep(300) for _ in range(3)]
cuda.free(cuda.malloc(70000))
difference = gpushim.snapshot(0) - before
print("new:", sorted(one.bytes for one in difference.new), "freed:", [one.bytes for one in difference.freed])
for change in difference.changes:
    print("change:", change.new_count, change.new_bytes, change.freed_count, change.freed_bytes,
          os.path.basename(change.owner))
print("nothing:", gpushim.snapshot(0) - gpushim.snapshot(0) == gpushim.Difference((), ()))
print("two devices:", told(lambda: gpushim.snapshot(gpushim.PINNED) - before).split(":")[0])
child = os.fork()
if child == 0:
    os._exit(len(gpushim.allocations()) + 10 * (told(lambda: gpushim.snapshot(0) - before)[:10] == "ValueError"))
print("in a child:", os.waitpid(child, 0)[1] >> 8)

done = threading.Event()


def work():
    while not done.is_set():
        for one in [cuda.malloc(1111) for _ in range(20)]:
            cuda.free(one)


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
kept = {block.value, *(one.value for one in again)}
wrong = sum(sorted(one.address for one in gpushim.allocations(0) if one.address in kept) != sorted(kept)
            for _ in range(30))
done.set()
for thread in threads:
    thread.join()
print("wrong while threads allocate:", wrong if gpushim.active() else 0)
