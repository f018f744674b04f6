"""The call sites of a scope's memory in this process, as lines of text: by the command's `gpushim export`."""
import csv
import io
import json
import os
import subprocess

from gpushim import _command

_MOST_SITES, _MOST_FRAMES, _MOST_SECONDS = 5, 8, 60


class Missing(Exception):
    """There is no report; the text says why."""


def size_text(size):
    """A size as the reports write it: 24.0 MiB."""
    value, unit = size, "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return "%.*f %s" % (digits, value, unit)


def count_text(count, word):
    """1 allocation, 2 allocations."""
    return "%d %s%s" % (count, word, "" if count == 1 else "s")


def _export(form, parse):
    """parse() of what the command writes of this process in a format. Raises Missing."""
    command = _command.find()
    if not command:
        raise Missing(_command.missing())
    try:
        done = subprocess.run([command, "export", str(os.getpid()), form], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_MOST_SECONDS, check=False)
        return parse(done.stdout.decode(errors="replace"))
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Missing(str(problem)) from None
    except ValueError:
        said = done.stderr.decode(errors="replace").split("\n")[0]
        raise Missing(said or "%s export ended with %d" % (command, done.returncode)) from None


def report():
    """The report of this process as of now: docs/schema/report-1.json. Raises Missing."""
    return _export("json", json.loads)


def _csv_rows(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows and not text:
        raise ValueError("empty")
    return rows


def _csv_frame(function, place):
    file, _, line = place.rpartition(":")
    return {"function": function, "file": file or None, "line": int(line) if file and line.isdigit() else None}


def totals(scope, device):
    """What own() returns, of all that a scope has allocated so far, freed or not. Empty where the process does not
    count that: GPUSHIM_OUTPUT=csv. Raises Missing."""
    found = []
    for row in _export("csv", _csv_rows):
        if row["device"] == str(device) and scope in row["scope"].split("/") and int(row["total_bytes"] or 0):
            frames = [_csv_frame(*one) for one in zip(row["stack"].split(";"), row["places"].split(";"))]
            found.append(({"bytes": int(row["total_bytes"]), "count": int(row["total_count"]), "call": row["call"]},
                          [one for one in reversed(frames) if not one["function"].startswith("[scope ")]))
    return sorted(found, key=lambda one: -one[0]["bytes"])


def _is_in(scope, function):
    """Whether a frame is that of the scope: "[scope NAME]", or with scopes around it and within it."""
    return bool(function) and function.startswith("[scope ") and scope in function[7:-1].split("/")


def own(found, places, scope, device):
    """[(place, its frames)] of those `places` of a report that belong to a scope and a device, largest first; without
    what allocators keep for reuse."""
    of_scope = []
    for place in places:
        frames = [found["frames"][number] for number in place["stack"] or []]
        if place["device"] == device and not place.get("cached_by") and \
                any(_is_in(scope, frame["function"]) for frame in frames):
            of_scope.append((place, [one for one in frames if not (one["function"] or "").startswith("[scope ")]))
    return sorted(of_scope, key=lambda one: -one[0]["bytes"])


def _frame_text(frame):
    place = os.path.basename(frame["file"]) if frame["file"] else ""
    if place and frame["line"]:
        place += ":%d" % frame["line"]
    return ("      %-29s %s" % (frame["function"] or "??", place)).rstrip()


def _site_lines(place, frames, file):
    """A call site, down to the outermost frame in `file`, the test's: what called the test is of no use."""
    outermost = max((number for number, frame in enumerate(frames) if frame["file"] == file), default=len(frames))
    yield "    %s in %s, %s" % (size_text(place["bytes"]), count_text(place["count"], "allocation"), place["call"])
    shown = frames[:outermost + 1]
    omitted = len(shown) - _MOST_FRAMES
    if omitted > 0:  # not the last one
        yield from map(_frame_text, shown[:_MOST_FRAMES - 1])
        yield "      ... %s" % count_text(omitted, "frame")
        shown = shown[-1:]
    yield from map(_frame_text, shown)


def lines(sites, total, file):
    """Lines of the call sites that own() or totals() has found, and how much of `total` bytes is elsewhere."""
    for place, frames in sites[:_MOST_SITES]:
        yield from _site_lines(place, frames, file)
    rest = [place["bytes"] for place, _ in sites[_MOST_SITES:]]
    if rest:
        yield "    %s at %s more" % (size_text(sum(rest)), count_text(len(rest), "call site"))
    elsewhere = total - sum(place["bytes"] for place, _ in sites)
    if elsewhere > 0:
        yield "    %s by other threads, or without a call stack" % size_text(elsewhere)
