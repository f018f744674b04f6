"""judge.py - what pytest's --junitxml says of test_limits.py: judge.py FILE checked|unchecked|skipped"""
import sys
import xml.etree.ElementTree as xml

FIGURES = {  # name: peak, allocations, left
    "test_leak_fails": (3 << 20, 1, 3 << 20), "test_budget_fails": (21 << 20, 2, 0),
    "test_fixture_passes": (5 << 20, 1, 0), "test_own_error_fails": (30 << 20, 1, None),
    "test_each_device_passes": (5 << 20, 2, 5 << 20)}


def outcome(case):
    found = {one.tag for one in case} & {"failure", "error", "skipped"}
    return found.pop() if found else "passed"


def expected(name, mode):
    if "skipped" in name or (mode == "skipped" and "unmarked" not in name):
        return "skipped"
    return "failure" if ("fails" in name if mode == "checked" else "own_error" in name) else "passed"


def figures(case):
    found = {one.get("name"): one.get("value") for one in case.iter("property")}
    left = found.get("gpushim_left_bytes")
    return (int(found["gpushim_peak_bytes"]), int(found["gpushim_allocations"]), None if left is None else int(left))


path, mode = sys.argv[1:]
cases = {case.get("name"): case for case in xml.parse(path).iter("testcase")}
assert len(cases) >= 28, len(cases)
wrong = ["%s: %s, not %s" % (name, outcome(case), expected(name, mode)) for name, case in cases.items()
         if outcome(case) != expected(name, mode)]
if mode == "checked":
    wrong += ["%s: %s" % (name, figures(cases[name])) for name in FIGURES if figures(cases[name]) != FIGURES[name]]
sys.exit("\n".join(wrong) or None)
