"""latency_table.py - from the result of gpu-check to a table for CUDASIM_LATENCY.

  latency_table.py [--simulated] gpu-check.json >latency.table

The medians of the questions cost_calls and, in the setting "pair", of the other questions
cost_*, as measured. The table knows one duration of cuMemFree and one of cuMemFreeAsync by
size: those of cost_device and cost_async. A call that no question measured gets no row. Rows
measured on the simulated device are refused, or, with --simulated, taken, and the origin says
so. Ends with 0; 1 where there is nothing to make a table of; 2 for a wrong command line. What
is missing has a line on stderr and a comment in the table.
"""
import math
import sys

from probe_rows import find, one_line, origin_of, read_rows, run

# question, row, function: a row of durations by size.
BY_SIZE = [("cost_device", "alloc pair", "cuMemAlloc"),
           ("cost_device", "free pair", "cuMemFree"),
           ("cost_async", "alloc pair", "cuMemAllocAsync"),
           ("cost_async", "free pair", "cuMemFreeAsync"),
           ("cost_host", "alloc pair", "cuMemHostAlloc"),
           ("cost_host", "free pair", "cuMemFreeHost"),
           ("cost_managed", "alloc pair", "cuMemAllocManaged"),
           ("cost_register", "register pair", "cuMemHostRegister"),
           ("cost_register", "unregister pair", "cuMemHostUnregister"),
           ("cost_pitch", "alloc pair", "cuMemAllocPitch"),
           ("cost_pool", "alloc pair", "cuMemAllocFromPoolAsync"),
           ("cost_array", "create pair", "cuArrayCreate"),
           ("cost_array", "destroy pair", "cuArrayDestroy"),
           ("cost_vmm", "create pair", "cuMemCreate"),
           ("cost_vmm", "reserve pair", "cuMemAddressReserve"),
           ("cost_vmm", "map pair", "cuMemMap"),
           ("cost_vmm", "access pair", "cuMemSetAccess"),
           ("cost_vmm", "unmap pair", "cuMemUnmap"),
           ("cost_vmm", "release pair", "cuMemRelease"),
           ("cost_vmm", "unreserve pair", "cuMemAddressFree")]

# question, row, cell, function: a duration without a size.
BY_CALL = [("cost_calls", "idle", "current", "cuCtxGetCurrent"),
           ("cost_calls", "idle", "ctx_id", "cuCtxGetId"),
           ("cost_calls", "idle", "capturing", "cuStreamIsCapturing"),
           ("cost_calls", "idle", "query", "cuStreamQuery"),
           ("cost_calls", "idle", "ev_query", "cuEventQuery"),
           ("cost_calls", "idle", "ev_record", "cuEventRecord"),
           ("cost_calls", "idle", "sync", "cuCtxSynchronize"),
           ("cost_calls", "idle", "info", "cuMemGetInfo"),
           ("cost_calls", "idle", "range", "cuMemGetAddressRange"),
           ("cost_calls", "idle", "attribute", "cuPointerGetAttribute"),
           ("cost_calls", "launch", "nonblocking", "cuLaunchKernel")]

UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def warn(text):
    print(f"latency_table: {text}", file=sys.stderr)


def is_duration(value):
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and math.isfinite(value) and value >= 0)


def bytes_of(size):
    """512 of 512B, 65536 of 64K; None for what is no size, as 64K_p99."""
    unit = UNITS.get(size[-1:])
    if unit is None or not size[:-1].isdecimal():
        return None
    return int(size[:-1]) * unit


def by_size(row, function):
    found = sorted((bytes_of(size), size, value) for size, value in row["values"].items()
                   if bytes_of(size) and is_duration(value))
    return [f"{function} {size.rstrip('B')} {round(value)}" for _, size, value in found]


def convert(rows):
    """(rows of the table, what is missing, the rows they were made of)."""
    lines, missing, used = [], [], []
    for question, name, function in BY_SIZE:
        row, why = find(rows, question, name, "ns")
        made = by_size(row, function) if row else []
        if made:
            lines += made
            used.append(row)
        else:
            missing.append(f"{function}: {question}, {name}: {why or 'no duration'}")
    for question, name, cell, function in BY_CALL:
        row, why = find(rows, question, name, "ns")
        value = row["values"].get(cell) if row else None
        if is_duration(value):
            lines.append(f"{function} {round(value)}")
            used.append(row)
        else:
            why = why or ("no duration" if value is None else one_line(value))
            missing.append(f"{function}: {question}, {name}, {cell}: {why}")
    return lines, missing, used


def make(path, allowed):
    lines, missing, used = convert(
        read_rows(path, lambda question: question.startswith("cost_")))
    origin, _ = origin_of(used, allowed, "figure", "nothing of what calls cost was measured")
    print(f"origin: {origin}")
    for text in missing:
        print(f"# no row for {text}")
        warn(f"no row for {text}")
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(run("latency_table", sys.argv[1:], make))
