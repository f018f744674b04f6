"""threads.py SECONDS - threads that copy, view, resize, take, push and close the same objects at a time. Each call is
done, or raises Error "BUSY" or "INVALID", or BufferError; the process lives, and no memory is left.

It alone sees: a buffer that ends or moves in the midst of another thread's copy.
"""
import gc
import random
import sys
import threading
import time

from gpushim.memory import Buffer, Buffers, Cache, Error, Place, Readback, Ring, StagingPool, read_back, upload

MOST = 1 << 16
end = time.monotonic() + float(sys.argv[1])
shared, cache, pool, problems, done = {}, Cache(Place.HOST, 2, 1 << 24), StagingPool(4), [], set()
named = Buffers(4 * MOST)


def new(name):
    if name == "ring":
        return Ring(4, 64)
    if name == "taken":
        return cache.take("key", MOST)
    if name == "named":
        return named.resize("named", MOST)
    return Buffer(MOST, Place[name])


def one(choice):
    name = choice.choice(list(shared))
    thing, other = shared[name], shared[choice.choice(("HOST", "DEVICE", "PINNED", "taken", "named"))]
    act = choice.randrange(13)
    if act == 0:
        shared[name] = new(name)
        thing.close()
    elif isinstance(thing, Ring):
        slot = thing.space() or thing.next()
        if slot is not None:
            slot.put(b"%64d" % (thing.pushed + thing.popped))
        (thing.push if act % 2 else thing.pop)(choice.choice((None, 0)))
    elif act == 1:
        thing.resize(choice.randrange(1, MOST * 2))
    elif act == 2:
        thing.copy_from(other)
    elif act == 3:
        thing.put(bytes(1000))
    elif act == 4:
        thing.get()
    elif act == 5:
        thing.shrink()
    elif act == 6:
        thing.view(0, 100).fill(7)
    elif act == 7 and thing.place != Place.DEVICE:
        view = thing.memory()
        view[0] = view[-1]
    elif act == 8:
        Readback(pool, thing, stream=0).wait()
    elif act == 9:
        read_back(pool, thing, lambda data, at: bytes(data), chunk_bytes=10000)
    elif act == 10:
        upload(thing, bytes(100), pool=pool).wait()
    elif act == 11:
        thing.__dlpack__()
    elif act == 12:
        named.resize("other", choice.randrange(1, MOST * 3))
        named.clean(choice.random() < 0.5)
        named.empty("other")
    done.add(act)


def work(seed):
    choice = random.Random(seed)
    while time.monotonic() < end and not problems:
        try:
            one(choice)
        except (BufferError, MemoryError):
            pass
        except Error as error:
            if error.name not in ("BUSY", "INVALID", "NOT_FOUND"):
                problems.append(error)
        except BaseException as error:
            problems.append(error)
            raise


for kind in ("HOST", "DEVICE", "PINNED", "MANAGED", "ring", "taken", "named"):
    shared[kind] = new(kind)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for one_left in shared.values():
    one_left.close()
gc.collect()
pool.close()
cache.close()
named.close()
print("problems:", problems, "calls of each kind:", len(done) >= 10)
print("left:", cache.held_bytes, pool.held_bytes, pool.taken)
