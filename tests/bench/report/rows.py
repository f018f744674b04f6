"""rows.py - the scenarios: what is run for each, and the rows it leaves.

A timed row is a dictionary: scenario, setting, threads, gpushim (p50, p99, calls, rounds,
humps), peers by name (p50, p99, ratio, rounds, humps, note). A figure is a dictionary:
scenario, what, unit, value, peers by name, and `why` where there is no value; less is
better unless its `better` says more. scripts/bench prints them, show.py writes them.
"""

import math
import os
import shutil
import statistics
import sys
import tempfile

from report.measure import Failure, Group, OutOfMemory, Way, spread
from report.traces import Traces

OFF = {
    "as shipped": {},
    "STACK=off": {"GPUSHIM_STACK": "off"},
    "TRACK=off": {"GPUSHIM_TRACK": "off"},
}
TIMED = {
    "hitpair": "pairs of 1 KiB by cudaMalloc and by cuMemAlloc; without stacks, untracked",
    "linking": "the same by the static runtime, the shared one, and the driver's entry",
    "sizes": "256 live of 512 B to 8 MiB, a random one replaced",
    "holes": "pairs of 1 KiB among 65,536 holes of 1 KiB",
    "threads": "pairs of 4 KiB by 1, 2, 4 ... threads, each its own",
    "remote": "blocks of 4 KiB, each freed by another thread",
    "pinned": "pairs of 4 KiB of pinned host memory",
    "managed": "pairs of 4 KiB of managed memory",
    "async": "pairs of 4 KiB by cudaMallocAsync",
    "dotcompute-1mb": "pairs of 1 MiB",
    "dotcompute-10mb": "pairs of 10 MiB",
    "dotcompute-100mb": "pairs of 100 MiB",
    "dotcompute-100": "100 allocations of 1 MiB, then their frees",
    "genesis-same": "64 live of 256 KiB, the oldest replaced",
    "genesis-variable": "64 live of 512 B to 1 MiB, a random one replaced",
    "genesis-large": "16 live of 1 MiB to 64 MiB, a random one replaced",
    "genesis-transformer": "training steps of 12 transformer layers",
    "genesis-pressure": "up to 64 live of 1 MiB to 64 MiB on a full device of 1 GiB, 1.25 GiB",
}
COUNTED = {
    "whole": "a hit pair with the device's calls, and which those are",
    "flight": "a free, and an allocation, while a kernel of 1 ms runs",
    "staging": "a staging buffer of 64 KiB: allocated, copied, freed",
    "stream-ordered": "pairs of 4 KiB and 1 MiB in the order of a stream, by GPUSHIM_ASYNC",
    "miss": "an allocation of 32 MiB that nothing cached can serve",
    "soak": "32 threads on a nearly full device of 4 GiB: operations a second",
    "moving": "ways of gpushim_memory.h to move and get memory, beside the plain ones",
    "launch": "what a kernel launch costs more (instructions need valgrind)",
    "programs": "five programs that allocate all the time, and five that seldom do",
    "cupy": "a pair by CuPy, from Python, with its pool and without (needs a GPU)",
    "start": "what LD_PRELOAD adds to a program without CUDA",
    "instructions": "instructions in a pair of 1 KiB (needs valgrind)",
    "growth": "how costs grow with the work (needs valgrind)",
    "metadata": "host memory for each of 131,072 live blocks",
    "genesis-warmup": "the first 100 allocations of 1 MiB, warmed up and not",
    "traces": "recorded and generated programs: time, smallest device, driver calls",
}
# Memory that is not cudaMalloc's: the scenario, which is the allocator's name, and the call.
KINDS = {"pinned": "cudaHostAlloc", "managed": "cudaMallocManaged",
         "async": "cudaMallocAsync"}
