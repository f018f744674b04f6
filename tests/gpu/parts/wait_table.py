"""wait_table.py - from the result of gpu-check to a table of what a free waits for.

  wait_table.py [--simulated] gpu-check.json

Prints in Markdown what the questions free_*, freehost_wait and call_wait found: which call
comes back only when a kernel has ended, by size and by where the kernel runs. Behind that a
line for each answer that is not what is assumed: of frees in tests/sim/driver/core/gs_free_waits.def, which
the library and the simulated device follow. Its rows come last as they should read. Rows measured on the simulated device are refused, or, with
--simulated, taken, and the first line says so. Ends with 0, whether or not there is a
difference; 1 where there is nothing to make a table of; 2 for a wrong command line.
"""
import pathlib
import re
import sys

from probe_rows import find, one_line, origin_of, read_rows, run

ASSUMED = pathlib.Path(__file__).resolve().parents[3] / "tests/sim/driver/core/gs_free_waits.def"

# The cells of each size class, by kind of memory.
CLASSES = {"device": {"tiny": ["tiny", "alone", "4K"],
                      "small": ["64K", "64K_near", "256K", "256K_near"],
                      "medium": ["1M", "1M+512", "1M+512_near", "2M-512", "2M-512_near"],
                      "large": ["2M", "64M"]},
           "pinned": {"tiny": ["4K"], "small": ["64K"], "medium": ["1M"],
                      "large": ["2M", "64M"]},
           "managed": {"tiny": ["4K"], "small": ["64K"], "medium": ["1M"],
                       "large": ["2M", "64M"]}}
CALL_OF = {"device": "cuMemFree", "pinned": "cuMemFreeHost", "managed": "cuMemFree of managed memory"}

# Where the kernel runs: question and row of cuMemFree, row of freehost_wait and free_managed.
PLACES = [("the legacy stream", "free_legacy", "legacy"),
          ("a blocking stream", "free_blocking", "blocking"),
          ("a non-blocking stream", "free_nonblocking", "nonblocking"),
          ("the per-thread stream", "free_perthread", "per_thread"),
          ("another context", "free_context", "context"),
          ("another device with access", "free_peer", None)]

# The scopes of gs_free_waits.def: whether a free waits, place by place.
SCOPES = {"CONTEXT": (True, True, True, True, False, False),
          "DEVICE": (True, True, True, True, True, False),
          "BLOCKING": (True, True, False, True, False, False),
          "NONE": (False,) * 6}
DECIDING = 3 # places: those before tell CONTEXT, BLOCKING and NONE apart

# Cell of call_wait, function, file of tests/sim/driver. Assumed is that those of WAITING wait,
# and no other.
CALLS = [("alloc_512B", "cuMemAlloc of 512B", "memory/api_memory.c"),
         ("alloc_2M", "cuMemAlloc of 2M", "memory/api_memory.c"),
         ("alloc_64M", "cuMemAlloc of 64M", "memory/api_memory.c"),
         ("managed", "cuMemAllocManaged", "memory/api_managed.c"),
         ("host_alloc", "cuMemHostAlloc", "memory/api_host.c"),
         ("register", "cuMemHostRegister", "memory/api_host.c"),
         ("alloc_async", "cuMemAllocAsync", "memory/api_pool.c"),
         ("free_async", "cuMemFreeAsync", "memory/api_pool.c"),
         ("info", "cuMemGetInfo", "memory/api_memory.c"),
         ("stream_create", "cuStreamCreate", "work/api_stream.c"),
         ("stream_destroy", "cuStreamDestroy", "work/api_stream.c"),
         ("event_create", "cuEventCreate", "work/event.c"),
         ("module_load", "cuModuleLoadData", "code/api_module.c")]
WAITING = ("module_load",)
CALL_PLACES = [("nonblocking", "a non-blocking stream"), ("legacy", "the legacy stream")]

ANSWERS = {"wait": True, "no": False}
SAID = {True: "waits", False: "does not wait"}


