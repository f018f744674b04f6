#!/usr/bin/env python3
"""timeline.py - what a reader finds in a file of gpushim timeline, the same text for each format.

  timeline.py perfetto|memory_viz|heaptrack|massif... [part]    reads FORMAT.file, writes FORMAT.found

part: the file has the largest allocations alone, and its curves have all:

  curve: MEMORY peak=BYTES last=BYTES points=COUNT

Else:

  reserved: MEMORY peak=BYTES                      of memory_viz, and of perfetto if the trace has segments
  all: peak=BYTES                                  of all memories together
  memory: MEMORY made=COUNT freed=COUNT peak=BYTES live=BYTES
  live: MEMORY FUNCTION FILE:LINE BYTES COUNT      of each call stack, by its innermost frame
  stack: FUNCTION < FUNCTION ...                   of each call stack with live memory, the innermost first

massif has sums alone, so it has no counts, no `memory:`, and call sites of a hundredth and more.

Each file is read by the rules of its format; what breaks them ends this with an error.
"""
import collections
import json
import os
import pickle
import re
import sys

Frame = collections.namedtuple("Frame", "function file line")


class Ledger:
    """What is live, told by the events of a file."""

    def __init__(self):
        self.live, self.sums, self.peaks = {}, collections.Counter(), collections.Counter()
        self.made, self.freed, self.last = collections.Counter(), collections.Counter(), 0
        self.peak = 0

    def make(self, key, memory, size, stack):
        assert key not in self.live, f"{key} is made twice"
        self.live[key] = (memory, size, tuple(stack))
        self.made[memory] += 1
        self.sums[memory] += size
        self.peaks[memory] = max(self.peaks[memory], self.sums[memory])
        self.peak = max(self.peak, sum(self.sums.values()))

    def free(self, key):
        memory, size, _ = self.live.pop(key)
        self.freed[memory] += 1
        self.sums[memory] -= size

    def at(self, time):
        assert time >= self.last, f"back in time: {time} after {self.last}"
        self.last = time

    def write(self):
        print(f"all: peak={self.peak}")
        for memory in sorted(self.made):
            print(f"memory: {memory} made={self.made[memory]} freed={self.freed[memory]} "
                  f"peak={self.peaks[memory]} live={self.sums[memory]}")
        places = collections.defaultdict(lambda: [0, 0])
        for memory, size, stack in self.live.values():
            places[memory, stack][0] += size
            places[memory, stack][1] += 1
        lines = set()
        for (memory, stack), (size, count) in places.items():
            inner = stack[0] if stack else Frame("?", None, 0)
            lines.add(f"live: {memory} {inner.function} {os.path.basename(inner.file or '?')}:{inner.line} {size} {count}")
            lines.add("stack: " + " < ".join(frame.function for frame in stack))
        for line in sorted(lines):
            print(line)


def perfetto(path):
    with open(path, "rb") as file:
        events = json.loads(file.read().decode("utf-8", "strict"))["traceEvents"]
    ledger, begun, kept, curves, reserved = Ledger(), {}, 0, collections.defaultdict(list), collections.Counter()
    part = sys.argv[-1] == "part"
    for event in events:
        if event["ph"] == "b":
            stack = []
            for line in event["args"].get("call stack", []):
                match = re.fullmatch(r"(?s)(.*?)(?: \((.*):(\d+)\))?", line)
                stack.append(Frame(match[1], match[2], int(match[3] or 0)))
            ledger.at(event["ts"])
            ledger.make(event["id2"]["local"], event["cat"], event["args"]["bytes"], stack)
            begun[event["id2"]["local"]] = event
        elif event["ph"] == "e":
            first = begun.pop(event["id2"]["local"])
            assert (first["name"], first["cat"], first["pid"]) == (event["name"], event["cat"], event["pid"])
            ledger.at(event["ts"])
            if "args" in event:
                assert event["args"] == {"end": "not freed"}
                kept += 1
            else:
                ledger.free(event["id2"]["local"])
        elif event["ph"] == "C" and event["name"].endswith(" reserved"):
            reserved[event["name"]] = max(reserved[event["name"]], event["args"]["bytes"])
        elif event["ph"] == "C":
            memory, live = event["name"].removesuffix(" live"), event["args"]["bytes"]
            assert part or live == ledger.sums[memory], event
            curves[memory].append(live)
        else:
            assert event["ph"] in "Mi", event
    if part:
        for memory, points in sorted(curves.items()):
            print(f"curve: {memory} peak={max(points)} last={points[-1]} points={len(points)}")
    for name, most in reserved.items():
        if not part:
            print(f"reserved: {name.removesuffix(' reserved')} peak={most}")
    assert not begun and kept == len(ledger.live), "a slice without an end"
    return ledger


def frames_of(frames):
    return [Frame(frame["name"], frame["filename"], frame["line"]) for frame in frames]


def inside(segments, device, address, size):
    return any(where == device and begin <= address and address + size <= begin + held
               for (where, begin), held in segments.items())


