"""measure.py - runs the programs of tests/bench over one device and reads what they print.

Owns: nothing outside the process. What is measured: docs/bench.md.
"""

import os
import re
import statistics
import subprocess
import tempfile
import time

RUN_SECONDS = 90  # one program
LONG_SECONDS = 6  # a run that took longer is not repeated in further rounds

# A call that takes device memory from the driver or gives it back, mapping included.
MEMORY_CALL = r"^cudasim: cuMem(?:Alloc|Free|Create|Release|Map|Unmap|SetAccess)(?:_v\d+)?$"

# A call by which the driver itself serves a pair, memory of all kinds.
SERVES = r"cuMem(?:Alloc|Host|Free)"

# What a peer's programs need beside the device's libraries, below the repository. An
# installed PyTorch that the build found has its own folder (peers.cmake).
PEER_LIBRARIES = (".peers/librmm/lib64", ".peers/rapids_logger/lib64", ".peers/torch/lib")


class Failure(Exception):
    """A program that measured nothing; its text is one line."""


class OutOfMemory(Failure):
    """The allocator was out of memory where others are not."""

    short = "out of memory"


class Device:
    """Which device the programs run over, and with which libraries."""

    def __init__(self, root, build, simulated):
        self.root, self.build = root, build
        self.programs = os.path.join(build, "bench")
        self.shim = os.path.join(build, "libgpushim.so")
        self.free_calls = os.path.join(self.programs, "libbench_free_calls.so")
        self.memory = {}
        self.shares = {}  # ns, by the names of the calls
        self.path = self._of_gpu()
        answer = "" if simulated else self._ask()
        if not answer:
            self.path = [os.path.join(build, "sim")]
            self.memory = {"CUDASIM_MEMORY": "16G"}
            answer = self._ask()
        if not answer:
            raise Failure("neither a GPU nor the simulated device answers")
        self.kind, driver, self.name = answer.split(" ", 2)
        self.driver = int(driver)
        self.simulated = self.kind == "simulated"
        self.path += [os.path.join(root, library) for library in PEER_LIBRARIES]
        self.path += self._of_torch()
        if self.simulated:
            self.path.append(os.path.join(self.programs, "nvml"))

    @staticmethod
    def _of_gpu():
        """The caller's folders but a simulated device's, and the toolkit's runtime."""
        path = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        path = [entry for entry in path if entry and not entry.endswith("/sim")]
        path += ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"]
        for home in (os.environ.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local/cuda"):
            for folder in ("lib64", "lib"):
                place = os.path.join(home, folder)
                if os.path.exists(os.path.join(place, "libcudart.so")) and not (
                    os.path.exists(os.path.join(place, "libcuda.so.1"))
                ):
                    return path + [place]
        return path

    def _of_torch(self):
        """The libraries of the PyTorch that the build took, if it is not that of .peers."""
        try:
            with open(os.path.join(self.programs, "torch_libraries"), encoding="utf-8") as file:
                return [line for line in file.read().splitlines() if line]
        except OSError:
            return []

    def _ask(self):
        try:
            return self.run("bench_device", [])[0].strip()
        except Failure:
            return ""

    def prices(self):
        """What makes the simulated device's copies take time, as those of PCIe 4."""
        return {"CUDASIM_COPY_RATE": "24G"} if self.simulated else {}

    def environment(self, variables):
        """The caller's variables without those that would change a figure; one that is None
        is left out."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUSHIM_", "CUDASIM_", "PYTORCH_", "BENCH_"))
            and name != "LD_PRELOAD"
        }
        kept.update(self.memory, LC_ALL="C", LD_LIBRARY_PATH=":".join(self.path))
        kept.update(variables)
        return {name: value for name, value in kept.items() if value is not None}

    def run(self, program, arguments, variables=None, prefix=()):
        """Output and error text of one program; Failure where it ends with another than 0."""
        command = [*prefix, os.path.join(self.programs, program), *map(str, arguments)]
        what = " ".join([program, *map(str, arguments)])
        try:
            done = subprocess.run(
                command,
                env=self.environment(variables or {}),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=RUN_SECONDS,
                check=False,
            )
        except FileNotFoundError as missing:
            raise Failure(f"{what}: not built") from missing
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{what}: took more than {RUN_SECONDS} s") from late
        if done.returncode == 3:
            raise OutOfMemory(f"{what}: out of memory")
        if done.returncode:
            raise Failure(f"{what}: {why(done)}")
        return done.stdout, done.stderr

    # ---- what the driver's calls cost -----------------------------------------------

    def time_calls(self, calls):
        """Keep the least that the driver calls of a pair have cost by themselves."""
        names = call_list(calls)
        if not names or not self.simulated:
            return
        loop = Way("", "bench_driver", "calls")
        try:
            whole = loop.measure(self, "hitpair", 1, {"BENCH_CALLS": names})
            took_ns = max(whole[0] - loop.measure(self, "hitpair", 1)[0], 0.0)
        except Failure:
            return  # not calls that can be made alone
        self.shares[names] = min(took_ns, self.shares.get(names, took_ns))

    def share(self, calls, threads):
        """What is taken off gpushim's pair for the device, in nanoseconds; None where that
        is not known, and for several threads, which meet in the simulated driver sometimes
        more and sometimes less."""
        return self.shares.get(call_list(calls)) if threads == 1 else None

    # ---- single figures -------------------------------------------------------------

    def calls_of_a_pair(self, way):
        """Names and numbers of the driver calls in a pair of 1 KiB; the simulated device's
        log of two runs tells. None on a GPU."""
        if not self.simulated:
            return None
        counts = []
        for pairs in (100, 300):
            variables = {**way.variables(self), "CUDASIM_LOG": "2"}
            log = self.run(way.program, [way.allocator, "count", pairs], variables)[1]
            names = re.findall(r"^cudasim: (cu\w+)$", log, re.MULTILINE)
            counts.append({name: names.count(name) for name in set(names)})
        calls = {}
        for name in sorted(counts[1]):
            number = (counts[1][name] - counts[0].get(name, 0)) / 200
            if number >= 0.005:
                calls[name] = number
        return calls

    def memory_calls(self, way, memory):
        """Driver calls that take or give memory in 1,000 allocations of genesis-pressure,
        once it has gone round, on a simulated device of this size."""
        calls, pairs = [], 0
        for cycles in (1, 3):
            variables = {**way.variables(self), "CUDASIM_LOG": "2", "CUDASIM_MEMORY": memory}
            out, log = self.run(way.program, [way.allocator, "pressure", cycles], variables)
            calls.append(len(re.findall(MEMORY_CALL, log, re.MULTILINE)))
            pairs = 2 * int(out)
        return 1000 * (calls[1] - calls[0]) / pairs

    def calls_of_first(self, way, count):
        """Driver calls for memory in the first so many allocations after one more."""
        calls = []
        for number in (1, count + 1):
            variables = {**way.variables(self), "CUDASIM_LOG": "2"}
            log = self.run(way.program, [way.allocator, "first", number], variables)[1]
            calls.append(len(re.findall(MEMORY_CALL, log, re.MULTILINE)))
        return calls[1] - calls[0]

    def instructions_once(self, pattern, program, arguments, variables):
        """Instructions of a run, by callgrind, in the objects whose name matches."""
        with tempfile.NamedTemporaryFile() as out:
            self.run(
                program,
                arguments,
                {**variables, "CUDASIM_MEMORY": None},  # valgrind has no room for it
                ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}"),
            )
            text = open(out.name, encoding="utf-8", errors="replace").read()
        return instructions_in(text, pattern)

    def instructions(self, pattern, program, arguments, variables, few=500, many=2500):
        """Instructions a repetition; the last argument is the number of them."""
        totals = [self.instructions_once(pattern, program, [*arguments, count], variables)
                  for count in (few, many)]
        return (totals[1] - totals[0]) / (many - few)

    def start_cost_us(self, rounds=200):
        """Microseconds that a preload adds to a program without CUDA: medians of plain and
        preloaded starts in turn."""
        took = {"": [], self.shim: []}
        for turn in range(2 * rounds + 20):
            preload = self.shim if turn % 2 else ""
            variables = {"PATH": "/usr/bin:/bin"}
            if preload:
                variables["LD_PRELOAD"] = preload
            begin = time.perf_counter()
            child = os.posix_spawn("/bin/true", ["true"], variables)
            os.waitpid(child, 0)
            if turn >= 20:
                took[preload].append((time.perf_counter() - begin) * 1e6)
        return statistics.median(took[self.shim]) - statistics.median(took[""])


def why(done):
    """Why a program ended as it did, in a line: what it said first as a benchmark."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("bench")] or lines[-1:]
    return said[0][:160] if said else f"ended with {done.returncode}"


def instructions_in(text, pattern):
    """Sum over callgrind's output. Names stand where they are first used; a line after
    `calls=` is the cost of the function called."""
    names, current, inner, total = {}, None, False, 0
    for line in text.splitlines():
        found = re.match(r"(c?)ob=\((\d+)\)\s*(.*)", line)
        if found:
            if found[3]:
                names[found[2]] = found[3]
            if not found[1]:
                current = found[2]
        elif line.startswith("calls="):
            inner = True
        elif re.match(r"[-+*\d]", line):
            if not inner and re.search(pattern, names.get(current, "")):
                total += int(line.split()[1])
            inner = False
    return total


class Way:
    """One way to get memory: a program, one of its allocators, and what it runs with."""

    def __init__(self, name, program, allocator, shim=False, settings=None, free=False):
        self.name, self.program, self.allocator = name, program, allocator
        self.shim, self.settings, self.free = shim, settings or {}, free

    def variables(self, device):
        variables = dict(self.settings)
        if self.shim:
            variables["LD_PRELOAD"] = device.shim
        elif self.free:
            variables["LD_PRELOAD"] = device.free_calls
        return variables

    def own(self):
        """The same, the runtime's calls answered on the spot."""
        return Way(self.name, self.program, self.allocator, settings=self.settings, free=True)

    def measure(self, device, scenario, number, variables=None):
        """The figures on the line of a run, after its three words."""
        merged = {**self.variables(device), **(variables or {})}
        output = device.run(self.program, [self.allocator, scenario, number], merged)[0]
        words = output.split()
        if len(words) < 2:
            return [float(word) for word in words]
        return [float(word) for word in words[3 if scenario != "flight" else 2 :]]


def spread(values):
    """Median, least and most; None where there is nothing."""
    values = [value for value in values if value is not None]
    return (statistics.median(values), min(values), max(values)) if values else None


class Group:
    """One scenario, gpushim in some settings and its peers, measured in turn."""

    def __init__(self, device, scenario, threads, ours, peers, rounds, calls, variables=None,
                 number=None):
        self.scenario, self.threads = scenario, threads
        self.number = threads if number is None else number
        self.calls = calls
        self.ours, self.peers = ours, peers
        self.times = {way.name: [] for way in [*ours, *peers]}
        self.p99 = {way.name: [] for way in [*ours, *peers]}
        self.humps = {way.name: [] for way in [*ours, *peers]}
        self.notes = {}
        tired = set()
        for _ in range(rounds):
            for way in [*ours, *peers]:
                self._one(device, way, tired, variables)
            for way in ours:
                device.time_calls(calls.get(way.name))
        self.share = {way.name: device.share(calls.get(way.name), threads) for way in ours}

    def _one(self, device, way, tired, variables):
        time_ns = p99 = None
        begin = time.monotonic()
        if way.name not in tired and way.name not in self.notes:
            try:
                figures = way.measure(device, self.scenario, self.number, variables)
                time_ns, p99 = figures[0], figures[4] if len(figures) > 4 else None
                self.humps[way.name].append(figures[6:9])
            except OutOfMemory:
                self.notes[way.name] = OutOfMemory.short
            except Failure as failure:
                self.notes[way.name] = str(failure)
        if time.monotonic() - begin > LONG_SECONDS:
            tired.add(way.name)
        self.times[way.name].append(time_ns)
        self.p99[way.name].append(p99 or None)

    def time(self, name):
        found = spread(self.times[name])
        return found and found[0]

    def tail(self, name):
        found = spread(self.p99[name])
        return found and found[0]

    def shape(self, name):
        """What a median may hide: the least and the most of the rounds, and two humps (the
        lower, the higher, the share of the higher) where most rounds have them."""
        found = spread(self.times[name])
        humps = [each for each in self.humps[name] if len(each) == 3 and each[2] > 0]
        two = 2 * len(humps) > len(self.humps[name])
        return {"rounds": found and list(found[1:]),
                "humps": [statistics.median(column) for column in zip(*humps)] if two
                else None}

    def own_times(self, name):
        """gpushim's of each round, less the driver's calls in it; None where the driver
        serves the pair, as two processes differ by more in that than the rest takes."""
        share = self.share[name] or 0
        if any(re.match(SERVES, call) for call in self.calls.get(name) or ()):
            return [None] * len(self.times[name])
        return [None if whole is None else max(whole - share, 1.0)
                for whole in self.times[name]]

    def own(self, name):
        found = spread(self.own_times(name))
        return found and found[0]

    def ratio(self, ours, peer):
        """Of each round, the peer's time in gpushim's; rounds the peer sat out use what
        it took in the last it ran."""
        last, ratios = None, []
        for mine, theirs in zip(self.own_times(ours), self.times[peer]):
            last = theirs if theirs is not None else last
            if mine is not None and last is not None:
                ratios.append(last / mine)
        return spread(ratios)


def call_list(calls):
    """The calls of a pair as BENCH_CALLS has them."""
    return " ".join(name for name, number in (calls or {}).items()
                    for _ in range(round(number)))
