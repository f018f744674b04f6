"""goals.py - what gpushim is to reach, and how far it is, from the rows of a run.

A goal: (what, goal as text, value as text or "-", distance as text). Distance says whether
the goal is reached, and how far off it is: the value in the goal's, or the goal in the
value's where more is better, so that 1.00 and less is reached. "-" where this run cannot
say, with the reason in its place.
"""

from report import traces

GPU = "needs a GPU"
HIT = {"as shipped": ("cuMemAlloc", 120), "no stacks": ("cuMemAlloc STACK=off", 25),
       "untracked": ("cuMemAlloc TRACK=off", 20)}
# What a memory manager has published of itself against PyTorch's allocator.
PUBLISHED = {"genesis-same": 1.43, "genesis-large": 3.92, "genesis-transformer": 1.89,
             "genesis-pressure": 4.83, "genesis-variable": 0.83}


# Figures of the traces: the worst trace of each.
TRACES = {traces.SMALLEST: 1.02, traces.CALLS: 2, traces.RESERVED: 1.03}


class Rows:
    """Rows and figures by what they are."""

    def __init__(self, bench):
        self.bench = bench

    def row(self, scenario, setting):
        for row in self.bench.rows:
            if (row["scenario"], row["setting"]) == (scenario, setting):
                return row
        return None

    def own(self, scenario, setting):
        row = self.row(scenario, setting)
        return row and row["gpushim"]["own"]

    def _figure(self, scenario, start):
        for figure in self.bench.figures:
            if figure["scenario"] == scenario and figure["what"].startswith(start):
                return figure
        return {}

    def ratio(self, scenario, start, peer):
        """The value in the peer's; None where either is missing."""
        figure = self._figure(scenario, start)
        value, other = figure.get("value"), figure.get("peers", {}).get(peer)
        return value and other and value / other

    def figure(self, scenario, start):
        return self._figure(scenario, start).get("value")

    def why(self, scenario, start):
        """Why there is no value."""
        return self._figure(scenario, start).get("why") or "not measured"


def distance(value):
    """In words, too: of a ratio alone nobody sees which way is better."""
    return f"{value:.2f} {'reached' if value <= 1 else 'missed'}"


def at_most(what, value, goal, unit, digits=0, why="not measured"):
    """A row for a value that should not be above the goal."""
    if value is None:
        return (what, f"<= {goal:g} {unit}", "-", why)
    return (what, f"<= {goal:g} {unit}", f"{value:.{digits}f} {unit}", distance(value / goal))


def at_least(what, value, goal, unit, digits=2):
    if value is None:
        return (what, f">= {goal:g} {unit}", "-", "not measured")
    return (what, f">= {goal:g} {unit}", f"{value:.{digits}f} {unit}",
            distance(goal / max(value, 0.01)))


def pinned_pair(row):
    """What a hit still asks of the driver is taken off only where it can be asked alone."""
    what, why = "pinned pair", "not measured"
    if row and row["gpushim"]["driver_calls"]:
        if row["gpushim"]["calls"] is None:
            what += ", the driver's calls in it"
        why = "served by the driver: see instructions"
    return at_most(what, row and row["gpushim"]["own"], 60, "ns", 0, why)


def difference(a, b):
    return None if a is None or b is None else max(a - b, 0)


