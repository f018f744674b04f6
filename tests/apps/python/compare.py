"""compare.py - a report against what truth.py noted: compare.py TRUTH REPORT

Frames of Python must be the same, in the same order, and as many allocations with them.
Native frames must stand where C code called back into Python, and nowhere else but there
and at the inner end.
"""
import collections
import json
import re
import sys

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
FRAME = re.compile(r"^==\d+==     #\d+ +(.*?)(?: {2,}| )(\S+:\d+|\S+\+0x[0-9a-f]+|)$")
MORE = re.compile(r"^==\d+== +\.\.\. (\d+) times more$")
LEAK = re.compile(r"^==\d+== LEAK \d+: .* in ([\d,]+) allocation")


def true_stacks(path):
    counts = collections.Counter()
    with open(path) as file:
        for _, frames in json.load(file):
            counts[tuple(frames)] += 1
    return counts


def reported_stacks(path):
    counts, stack, count = collections.Counter(), None, 0
    with open(path, encoding="utf-8") as file:
        for line in list(file) + [""]:
            frame = FRAME.match(line.rstrip("\n"))
            if frame and stack is not None:
                name, place = frame.groups()
                native = "+0x" in place or not re.search(r"(\.py|>):\d+$", place)
                entry = "native" if native else name + " " + place
                if entry != "native" or (stack and stack[-1] != "native"):
                    stack.append(entry)
                continue
            more = MORE.match(line.rstrip("\n"))
            if more and stack:
                if stack[-1] != "native":
                    stack.extend(stack[-1:] * int(more.group(1)))
                continue
            if stack:
                counts[tuple(stack)] += count
                stack = None
            leak = LEAK.match(line)
            if leak:
                stack, count = [], int(leak.group(1).replace(",", ""))
    return counts


def main():
    truth, reported = true_stacks(sys.argv[1]), reported_stacks(sys.argv[2])
    different = 0
    for stack in sorted(set(truth) | set(reported)):
        if truth[stack] != reported[stack]:
            different += 1
            if different <= 5:
                print("noted %d, reported %d:" % (truth[stack], reported[stack]))
                print("   " + "\n   ".join(stack))
    print("%d allocations, %d stacks, %d different"
          % (sum(truth.values()), len(truth), different))
    return different != 0


sys.exit(main())
