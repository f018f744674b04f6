#!/usr/bin/env python3
"""report_json.py - looks at a report that GPUSHIM_OUTPUT=json wrote, for the end-to-end tests.

  report_json.py validate SCHEMA FILE   by the jsonschema package; ends with 77 where that is missing.
                                        A member that the schema does not describe is an error, too.
  report_json.py schema SCHEMA          is it a schema itself? (as long as three validations)
  report_json.py leaks FILE             "function file:line bytes count call kind" of each place
  report_json.py frames FILE            "module-path build-id offset" of each place's innermost frame
  report_json.py get FILE NAME...       the member found by these names, as JSON

Names and numbers are looked up as a reader of the file would: nothing of the library is used.
"""
import json
import os
import site
import sys


def closed(node):
    """The schema with every object closed: members that it does not describe are errors."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: closed(value) for key, value in node.items()}
    if "properties" in node and node.get("type") == "object":
        node.setdefault("additionalProperties", False)
    return node


def unique(pairs):
    """An object from its members; a name twice is an error that parsers hide."""
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError("a name twice in one object: %s" % names)
    return dict(pairs)


def load(path):
    with open(path, "rb") as file:
        return json.loads(file.read().decode("utf-8", "strict"), object_pairs_hook=unique)


def import_jsonschema():
    """Without what packages do at each start (-S), which may take as long as the rest."""
    sys.path += site.getsitepackages() + [site.getusersitepackages()]
    try:
        import jsonschema
    except ImportError:
        sys.exit(77)
    return jsonschema


def validate(schema_path, path):
    jsonschema = import_jsonschema()
    schema = load(schema_path)
    report = load(path)
    problems = list(jsonschema.Draft202012Validator(closed(schema)).iter_errors(report))
    for problem in problems[:10]:
        print(problem.json_path, problem.message)
    if report["schema"] == "gpushim-report":
        check_numbers(report)
    sys.exit(1 if problems else 0)


def check_numbers(report):
    for name in list_of_numbers(report):
        if not 0 <= name < len(report["frames"]):
            sys.exit("a stack has frame %d of %d" % (name, len(report["frames"])))
    for frame in report["frames"]:
        if frame["module"] is not None and frame["module"] >= len(report["modules"]):
            sys.exit("a frame has module %d" % frame["module"])


def check_schema(path):
    jsonschema = import_jsonschema()
    jsonschema.Draft202012Validator.check_schema(load(path))


def list_of_numbers(report):
    for owner in report["leaks"] + report["errors"] + report.get("slow_copies", []) + report.get("out_of_memory", []):
        for key in ("stack", "full_stack"):
            yield from owner[key] or []


def innermost(report, leak):
    return report["frames"][leak["stack"][0]]


def leaks(path):
    report = load(path)
    for leak in report["leaks"]:
        frame = innermost(report, leak)
        print(frame["function"], "%s:%s" % (os.path.basename(frame["file"] or "?"), frame["line"]),
              leak["bytes"], leak["count"], leak["call"], leak["kind"])


def frames(path):
    report = load(path)
    for leak in report["leaks"]:
        frame = innermost(report, leak)
        module = report["modules"][frame["module"]]
        print(module["path"], module["build_id"], frame["offset"])


def get(path, *names):
    value = load(path)
    for name in names:
        value = value[int(name) if isinstance(value, list) else name]
    print(json.dumps(value))


if __name__ == "__main__":
    {"validate": validate, "schema": check_schema, "leaks": leaks, "frames": frames, "get": get}[sys.argv[1]](*sys.argv[2:])