class Found:
    """The rows that were measured, and why others were not."""

    def __init__(self, rows):
        self.rows = rows
        self.used = []

    def get(self, question, name):
        """The cells of a row, or (None, why there are none)."""
        row, why = find(self.rows, question, name)
        if row:
            self.used.append(row)
        return row and row["values"], why


def says_what_waits(question):
    return question.startswith("free_") or question in ("freehost_wait", "call_wait")


def markdown(head, lines):
    return ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}",
            *(f"| {' | '.join(line)} |" for line in lines)]


def cells_of(values, names):
    return [one_line((values or {}).get(name, "-")).replace("|", " ") for name in names]


def sizes_said(values, names):
    """What the call did: "waits", or by size where sizes differ; codes as they are."""
    by_answer = {}
    for name in names:
        answer = values.get(name)
        said = SAID[ANSWERS[answer]] if answer in ANSWERS else one_line(answer)
        if answer is not None:
            by_answer.setdefault(said, []).append(name)
    if len(by_answer) == 1:
        return next(iter(by_answer))
    return ", ".join(f"{said} ({' '.join(sizes)})" for said, sizes in by_answer.items())


def answer_of(values, names):
    """Whether it waits, for all sizes alike; None where they differ or were not answered."""
    answers = {ANSWERS.get(values[name]) for name in names if name in values}
    return answers.pop() if len(answers) == 1 else None


def scope_of(answers):
    """The scope that says what a free did, place by place; None if none does."""
    for scope, waits in SCOPES.items():
        if all(answers[place] == waits[place] for place in answers):
            return scope
    return None


def assumed_rows():
    """The rows of gs_free_waits.def: (the line up to the scope, kind, class, scope)."""
    return re.findall(r"^(GS_FREE_CLASS\((\w+), +(\w+), .*?)(\w+)\)$", ASSUMED.read_text(), re.M)


