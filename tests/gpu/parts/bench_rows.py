"""bench_rows.py - the JSON of scripts/bench as gpu-check has it.

  bench_rows.py rows FILE     one JSON object a line, the rows of part bench
  bench_rows.py table FILE    question, TAB, text: the lines of the table

Nanoseconds a pair, or the figure's own unit; a peer that could not be measured says why.
"""
import json
import sys

SHORT = {"RMM pool": "RMMp", "RMM arena": "RMMa", "RMM async": "RMMs", "PyTorch": "torch",
         "PyTorch expandable": "torch-x", "cudaMallocAsync": "async",
         "without gpushim": "native", "CuPy's pool": "pool"}


def plain(text):
    """What a JSON string of gpu-check holds."""
    return "".join(" " if mark in '"\\' else mark for mark in str(text))[:400]


def rounded(value):
    return value if value is None or isinstance(value, str) else round(value, 2)


def row(question, name, status, unit, values, note, simulated):
    print(json.dumps({"part": "bench", "question": plain(question), "row": plain(name),
                      "status": status, "unit": unit,
                      "values": {key: rounded(value) for key, value in values.items()},
                      "note": plain(note or ""), "simulated": simulated},
                     separators=(",", ":")))


def rows(run):
    simulated = run["simulated"]
    for found in run["rows"]:
        ours = found["gpushim"]
        values = {"gpushim": ours["p50"], "gpushim_p99": ours["p99"],
                  "driver_calls": ours["calls"], "threads": found["threads"]}
        notes = []
        for name, peer in found["peers"].items():
            values[name] = peer["p50"]
            if peer["ratio"]:
                values[f"{name} in gpushim's"] = peer["ratio"][0]
            if peer["note"]:
                notes.append(f"{name}: {peer['note']}")
        row(found["scenario"], found["setting"], "failed" if ours["p50"] is None else "measured",
            "ns a pair", values, "; ".join(notes), simulated)
    for figure in run["figures"]:
        status = ("measured" if figure["value"] is not None
                  else "not run" if figure.get("why") else "failed")
        row(figure["scenario"], figure["what"], status,
            figure["unit"], {"gpushim": figure["value"], **figure["peers"]},
            figure.get("why"), simulated)
    for problem in run["problems"]:
        row("problem", "-", "not run", "", {}, problem, simulated)
    for name, why in run["missing"].items():
        row("peer", name, "not run", "", {}, why, simulated)


def text(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lines(question, cells):
    """Cells, as many a line as there is room for."""
    line = ""
    for cell in cells:
        if line and len(line) + len(cell) > 71:
            print(f"{question[:16]}\t{line}")
            line = ""
        line += f"  {cell}" if line else cell
    if line:
        print(f"{question[:16]}\t{line}")


def table(run):
    scenarios = list(dict.fromkeys(found["scenario"] for found in run["rows"]))
    if scenarios[:1] == ["hitpair"]:
        for name, why in run["missing"].items():
            print(f"peer\t{name}: none, {why}")
    for scenario in scenarios:
        of_it = [found for found in run["rows"] if found["scenario"] == scenario]
        lines(scenario, [f"{found['setting']} {text(found['gpushim']['p50'])}" for found in of_it])
        lines(scenario, [f"{SHORT.get(name, name)} {peer['note'] or text(peer['p50'])}"
                         for name, peer in of_it[0]["peers"].items()])
    programs = [figure for figure in run["figures"] if figure["scenario"] == "programs"]
    for kind in ("heavy", "light"):
        cells = [f"{figure['what'].split(',')[0]}={text(figure['peers']['without gpushim'])}/"
                 f"{text(figure['value'])}" for figure in programs
                 if figure["what"].endswith(kind)]
        lines(f"{kind}, ms", cells)
    told = None
    for figure in run["figures"]:
        if figure["scenario"] == "programs":
            continue
        shown = figure.get("why") or f"{text(figure['value'])} {figure['unit']}"
        lines(figure["scenario"], [f"{figure['what']}: {shown}"[:73], *(
            f"{SHORT.get(name, name)} {text(value)}" for name, value in figure["peers"].items()
            if figure["peers"] != told)])
        told = figure["peers"]
    for problem in run["problems"]:
        print(f"problem\t{problem}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("rows", "table"):
        sys.exit("usage: bench_rows.py rows|table FILE")
    with open(sys.argv[2], encoding="utf-8") as file:
        {"rows": rows, "table": table}[sys.argv[1]](json.load(file))


main()
