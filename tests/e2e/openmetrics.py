#!/usr/bin/env python3
"""openmetrics.py - looks at a file that GPUSHIM_METRICS_FILE named, or a page of gpushim serve, for the
end-to-end tests.

  openmetrics.py check FILE              by the rules of OpenMetrics 1.0 if it ends in "# EOF", else of
                                         Prometheus' text format, and those that the textfile
                                         collector of node_exporter adds
  openmetrics.py client FILE             by the parser of the prometheus_client package; ends with 77
                                         where that is missing
  openmetrics.py sum FILE NAME [LABEL=VALUE...]
                                         the sum of the samples of a name with these labels; "none"
                                         where there are none
  openmetrics.py label FILE NAME LABEL   the label's value in each sample of a name, one a line

The rules are written down here once more, from the specifications: nothing of the library is used.
"""
import collections
import math
import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
# The types that both formats have; of a counter, the name of its samples.
SUFFIX = {"gauge": "", "counter": "_total"}

Sample = collections.namedtuple("Sample", "name labels value")


def demand(truth, number, problem):
    if not truth:
        sys.exit("line %d: %s" % (number, problem))


def unescaped(value):
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found.group(1), found.group(1)), value)


def sample_of(line, number):
    name = NAME.match(line)
    demand(name, number, "no name: %r" % line)
    at, labels = name.end(), {}
    # Of the library's samples each has labels.
    demand(line[at:at + 1] == "{" or name.group().startswith("gpushim_serve_"), number, "no labels: %r" % line)
    if line[at:at + 1] == " ":
        demand(NUMBER.fullmatch(line[at + 1:]), number, "no number alone: %r" % line)
        return Sample(name.group(), labels, float(line[at + 1:]))
    while line[at:at + 1] in ("{", ","):
        label = LABEL.match(line, at + 1)
        demand(label, number, "no label at %d: %r" % (at + 1, line))
        demand(label.group(1) not in labels, number, "label twice: " + label.group(1))
        demand(not label.group(1).startswith("__"), number, "reserved: " + label.group(1))
        labels[label.group(1)] = unescaped(label.group(2))
        at = label.end()
    demand(line[at:at + 2] == "} ", number, "no end of labels: %r" % line)
    # No time may follow: the collector refuses the whole file.
    demand(NUMBER.fullmatch(line[at + 2:]), number, "no number alone: %r" % line)
    return Sample(name.group(), labels, float(line[at + 2:]))


def families_of(path):
    """name -> (type, samples); ends the program at the first rule that is broken."""
    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "strict")
    older = not text.endswith("\n# EOF\n")
    demand(text.endswith("\n"), 0, "no end")
    demand("\r" not in text, 0, "a carriage return")
    families, name, seen = {}, None, set()
    for number, line in enumerate(text.split("\n")[:-1 if older else -2], 1):
        word = line.split(" ", 3)
        if word[0] == "#":
            demand(len(word) == 4 and word[1] in ("TYPE", "HELP", "" if older else "UNIT"), number, line)
            if word[2] != name:
                name = word[2]
                demand(NAME.fullmatch(name) and name not in families, number, "family again: " + name)
                families[name] = {"samples": []}
            family = families[name]
            demand(word[1] not in family and not family["samples"], number, "late: " + line)
            family[word[1]] = word[3]
            continue
        demand(name, number, "a sample without a family")
        family, sample = families[name], sample_of(line, number)
        demand(family.get("TYPE") in SUFFIX and family.get("HELP"), number, "no type or help: " + name)
        suffix = SUFFIX[family["TYPE"]]
        demand(sample.name == name + ("" if older else suffix), number, "not of %s: %s" % (name, line))
        demand(name.endswith("_total") == (older and suffix != ""), number, "name: " + name)
        demand(math.isfinite(sample.value) and sample.value >= 0, number, "value: " + line)
        key = (sample.name, tuple(sorted(sample.labels.items())))
        demand(key not in seen, number, "twice: " + line)
        seen.add(key)
        family["samples"].append(sample)
    for name, family in families.items():
        demand(family["samples"], 0, "empty family: " + name)
        unit = family.get("UNIT")
        demand(name.startswith("gpushim_"), 0, "name: " + name)
        demand((unit is not None) == (not older and name.endswith(("_bytes", "_seconds"))), 0, "unit: " + name)
        demand(unit is None or name.endswith("_" + unit), 0, "unit: " + name)
    return families


def samples(path, name):
    return [sample for family in families_of(path).values() for sample in family["samples"]
            if sample.name == name]


def total(path, name, *wanted):
    wanted = dict(word.split("=", 1) for word in wanted)
    values = [sample.value for sample in samples(path, name)
              if all(sample.labels.get(label) == value for label, value in wanted.items())]
    print("%d" % sum(values) if values else "none")


def label_of(path, name, label):
    for sample in samples(path, name):
        print(sample.labels.get(label, ""))


def client(path):
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
        from prometheus_client.parser import text_string_to_metric_families as parse_older
    except ImportError:
        sys.exit(77)
    with open(path, encoding="utf-8", newline="\n") as file:
        text = file.read()
    own = sorted((sample.name, sorted(sample.labels.items()), sample.value)
                 for family in families_of(path).values() for sample in family["samples"])
    for parser in (parse, parse_older) if text.endswith("# EOF\n") else (parse_older,):
        found = sorted((sample.name, sorted(sample.labels.items()), sample.value)
                       for family in parser(text) for sample in family.samples)
        if found != own:
            sys.exit("%s reads something else" % parser.__module__)


if __name__ == "__main__":
    {"check": families_of, "client": client, "sum": total, "label": label_of}[sys.argv[1]](*sys.argv[2:])