def all_goals(bench):
    """The whole table, in the order of the design's."""
    rows = Rows(bench)
    usual = bench.usual[1]
    table = []
    for setting, (name, goal) in HIT.items():
        table.append(at_most(f"hit pair less driver's calls, {setting}",
                             rows.own("hitpair", name), goal, "ns"))
    for setting, (name, _) in HIT.items():
        row = rows.row("hitpair", name)
        tail = row and row["gpushim"]["p99"] and row["gpushim"]["p99"] / row["gpushim"]["p50"]
        table.append(at_most(f"its p99 against its p50, {setting}", tail, 4, "x", 1))
    simulated = bench.device.simulated
    for linked in ("shared", "static"):
        what = f"the same through NVIDIA's {linked} runtime"
        found = f"cudaMalloc, {linked}, against"
        table.append((what, "<= 1.3 x", "-", GPU) if simulated else
                     at_most(what, rows.figure("linking", found), 1.3, "x", 2,
                             rows.why("linking", found)))
    table.append(at_most("65,536 holes against none",
                         rows.figure("holes", "65,536 holes"), 1.3, "x", 2))
    threads = min(bench.cores, 16)
    if threads > 1:
        goal = 1.9 if threads == 2 else 0.75 * threads
        table.append(at_least(f"{threads} threads, against one: the worst round"
                              f"{machine_scale(rows, threads)}",
                              worst_round(bench, usual), goal, "x"))
    table.append(at_most("free behind a running kernel, lazy; the next ones",
                         rows.figure("flight", "each of 31 frees after it, lazy"),
                         50, "ns", 0, rows.why("flight", "each of 31 frees after it, lazy")))
    table.append(pinned_pair(rows.row("pinned", "cudaHostAlloc")))
    table.append(at_least(
        "32 threads on a nearly full device, against POOL=off",
        rows.ratio("soak", "32 threads on a nearly full device, as shipped", "POOL=off"),
        1, "x"))
    for what, goal in TRACES.items():
        table.append(at_most(what, rows.figure("traces", what), goal, "x", 3,
                             rows.why("traces", what)))
    table.append(at_most("kernel launch, added",
                         rows.figure("launch", "added to cuLaunchKernel"), 3, "ns", 1))
    untracked = rows.own("hitpair", HIT["untracked"][0])
    stackless = rows.own("hitpair", HIT["no stacks"][0])
    table.append(at_most("recording a pair, no stack (difference of rows)",
                         difference(stackless, untracked), 10, "ns"))
    table.append(("its stack, by frame pointers", "<= 60 ns", *stack_cost(rows, stackless)))
    table.append(at_most("metadata of a live allocation",
                         rows.figure("metadata", "as shipped"), 96, "bytes", 1))
    table.append(at_most("LD_PRELOAD without CUDA", rows.figure("start", "added"), 200, "us"))
    for size in ("1mb", "10mb", "100mb"):
        claim = {"1mb": 11, "10mb": 44, "100mb": 352}[size]
        row = rows.row(f"dotcompute-{size}", usual)
        native = row and row["peers"].get("native", {}).get("ratio")
        what = f"dotcompute-{size}, against no pool"
        table.append(at_least(what, native[0], claim, "x") if native
                     else (what, f">= {claim} x", "-", GPU if simulated else "not measured"))
    for name, claim in PUBLISHED.items():
        row = rows.row(name, usual)
        if row and row["peers"].get("PyTorch", {}).get("note"):
            table.append((f"{name}, against PyTorch", f">= {claim:g} x", "-",
                          "PyTorch is out of memory there"))
            name = "genesis-pressure-1280m"
            row = rows.row(name, usual)
        ratio = row and row["peers"].get("PyTorch", {}).get("ratio")
        table.append(at_least(f"{name}, against PyTorch", ratio and ratio[0], claim, "x"))
    return table


def machine_scale(rows, threads):
    """What the cores give at all, where others use them, too."""
    scale = rows.figure("threads", f"{threads} threads against one, a loop")
    return "" if scale is None else f" (a loop without memory: {scale:.2f} x)"


def worst_round(bench, setting):
    """Rounds differ widely on a machine that others use: a good one proves nothing."""
    for figure in bench.figures:
        if figure["scenario"] == "threads" and figure["what"].endswith(f", {setting}"):
            return min(figure["rounds"], default=None)
    return None


def stack_cost(rows, stackless):
    cost = difference(rows.own("hitpair", HIT["as shipped"][0]), stackless)
    return ("-", "not measured") if cost is None else (f"{cost:.0f} ns", distance(cost / 60))
