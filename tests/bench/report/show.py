"""show.py - the rows of a run, as text for a terminal, Markdown and JSON."""

import datetime
import json
import os

from report import goals, plot

SCHEMA = 3
ROUNDS_APART = 1.5  # the slowest round takes so many times the fastest: both are shown
CELL = 23  # columns of a peer


def number(value, digits=0):
    """A figure; "-" where there is none, or the word that stands in its place."""
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:,.{digits}f}"


def cell(peer):
    """A peer's time and how much faster or slower gpushim's own is, or why there is none."""
    if peer["note"]:
        return "out of memory" if "out of memory" in peer["note"] else "failed"
    if peer["p50"] is None:
        return "-"
    text = number(peer["p50"]) + ("~" if peer["humps"] else "")
    if not peer["ratio"]:
        return text
    ratio = peer["ratio"][0]
    if ratio >= 1:
        return f"{text} {ratio:.2f}x faster"
    return f"{text} {1 / max(ratio, 1e-9):.2f}x slower"


def remarks(row):
    """What the row's median hides."""
    ours = row["gpushim"]
    if ours["humps"]:
        low, high, share = ours["humps"]
        yield (f"two humps: {number(low)} ns, and {number(high)} ns "
               f"in {100 * share:.0f} % of the pairs")
    if ours["p50"] and ours["own"] is None:
        yield "served by the driver, call by call: the own cost is among the instructions"
    if ours["rounds"] and ours["rounds"][1] >= ROUNDS_APART * ours["rounds"][0]:
        yield f"rounds from {number(ours['rounds'][0])} to {number(ours['rounds'][1])} ns"


def best(row):
    """The fastest peer's name and ratio."""
    ratios = [(peer["ratio"], name) for name, peer in row["peers"].items() if peer["ratio"]]
    return min(ratios) if ratios else (None, None)


# ---- on a terminal -----------------------------------------------------------------------


class Terminal:
    """Prints rows as they are measured."""

    def __init__(self, peers):
        self.peers, self.begun, self.figures = peers, False, False

    def row(self, row):
        if not self.begun:
            self.begun = True
            names = "".join(f"{name:>{CELL}}" for name in self.peers)
            print(f"\n{'scenario':<24}{'ns a pair':<26}{'p50':>7}{'p99':>8}{'calls':>7}{names}")
        ours = row["gpushim"]
        cells = "".join(
            f" {cell(row['peers'][name]) if name in row['peers'] else '-':>{CELL - 1}}"
            for name in self.peers)
        print(f"{row['scenario']:<24}{row['setting']:<26}{number(ours['p50']):>7}"
              f"{number(ours['p99']):>8}{number(ours['calls']):>7}{cells}", flush=True)
        for remark in remarks(row):
            print(f"{'':<24}  {remark}", flush=True)

    def figure(self, figure):
        if not self.figures:
            self.figures = True
            print()
        print(figure_line(figure), flush=True)


def digits_of(unit):
    return {"x": 3, "ratio": 2, "exponent": 2, "bytes": 1, "us": 1, "ms": 1, "calls": 1}.get(unit, 0)


def figure_line(figure):
    digits = digits_of(figure["unit"])
    peers = "".join(f"  {name} {number(peer, digits)}"
                    for name, peer in figure["peers"].items())
    more = f"  p99 {number(figure['p99'])}  {figure['calls']}" if "calls" in figure else ""
    return (f"{figure['scenario']:<24}{figure['what']:<58} {figure_value(figure):<14}"
            f"{peers}{more}")


def figure_value(figure):
    """With its unit, or why there is none."""
    if figure.get("why"):
        return figure["why"]
    value = figure["value"]
    text = number(value, digits_of(figure["unit"]))
    if not isinstance(value, str):
        text += f" {figure['unit']}"
    if figure.get("better") == "more":
        text += ", more is better"
    return text + (f" ({figure['worst']})" if "worst" in figure else "")


def print_goals(bench):
    print(f"\n{'goal':<62}{'goal':>13}{'value':>13}  distance")
    for what, goal, value, distance in goals.all_goals(bench):
        print(f"{what:<62}{goal:>13}{value:>13}  {distance}")


# ---- headings ----------------------------------------------------------------------------


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown CPU"


def load():
    return f"{os.getloadavg()[0]:.2f}"


