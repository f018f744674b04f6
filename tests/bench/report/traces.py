"""traces.py - the scenario `traces`: recorded and generated programs, carried out through
the pool (build/replay) and through the real libraries (the mode `trace` of tests/bench).

For each trace: its time, the smallest device it fits on against native's, peak reserved in
peak live, and the calls of the driver for memory on a device of 1.25 times its peak, beside
the peers' on the same device. What a trace is: docs/traces.md
"""

import json
import os
import re
import subprocess
import tempfile

from report.measure import MEMORY_CALL, Failure, OutOfMemory, Way

ROUNDS = 12  # of a trace in one process; the first is not timed
TURNS = 2  # processes at most, for each trace and allocator
LATER = "after:64"  # freed memory that is ready after so many allocations, as in lazy mode
SMALLEST = "smallest device of a trace, against native's"
SMALLEST_LATER = "the same, freed memory ready after 64 allocations"
CALLS = "driver calls at 1.25 x of peak live, against PyTorch's"
RESERVED = "peak reserved in peak live, VMM"


def all_traces(device, folder):
    """(name, path) of each: those that are recorded, then one of each preset."""
    place = os.path.join(device.root, "tests", "replay")
    recorded = sorted(os.listdir(os.path.join(place, "traces")))
    for name in recorded:
        if name.endswith(".csv.gz"):
            yield name[: -len(".csv.gz")], os.path.join(place, "traces", name)
    with open(os.path.join(place, "presets.def"), encoding="utf-8") as file:
        presets = re.findall(r"^PRESET\((\w+),", file.read(), re.MULTILINE)
    for name in presets:
        path = os.path.join(folder, name)
        command = [os.path.join(device.build, "replay", "generate"), name, "--binary"]
        with open(path, "wb") as out:
            if subprocess.run(command, stdout=out, check=False).returncode:
                raise Failure(f"generate {name} failed")
        yield name, path


def replayed(device, path, *options, variables=None):
    """What build/replay/replay, or with variables `gpushim replay`, says of a trace, as a
    dictionary."""
    command = [os.path.join(device.build, "replay", "replay")]
    if variables:
        command = [os.path.join(device.build, "gpushim"), "replay"]
    command += ["--json", "--smallest", "--device", "1.25x", "--repeat", "1", *options, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, **(variables or {})})
    if done.returncode > 1 or not done.stdout:  # 1: it did not fit on that device
        raise Failure(f"replay {' '.join(options)}: {done.stderr.strip()[:160]}")
    return json.loads(done.stdout)


def calls_of(device, way, path, figures):
    """Driver calls for memory in 1,000 allocations of the trace, carried out once on a
    simulated device of 1.25 times its peak, or that it does not fit."""
    variables = {**way.variables(device), "BENCH_TRACE": path, "CUDASIM_LOG": "2",
                 "CUDASIM_MEMORY": f"{figures['device_bytes']:.0f}"}
    try:
        log = device.run(way.program, [way.allocator, "trace", 1], variables)[1]
    except OutOfMemory as full:
        return full.short
    return 1000 * len(re.findall(MEMORY_CALL, log, re.MULTILINE)) / figures["allocations"]


def modelled_calls(figures):
    calls = figures["device_driver_calls"]
    return OutOfMemory.short if calls is None else 1000 * calls / figures["allocations"]


def part(figures, name, whole):
    return figures[name] / figures[whole]


class Traces:
    """One run over all of them; the worst of each figure is kept for the goals."""

    def __init__(self, bench):
        self.bench, self.device = bench, bench.device
        self.is_recorded = False
        self.worst = {}  # (value, trace) by goal
        self.recorded = {}  # the same of those that are not generated

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, path in all_traces(self.device, folder):
                self.is_recorded = not path.startswith(folder)
                try:
                    self._one(name, path)
                except Failure as failure:
                    self.bench.problem(f"trace {name}: {failure}")
        for goal in (SMALLEST, SMALLEST_LATER, CALLS):
            value, name = self.worst.get(goal, (None, "no trace"))
            recorded = self.recorded.get(goal, (None, ""))[0]
            self.bench.figure("traces", goal, "x", value, {"of the recorded ones": recorded},
                              worst=f"worst: {name}")
        if not self.bench.has_option("POOL_VMM"):
            self.bench.figure("traces", RESERVED, "x", None, why="no VMM pool in this build")

    def _keep(self, goal, value, name):
        found = (value, name)
        self.worst[goal] = max(self.worst.get(goal, found), found)
        if self.is_recorded:
            self.recorded[goal] = max(self.recorded.get(goal, found), found)

    def _one(self, name, path):
        label = f"replay-{name}"
        now = replayed(self.device, path, "--ready", "at-once")
        later = replayed(self.device, path, "--ready", LATER)
        blocks = replayed(self.device, path, "--through", "blocks")
        self._time(label, path)
        self._sizes(label, name, now, later, blocks)
        if self.device.simulated:
            self._calls(label, name, path, (now, later, blocks))

    def _time(self, label, path):
        bench = self.bench
        peers = bench.peers()
        ours = [bench.ours(bench.usual[1], "as shipped"),
                bench.ours(bench.usual[1], "TRACK=off")]
        bench.group(label, "trace", 1, ours, peers, {"BENCH_TRACE": path}, ROUNDS,
                    TURNS)

    def _sizes(self, label, name, now, later, blocks):
        smallest = [part(figures, "smallest_bytes", "native_smallest_bytes")
                    for figures in (now, later, blocks)]
        reserved = [part(figures, "reserved_peak_bytes", "live_peak_bytes")
                    for figures in (now, later, blocks)]
        for what, values in (("smallest device, in native's", smallest),
                             ("peak reserved in peak live, memory to spare", reserved)):
            self.bench.figure(label, what, "x", values[0],
                              {f"ready {LATER}": values[1], "whole blocks": values[2]})
        self._keep(SMALLEST, smallest[0], name)
        self._keep(SMALLEST_LATER, smallest[1], name)

    def _calls(self, label, name, path, models):
        bench = self.bench
        ours = bench.ours("cuMemAlloc", "as shipped")
        values = {}
        if bench.has_choice("free_sync", "lazy"):
            lazy = Way("lazy", ours.program, ours.allocator, shim=True,
                       settings={"GPUSHIM_FREE_SYNC": "lazy"})
            values["lazy"] = calls_of(self.device, lazy, path, models[0])
        for way in bench.peers():
            # With the driver's calls; RMM with all of the device, as half is too little.
            all_of_it = "-all" if way.program == "bench_rmm" else ""
            peer = Way(way.name, way.program, way.allocator + all_of_it,
                       settings=way.settings)
            values[way.name] = calls_of(self.device, peer, path, models[0])
        values["whole blocks"] = modelled_calls(models[2])
        values["pool alone"] = modelled_calls(models[0])
        values[f"pool alone, ready {LATER}"] = modelled_calls(models[1])
        mine = calls_of(self.device, ours, path, models[0])
        bench.figure(label, "driver calls, 1,000 allocations, 1.25 x of peak", "calls", mine,
                     values)
        theirs = values.get("PyTorch")
        if isinstance(mine, float) and isinstance(theirs, float) and theirs:
            self._keep(CALLS, mine / theirs, name)