def memory_viz(path):
    """Allocations lie in segments, which do not overlap, and at the end their blocks fill them."""
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    part = sys.argv[-1] == "part"
    ledger, segments, ended = Ledger(), {}, []

    def check_ended(device):
        for begin, size in ended:
            for (where, address), (_, held, _) in ledger.live.items():
                assert where != device or address + held <= begin or begin + size <= address or \
                    inside(segments, device, address, held), f"{address:#x} is live in a segment that has ended"
        ended.clear()

    for device, events in enumerate(snapshot["device_traces"]):
        memory, asked, reserved, most = f"GPU {device}", set(), 0, 0
        ledger.last = 0
        for event in events:
            key, size = (device, event["addr"]), event["size"]
            if event["time_us"] != ledger.last:
                check_ended(device) # what remains of it has begun at the same time
            ledger.at(event["time_us"])
            if event["action"] == "segment_alloc":
                assert not any(where == device and begin < key[1] + size and key[1] < begin + held
                               for (where, begin), held in segments.items()), event
                segments[key] = size
                reserved += size
                most = max(most, reserved)
            elif event["action"] == "alloc":
                assert inside(segments, *key, size), event
                ledger.make(key, memory, size, frames_of(event["frames"]))
            elif event["action"] == "free_requested":
                asked.add(key)
            elif event["action"] == "free_completed":
                asked.remove(key)
                ledger.free(key)
            elif event["action"] == "segment_free":
                assert segments.pop(key) == size
                ended.append((key[1], size))
                reserved -= size
            else:
                raise ValueError(event)
        check_ended(device)
        if not part and most:
            print(f"reserved: {memory} peak={most}")
    blocks = set()
    for segment in snapshot["segments"]:
        at, sums = segment["address"], collections.Counter()
        assert segments.pop((segment["device"], at)) == segment["total_size"], segment
        for block in segment["blocks"]:
            key = segment["device"], at
            assert block["address"] == at and block["size"] > 0
            at += block["size"]
            sums[block["state"]] += block["requested_size"]
            if block["state"] == "inactive":
                assert key not in ledger.live and block["requested_size"] == 0 and block["frames"] == []
            elif key in ledger.live:
                assert ledger.live[key] == (f"GPU {key[0]}", block["requested_size"], tuple(frames_of(block["frames"])))
                blocks.add(key)
            else:
                assert part and block["frames"] == []
        assert at == segment["address"] + segment["total_size"], segment
        assert set(sums) <= {"active_allocated", "inactive"}
        assert sums["active_allocated"] == segment["allocated_size"] == segment["active_size"]
    assert not segments, "a segment that has not ended is not listed"
    assert blocks == set(ledger.live), "not what is live"
    return ledger


def heaptrack(path):
    """The rules of heaptrack's accumulatedtracedata.cpp, version 2: all numbers are hexadecimal."""
    texts, frames, nodes, kinds, count = [None], [None], [None], [], collections.Counter()
    ledger, live = Ledger(), collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            letter, rest = line[0], line[2:]
            numbers = [] if letter in "sX" else [int(word, 16) for word in rest.split()]
            if letter == "v":
                assert numbers == [0x10400, 2]
            elif letter == "s":
                texts.append(rest)
            elif letter == "i":
                address, module, *place = numbers
                function, file, number = place or [0, 0, 0]
                frames.append(Frame(texts[function] or f"{texts[module]}+{address:#x}", texts[file] if file else None, number))
            elif letter == "t":
                frame, parent = numbers
                nodes.append([frames[frame]] + (nodes[parent] if parent else []))
            elif letter == "a":
                size, node = numbers
                kinds.append((size, nodes[node]))
            elif letter == "c":
                ledger.at(numbers[0])
            elif letter == "+":
                kind, = numbers
                size, stack = kinds[kind]
                count[kind] += 1
                live[kind].append((kind, count[kind]))
                ledger.make((kind, count[kind]), stack[0].function, size, stack[1:])
            elif letter == "-":
                ledger.free(live[numbers[0]].pop())
            else:
                assert letter in "XI", line
    return ledger


class Snapshots:
    """A file of massif, by the rules of ms_print: each tree adds up to what is live."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = [line for line in file.read().splitlines() if line.strip() and not line.startswith("#")]
        assert self.lines[0].startswith("desc: ") and self.lines[1].startswith("cmd: ")
        assert self.lines[2] == "time_unit: ms"
        self.at, self.found, self.peak, last, peaks, number = 3, set(), 0, 0, [], 0
        while self.at < len(self.lines):
            assert self.number("snapshot") == number
            time, live = self.number("time"), self.number("mem_heap_B")
            assert time >= last and self.number("mem_heap_extra_B") == self.number("mem_stacks_B") == 0
            last, number, self.peak, self.found = time, number + 1, max(self.peak, live), set()
            tree = self.lines[self.at].removeprefix("heap_tree=")
            self.at += 1
            if tree == "peak":
                peaks.append(live)
            if tree != "empty":
                assert tree in ("peak", "detailed") and self.node(0, []) == live
        assert peaks in ([self.peak], []) and number <= 100, (peaks, self.peak, number)

    def number(self, name):
        self.at += 1
        assert self.lines[self.at - 1].startswith(f"{name}="), (self.lines[self.at - 1], name)
        return int(self.lines[self.at - 1][len(name) + 1:])

    def node(self, depth, path):
        match = re.fullmatch(r"( *)n(\d+): (\d+) (.*)", self.lines[self.at])
        self.at += 1
        assert len(match[1]) == depth, match[0]
        size, text = int(match[3]), match[4]
        below = [self.node(depth + 1, path + [text]) for _ in range(int(match[2]))]
        assert sum(below) <= size, (text, size, below)
        assert depth > 1 or not below or sum(below) == size, (text, size, below) # each site has a stack
        rest = re.fullmatch(r"in (1 place,|\d+ places, all) below massif's threshold \(1.00%\)", text)
        if depth == 2 and not rest:
            place = re.fullmatch(r"0x[0-9a-f]+: (.*) \((.*):(\d+)\)", text)
            self.found.add(f"live: {path[1]} {place[1]} {os.path.basename(place[2])}:{place[3]} {size}")
        return size

    def write(self):
        print(f"all: peak={self.peak}")
        for line in sorted(self.found):
            print(line)


massif = Snapshots

if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name != "part":
            with open(f"{name}.found", "w", encoding="utf-8") as sys.stdout:
                globals()[name](f"{name}.file").write()
