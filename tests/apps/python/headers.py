"""headers.py FOLDER - what the Python module repeats of the C headers, against the headers in include/ and shim/api/ of a
source folder: functions with their order and the kinds of their arguments, members of structures with their offsets,
numbers of enumerations. Prints how much was compared; ends with 1 and a line for each difference.

It alone sees: a function or an argument that was added to a header in the midst, one of another kind (an int where the
library takes a double), a member of a structure that moved while the size stayed, a constant with another number.
"""
import ctypes
import os
import re
import sys

import gpushim
from gpushim import _live, _native
from gpushim.memory import Advice, Place, Visibility, buffers, calls

problems = []
compared = {"functions": 0, "members": 0, "numbers": 0}


def expect(what, in_header, in_python):
    if in_header != in_python:
        problems.append("%s: %s in the header, %s in Python" % (what, in_header, in_python))


def read(folder, *names):
    text = "".join(open("%s/%s" % (folder, name), encoding="utf-8").read() for name in names)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


# ---- kinds: "u8" is an unsigned number of 8 bytes, "p" a pointer, "u8 x 4" an array ---------

POINTER = "p%d" % ctypes.sizeof(ctypes.c_void_p)
NUMBERS = {"size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64, "unsigned long long": ctypes.c_uint64,
           "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint8_t": ctypes.c_uint8, "unsigned": ctypes.c_uint,
           "unsigned char": ctypes.c_ubyte, "int": ctypes.c_int, "double": ctypes.c_double, "char": ctypes.c_char,
           "bool": ctypes.c_bool, "unsigned long": ctypes.c_ulong, "pthread_t": ctypes.c_ulong}


def kind_in_python(of):
    if of is None:
        return "void"
    if issubclass(of, ctypes.Array):
        return "%s x %d" % (kind_in_python(of._type_), of._length_)
    if issubclass(of, (ctypes._Pointer, ctypes._CFuncPtr)) or of in (ctypes.c_void_p, ctypes.c_char_p):
        return POINTER
    if issubclass(of, ctypes.Structure):
        return "struct of %d" % ctypes.sizeof(of)
    letter = "i" if of._type_ in "bhilq" else "f" if of._type_ in "fd" else "u"
    return letter + str(ctypes.sizeof(of))


def number_of(text, constants):
    """The value of an array's length."""
    for part in text.split("*"):
        if not re.fullmatch(r"\s*\w+\s*", part):
            raise SystemExit("headers.py: a length that it cannot read: %s" % text)
    value = 1
    for part in text.split("*"):
        value *= int(part) if part.strip().isdigit() else constants[part.strip()]
    return value


class Header:
    """The declarations of headers."""

    def __init__(self, text, defines):
        self.text = text
        self.constants = dict(defines)
        self.enums = set(re.findall(r"typedef enum (\w+)", text))
        self.calls = set(re.findall(r"typedef \w+ \(\*(\w+)\)", text))
        self.sizes = {}
        for body in re.findall(r"\benum\b[^{};]*\{([^}]*)\}", text):
            value = -1
            for name, given in re.findall(r"(\w+)\s*(?:=\s*(-?\w+))?\s*(?:,|$)", body.strip()):
                value = value + 1 if not given else self.constants.get(given, 0) if not re.fullmatch(
                    r"-?(0x)?[0-9a-fA-F]+", given) else int(given, 0)
                self.constants[name] = value

    def kind(self, words, stars, length=None):
        words = re.sub(r"\b(const|volatile|struct)\b", " ", words)
        words = " ".join(words.split())
        if stars or words in self.calls:
            kind = POINTER
        elif words in self.enums:
            kind = "i4"
        elif words in NUMBERS:
            kind = kind_in_python(NUMBERS[words])
        elif words in self.sizes:
            kind = "struct of %d" % self.sizes[words]
        elif words == "void":
            kind = "void"
        else:
            raise SystemExit("headers.py: a type that it does not know: %r" % words)
        return kind if length is None else "%s x %d" % (kind, number_of(length, self.constants))

    def arguments(self, text):
        """The kinds of a list of parameters."""
        found = []
        for one in [] if text.strip() in ("", "void") else re.split(r",(?![^(]*\))", text):
            if "(*" in one:
                found.append(POINTER)
                continue
            words, stars, _ = re.fullmatch(r"\s*(.*?[\s*])(\**)\s*(\w+)\s*", one, re.S).groups()
            found.append(self.kind(words.replace("*", ""), "*" in one))
        return found

    def members(self, name):
        """[(name, kind, kinds of the arguments or None)] of a structure."""
        body = re.search(r"struct %s \{(.*?)\n\};" % name, self.text, re.S)
        if not body:
            problems.append("struct %s: not in the header" % name)
            return []
        found = []
        for one in body.group(1).split(";"):
            call = re.fullmatch(r"\s*.*?\(\*(\w+)\)\((.*)\)\s*", one, re.S)
            if call:
                found.append((call.group(1), POINTER, self.arguments(call.group(2))))
                continue
            if not one.strip():
                continue
            first, *others = one.split(",")
            words, stars, member, length = re.fullmatch(r"\s*(.*?[\s*])(\**)(\w+)(?:\[(.*)\])?\s*", first, re.S).groups()
            found.append((member, self.kind(words.replace("*", ""), "*" in first, length), None))
            for other in others:
                stars, member, length = re.fullmatch(r"\s*(\**)\s*(\w+)(?:\[(.*)\])?\s*", other, re.S).groups()
                found.append((member, self.kind(words.replace("*", ""), stars, length), None))
        return found

    def function(self, name):
        """The kinds of a function's result and of its arguments; None: it is not there."""
        found = re.search(r"(?:static inline|GS_EXPORT)\s+([\w ]+?)\s*(\**)\s*\b%s\(((?:[^()]|\([^()]*\))*)\)\s*[{;]" % name,
                          self.text)
        return found and (self.kind(*found.groups()[:2]), self.arguments(found.group(3)))