# Work of bench_growth.c: what, its size, and settings. It is counted at eight times the size, too.
GROWTH = {
    "libraries": ("an allocation in each of many libraries", 25, {}),
    "ended": ("contexts that begin and end", 100, {}),
    "scopes": ("scopes of different names", 500, {}),
    "lines": ("lines of generated Python that allocate", 250, {}),
    "contexts": ("contexts that live at once: created, used, destroyed", 100, {}),
    "mappings": ("mappings of the program's own", 500, {}),
    "segments": ("idle segments of pages that go back", 50, {"GPUSHIM_POOL_VMM": "on"}),
    "sites": ("call sites, with their report", 500, {}),
    "depth": ("frames of a known stack", 15, {"GPUSHIM_STACK": "depth:128"}),
    "groups": ("buffers of a group of gpushim_memory.h", 1000, {}),
    "caches": ("buffers of a cache, each with a key of its own", 1000, {}),
}
IN_PROGRAM = ("groups", "caches")  # where the code is the header's
# The most that an exponent may be: 1 is linear. The end of a context looks at each live record.
MOST_GROWTH = {kind: 1.25 if kind == "contexts" else 1.12 for kind in GROWTH}
GROWTH_FACTOR = 8
KEPT_BYTES = 1024  # by a context that has ended
# Cases of bench_move.c, and whether the simulated device's prices say anything of them.
MOVES = {
    "readback": ("32 MiB read back and summed: in chunks, against at once", True),
    "ring": ("200 messages of 64 KiB: through a ring, against copy and wait", True),
    "small": ("1,000 copies of 4 KiB: in a batch, against a wait for each", False),
    "one": ("4 MiB: in one copy, against a batch of 1,000", False),
    "pinned": ("16 MiB to the device: from page-locked memory, against plain", False),
    "aligned": ("16 MiB: from an aligned address, against an odd one", False),
    "many": ("100 buffers of 4 KiB: parts of one, against each by itself", False),
    "reuse": ("100 uses of 1 MiB: one buffer, against one for each", False),
    "grow": ("100 times 64 KiB more: by half, against by as much each time", False),
}
LIVE_BLOCKS = 131072
MISSES = 100  # CUB takes 128 MiB for each
FIRST = 100
SOAK = {"as shipped": {}, "lazy": {"GPUSHIM_FREE_SYNC": "lazy"},
        "POOL=off": {"GPUSHIM_POOL": "off"}}
SOAK_SECONDS = 3
PRESSURE_DEVICES = {"genesis-pressure": "1G", "genesis-pressure-1280m": "1280M"}


def python_of(word):
    """The whole path of a Python that is named as a shell would: by its path from here, or by
    its name in PATH. One that is nowhere stays as it is, and is said to be nowhere."""
    found = shutil.which(word)
    return os.path.abspath(found) if found else word


