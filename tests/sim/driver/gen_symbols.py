#!/usr/bin/env python3
"""Write symbols.def and errors.def from a CUDA toolkit.

The exported names come from the toolkit's stub libcuda, which lacks those of graphics
(cuGL*, cuEGL*, cuVDPAU*): they come from their own Typedefs.h. The version each ABI appeared in comes
from cudaTypedefs.h (PFN_<base>_v<version>): for one base name the sorted versions and the
sorted ABI suffixes pair up one to one, and --check lets the compiler confirm every pair by
comparing the types. A row is MODELLED where a C file beside this script defines the
function with SIM_API(), _ONE() or _TWINS(); the linker refuses a row that says otherwise.

    gen_symbols.py CUDA_HOME            rewrite symbols.def and errors.def
    gen_symbols.py --check CUDA_HOME    compare with what is checked in, and check the types
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GRAPHICS_HEADERS = ("cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h")
SUFFIX = re.compile(r"^(.*?)(?:_v(\d))?(_ptds|_ptsz)?$")

SYMBOLS_HEAD = """\
/*
 * symbols.def - every public driver symbol, sorted by base name, per-thread flag and version.
 * Written by gen_symbols.py from the toolkit's headers and stub library; not edited by hand.
 *
 *   SIM_SYMBOL(exported symbol, base name for cuGetProcAddress, CUDA version it appeared in,
 *              PTDS | PTSZ | PLAIN, MODELLED | UNMODELLED | GRAPHICS: not modelled, and in
 *              no header that can be included without those of graphics)
 */
"""

ERRORS_HEAD = """\
/*
 * errors.def - every CUresult of cuda.h, sorted by value.
 * Written by gen_symbols.py; not edited by hand.
 *
 *   SIM_ERROR(value, name, text)
 */
"""

# Texts that read better than the name in lower case.
TEXTS = {
    0: "no error",
    1: "invalid argument",
    3: "initialization error",
    4: "driver shutting down",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    200: "device kernel image is invalid",
    201: "invalid device context",
    218: "a PTX JIT compilation failed",
    400: "invalid resource handle",
    500: "named symbol not found",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    704: "peer access is already enabled",
    705: "peer access has not been enabled",
    709: "context is destroyed",
    712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region",
    719: "unspecified launch failure",
    800: "operation not permitted",
    801: "operation not supported",
    999: "unknown error",
}


def split(symbol):
    base, abi, thread = SUFFIX.match(symbol).groups()
    return base, thread or "", int(abi or 1)


def exported(home):
    stub = home / "lib64/stubs/libcuda.so"
    out = subprocess.run(["nm", "-D", "--defined-only", str(stub)], check=True,
                         capture_output=True, text=True).stdout
    return sorted(line.split()[2] for line in out.splitlines() if " T cu" in line)


def typedef_versions(home, headers=("cudaTypedefs.h", "cudaProfilerTypedefs.h")):
    versions = collections.defaultdict(set)
    for header in headers:
        text = (home / "include" / header).read_text()
        for base, version, thread in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", text):
            versions[base, thread].add(int(version))
    return versions


def graphics_rows(home):
    """Linux has no cuWGL*. None is modelled: they are there, and answer that they are not supported."""
    versions = typedef_versions(home, GRAPHICS_HEADERS)
    rows = []
    for (base, thread), since in sorted(versions.items()):
        plain = len(versions[base, ""])
        for abi, version in enumerate(sorted(since), start=plain if thread else 1):
            suffix = f"_v{abi}" if abi > 1 else ""
            if not base.startswith("cuWGL"):
                rows.append((base + suffix + thread, base, version, thread, None))
    return rows


def modelled_names():
    names = set()
    for source in HERE.rglob("*.c"):
        text = source.read_text()
        names.update(re.findall(r"^SIM_API(?:_ONE|_TWINS)?\(\s*(cu\w+)", text, re.M))
        names.update(f"{name}_{kind}" for name, kind in
                     re.findall(r"^SIM_API_TWINS\(\s*(cu\w+),\s*(\w+),", text, re.M))
    return names


def symbol_rows(home):
    versions = typedef_versions(home)
    groups = collections.defaultdict(list)
    for symbol in exported(home):
        base, thread, abi = split(symbol)
        groups[base, thread].append((abi, symbol))
    modelled = modelled_names()
    rows = []
    for (base, thread), symbols in sorted(groups.items()):
        since = sorted(versions[base, thread])
        if len(since) != len(symbols):
            sys.exit(f"{base}{thread}: {len(symbols)} symbols, {len(since)} typedefs")
        for (_, symbol), version in zip(sorted(symbols), since):
            rows.append((symbol, base, version, thread, symbol in modelled))
    unknown = modelled - {row[0] for row in rows}
    if unknown:
        sys.exit(f"not public symbols: {sorted(unknown)}")
    return sorted(rows + graphics_rows(home), key=lambda row: (row[1], row[3], row[2]))


def symbols_text(rows):
    lines = [SYMBOLS_HEAD]
    for symbol, base, version, thread, modelled in rows:
        flag = thread[1:].upper() or "PLAIN"
        state = "GRAPHICS" if modelled is None else "MODELLED" if modelled else "UNMODELLED"
        lines.append(f"SIM_SYMBOL({symbol}, {base}, {version}, {flag}, {state})\n")
    return "".join(lines)


def errors_text(home):
    text = (home / "include/cuda.h").read_text()
    body = re.search(r"typedef enum cudaError_enum \{(.*?)\} CUresult;", text, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    lines = [ERRORS_HEAD]
    for name, value in re.findall(r"(CUDA_\w+)\s*=\s*(\d+)", body):
        plain = name.removeprefix("CUDA_ERROR_").replace("_", " ").lower()
        lines.append(f'SIM_ERROR({value}, {name}, "{TEXTS.get(int(value), plain)}")\n')
    return "".join(lines)


def check_types(home, rows):
    """Let the compiler compare each symbol's declaration with its typedef."""
    lines = ["#define __CUDA_API_VERSION_INTERNAL\n", "#include <cuda.h>\n",
             "#include <cudaProfiler.h>\n#include <cudaTypedefs.h>\n",
             "#include <cudaProfilerTypedefs.h>\n"]
    for symbol, base, version, thread, modelled in rows:
        if modelled is None:  # cudaGL.h needs OpenGL's headers
            continue
        lines.append(f"_Static_assert(__builtin_types_compatible_p(PFN_{base}_v{version}{thread},"
                     f" __typeof__(&{symbol})), \"{symbol}\");\n")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "check.c"
        source.write_text("".join(lines))
        subprocess.run(["cc", "-fsyntax-only", f"-I{home}/include", str(source)], check=True)


def main(args):
    check = "--check" in args
    args = [a for a in args if a != "--check"]
    if len(args) != 1:
        sys.exit(__doc__)
    home = pathlib.Path(args[0])
    rows = symbol_rows(home)
    stale = False
    for name, text in (("symbols.def", symbols_text(rows)), ("errors.def", errors_text(home))):
        path = HERE / name
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{name} is stale", file=sys.stderr)
            stale = True
    if check:
        check_types(home, rows)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