# ---- what is compared -------------------------------------------------------------------


def compare_members(header, name, structure, table=False):
    """`table`: members are functions, whose arguments are compared too."""
    in_header = header.members(name)
    header.sizes[name] = ctypes.sizeof(structure)
    fields = structure._fields_
    plain = [member.rstrip("_") for member, *_ in in_header]
    expect("struct %s" % name, plain, [field[0] for field in fields])
    for (member, kind, arguments), (field, of) in zip(in_header, fields):
        compared["functions" if arguments is not None else "members"] += 1
        expect("%s of struct %s" % (member, name), kind, kind_in_python(of))
        if table and arguments is not None and of is not ctypes.c_void_p:  # which the module does not call
            expect("arguments of %s" % member, arguments, [kind_in_python(one) for one in of._argtypes_])


def compare_functions(header, prefix, functions):
    for name, (result, arguments) in functions.items():
        compared["functions"] += 1
        expect(prefix + name, header.function(prefix + name),
               (kind_in_python(result), [kind_in_python(one) for one in arguments]))


def compare_numbers(header, prefix, pairs):
    for name, value in pairs:
        compared["numbers"] += 1
        expect(prefix + name, header.constants.get(prefix + name), value)


def main(folder):
    public = read(folder, "include/gpushim.h")
    texts = open(folder + "/include/gpushim.h", encoding="utf-8").read()
    defines = {name: int(value) for name, value in re.findall(r"^#define (GPUSHIM_\w+) (\d+)$", texts, re.M)}
    header = Header(public, defines)
    compare_members(header, "gpushim_statistics", gpushim._Statistics)
    compare_members(header, "gpushim_class", gpushim._Class)
    compare_members(header, "gpushim_released", gpushim._Released)
    compare_members(header, "gpushim_scope_totals", gpushim._ScopeTotals)
    compare_members(header, "gpushim_allocation", _live.Raw)
    compare_members(header, "gpushim_functions", gpushim._Functions, table=True)
    compare_numbers(header, "GPUSHIM_", [(name, number) for number, name in enumerate(calls._NAMES)])
    compare_numbers(header, "GPUSHIM_", [(one, getattr(gpushim, one)) for one in (
        "ALL_DEVICES", "PINNED", "REGISTERED", "IMPORTED", "EVERYWHERE")])
    compare_numbers(header, "GPUSHIM_", [(one.name, one.value) for one in gpushim.Level])
    compare_numbers(header, "GPUSHIM_LEFT_", [(name.upper(), number) for number, name in enumerate(gpushim._LEFT)] + [
        ("REASONS", len(gpushim._LEFT))])
    compare_numbers(header, "GPUSHIM_", zip(("KEEP_PINNED", "KEEP_PLAIN", "DISCARD"), range(len(gpushim._KEEPS))))
    compare_numbers(header, "GPUSHIM_", [("CLASSES", gpushim._CLASSES), ("SCOPE_BYTES", _live._SCOPE_BYTES),
                                         ("SCOPE_BYTES", gpushim._scopes._PATH_BYTES)])

    parts = sorted(os.listdir(folder + "/include/gpushim_memory"))  # of gpushim_memory.h
    header = Header(public + read(folder, "include/gpushim_memory.h", *("include/gpushim_memory/" + part for part in parts),
                                  "shim/api/python_memory.h"), defines)
    for name, structure in calls._STRUCTURES.items():
        header.sizes["gpushim_" + name] = ctypes.sizeof(structure)
    for name, structure in calls._STRUCTURES.items():
        compare_members(header, "gpushim_" + name, structure)
    results = {"cache_hit_rate": ctypes.c_double}
    compare_functions(header, "gpushim_", {name: (results.get(name, ctypes.c_int), arguments)
                                           for name, arguments in calls.FUNCTIONS.items()})
    compare_functions(header, "gpushim_python_memory_", calls._MORE)
    compare_numbers(header, "GPUSHIM_", [("PINNED_HOST" if one.name == "PINNED" else one.name, one.value)
                                         for one in Place])
    compare_numbers(header, "GPUSHIM_", [(one.name, one.value) for one in Advice])
    compare_numbers(header, "GPUSHIM_", [(one.name, one.value) for one in Visibility])
    compare_numbers(header, "GPUSHIM_", [("ZEROED", buffers.ZEROED), ("VIEW", buffers._VIEW),
                                         ("IN_PLACE", buffers._IN_PLACE)])

    header = Header(read(folder, "shim/api/python_calls.h"), {})
    compare_members(header, "gpushim_python_tensor", _native.Tensor)
    compare_members(header, "gpushim_python_capsules", _native._Capsules)
    compare_functions(header, "gpushim_python_", _native._FUNCTIONS)

    for problem in problems:
        print(problem, file=sys.stderr)
    print(", ".join("%d %s" % (count, what) for what, count in compared.items()))
    return 1 if problems else 0


sys.exit(main(sys.argv[1]))