class Bench:
    """One run of the benchmark: rows and figures as they come, and what went wrong."""

    def __init__(self, device, rounds, on_row, on_figure):
        self.device, self.rounds = device, rounds
        self.on_row, self.on_figure = on_row, on_figure
        self.rows, self.figures, self.problems = [], [], []
        self.cores = os.cpu_count() or 1
        self.missing = self._find_missing()
        self.has_runtime = "runtime" not in self._why("cub")
        self.usual = ("bench_runtime", "cudaMalloc") if self.has_runtime else (
            "bench_driver", "cuMemAlloc")
        self._calls = {}

    # ---- allocators -----------------------------------------------------------------

    def _why(self, name):
        try:
            with open(os.path.join(self.device.programs, name), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return "not built"

    def _find_missing(self):
        reasons = {"CUB": self._why("cub"), "RMM": self._why("rmm"),
                   "PyTorch": self._why("torch")}
        return {name: why for name, why in reasons.items() if why}

    def peers(self):
        """The peers that this build and device have; on the simulated device with the
        runtime's calls answered on the spot, for what those cost there is nobody's."""
        ways = []
        if "CUB" not in self.missing:
            ways.append(Way("CUB", "bench_cub", "cub"))
        if "RMM" not in self.missing:
            ways.append(Way("RMM pool", "bench_rmm", "pool"))
            ways.append(Way("RMM arena", "bench_rmm", "arena"))
        if "PyTorch" not in self.missing:
            ways.append(Way("PyTorch", "bench_torch", "torch"))
            ways.append(Way("PyTorch expandable", "bench_torch", "torch",
                            settings={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}))
        if self.device.simulated:
            return [way.own() for way in ways]
        if "RMM" not in self.missing:
            ways.append(Way("RMM async", "bench_rmm", "async"))
        if self.has_runtime:
            ways.append(Way("cudaMallocAsync", "bench_runtime", "async"))
        ways.append(Way("native", self.usual[0], "malloc"))
        return ways

    def ours(self, entry, setting, allocator="malloc"):
        program = "bench_driver" if entry == "cuMemAlloc" else "bench_runtime"
        label = entry if setting == "as shipped" else f"{entry} {setting}"
        return Way(label, program, allocator, shim=True, settings=OFF[setting])

    def calls(self, way):
        """The driver calls of a pair, asked for once."""
        if way.name not in self._calls:
            try:
                self._calls[way.name] = self.device.calls_of_a_pair(way)
            except Failure:
                self._calls[way.name] = None
        return self._calls[way.name]

    # ---- rows -----------------------------------------------------------------------

    def problem(self, text):
        if text not in self.problems:
            self.problems.append(text)

    def group(self, label, scenario, threads, ours, peers, variables=None, number=None,
              most=99, beside=()):
        """`number` is the program's last argument, where it is not the threads; `most`
        rounds are enough; `beside` is measured in turn with the others, and has no row."""
        calls = {way.name: self.calls(way) for way in ours}
        group = Group(self.device, scenario, threads, ours, [*peers, *beside],
                      min(self.rounds, most), calls, variables, number)
        for way in ours:
            self._row(label, group, way, peers)
        return group

    def _row(self, label, group, way, peers):
        if group.time(way.name) is None:
            self.problem(f"{label}, {way.name}: {group.notes.get(way.name, 'not measured')}")
        row = {
            "scenario": label, "setting": way.name, "threads": group.threads,
            "gpushim": {"p50": group.time(way.name), "p99": group.tail(way.name),
                        "calls": group.share[way.name], "own": group.own(way.name),
                        "driver_calls": self.calls(way), **group.shape(way.name)},
            "peers": {},
        }
        for peer in peers:
            if peer.name in group.notes and "out of memory" not in group.notes[peer.name]:
                self.problem(f"{label}: {group.notes[peer.name]}")
            row["peers"][peer.name] = {
                "p50": group.time(peer.name), "p99": group.tail(peer.name),
                "ratio": group.ratio(way.name, peer.name),
                "note": group.notes.get(peer.name), **group.shape(peer.name),
            }
        self.rows.append(row)
        self.on_row(row)

    def figure(self, scenario, what, unit, value, peers=None, **more):
        figure = {"scenario": scenario, "what": what, "unit": unit, "value": value,
                  "peers": peers or {}, **more}
        self.figures.append(figure)
        self.on_figure(figure)

    def run(self, name):
        method = getattr(self, name.replace("-", "_"), None) or getattr(
            self, name + "_", None)  # a word of Python's own
        if method:
            method()
        else:
            self.group(name, name, 1, [self.ours(self.usual[1], "as shipped"),
                                       self.ours(self.usual[1], "TRACK=off")], self.peers())

    # ---- timed scenarios ------------------------------------------------------------

    def hitpair(self):
        entries = ["cudaMalloc", "cuMemAlloc"] if self.has_runtime else ["cuMemAlloc"]
        ours = [self.ours(entry, setting) for entry in entries for setting in OFF]
        self.group("hitpair", "hitpair", 1, ours, self.peers())

    def linking(self):
        """What the runtime in front adds, NVIDIA's on a GPU."""
        driver = Way("the driver's entry", "bench_driver", "malloc", shim=True)
        ways = {"shared": "bench_runtime"} if self.has_runtime else {}
        static = "bench_static" if self.device.simulated else "bench_nvidia"
        why = "" if self.device.simulated else self._why("nvidia")
        if self.has_runtime and not why:
            ways["static"] = static
        ours = [driver, *(Way(f"cudaMalloc, {name}", program, "malloc", shim=True)
                          for name, program in ways.items())]
        native = [] if self.device.simulated else [Way("native", self.usual[0], "malloc")]
        group = self.group("linking", "hitpair", 1, ours, native)
        base = group.time(driver.name)
        for name in ("shared", "static"):
            found = group.time(f"cudaMalloc, {name}") if name in ways else None
            more = {} if name in ways else {"why": why or "the runtime is not built here"}
            self.figure("linking", f"cudaMalloc, {name}, against the driver's entry", "ratio",
                        found / base if found and base else None, **more)

    def holes(self):
        peers = [way for way in self.peers() if way.name != "native"]
        ours = [self.ours(self.usual[1], "as shipped"), self.ours(self.usual[1], "TRACK=off")]
        with_holes = self.group("holes", "holes", 1, ours, peers)
        without = self.group("holes, none", "noholes", 1, ours, peers)
        ratios = {}
        for way in [*ours, *peers]:
            a, b = with_holes.time(way.name), without.time(way.name)
            ratios[way.name] = a / b if a and b else None
        for way in ours:
            self.figure("holes", f"65,536 holes against none, {way.name}", "ratio",
                        ratios[way.name], {peer.name: ratios[peer.name] for peer in peers})

    def threads(self):
        """One thread and the most first: where the time ends early they are what counts."""
        most, groups = min(self.cores, 16), {}
        ours = [self.ours(self.usual[1], "as shipped"), self.ours(self.usual[1], "TRACK=off")]
        if self.has_runtime:  # what the runtime in front adds
            ours.append(self.ours("cuMemAlloc", "as shipped"))
        peers = self.peers()
        loop = Way("a loop without memory", "bench_driver", "calls")

        def measure(threads):
            groups[threads] = self.group(f"threads, {threads}", "pair4k", threads, ours, peers,
                                         beside=[loop])

        def rounds_of(name):
            return [most * a / b for a, b in zip(groups[1].times[name],
                                                 groups[most].times[name]) if a and b]

        def more(name):
            found = spread(rounds_of(name))
            return found and found[0]

        measure(1)
        if most > 1:
            measure(most)
            for way in ours:
                self.figure("threads", f"{most} threads against one, {way.name}", "ratio",
                            more(way.name), {peer.name: more(peer.name) for peer in peers},
                            threads=most, rounds=rounds_of(way.name), better="more")
            self.figure("threads", f"{most} threads against one, {loop.name}: the machine",
                        "ratio", more(loop.name), threads=most, rounds=rounds_of(loop.name),
                        better="more")
        threads = 2
        while threads < most:
            measure(threads)
            threads *= 2

    def remote(self):
        ours = [self.ours(self.usual[1], "as shipped"), self.ours(self.usual[1], "TRACK=off")]
        self.group("remote", "remote", max(2, min(self.cores, 16)), ours, self.peers())

    def _kind(self, name, peers):
        """Pairs of such memory."""
        entry = KINDS[name]
        if not self.has_runtime:
            return
        if not self.device.simulated:
            peers.append(Way("native", "bench_runtime", name))
        ways = [Way(entry, "bench_runtime", name, shim=True),
                Way(f"{entry} TRACK=off", "bench_runtime", name, shim=True,
                    settings=OFF["TRACK=off"])]
        self.group(name, "pair4k", 1, ways, peers)

    def pinned(self):
        peers = []
        if "RMM" not in self.missing:
            pool = Way("RMM pool", "bench_rmm", "pinned")
            peers.append(pool.own() if self.device.simulated else pool)
        self._kind("pinned", peers)

    def managed(self):
        self._kind("managed", [])

    def async_(self):
        self._kind("async", [])

    def genesis_pressure(self):
        if not self.device.simulated:
            self.problem("genesis-pressure: left out, this GPU cannot be made 1 GiB small")
            return
        ours = [self.ours(self.usual[1], "as shipped"), self.ours(self.usual[1], "TRACK=off")]
        peers = self.peers()
        for way in peers:
            if way.program == "bench_rmm":
                way.allocator += "-all"  # half of the device is too little here
        for label, memory in PRESSURE_DEVICES.items():
            self.group(label, "genesis-pressure", 1, ours, peers, {"CUDASIM_MEMORY": memory})
            values = {}
            for way in [ours[0], *peers]:
                try:
                    values[way.name] = self.device.memory_calls(way, memory)
                except OutOfMemory as full:
                    values[way.name] = full.short
            self.figure(label, "driver calls for memory, 1,000 allocations", "calls",
                        values.pop(ours[0].name), values)

    # ---- figures --------------------------------------------------------------------

    def _each(self, ways, measure):
        """measure(way) of each, in turn, `rounds` times: the median of each by its name;
        None for one that fails, and the reason among the problems."""
        values, broken = {way.name: [] for way in ways}, set()
        for _ in range(self.rounds):
            for way in ways:
                if way.name in broken:
                    continue
                try:
                    values[way.name].append(measure(way))
                except Failure as failure:
                    broken.add(way.name)
                    self.problem(str(failure))
        return {name: statistics.median(found) if found else None
                for name, found in values.items()}

    def _beside(self, *shims):
        """gpushim in some settings, the peers with the device's calls, and native."""
        peers = [Way(way.name, way.program, way.allocator, settings=way.settings)
                 for way in self.peers() if way.name != "native"]
        return [*shims, *peers, Way("native", self.usual[0], "malloc")]

    def whole(self):
        """A hit pair with all its calls, and what they are."""
        ours = [self.ours(self.usual[1], "as shipped"), self.ours("cuMemAlloc", "as shipped")]
        ways = self._beside(*ours)
        tails = {way.name: [] for way in ways}

        def measure(way):
            figures = way.measure(self.device, "hitpair", 1)
            tails[way.name].append(figures[4])
            return figures[0]

        for name, value in self._each(ways, measure).items():
            way = next(way for way in ways if way.name == name)
            if name == "native" and self.device.simulated:
                continue  # the price of the simulated driver is nobody's
            calls = self.calls(way) if value else None
            listed = ", ".join(f"{call} x{number:.3g}" for call, number in (calls or {}).items())
            tail = spread(tails[name])
            self.figure("whole", name, "ns a pair", value, p99=tail and tail[0],
                        calls=listed or ("-" if calls is None else "no driver call"))

    def flight(self):
        settings = {"native": {}}
        if self.has_choice("free_sync", "lazy"):
            settings["lazy"] = {"GPUSHIM_FREE_SYNC": "lazy"}
        shims = [Way(f"gpushim {name}", self.usual[0], "malloc", shim=True, settings=setting)
                 for name, setting in settings.items()]
        ways = self._beside(*shims)
        frees, allocs, nexts = ({way.name: [] for way in ways} for _ in range(3))

        def measure(way):
            figures = way.measure(self.device, "flight", 40)
            frees[way.name].append(figures[0])
            allocs[way.name].append(figures[1])
            nexts[way.name].append(figures[3])
            return figures[0]

        self._each(ways, measure)
        for what, values in (("a free behind a kernel of 1 ms, cold", frees),
                             ("each of 31 frees after it", nexts),
                             ("the allocation after them", allocs)):
            median = {name: spread(found) and spread(found)[0]
                      for name, found in values.items()}
            for shim in shims:
                self.figure("flight", f"{what}, {shim.name[8:]}", "ns", median[shim.name],
                            {way.name: median[way.name] for way in ways if not way.shim})
        if "lazy" not in settings:
            self.figure("flight", "each of 31 frees after it, lazy", "ns", None,
                        why="this build has no lazy frees")

    def _options(self):
        path = os.path.join(self.device.root, "shim", "settings", "options.def")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def has_choice(self, field, word):
        """Has an option of this build that choice?"""
        return f'GS_OPT_CHOICE({field}, "{word}"' in self._options()

    def has_option(self, name):
        return f'"GPUSHIM_{name}"' in self._options()

    def staging(self):
        if not self.has_runtime:
            return
        for kind in ("malloc", "pinned", "managed", "async"):
            ways = [Way("gpushim", "bench_runtime", f"stage-{kind}", shim=True),
                    Way("native", "bench_runtime", f"stage-{kind}")]
            values = self._each(ways, lambda way: way.measure(
                self.device, "pair64k", 1)[0])
            # The copy is in both, the simulated device's where there is no GPU.
            self.figure("staging", f"{kind}: 64 KiB and their copy", "ns a pair",
                        values["gpushim"], {"without gpushim": values["native"]})

    def stream_ordered(self):
        if not self.has_runtime:
            return
        for label, scenario in (("4 KiB", "pair4k"), ("1 MiB", "dotcompute-1mb"),
                                ("64 live, 512 B to 1 MiB", "genesis-variable")):
            modes = [Way(f"GPUSHIM_ASYNC={mode}", "bench_runtime", "async", shim=True,
                         settings={"GPUSHIM_ASYNC": mode}) for mode in ("pool", "driver")]
            native = Way("native", "bench_runtime", "async")
            values = self._each([*modes, native], lambda way, scenario=scenario: way.measure(
                self.device, scenario, 1)[0])
            for mode in modes:
                self.figure("stream-ordered", f"cudaMallocAsync, {label}, {mode.name[8:]}",
                            "ns a pair", values[mode.name],
                            {"without gpushim": values["native"]})

    def miss(self):
        def measure(way):
            return way.measure(self.device, "miss", MISSES)[0]

        values = self._each(self._beside(self.ours(self.usual[1], "as shipped")), measure)
        ours = values.pop(self.usual[1])
        native = values["native"]
        if self.device.simulated:
            # What the simulated driver's own allocation costs is in all of them.
            values = {name: value and native and max(value - native, 0)
                      for name, value in values.items() if name != "native"}
            ours = ours and native and max(ours - native, 0)
        self.figure("miss", "32 MiB uncached, less the driver's own" if self.device.simulated
                    else "32 MiB uncached",
                    "ns", ours, values)

    def soak(self):
        if not self.device.simulated:
            self.problem("soak: left out, this GPU cannot be made 4 GiB small")
            return
        ways = [Way(name, "bench_soak", "", shim=True, settings=settings)
                for name, settings in SOAK.items()]
        ways.append(Way("native", "bench_soak", ""))

        def measure(way):
            variables = {**way.variables(self.device), "CUDASIM_MEMORY": "4G"}
            words = self.device.run("bench_soak", [SOAK_SECONDS], variables)[0].split()
            return float(words[1]) / float(words[2])

        values = self._each(ways, measure)
        for name in ("as shipped", "lazy"):
            self.figure("soak", f"32 threads on a nearly full device, {name}", "a second",
                        values[name], {peer: values[peer] for peer in ("POOL=off", "native")},
                        better="more")

    def moving(self):
        for case, (what, simulated) in MOVES.items():
            if self.device.simulated and not simulated:
                self.figure("moving", what, "ratio", None, why="needs a GPU")
                continue

            def measure(way, case=case):
                variables = {**way.variables(self.device), **self.device.prices()}
                plain, better = (float(self.device.run("bench_move", [case, kind],
                                                       variables)[0])
                                 for kind in ("plain", "better"))
                return plain / better

            ways = [Way("gpushim", "bench_move", "", shim=True),
                    Way("native", "bench_move", "")]
            values = self._each(ways, measure)
            self.figure("moving", what, "ratio", values["gpushim"],
                        {"without gpushim": values["native"]}, better="more")

    def launch(self):
        shim = {"LD_PRELOAD": self.device.shim}
        took = ([], [])
        for _ in range(max(self.rounds, 9)):
            for variables, times in zip(({}, shim), took):
                text = self.device.run("bench_launch", [], variables)[0]
                times.append(float(text.split()[1]))
        # A launch takes a hundred times what is looked for: a median of differences would
        # be the machine's other work.
        self.figure("launch", "added to cuLaunchKernel (least median with, without)", "ns",
                    min(took[1]) - min(took[0]))
        if self.device.simulated and self._can_count("launch"):
            count = self.device.instructions("/libgpushim", "bench_launch", ["count"], shim)
            self.figure("launch", "in libgpushim.so for a cuLaunchKernel", "instr.", count)

    def programs(self):
        """Whole programs, with gpushim and without in turn. A program's output must not
        depend on it."""
        if not self.has_runtime:
            return
        for line in self.device.run("bench_whole", ["list"])[0].splitlines():
            name, kind = line.split()
            sums = {}

            def measure(way, name=name, sums=sums):
                text = self.device.run("bench_whole", [name], way.variables(self.device))[0]
                words = text.split()
                sums[words[3]] = way.name
                return float(words[2])

            took = self._each([Way("gpushim", "bench_whole", "", shim=True),
                               Way("native", "bench_whole", "")], measure)
            if len(sums) > 1:
                self.problem(f"programs: the output of {name} differs under gpushim")
            self.figure("programs", f"{name}, {kind}", "ms", took["gpushim"],
                        {"without gpushim": took["native"]})

    def cupy(self):
        script = os.path.join(self.device.root, "tests", "bench", "alloc_cupy.py")
        python = python_of(os.environ.get("GPU_CHECK_PYTHON") or sys.executable)
        what = "a pair of 1 KiB from Python, no pool of CuPy's"
        if self.device.simulated:
            self.figure("cupy", what, "ns a pair", None, why="needs a GPU")
            return
        ways = [Way("gpushim", python, "none", shim=True), Way("native", python, "none"),
                Way("CuPy's pool", python, "pool")]
        try:
            values = {way.name: float(self.device.run(
                python, [script, way.allocator], way.variables(self.device))[0].split()[1])
                for way in ways}
        except Failure as failure:
            self.figure("cupy", what, "ns a pair", None, why=str(failure).rsplit(": ", 1)[-1])
            return
        self.figure("cupy", what, "ns a pair", values.pop("gpushim"), values)

    def start(self):
        self.figure("start", "added to the start of a program without CUDA", "us",
                    self.device.start_cost_us())

    def _can_count(self, what):
        path = os.environ.get("PATH", "").split(":")
        if not any(os.access(os.path.join(place, "valgrind"), os.X_OK) for place in path):
            self.problem(f"{what}: no instructions, valgrind is not installed")
        elif not self.device.simulated:
            self.problem(f"{what}: no instructions, valgrind does not run over a GPU's driver")
        else:
            return True
        return False

    def instructions(self):
        if not self._can_count("instructions"):
            return
        code = {"CUB": r"/(bench_cub|libstdc\+\+[^/]*)$",
                "RMM pool": r"/(bench_rmm|librmm\.so|libstdc\+\+[^/]*)$",
                "RMM arena": r"/(bench_rmm|librmm\.so|libstdc\+\+[^/]*)$",
                "PyTorch": r"/(bench_torch|libc10[^/]*|libstdc\+\+[^/]*)$",
                "PyTorch expandable": r"/(bench_torch|libc10[^/]*|libstdc\+\+[^/]*)$"}

        def count(way, pattern):
            try:
                return self.device.instructions(pattern, way.program,
                                                [way.allocator, "count"],
                                                way.variables(self.device))
            except Failure as failure:
                self.problem(f"instructions: {failure}")
                return None

        loop = count(Way("", "bench_driver", "calls"), "/bench_driver$") or 0
        peers = {way.name: count(way, code[way.name]) for way in self.peers()}
        peers = {name: value and value - loop for name, value in peers.items()}
        for setting in OFF:
            ours = self.ours("cuMemAlloc", setting)
            self.figure("instructions", f"a pair by {ours.name}", "instr.",
                        count(ours, "/libgpushim"), peers)
        for kind, entry in KINDS.items() if self.has_runtime else ():
            way = Way(entry, "bench_runtime", kind, shim=True)
            self.figure("instructions", f"a pair by {entry}", "instr.",
                        count(way, "/libgpushim"))

    def _growing(self, kind, size, settings, folder):
        """Instructions for work of that size, in the object whose cost is asked."""
        variables = {"LD_PRELOAD": self.device.shim, "GPUSHIM_POOL_TRIM": "thread:off",
                     "GPUSHIM_CONTROL": "off", "GPUSHIM_SYMBOLIZE": "off", **settings}
        if kind == "lines":
            script = os.path.join(self.device.root, "tests", "bench", "growth_lines.py")
            return self.device.instructions_once("/libgpushim", sys.executable,
                                                 ["-SB", script, size], variables)
        words = [kind, folder, size] if kind == "libraries" else [kind, size]
        counted = "/bench_growth" if kind in IN_PROGRAM else "/libgpushim"
        return self.device.instructions_once(counted, "bench_growth", words, variables)

    def growth(self):
        if not self._can_count("growth"):
            return
        part = os.path.join(self.device.programs, "libbench_part.so")
        with tempfile.TemporaryDirectory() as folder:
            for i in range(GROWTH["libraries"][1] * GROWTH_FACTOR):
                shutil.copyfile(part, os.path.join(folder, f"{i}.so"))
            for kind, (what, size, settings) in GROWTH.items():
                try:
                    counts = [self._growing(kind, number, settings, folder)
                              for number in (0, size, size * GROWTH_FACTOR)]
                except Failure as failure:
                    self.problem(f"growth: {failure}")
                    continue
                exponent = math.log((counts[2] - counts[0]) / (counts[1] - counts[0]),
                                    GROWTH_FACTOR)
                self.figure("growth", f"{what}, {size} against {size * GROWTH_FACTOR}",
                            "exponent", exponent, instructions=counts)
                if exponent > MOST_GROWTH[kind]:
                    self.problem(f"growth: {what}: the cost grows by the power "
                                 f"{exponent:.2f}, more than {MOST_GROWTH[kind]}")
        kept = float(self.device.run("bench_growth", ["ended", 4000],
                                     {"LD_PRELOAD": self.device.shim})[0])
        self.figure("growth", "kept by a context that has ended", "bytes", kept)
        if kept > KEPT_BYTES:
            self.problem(f"growth: an ended context keeps {kept:.0f} bytes, more than {KEPT_BYTES}")

    def metadata(self):
        alone = self.device.run("pool_bench", ["metadata", LIVE_BLOCKS])[0]
        self.figure("metadata", "the pool alone, a live block of 1 KiB", "bytes",
                    float(alone))
        ways = self._beside(Way("gpushim", "bench_driver", "malloc", shim=True),
                            Way("gpushim TRACK=off", "bench_driver", "malloc", shim=True,
                                settings=OFF["TRACK=off"]))
        ways = [way for way in ways if way.name != "native"]
        values = self._each(ways, lambda way: way.measure(
            self.device, "resident", LIVE_BLOCKS)[0])
        peers = {name: value for name, value in values.items() if "gpushim" not in name}
        self.figure("metadata", "as shipped: pool, record and stack", "bytes",
                    values["gpushim"], peers)
        self.figure("metadata", "TRACK=off", "bytes", values["gpushim TRACK=off"], peers)

    def genesis_warmup(self):
        ways = [self.ours("cuMemAlloc", "as shipped"), self.ours("cuMemAlloc", "as shipped")]
        ways[0].name, ways[0].settings = "warm", {"GPUSHIM_WARMUP": f"1M:{FIRST}"}
        ways[1].name = "cold"
        times = self._each(ways, lambda way: way.measure(self.device, "first", FIRST)[0])
        self.figure("genesis-warmup", f"each of the first {FIRST} of 1 MiB, warmed up", "ns",
                    times["warm"], {"not warmed up": times["cold"]})
        if self.device.simulated:
            calls = [self.device.calls_of_first(way, FIRST) for way in ways]
            self.figure("genesis-warmup", "driver calls for memory in them", "calls",
                        calls[0], {"not warmed up": calls[1]})

    def traces(self):
        if not os.path.exists(os.path.join(self.device.build, "replay", "replay")):
            self.figure("traces", "recorded programs", "-", None, why="replay is not built")
            return
        Traces(self).run()
