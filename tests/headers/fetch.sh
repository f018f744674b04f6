# shellcheck shell=bash
#
# fetch.sh - NVIDIA's headers and runtimes of many CUDA versions, from the Python package
# index. Sourced by tests/headers/run and tests/drivers/run, which set sources and work.
#
# The packages of headers.txt go into .cuda/headers/VERSION, which git ignores: include/ and
# lib/, with libcudart.so.* and, where a package has it, libcudart_static.a.

: "${sources:?set by run}" "${work:?set by run}"
cache=$sources/.cuda/headers
headers_table=$sources/tests/headers/headers.txt

# The CUDA versions of the table.
all_versions() {
  awk '!/^#/ && !seen[$1]++ { print $1 }' "$headers_table"
}

# unpack FOLDER TARGET: headers and runtimes of the wheels in a folder.
unpack() {
  python3 - "$1" "$2" <<'PYTHON'
import pathlib, sys, zipfile

wheels, target = (pathlib.Path(argument) for argument in sys.argv[1:])
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = pathlib.PurePosixPath(name).parts
            if ".." in parts or name.endswith("/"):
                continue
            if "include" in parts:
                file = target.joinpath("include", *parts[parts.index("include") + 1 :])
            elif parts[-1].startswith(("libcudart.so", "libcudart_static.a")):
                file = target / "lib" / parts[-1]
            else:
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))
PYTHON
}

# fetch VERSION: its packages are in the cache, as headers.txt has them.
fetch() {
  local version=$1 folder=$cache/$1

  awk -v version="$version" '$1 == version { $1 = ""; print }' "$headers_table" >"$work/wanted"
  echo '# with libcudart_static.a' >>"$work/wanted"
  cmp -s "$work/wanted" "$folder/packages.txt" && return
  rm -rf "$folder" "$work/wheels"
  python3 -m pip download -q --no-deps --only-binary=:all: --require-hashes \
    --platform manylinux1_x86_64 --platform manylinux2014_x86_64 \
    --platform manylinux_2_17_x86_64 --dest "$work/wheels" -r "$work/wanted" \
    >"$work/pip.log" 2>&1 && unpack "$work/wheels" "$folder" &&
    cp "$work/wanted" "$folder/packages.txt"
}
