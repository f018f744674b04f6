"""probe_rows.py - what latency_table.py and wait_table.py share: the rows of part probe in the
result of gpu-check, whose they are, and how such a tool is called.
"""
import json
import sys


class Unusable(Exception):
    """Why no table can be made."""


def one_line(value):
    """A name as the table's line can hold it: printed characters, no comment."""
    return " ".join("".join(mark if mark.isprintable() and mark != "#" else " "
                            for mark in str(value)).split())


def read_rows(path, wanted):
    """The rows of part probe whose question is wanted(question)."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["parts"]["probe"]["rows"]
        return [row for row in rows if wanted(row["question"])]
    except OSError as error:
        raise Unusable(error.strerror) from error
    except (ValueError, RecursionError) as error:
        raise Unusable(f"no JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Unusable("no result of gpu-check with the part probe") from error


def find(rows, question, name, unit=None):
    """The measured row, in that unit if one is named, or (None, why there is none)."""
    why = "not asked"
    for row in rows:
        if row["question"] != question or row.get("row") not in (name, "-"):
            continue
        if row.get("status") == "measured" and unit in (None, row.get("unit")) and \
                isinstance(row.get("values"), dict):
            return row, ""
        why = ": ".join(filter(None, [one_line(row.get("status")), one_line(row.get("note"))]))
    return None, why


def origin_of(rows, allowed, what, nothing):
    """GPU, driver and days of the rows that were used, behind SIMULATED where they are that,
    and whether they are; `allowed`: then they are no reason to refuse, else there is no `what`
    of a GPU. Where there are no rows the reason is `nothing`."""
    if not rows:
        raise Unusable(nothing)
    simulated = any(row.get("simulated") is not False for row in rows)
    if simulated and not allowed:
        raise Unusable(f"measured on the simulated device: no {what} of a GPU "
                       "(--simulated takes it)")
    machines = {(one_line(row.get("gpu", "")), one_line(row.get("driver", ""))) for row in rows}
    if len(machines) != 1:
        raise Unusable("rows of more than one machine")
    gpu, driver = machines.pop()
    if not gpu or not driver:
        raise Unusable("rows that do not say which GPU and driver they are of")
    dates = sorted({one_line(row.get("date", "")) for row in rows} - {""})
    return ", ".join(filter(None, [("SIMULATED, " if simulated else "") + gpu,
                                   f"driver {driver}",
                                   " to ".join(dates[:1] + dates[1:][-1:])])), simulated


def run(tool, arguments, make):
    """The status of such a tool: make(path, allowed) prints the table, or says why not."""
    paths = [argument for argument in arguments if argument != "--simulated"]
    if len(paths) != 1 or paths[0].startswith("-"):
        print(f"usage: {tool}.py [--simulated] gpu-check.json", file=sys.stderr)
        return 2
    try:
        make(paths[0], "--simulated" in arguments)
    except Unusable as why:
        print(f"{tool}: {paths[0]}: {why}", file=sys.stderr)
        return 1
    return 0
