# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# stages.sh - the stages that need what others publish (tests/drivers/run, tests/real/run), given
# what is no use: neither passes for that, and what is missing is skipped by name.

# ---- drivers ---------------------------------------------------------------------------

# A file that is no driver fails alike with the library and without it.
cut_off_case() {
  need "${CC:-cc}"
  need_file "$build/sim/libcuda.so.1"
  mkdir -p drivers/535
  head -c 40 "$build/sim/libcuda.so.1" >drivers/535/libcuda.so.1
  run_in stage DRIVERS_DIR="$PWD/drivers" -- "$sources/tests/drivers/run" "$build" 535
  expect_status stage 1
  expect_text stage.out '^not ok driver 535, look-ups - without the library it ends with 2, not 0$'
  expect_no_text stage.out '^ok driver 535'
}
add_long_case "stage drivers: a file that is no driver" cut_off_case

no_drivers_case() {
  local number

  need "${CC:-cc}"
  mkdir drivers
  run_in stage DRIVERS_DIR="$PWD/drivers" -- "$sources/tests/drivers/run" "$build"
  expect_status stage 0
  for number in 470 535 550 555; do
    expect_text stage.out "^skip driver $number - "
  done
  expect_text stage.out '^skip driver 555, the simulated driver before cuInit - '
  expect_text stage.out '^skip truncated driver - '
  expect_text stage.out '^ok another library as the driver$'
}
add_case "stage drivers: none" no_drivers_case

# ---- real programs ---------------------------------------------------------------------

# wheel NAME: a package of one module, in ./wheels.
wheel() {
  mkdir -p wheels
  python3 -S - "$1" <<'PYTHON'
import sys, zipfile

name = sys.argv[1]
info = f"{name}-1.0.dist-info/"
with zipfile.ZipFile(f"wheels/{name}-1.0-py3-none-any.whl", "w") as archive:
    archive.writestr(f"{name}.py", "")
    archive.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: us\n"
                     "Root-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr(info + "RECORD", "")
PYTHON
}

# real_program NAME HEAD LINE...: ./sim/NAME.py
real_program() {
  mkdir -p sim drivers
  printf '%s\n' "# real: way plain" "${@:2}" >"sim/$1.py"
}

# In a program: the driver's first calls.
starts=(
  'import ctypes, sys'
  'cuda = ctypes.CDLL("libcuda.so.1")'
  'code = cuda.cuInit(0)'
)

# real_stage PREFIX [VAR=value...]: the stage with the programs, packages and drivers of this
# folder, and no network; as shipped and over drivers.
real_stage() {
  python3 -m venv --help >/dev/null 2>&1 || skip "Python with venv"
  need_file "$build/sim-nvml/libnvidia-ml.so.1"
  run_in "$1" "${@:2}" REAL_PROGRAMS="$PWD" REAL_DIR="$PWD/real" DRIVERS_DIR="$PWD/drivers" \
    PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels" -- "$sources/tests/real/run" "$build" \
    '* @(shipped|driver *)'
}

# One package cannot be had: it and what needs it are skipped by name; the others run. So is
# PyCUDA, and both are tried again.
real_packages_case() {
  need python3
  wheel there
  printf '%s\n' there==1.0 elsewhere==1.0 >packages.txt
  real_program with '# real: needs there' 'import there' "${starts[@]}" 'print("init", code)'
  real_program without '# real: needs elsewhere' 'import elsewhere' "${starts[@]}"
  real_stage first
  expect_status first 0
  expect_text first.out '^skip real: the package elsewhere==1[.]0 - '
  expect_text first.out '^skip real: the package pycuda==[0-9.]+ - '
  expect_text first.out '^skip real: without - the Python module elsewhere$'
  expect_text first.out '^ok real: with plain shipped$'
  expect_no_text first.out '^not ok '
  wheel elsewhere
  real_stage second
  expect_status second 0
  expect_text second.out '^ok real: without plain shipped$'
  expect_no_text second.out '^skip real: the package elsewhere'
  expect_text second.out '^skip real: the package pycuda==[0-9.]+ - '
}
add_long_case "stage real: a package that cannot be had" real_packages_case

