# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# stages.sh - the stages that need what others publish (tests/drivers/run, tests/zoo/run), given
# what is no use: neither passes for that, and what is missing is skipped by name.

# ---- drivers ---------------------------------------------------------------------------

# A file that is no driver fails alike with the library and without it.
cut_off_case() {
  need "${CC:-cc}"
  need_file "$build/sim/libcuda.so.1"
  mkdir -p drivers/535
  head -c 40 "$build/sim/libcuda.so.1" >drivers/535/libcuda.so.1
  time_limit=500 # hundreds of processes
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

# ---- the zoo ---------------------------------------------------------------------------

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

# zoo_row NAME NEEDS REAL LEAKS RUNS VARIABLES HEAD LINE...: a row of ./zoo.txt, and programs/NAME.py.
zoo_row() {
  mkdir -p programs
  echo "$1 | $2 | ctypes | $3 | $4 | $5 | $6 python3 programs/$1.py" >>zoo.txt
  printf '%s\n' "${@:7}" >"programs/$1.py"
}

# In a program: the driver's first calls.
starts=(
  'import ctypes, sys'
  'cuda = ctypes.CDLL("libcuda.so.1")'
  'code = cuda.cuInit(0)'
)

# zoo_stage PREFIX [VAR=value...]: the stage with the rows, packages and drivers of this folder, and no
# network; as shipped and over drivers.
zoo_stage() {
  python3 -m venv --help >/dev/null 2>&1 || skip "Python with venv"
  need_file "$build/sim-nvml/libnvidia-ml.so.1"
  run_in "$1" "${@:2}" ZOO_TABLE="$PWD/zoo.txt" REAL_DIR="$PWD/real" DRIVERS_DIR="$PWD/drivers" \
    PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels" -- "$sources/tests/zoo/run" "$build" \
    '* @(default|driver *)'
}

# What cannot be had is named with the row that needs it; the other rows run. It is tried again.
zoo_packages_case() {
  need python3
  wheel there
  zoo_row with pip:there==1.0 - 0 full '' 'import there' "${starts[@]}"
  zoo_row without pip:elsewhere==1.0 - 0 full '' 'import elsewhere' "${starts[@]}"
  zoo_row debian deb:no-such-package - 0 full '' "${starts[@]}"
  zoo_row nameless @nothing - 0 full '' "${starts[@]}"
  zoo_stage first
  expect_status first 0
  expect_text first.out '^skip zoo: without - the Python package elsewhere==1[.]0: '
  expect_text first.out '^skip zoo: debian - the package no-such-package '
  expect_text first.out '^skip zoo: nameless - a meaning of the word @nothing in zoo.txt$'
  expect_text first.out '^ok zoo: with default$'
  expect_no_text first.out '^not ok '
  wheel elsewhere
  zoo_stage second
  expect_status second 0
  expect_text second.out '^ok zoo: without default$'
}
add_long_case "stage zoo: a package that cannot be had" zoo_packages_case

# Wrong alike with the library and without it, no further than the first call, or with words of the library's.
zoo_promises_case() {
  need python3
  zoo_row right python - 0 full '' '# zoo: prints init 0' '# zoo: prints [0-9]+ wrong' \
    "${starts[@]}" 'print("init", code)' 'print("0 wrong")'
  zoo_row wrong python - 0 full '' '# zoo: prints plain: 0 wrong' "${starts[@]}" 'print("plain: 5 wrong")'
  zoo_row silent python - 0 full '' '# zoo: prints init 0' "${starts[@]}"
  zoo_row typo python - 0 full GPUSHIM_CHECK=fill:on "${starts[@]}"
  zoo_row failing python - 0 full '' 'raise SystemExit(3)'
  zoo_row ending python - 0 'full ends-3' '' "${starts[@]}" 'sys.exit(3)'
  zoo_stage stage
  expect_status stage 1
  expect_text stage.out '^ok zoo: right default$'
  expect_text stage.out '^ok zoo: ending default$'
  expect_text stage.out '^not ok zoo: typo default - messages of the library$'
  expect_text stage.out '^not ok zoo: wrong - without the library it does not print: plain: 0 wrong$'
  expect_text stage.out '^not ok zoo: silent - without the library it does not print: init 0$'
  expect_text stage.out '^not ok zoo: failing - status 3 without the library$'
}
add_long_case "stage zoo: wrong on both sides" zoo_promises_case

# check_report_case KIND STATUS FIRST LINE...: what the library's text after the program's own line `hello` is
# worth for a program main.c, and the first line that check-report prints.
check_report_case() {
  need python3
  echo hello >native
  printf '%s\n' hello "${@:4}" >shim
  run_in check -- python3 -S "$sources/tests/zoo/check-report" "$1" native shim built/main
  expect_status check "$2"
  [[ -z $3 ]] || expect_text check.out "^$3"
}
report_head='==7== gpushim 0.1.0: ./main   host vm  9.12 ms'
clean_end='==7== SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites'
leak_end='==7== SUMMARY: gpushim: 0 errors, 1.00 KiB leaked in 1 allocation, 1 call site'
own_end="==7== largest: 1.00 KiB leaked at take main.c:7
$leak_end"
leak=('==7== LEAK 1: 1.00 KiB in 1 allocation (100 % of leaked)' '==7==   cuMemAlloc, GPU 0')
add_case "stage zoo: a clean report" check_report_case 0 0 '' "$report_head" "$clean_end"
add_case "stage zoo: a report with noise" check_report_case 0 1 '3 lines of report' "$report_head" '==7== Note: nothing' "$clean_end"
add_case "stage zoo: no report" check_report_case 0 1 'no report'
add_case "stage zoo: a line of the library" check_report_case 0 1 'messages' 'gpushim: a word' "$report_head" "$clean_end"
add_case "stage zoo: another line" check_report_case 0 1 'another standard error' strange "$report_head" "$clean_end"
add_case "stage zoo: an error in the report" check_report_case any 1 'errors' "$report_head" "${clean_end/0 errors/1 error}"
add_case "stage zoo: a leak too many" check_report_case 0 1 '.* 1 call sites' "$report_head" "${leak[@]}" "$leak_end"
add_case "stage zoo: a leak that is missing" check_report_case 1 1 '0 call sites, not 1' "$report_head" "$clean_end"
add_case "stage zoo: a leak by its own line" check_report_case 1 0 '' "$report_head" "${leak[@]}" \
  '==7==     #0 take                          main.c:7' "$own_end"
add_case "stage zoo: another largest leak" check_report_case any 1 'LEAK 1 of ==7 begins with take main[.]c:8' "$report_head" "${leak[@]}" \
  '==7==     #0 take                          main.c:8' "$own_end"
add_case "stage zoo: no largest leak" check_report_case any 1 'no line of the largest leak of ==7' "$report_head" "${leak[@]}" \
  '==7==     #0 take                          main.c:7' "$leak_end"
add_case "stage zoo: a leak by a library's line" check_report_case 1 1 'LEAK 1 of ==7 begins with #0 helper' "$report_head" \
  "${leak[@]}" '==7==     #0 helper                        other.c:7' '==7==     #1 take                          main.c:7' \
  "${own_end/take main/helper other}"
add_case "stage zoo: a leak without a line" check_report_case 1 1 'LEAK 1 of ==7 begins with' "$report_head" "${leak[@]}" \
  '==7==     #0 take                          (libother.so)' "${own_end/take main.c:7/take (libother.so)}"

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
  run_in check -- python3 -S "$sources/tests/zoo/check-leaks" lost.py report
  expect_status check "$2"
}
add_case "stage zoo: a leak with a line of Python" check_leaks_case '[1, 2]' 0
add_case "stage zoo: a leak without a line of Python" check_leaks_case '[1]' 1
add_case "stage zoo: a leak without a stack" check_leaks_case null 1