class Report:
    """The tables and what differs, as lines."""

    def __init__(self, found):
        self.found = found
        self.tables, self.differ, self.unknown, self.rows = [], [], [], []
        self.measured = {kind: {} for kind in CLASSES} # by place: the cells
        self.assumed = {(kind, size): scope for _, kind, size, scope in assumed_rows()}

    def frees(self, kind, places):
        """The table of one kind of memory; places: number, question and row of each."""
        names = [name for cells in CLASSES[kind].values() for name in cells]
        lines = []
        for place, question, row in places:
            where = PLACES[place][0]
            values, why = self.found.get(question, row)
            lines.append([where, *cells_of(values, names)])
            if values is None:
                self.unknown.append(f"{CALL_OF[kind]}, kernel on {where}: {why}")
                continue
            self.measured[kind][place] = values
            self.missing(f"{CALL_OF[kind]}, kernel on {where}", values, names)
            self.free_differs(kind, place, values, names)
        self.tables += markdown([f"{CALL_OF[kind]}, kernel on", *names], lines)

    def free_differs(self, kind, place, values, names):
        assumed = {name: "wait" if SCOPES[self.assumed[kind, size]][place] else "no"
                   for size, cells in CLASSES[kind].items() for name in cells}
        if any(name in values and values[name] != assumed[name] for name in names):
            self.differ.append(f"{CALL_OF[kind]}, kernel on {PLACES[place][0]}: "
                               f"{sizes_said(values, names)}; assumed: "
                               f"{sizes_said(assumed, names)}")

    def row_of(self, kind, size, scope):
        """The scope that was measured for a row, and what is to be said of it."""
        cells = CLASSES[kind][size]
        answers = {place: answer_of(values, cells)
                   for place, values in self.measured[kind].items()
                   if any(name in values for name in cells)}
        if not all(place in answers for place in range(DECIDING)):
            return scope, "not measured"
        mixed = [PLACES[place][0] for place in answers if answers[place] is None]
        if mixed:
            return scope, f"its sizes differ on {', '.join(mixed)}"
        found = scope_of(answers)
        if found is None:
            return scope, "no scope says what was measured"
        return found, "" if found == scope else f"was {scope}"

    def free_rows(self):
        for start, kind, size, scope in assumed_rows():
            found, said = self.row_of(kind, size, scope)
            self.rows.append(f"{start}{found})" + (f" /* {said} */" if said else ""))

    def cross_check(self, place, values):
        """Where a kernel that ends says another thing than one that does not."""
        where, question, _ = place
        spun, _ = self.found.get(question, "spin 20ms")
        other = [size for sizes in CLASSES["device"].values() for size in sizes if values.get(size) in ANSWERS
                 and (spun or {}).get(f"{size}_kernel_over") in ("yes", "no")
                 and (spun[f"{size}_kernel_over"] == "yes") != ANSWERS[values[size]]]
        if other:
            self.differ.append(f"cuMemFree, kernel on {where}: a kernel that ends says "
                               f"otherwise ({' '.join(other)}). Ask again: "
                               f"build/gpu/gpu_probe {question}")

    def unregister(self):
        lines = []
        for place, (where, _, row) in enumerate(PLACES):
            values = row and self.found.get("freehost_wait", row)[0]
            if not values:
                continue
            lines.append([where, *cells_of(values, ["unregister"])])
            self.missing(f"cuMemHostUnregister, kernel on {where}", values, ["unregister"])
            said = sizes_said(values, ["unregister"])
            if said and said != SAID[SCOPES["CONTEXT"][place]]:
                self.differ.append(f"cuMemHostUnregister, kernel on {where}: {said}; assumed: "
                                   f"{SAID[SCOPES['CONTEXT'][place]]}. Simulator: "
                                   "tests/sim/driver/memory/api_host.c")
        self.tables += markdown(["cuMemHostUnregister, kernel on", "1M"], lines)

    def calls(self):
        rows = {}
        for row, where in CALL_PLACES:
            values, why = self.found.get("call_wait", row)
            rows[row] = values
            if values is None:
                self.unknown.append(f"other calls, kernel on {where}: {why}")
        self.tables += markdown(
            ["call", *(f"kernel on {where}" for _, where in CALL_PLACES)],
            [[function, *(cells_of(rows[row], [cell])[0] for row, _ in CALL_PLACES)]
             for cell, function, _ in CALLS])
        for row, where in CALL_PLACES:
            for cell, function, file in CALLS if rows[row] else ():
                self.missing(f"{function}, kernel on {where}", rows[row], [cell])
                said = sizes_said(rows[row], [cell])
                waits = cell in WAITING
                if said and rows[row][cell] != ("wait" if waits else "no"):
                    self.differ.append(f"{function}, kernel on {where}: {said}; assumed: "
                                       f"{'waits' if waits else 'does not wait'}. "
                                       f"Simulator: tests/sim/driver/{file}")

    def missing(self, what, values, names):
        gone = [name for name in names if name not in values]
        if gone:
            self.unknown.append(f"{what}: no answer ({' '.join(gone)})")

    def listed(self):
        yield from self.tables
        yield ""
        yield ("Not as the library and the simulator assume:" if self.differ else
               "Nothing measured differs from what the library and the simulator assume.")
        if self.differ:
            yield ""
        yield from (f"- {text}" for text in self.differ)
        if self.unknown:
            yield from ["", "Not measured:", ""]
        yield from (f"- {text}" for text in self.unknown)
        yield from ["", "The rows of tests/sim/driver/core/gs_free_waits.def:", ""]
        yield from (f"    {row}" for row in self.rows)


def make(path, allowed):
    found = Found(read_rows(path, says_what_waits))
    report = Report(found)
    report.frees("device", [(place, question, "held")
                            for place, (_, question, _) in enumerate(PLACES)])
    for place, values in report.measured["device"].items():
        report.cross_check(PLACES[place], values)
    for kind, question in (("pinned", "freehost_wait"), ("managed", "free_managed")):
        report.frees(kind, [(place, question, row)
                            for place, (_, _, row) in enumerate(PLACES) if row])
    report.unregister()
    report.calls()
    report.free_rows()
    origin, simulated = origin_of(found.used, allowed, "answer",
                                  "nothing of what calls wait for was measured")
    print(origin if simulated else f"Measured on {origin}")
    print("\n".join(report.listed()))


if __name__ == "__main__":
    sys.exit(run("wait_table", sys.argv[1:], make))