# Wrong alike with the library and without it, or no further than the first call.
real_promises_case() {
  need python3
  wheel there
  echo there==1.0 >packages.txt
  real_program right '# real: needs there' '# real: prints init 0' '# real: prints [0-9]+ wrong' \
    "${starts[@]}" 'print("init", code)' 'print("0 wrong")'
  real_program wrong '# real: needs there' '# real: prints plain: 0 wrong' "${starts[@]}" \
    'print("plain: 5 wrong")'
  real_program silent '# real: needs there' '# real: prints init 0' "${starts[@]}"
  real_program misspelt '# real: needs there' '# real: way typo GPUSHIM_CHECK_FILL=on' "${starts[@]}"
  real_stage stage
  expect_status stage 1
  expect_text stage.out '^ok real: misspelt plain shipped$'
  expect_text stage.out '^not ok real: misspelt typo shipped - messages of the library$'
  expect_text stage.out '^ok real: right plain shipped$'
  expect_text stage.out '^not ok real: wrong plain - without the library it does not print: plain: 0 wrong$'
  expect_text stage.out '^not ok real: silent plain - without the library it does not print: init 0$'
}
add_long_case "stage real: wrong on both sides" real_promises_case

# A leak without a line of Python, in a program whose marked lines are all found.
# check_leaks_case FRAMES STATUS
check_leaks_case() {
  need python3
  printf 'first()\nlost()  # LEAK\n' >lost.py
  cat >report <<END
{"frames": [{"function": "lost", "file": "lost.py", "line": 2},
            {"function": "at::empty", "file": "empty.cpp", "line": 7},
            {"function": "helper", "file": "/lib/helper.py", "line": 9}],
 "leaks": [{"bytes": 1, "call": "cuMemAlloc", "stack": [0]},
           {"bytes": 2, "call": "cuMemAlloc", "stack": $1}]}
END
  run_in check -- python3 -S "$sources/tests/real/check-leaks" lost.py report
  expect_status check "$2"
}
add_case "stage real: a leak with a line of Python" check_leaks_case '[1, 2]' 0
add_case "stage real: a leak without a line of Python" check_leaks_case '[1]' 1
add_case "stage real: a leak without a stack" check_leaks_case null 1

# Over a driver without a GPU: another text on either side is told.
real_driver_case() {
  need python3
  need_file "$build/sim/libcuda.so.1"
  wheel there
  echo there==1.0 >packages.txt
  real_program same '# real: needs there' '# real: stops CUDA_ERROR' "${starts[@]}" \
    'print("CUDA_ERROR", code)'
  real_program silent '# real: needs there' '# real: stops no device' "${starts[@]}"
  real_program other '# real: needs there' '# real: stops CUDA' "${starts[@]}" \
    'print("CUDA")' 'print("libgpushim" in open("/proc/self/maps").read(), file=sys.stderr)'
  mkdir -p drivers/555
  cp "$build/sim/libcuda.so.1" drivers/555
  real_stage stage CUDASIM_DEVICES=0
  expect_status stage 1
  expect_text stage.out '^ok real: same driver 555$'
  expect_text stage.out '^not ok real: silent driver 555 - without the library it does not say: no device$'
  expect_text stage.out '^not ok real: other driver 555 - another standard error than natively$'
  expect_text stage.out '^skip real: driver 470 - '
}
add_long_case "stage real: a driver without a GPU" real_driver_case

# ---- scripts/test ----------------------------------------------------------------------

# What cannot be done is said in one line, before anything is installed or built.
stage_names_case() {
  local arguments

  for arguments in 'nothing' 'lint -k x' '-k' '-k x' '--nothing'; do
    # shellcheck disable=SC2086  # words
    run_in stage -- "$sources/scripts/test" $arguments
    expect_status stage 2
    expect_no_text stage.out '.'
    [[ $(wc -l <stage.err) -eq 1 ]] || fail "scripts/test $arguments: not one line: $(<stage.err)"
  done
  run_in stage -- "$sources/scripts/test" --list
  expect_text stage.out '^quick$'
  expect_text stage.out '^e2e$'
}
add_case "stage names that are none" stage_names_case