# Over a driver without a GPU: another text on either side is told.
zoo_driver_case() {
  need python3
  need_file "$build/sim/libcuda.so.1"
  zoo_row same python CUDA_ERROR 0 'full ends-0' '' "${starts[@]}" 'print("CUDA_ERROR", code)'
  zoo_row silent python 'no device' 0 full '' "${starts[@]}"
  zoo_row other python CUDA 0 full '' "${starts[@]}" \
    'print("CUDA")' 'print("libgpushim" in open("/proc/self/maps").read(), file=sys.stderr)'
  mkdir -p drivers/555
  cp "$build/sim/libcuda.so.1" drivers/555
  zoo_stage stage CUDASIM_DEVICES=0
  expect_status stage 1
  expect_text stage.out '^ok zoo: same driver 555$'
  expect_text stage.out '^not ok zoo: silent driver 555 - without the library it does not say: no device$'
  expect_text stage.out '^not ok zoo: other driver 555 - another standard error than natively$'
  expect_text stage.out '^skip zoo: driver 470 - '
}
add_long_case "stage zoo: a driver without a GPU" zoo_driver_case

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

# nohup, and `&` in a script, leave signals ignored: programs of the tests that wait for them never ended.
ignored_signals_case() {
  cat >ignoring.sh <<'SH'
trap '' INT HUP QUIT
exec "$@"
SH
  time_limit=60
  run_in stage -- bash ignoring.sh "$sources/tests/e2e/run" "$build" 'ends passed HUP --watch=parent'
  expect_status stage 0
  expect_text stage.out '^1 passed, 0 failed, 0 skipped$'
}
add_case "stage e2e: signals that were ignored" ignored_signals_case
