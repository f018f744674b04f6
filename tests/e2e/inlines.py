#!/usr/bin/env python3
"""inlines.py - compares the stacks of a report, frame by frame, with what llvm-symbolizer says of the
recorded addresses, for the end-to-end tests.

  inlines.py compare PROGRAM JSON TEXT   the program's file; its report by GPUSHIM_OUTPUT=json, and as text
  inlines.py profile FILE                of a profile for pprof, the functions of each location, the innermost
                                         first

Each recorded frame of the program must be in the JSON file as the functions that `llvm-symbolizer --inlines`
prints, in its order and with its names, files and lines; each stack of the text must have the frames of
the JSON stack, but for runs of library frames. Prints how many inlined frames there were.
"""
import json
import os
import re
import subprocess
import sys


def symbolize(program, offset):
    """[(name, base name of the file, line), ...], the innermost first."""
    answer = subprocess.run(
        ["llvm-symbolizer", "--obj=" + program, "--inlines", "--functions=linkage", "--no-demangle", offset],
        stdout=subprocess.PIPE, check=True, text=True).stdout.split("\n")
    places = []
    for name, place in zip(answer[::2], answer[1::2]):
        if not place:
            break
        path, line, _ = place.rsplit(":", 2)
        places.append((name, os.path.basename(path), int(line)))
    return places


def place_of(frame):
    return frame["linkage"], os.path.basename(frame["file"] or ""), frame["line"] or 0


def is_library(frame):
    return frame.get("family") or re.search("/include/(thrust|cub|cccl)/|/c[+][+]/", frame["file"] or "") or \
        "libstdc++" in frame["module_name"] or \
        frame["linkage"] == "__pthread_once_slow" or \
        (not frame["file"] and re.match("_ZN?K?S[tabs]", frame["linkage"] or ""))


def compare_stack(program, frames):
    """Compares the frames of one stack; returns how many were inlined."""
    inlined, group = 0, []
    for frame in frames:
        group.append(frame)
        if frame.get("inlined"):
            inlined += 1
            continue
        if os.path.samefile(frame["path"], program):
            expected = symbolize(program, frame["offset"])
            if expected[0][1] != "??" and expected != [place_of(member) for member in group]:
                sys.exit("at %s\nexpected %s\nfound    %s" %
                         (frame["offset"], expected, [place_of(member) for member in group]))
        group = []
    if group:
        sys.exit("inlined frames without one that contains them: %s" % group)
    return inlined


def compare_text(text, stack):
    """Compares the printed lines of a stack with its frames."""
    shown = set()
    for line in text:
        if re.match(r"==\d+==$", line):  # the stack ends
            break
        match = re.match(r"==\d+==     #(\d+) +(.*?)  +(\S+)( \(inlined\))?$", line)
        if not match:
            continue
        number, _, place, mark = match.groups()
        frame = stack[int(number)]
        wanted = "%s:%d" % (os.path.basename(frame["file"]), frame["line"]) if frame["file"] \
            else "%s+%s" % (frame["module_name"], frame["offset"])
        if place != wanted or bool(mark) != frame.get("inlined", False):
            sys.exit("%s\nis not %s" % (line, frame))
        shown.add(int(number))
    for number, frame in enumerate(stack):
        if number not in shown and not is_library(frame) and place_of(frame) != place_of(stack[number - 1]):
            sys.exit("frame %d is not in the text: %s\n%s" % (number, frame, "".join(text)))
    if is_library(stack[-1]):
        sys.exit("the C++ library is outside of the program: %s" % stack[-1])


def fields(message):
    """(number, value) of a message of protocol buffers; only numbers and bytes are in a profile."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            at += value
            yield tag >> 3, message[at - value:at]
        else:
            yield tag >> 3, value


def profile(path):
    with open(path, "rb") as file:
        parts = list(fields(file.read()))
    strings = [value.decode() for number, value in parts if number == 6]
    functions = [dict(fields(value)) for number, value in parts if number == 5]
    names = {function[1]: strings[function[2]] for function in functions}
    for number, location in parts:
        if number == 4:
            lines = [dict(fields(value)) for field, value in fields(location) if field == 4]
            print(" < ".join(names[line[1]] for line in lines))


def compare(program, json_path, text_path):
    with open(json_path) as file:
        report = json.load(file)
    for frame in report["frames"]:
        frame["path"] = report["modules"][frame["module"]]["path"]
        frame["module_name"] = os.path.basename(frame["path"])
    with open(text_path) as file:
        parts = re.split(r"(?m)^==\d+== LEAK \d+: ", file.read())[1:]
    if len(parts) != len(report["leaks"]):
        sys.exit("%d leaks in the text, %d in the file" % (len(parts), len(report["leaks"])))
    inlined = 0
    for part, leak in zip(reversed(parts), report["leaks"]):  # the text has the largest last
        inlined += compare_stack(program, [report["frames"][n] for n in leak["full_stack"]])
        compare_text(part.split("\n"), [report["frames"][n] for n in leak["stack"]])
    print(inlined)


if __name__ == "__main__":
    {"compare": compare, "profile": profile}[sys.argv[1]](*sys.argv[2:])
