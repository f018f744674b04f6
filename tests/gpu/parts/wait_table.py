"""wait_table.py - from the result of gpu-check to a table of what a free waits for.

  wait_table.py [--simulated] gpu-check.json

Prints in Markdown what the questions free_*, freehost_wait and call_wait found: which call
comes back only when a kernel has ended, by size and by where the kernel runs. Behind that a
line for each answer that is not what docs/free.md and the simulated device assume, with the
setting or the file to change. Rows measured on the simulated device are refused, or, with
--simulated, taken, and the first line says so. Ends with 0, whether or not there is a
difference; 1 where there is nothing to make a table of; 2 for a wrong command line.
"""
import sys

from probe_rows import find, one_line, origin_of, read_rows, run

SIZES = ["tiny", "alone", "4K", "1M", "2M", "64M"]

# Where the kernel runs: question and row of cuMemFree, row of freehost_wait.
PLACES = [("the legacy stream", "free_legacy", "legacy"),
          ("a blocking stream", "free_blocking", "blocking"),
          ("a non-blocking stream", "free_nonblocking", "nonblocking"),
          ("the per-thread stream", "free_perthread", "per_thread"),
          ("another context", "free_context", "context"),
          ("another device with access", "free_peer", None)]

# The words of CUDASIM_FREE_WAITS: whether a free waits, place by place. The first is assumed.
WORDS = {"context": (True, True, True, True, False, False),
         "device": (True, True, True, True, True, False),
         "blocking": (True, True, False, True, False, False),
         "none": (False,) * 6}

# Call, cells of its row of freehost_wait.
HOST_CALLS = [("cuMemFreeHost", ["4K", "2M", "64M"]), ("cuMemHostUnregister", ["unregister"])]

# Cell of call_wait, function, file of tests/sim/driver. None of them waits, as assumed.
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


def word_of(answers):
    """The word of CUDASIM_FREE_WAITS that says what cuMemFree did; None if none does."""
    for word, waits in WORDS.items():
        if all(answers[place] == waits[place] for place in answers):
            return word
    return None


class Report:
    """The tables and what differs, as lines."""

    def __init__(self, found):
        self.found = found
        self.tables, self.differ, self.unknown = [], [], []
        self.word = None

    def frees(self):
        lines, answers, measured = [], {}, {}
        for place, (where, question, _) in enumerate(PLACES):
            values, why = self.found.get(question, "held")
            lines.append([where, *cells_of(values, SIZES)])
            if values is None:
                self.unknown.append(f"cuMemFree, kernel on {where}: {why}")
                continue
            measured[place] = values
            answers[place] = answer_of(values, SIZES)
            self.missing(f"cuMemFree, kernel on {where}", values, SIZES)
        self.tables += markdown(["cuMemFree, kernel on", *SIZES], lines)
        self.word = word_of(answers)
        for place, values in measured.items():
            if answers[place] != WORDS["context"][place]:
                self.free_differs(place, sizes_said(values, SIZES))
            self.cross_check(PLACES[place], values)

    def free_differs(self, place, said):
        change = (f"CUDASIM_FREE_WAITS={self.word}" if self.word else
                  "no word of CUDASIM_FREE_WAITS, tests/sim/driver/device/context.c")
        self.differ.append(
            f"cuMemFree, kernel on {PLACES[place][0]}: {said}; assumed: "
            f"{SAID[WORDS['context'][place]]}. Simulator: {change}. Library: "
            "shim/order/free_wait.c, docs/free.md")

    def cross_check(self, place, values):
        """Where a kernel that ends says another thing than one that does not."""
        where, question, _ = place
        spun, _ = self.found.get(question, "spin 20ms")
        other = [size for size in SIZES if values.get(size) in ANSWERS
                 and (spun or {}).get(f"{size}_kernel_over") in ("yes", "no")
                 and (spun[f"{size}_kernel_over"] == "yes") != ANSWERS[values[size]]]
        if other:
            self.differ.append(f"cuMemFree, kernel on {where}: a kernel that ends says "
                               f"otherwise ({' '.join(other)}). Ask again: "
                               f"build/gpu/gpu_probe {question}")

    def host_frees(self):
        names = [name for _, cells in HOST_CALLS for name in cells]
        lines = []
        for place, (where, _, row) in enumerate(PLACES):
            if row is None:
                continue
            values, why = self.found.get("freehost_wait", row)
            lines.append([where, *cells_of(values, names)])
            if values is None:
                self.unknown.append(f"cuMemFreeHost, kernel on {where}: {why}")
                continue
            for call, cells in HOST_CALLS:
                self.missing(f"{call}, kernel on {where}", values, cells)
                self.host_differs(call, place, values, cells)
        self.tables += markdown(["cuMemFreeHost, kernel on", *names], lines)

    def host_differs(self, call, place, values, cells):
        answer, assumed = answer_of(values, cells), WORDS["context"][place]
        said = sizes_said(values, cells)
        if answer == assumed or not said:
            return
        follows = self.word and answer == WORDS[self.word][place]
        change = f"CUDASIM_FREE_WAITS={self.word}" if follows else \
            "tests/sim/driver/memory/api_host.c"
        self.differ.append(f"{call}, kernel on {PLACES[place][0]}: {said}; assumed: "
                           f"{SAID[assumed]}. Simulator: {change}. Library: shim/host, "
                           "docs/host-memory.md")

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
                if said and rows[row][cell] != "no":
                    self.differ.append(f"{function}, kernel on {where}: {said}; assumed: does "
                                       f"not wait. Simulator: tests/sim/driver/{file}")

    def missing(self, what, values, names):
        gone = [name for name in names if name not in values]
        if gone:
            self.unknown.append(f"{what}: no answer ({' '.join(gone)})")

    def listed(self):
        yield from self.tables
        yield ""
        yield ("Not as docs/free.md and the simulator assume:" if self.differ else
               "Nothing measured differs from what docs/free.md and the simulator assume.")
        if self.differ:
            yield ""
        yield from (f"- {text}" for text in self.differ)
        if self.unknown:
            yield from ["", "Not measured:", ""]
        yield from (f"- {text}" for text in self.unknown)


def make(path, allowed):
    found = Found(read_rows(path, says_what_waits))
    report = Report(found)
    report.frees()
    report.host_frees()
    report.calls()
    origin, simulated = origin_of(found.used, allowed, "answer",
                                  "nothing of what calls wait for was measured")
    print(origin if simulated else f"Measured on {origin}")
    print("\n".join(report.listed()))


if __name__ == "__main__":
    sys.exit(run("wait_table", sys.argv[1:], make))
