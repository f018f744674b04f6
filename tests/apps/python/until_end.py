"""until_end.py WHAT - what a script has kept when Python ends, which then frees it.

list     a line keeps one block after the other, between blocks that go; slow_start: after others for a third of the run
         interrupted: and then Ctrl-C
leaks    likewise, and the same function has a leak; apart: another function has it
few      likewise, too few; seldom: one in three of those that the line makes
latest   a loop keeps its latest blocks; freed: all that a line kept go before the end; alone: nothing else goes
model    all blocks come first, with others that go, and then no call for most of the run
"""
import collections
import sys
import time

import cuda

WHAT = sys.argv[1]


class Block:
    """Memory that is freed with the object."""

    def __init__(self, kilobytes):
        self.memory, self.free = cuda.malloc(kilobytes << 10), cuda.free

    def __del__(self):
        self.free(self.memory)


def step(turn):
    made = Block(1024) if WHAT != "alone" else None
    block = Block(64)
    if WHAT != "seldom" or turn % 3 == 0:
        kept.append(block)
    if WHAT == "leaks" and turn == 30:
        Block(2048).free = id
    del made


def lose():
    Block(2048).free = id  # its memory stays


kept = collections.deque(maxlen=20 if WHAT == "latest" else None)
if WHAT == "slow_start":
    others = [Block(8) for _ in range(3)]
    time.sleep(0.8)
if WHAT == "apart":
    lose()
if WHAT == "model":
    for number in range(60):
        step(number)
    time.sleep(3)
else:
    for number in range(12 if WHAT == "few" else 60):
        step(number)
        time.sleep(0.03)
if WHAT == "interrupted":
    raise KeyboardInterrupt
if WHAT == "freed":
    kept.clear()
print("done")
