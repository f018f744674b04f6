"""stubs.py OUT FOLDER... - do-nothing math libraries, with just the symbols that the packages in the FOLDERs need.

cuBLAS, cuDNN, cuFFT and their like take 1.5 GB, and their handles need the driver's private tables. Kernels do
nothing on the simulated device, so functions that answer 0 carry a framework as far. What creates a handle gives
one. The names come from the libraries that link these (NEEDED, undefined symbols and their versions); what a
framework opens by name (TensorFlow) comes from the functions' names in its strings.
"""
import collections
import pathlib
import re
import subprocess
import sys

# A library's name begins with; its functions' names begin with. The longer prefix first.
LIBRARIES = (
    ("libcublasLt", ("cublasLt",)),
    ("libcublas", ("cublas",)),
    ("libcudnn", ("cudnn",)),
    ("libcufft", ("cufft",)),
    ("libcurand", ("curand",)),
    ("libcusparseLt", ("cusparseLt",)),
    ("libcusparse", ("cusparse",)),
    ("libcusolver", ("cusolver",)),
    ("libnccl", ("nccl", "pnccl")),
    ("libcupti", ("cupti",)),
    ("libnvToolsExt", ("nvtx",)),
    ("libcufile", ("cuFile",)),
    ("libcudss", ("cudss",)),
    ("libnvshmem", ("nvshmem",)),
    ("libnvJitLink", ("nvJitLink", "__nvJitLink")),
)
# What TensorFlow opens by name.
OPENED = {"libcublas": "libcublas.so.12", "libcublasLt": "libcublasLt.so.12", "libcudnn": "libcudnn.so.9",
          "libcufft": "libcufft.so.11", "libcusparse": "libcusparse.so.12", "libcusolver": "libcusolver.so.11",
          "libcupti": "libcupti.so.12", "libnccl": "libnccl.so.2"}

HANDLE = "int {name}(void **out){{ if (out) *out = calloc(1, 4096); return 0; }}"
# A pattern of names, and what the function does: the first that matches counts.
BODIES = (
    (r"cudnnBackendCreateDescriptor$", "int {name}(int kind, void **out){{ *out = calloc(1, 4096); return 0; }}"),
    (r"cudnnGetVersion$", "size_t {name}(void){{ return {cudnn}; }}"),
    (r"cudnnGetCudartVersion$", "size_t {name}(void){{ return 12040; }}"),
    (r"cudnnGetProperty$", "int {name}(int kind, int *out){{ int v[] = {{{cudnn} / 10000 ? {cudnn} / 10000 : {cudnn} / 1000,"
     " {cudnn} / 100 % 10, 0}}; *out = v[kind]; return 0; }}"),
    (r"(cublasGetVersion_v2|cublasGetProperty)$", "int {name}(void *from, int *out){{ if (out) *out = 120601; return 0; }}"),
    (r"cublasLtGetVersion$", "size_t {name}(void){{ return 120601; }}"),
    (r"(Get(Error|Status)(String|Name)|StatusString|GetLastErrorString|GetLastError)$", 'const char *{name}(void){{ return "stub"; }}'),
    (r"cufft(Create|Plan\w*)$", "int {name}(int *out){{ *out = 1; return 0; }}"),
    (r"GetVersion$", "int {name}(int *out){{ if (out) *out = 22105; return 0; }}"),
    (r"curandCreateGenerator", HANDLE),
    (r"[cC]reate(_v2)?$|^(cudnn|cusparse)Create|(Desc|Layout|Preference)Create$", HANDLE),
)
BODY = "int {name}(){{ return 0; }}"


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def library_of(name):
    for library, prefixes in LIBRARIES:
        if name.startswith(prefixes):
            return library
    return None


def elf_files(folders):
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*.so*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def needs(path):
    """The NEEDED names that are replaced, and (name, version) of the undefined symbols that they may have."""
    needed = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path))
              if name.startswith(tuple(library + "." for library, _ in LIBRARIES) + ("libcudnn_", "libnvshmem"))]
    symbols = set()
    if needed:
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if library_of(name):
                symbols.add((name, version.lstrip("@")))
    return needed, symbols


def names_in(path):
    """Functions whose names stand in a library that opens the others itself."""
    with path.open("rb") as file:
        found = re.findall(rb"[\0\n]((?:cublas|cudnn|cufft|cusparse|cusolver|cupti|nccl)[A-Z]\w+)(?=\0)", file.read())
    return {(name.decode(), "") for name in found}


def collect(folders):
    libraries = collections.defaultdict(set)
    symbols = set()
    for path in elf_files(folders):
        needed, undefined = needs(path)
        for soname in needed:
            libraries[soname] |= set()
        symbols |= undefined
        if path.name.startswith("libtensorflow_cc.so"):
            for soname in OPENED.values():  # it looks whether each can be opened
                libraries[soname] |= set()
            for name, version in names_in(path):
                libraries[OPENED.get(library_of(name), "libcudnn.so.9")].add((name, version))
    for name, version in symbols:
        prefix = library_of(name)
        of_version = [soname for soname in libraries if soname == version]
        by_name = [soname for soname in libraries if soname.startswith((prefix + ".", prefix + "_"))]
        for soname in (of_version or by_name)[:1]:
            libraries[soname].add((name, version))
    return libraries


def make(out, soname, symbols):
    cudnn = 90500 if soname.endswith(".9") else 8907
    lines, versions, done = ["#include <stdlib.h>", "#include <stddef.h>"], collections.defaultdict(list), set()
    for name, version in sorted(symbols, reverse=True):  # with a version before without
        if name in done:
            continue
        done.add(name)
        versions[version].append(name)
        body = next((body for pattern, body in BODIES if re.search(pattern, name)), BODY)
        lines.append(body.format(name=name, cudnn=cudnn))
    source, script = out / f"{soname}.c", out / f"{soname}.map"
    source.write_text("\n".join(lines) + "\n")
    script.write_text("".join(f"{version} {{ global: {'; '.join(names)}; }};\n"
                              for version, names in versions.items() if version))
    command = ["cc", "-w", "-shared", "-fPIC", "-o", str(out / soname), str(source), f"-Wl,-soname,{soname}"]
    if any(versions):
        command.append(f"-Wl,--version-script={script}")
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    print(soname, len(done), "functions")
    if built.returncode:
        sys.exit(f"{soname}: {built.stderr[:300]}")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for soname, symbols in sorted(collect(sys.argv[2:]).items()):
        make(out, soname, symbols)


main()