def heading(bench, load_before):
    """What a reader must know before a figure, a line each."""
    device = bench.device
    if device.simulated:
        yield "SIMULATED DEVICE, no GPU: own cost on the CPU alone. Peers with the calls of"
        yield "the runtime answered on the spot; native and cudaMallocAsync mean nothing here."
    else:
        yield f"On {device.name}, driver {device.driver}."
    yield f"{cpu_name()}, {bench.cores} cores, load {load_before} before the run."
    yield (f"Median of {bench.rounds} rounds in turn. Beside a peer's time: how much faster or "
           "slower gpushim is,")
    yield "the driver's calls in it taken off. ~: a median between two humps, which the JSON has."
    yield "p99 is of pairs timed one by one. Of figures less is better unless they say more."
    yield "What is measured, and what that can say: docs/bench.md"
    for name, why in bench.missing.items():
        yield f"{name}: blank, {why}."


# ---- files -------------------------------------------------------------------------------


def as_json(bench, load_before, complete=True):
    """`complete` is false as long as something is still to be measured."""
    return json.dumps({
        "schema": SCHEMA, "complete": complete, "simulated": bench.device.simulated, "device": bench.device.name,
        "driver": bench.device.driver, "cpu": cpu_name(), "cores": bench.cores,
        "load": float(load_before), "rounds": bench.rounds, "missing": bench.missing,
        "rows": bench.rows, "figures": bench.figures,
        "goals": [dict(zip(("what", "goal", "value", "distance"), goal))
                  for goal in goals.all_goals(bench)],
        "problems": bench.problems,
    }, indent=2) + "\n"


def write_json(path, bench, load_before, complete=True):
    """At any time there is a whole file there: the last one, or this. What no file can take
    the place of, a device or a file in a folder of others, is written at the end."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not (os.path.isfile(path)
                                     and os.access(os.path.dirname(path), os.W_OK)):
        if complete:
            with open(path, "w", encoding="utf-8") as file:
                file.write(as_json(bench, load_before))
        return
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(as_json(bench, load_before, complete))
    os.replace(path + ".new", path)


def table(head, lines):
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def markdown(bench, load_before, versions, plot_name):
    peers = [way.name for way in bench.peers()]
    title = "SIMULATED: own cost only" if bench.device.simulated else bench.device.name
    yield f"# Measured: {title}"
    yield ""
    yield from heading(bench, load_before)
    if versions:
        yield "Peers: " + ", ".join(versions) + ", CUB of the toolkit."
    yield ""
    yield f"![medians]({plot_name})"
    yield ""
    yield "## Pairs"
    yield ""
    yield from table(
        ["scenario", "gpushim", "p50", "p99", "its driver calls", *peers],
        (["; ".join([row["scenario"], *remarks(row)]), row["setting"],
          number(row["gpushim"]["p50"]),
          number(row["gpushim"]["p99"]), number(row["gpushim"]["calls"]),
          *(cell(row["peers"][name]) if name in row["peers"] else "-" for name in peers)]
         for row in bench.rows))
    yield ""
    yield "## Figures"
    yield ""
    yield from table(["scenario", "what", "value", "peers"], map(figure_cells, bench.figures))
    yield ""
    yield "## Goals"
    yield ""
    yield "Distance: the value in the goal's, or the goal in the value's where more is better: 1"
    yield "or less is reached."
    yield ""
    yield from table(["what", "goal", "value", "distance"], goals.all_goals(bench))
    if bench.problems:
        yield ""
        yield "## Not measured"
        yield ""
        yield from (f"- {problem}" for problem in bench.problems)


def figure_cells(figure):
    digits = digits_of(figure["unit"])
    peers = ", ".join(f"{name} {number(peer, digits)}"
                      for name, peer in figure["peers"].items())
    if "calls" in figure:
        peers = f"p99 {number(figure['p99'])}; {figure['calls']}"
    return [figure["scenario"], figure["what"], figure_value(figure), peers or "-"]


def write_results(bench, load_before, versions, folder):
    """Markdown, JSON and a plot under docs/results/, named by the day and the device."""
    os.makedirs(folder, exist_ok=True)
    device = "simulated" if bench.device.simulated else "-".join(
        bench.device.name.lower().split())
    stem = f"{datetime.date.today().isoformat()}-{device}"
    files = {
        f"{stem}.md": "\n".join(markdown(bench, load_before, versions, f"{stem}.svg")) + "\n",
        f"{stem}.json": as_json(bench, load_before),
        f"{stem}.svg": plot.dots(bench),
    }
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return os.path.join(folder, f"{stem}.md")
