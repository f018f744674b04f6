# shellcheck shell=bash disable=SC2034  # variables and functions are used by the cases
#
# lib.sh - what the cases are written with. Sourced by run, which sets build, here, scratch.
#
# A case is a shell command, registered with add_case, that runs in a folder and a shell of
# its own. It passes unless it calls fail or skip. What it prints is shown if it fails.
# `python3 -S`: without the site's packages, which take most of the time of a start.

: "${build:?set by run}" "${here:?set by run}" "${case_dir:=}"

sources=$(cd "$here/../.." && pwd)
apps=$build/apps
shim=$build/libgpushim.so
cuda_path=${E2E_CUDA_PATH:-$build/sim}
time_limit=120
# What each program of a build gets. A file of gcov's counters that a killed program has cut off is an error of each
# later one, which would wait to say so where nobody reads its standard error.
build_env=(ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0)
[[ $build != *-coverage ]] || build_env+=(GCOV_ERROR_FILE=/dev/null)

# Two devices, each small enough to be filled quickly.
export CUDASIM_MEMORY=${CUDASIM_MEMORY:-512M}
export CUDASIM_DEVICES=${CUDASIM_DEVICES:-2}

# shellcheck source=tests/clean_env.sh
source "$sources/tests/clean_env.sh"

case_names=()
case_bodies=()
adding=yes

# uses NAME...: the functions and variables of cases/NAME.sh. A case's shell has read its own file alone.
uses() {
  local adding=no name

  for name; do
    # shellcheck source=/dev/null
    source "$here/cases/$name.sh"
  done
}

# add_case NAME COMMAND [ARGUMENT...]
add_case() {
  local body

  [[ $adding == yes ]] || return 0
  case_names+=("$1")
  shift
  printf -v body '%q ' "$@"
  case_bodies+=("$body")
}

# add_long_case NAME COMMAND...: only with E2E_LONG=yes.
add_long_case() {
  [[ ${E2E_LONG:-no} != yes ]] || add_case "$@"
}

# sized DEFAULT LONG: how much random work a case does; LONG with E2E_LONG=yes.
sized() {
  if [[ ${E2E_LONG:-no} == yes ]]; then echo "$2"; else echo "$1"; fi
}

# ---- Outcomes ------------------------------------------------------------------------

# fail REASON: the case has failed; ends it.
fail() {
  echo "$1" >"$case_dir/../reason"
  exit 1
}

# skip WHAT: the case needs something that is missing; ends it.
skip() {
  echo "$1" >"$case_dir/../reason"
  exit 77
}

# A misspelt expectation would be one that nothing fails: run looks for a reason. Only builtins here: bash runs
# this in a new process, and again for a command of it that is missing, as all are once run's folder is gone.
command_not_found_handle() {
  echo "no command $1" >"$case_dir/../reason"
  echo "no command $1"
  return 127
}

# need COMMAND: skip where there is no such command.
need() {
  command -v "$1" >/dev/null || skip "$1"
}

# need_file PATH
need_file() {
  [[ -e $1 ]] || skip "${1#"$build/"}"
}

# ---- Running programs ----------------------------------------------------------------

# run_in PREFIX [VAR=value...] -- COMMAND...
#   Runs the command in an environment of its own, where CUDA is found in cuda_path. Leaves
#   PREFIX.out, PREFIX.err and PREFIX.status. CUDASIM_* of the caller go through.
run_in() {
  local prefix=$1 status began=$SECONDS settings command

  shift
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- "$@"
  printf '$ %s\n' "${settings[*]:3} ${command[*]}"
  "$build/e2e/limited" "$time_limit" \
    "${build_env[@]}" "${settings[@]}" "${command[@]}" \
    >"$prefix.out" 2>"$prefix.err" </dev/null
  status=$?
  echo "$status" >"$prefix.status"
  [[ $((SECONDS - began)) -lt $time_limit ]] ||
    fail "$prefix: no end in $time_limit s: ${command[*]}"
}

# status_of PREFIX: sets `status`. No shell of its own, as $(<FILE) has: these run most often.
status_of() {
  status=
  read -r status <"$1.status"
}

# native PREFIX COMMAND...: without the library; the programs end with 1 or 2 if they fail.
native() {
  local prefix=$1 status

  shift
  run_in "$prefix" -- "$@"
  status_of "$prefix"
  [[ ! $status =~ ^[12]$ ]] && return
  cat "$prefix.err"
  fail "status $status without the library: $*"
}

# preloaded PREFIX [VAR=value...] -- COMMAND...
preloaded() {
  local prefix=$1

  shift
  need_file "$shim" # ld.so only complains, and a case would pass without the library
  run_in "$prefix" LD_PRELOAD="$shim" "$@"
}

# split_settings [VAR=value...] -- COMMAND...: sets `settings` to what stands before the `--`, and
# `command` to what stands behind it. Both are local to the caller.
split_settings() {
  settings=()
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  command=("${@:2}")
}

# same_as_native [VAR=value...] -- COMMAND...: runs the command without the library, then with it and
# these variables. Both print the same and end with the same status. Leaves native.* and shim.*.
same_as_native() {
  local settings command

  split_settings "$@"
  native native "${command[@]}"
  preloaded shim "${settings[@]}" -- "${command[@]}"
  expect_same native shim
}

# start_preloaded PREFIX [VAR=value...] -- COMMAND...: as preloaded, in the background; $! is the number of its
# process. Leaves PREFIX.out and PREFIX.err.
start_preloaded() {
  local prefix=$1 settings command

  need_file "$shim"
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- LD_PRELOAD="$shim" "${@:2}"
  env -i "${build_env[@]}" "${settings[@]}" "${command[@]}" \
    >"$prefix.out" 2>"$prefix.err" </dev/null &
}

# await SECONDS COMMAND...: tries the command until it succeeds. False if it does not in that time.
await() {
  local end=$((SECONDS + $1))

  until "${@:2}"; do
    [[ $SECONDS -lt $end ]] || return 1
    sleep 0.02
  done
}

# For programs of tests/order: the oracle judges them, and nobody reads a report or the lines in it,
# which each of their processes would ask a symbolizer for.
verdict_alone=(GPUSHIM_REPORT_ON=oom GPUSHIM_SYMBOLIZE=off)

# A report with the rules for its leaks, and no other line.
# shellcheck disable=SC2034
with_rules=(GPUSHIM_WRITE_SUPPRESSIONS=advised GPUSHIM_VERBOSE=0)

# ---- Expectations --------------------------------------------------------------------

# These run most often: each process that they do without is seconds in the end.

# same_text A B: two files of text are equal to the byte. False for all others.
same_text() {
  local one two

  # read fails where the file ends before a NUL, and before that many characters.
  ! IFS= read -r -d '' -n 65536 one <"$1" && ! IFS= read -r -d '' -n 65536 two <"$2" &&
    [[ $one == "$two" ]]
}

# count_lines FILE REGEX: sets `count` to how many lines match.
count_lines() {
  local line lines=()

  count=0
  mapfile -t -n 121 lines <"$1"
  for line in "${lines[@]:0:120}"; do
    [[ $line =~ $2 ]]
    case $? in
      0) count=$((count + 1)) ;;
      2) lines+=({1..120}) && break ;; # what grep alone takes for an expression
    esac
  done
  [[ ${#lines[@]} -le 120 ]] || count=$(grep -cE -- "$2" "$1")
}

# expect_equal WHAT EXPECTED FOUND
expect_equal() {
  [[ $2 == "$3" ]] && return
  printf 'expected: %s\nfound:    %s\n' "$2" "$3"
  fail "$1"
}

# expect_status PREFIX STATUS
expect_status() {
  local status

  status_of "$1"
  [[ $status == "$2" ]] && return
  tail -n 20 "$1.out" # where tests/order says what is wrong
  cat "$1.err"
  fail "$1: status $status, not $2"
}

# expect_same A B: standard output to the byte, and the status.
expect_same() {
  local status expected

  status_of "$1"
  expected=$status
  status_of "$2"
  if [[ $status != "$expected" ]]; then
    head -n 40 "$2.err"
    fail "status $status under $2, $expected under $1"
  fi
  same_text "$1.out" "$2.out" || cmp -s "$1.out" "$2.out" && return
  diff -u "$1.out" "$2.out" | head -n 40
  fail "output of $2 is not that of $1"
}

# expect_quiet PREFIX: nothing on standard error.
expect_quiet() {
  [[ -s $1.err ]] || return 0
  head -n 40 "$1.err"
  fail "$1: text on standard error"
}

# expect_only_report FILE: no line but a report's.
expect_only_report() {
  local line lines

  mapfile -t lines <"$1"
  for line in "${lines[@]}"; do
    [[ $line =~ ^==[0-9]+==(\ |$) ]] && continue
    grep -vE '^==[0-9]+==( |$)' "$1" >strange
    head -n 20 strange
    fail "$1: lines that are not a report's"
  done
}

# expect_text FILE REGEX
expect_text() {
  local count

  count_lines "$1" "$2"
  [[ $count -eq 0 ]] || return 0
  head -n 60 "$1"
  fail "$1: no line matches $2"
}

# expect_no_text FILE REGEX
expect_no_text() {
  local count

  count_lines "$1" "$2"
  [[ $count -gt 0 ]] || return 0
  head -n 60 "$1"
  fail "$1: a line matches $2"
}

# expect_count FILE REGEX COUNT: that many lines match.
expect_count() {
  local count

  count_lines "$1" "$2"
  [[ $count -eq $3 ]] && return
  head -n 60 "$1"
  fail "$1: $count lines match $2, not $3"
}

# driver_calls FILE NAME: how often the simulated driver itself was called so, by its log
#   (CUDASIM_LOG=2); the name may stand without its version.
driver_calls() {
  grep -cE "^cudasim: $2(_v[0-9])?\$" "$1"
}

# expect_same_while_capturing A B [NAME]: while streams capture, B called the simulated driver as A did
#   (CUDASIM_LOG=2), but for NAME. The library's helper thread sets its own capture mode at any moment.
expect_same_while_capturing() {
  local prefix

  for prefix in "$1" "$2"; do
    awk -v allowed=" cuThreadExchangeStreamCaptureMode ${3-} " '
      /^cudasim: cuStreamBeginCapture/ { inside = 1 }
      inside && /^cudasim: / && !index(allowed, " " $2 " ") { print $2 }
      /^cudasim: cuStreamEndCapture/ { inside = 0 }' "$prefix.err" >"$prefix.calls"
  done
  [[ -s $1.calls ]] || fail "no capture was seen"
  cmp -s "$1.calls" "$2.calls" && return
  diff -u "$1.calls" "$2.calls" | head -n 40
  fail "other calls of the driver while a stream captures"
}

# ---- Reports -------------------------------------------------------------------------

# size_text BYTES: as a report writes it: IEC units, three significant digits.
size_text() {
  awk -v bytes="$1" 'BEGIN {
    split("B KiB MiB GiB TiB", unit, " ")
    for (i = 1; bytes >= 1024 && i < 5; i++) bytes /= 1024
    if (i == 1) form = "%d"
    else if (bytes < 9.995) form = "%.2f"
    else if (bytes < 99.95) form = "%.1f"
    else form = "%.0f"
    printf form " %s\n", bytes, unit[i]
  }'
}

# expect_clean FILE [COUNT]: only reports, COUNT (1) of them, two lines each, nothing wrong.
# That a program ran out of memory on the way is not wrong (cases/interim.sh).
expect_clean() {
  local reports=${2:-1} line lines heads=0 summaries=0

  # Nearly always two whole lines each: that is seen without a process.
  mapfile lines <"$1"
  for line in "${lines[@]}"; do
    [[ ! $line =~ ^==[0-9]+==\ gpushim\ [0-9.]+:\  ]] || heads=$((heads + 1))
    [[ $line != *SUMMARY* || ! $line =~ ^==[0-9]+==\ SUMMARY:\ gpushim:\ 0\ errors,\ 0\ B\ leaked ]] ||
      summaries=$((summaries + 1))
  done
  [[ ${#lines[@]} -ne $((2 * reports)) || $heads -ne $reports || $summaries -ne $reports ||
    ${lines[-1]-} != *$'\n' ]] || return 0
  expect_only_report "$1"
  sed '/^==[0-9]*== gpushim [0-9.]*: .*  out of memory$/,/; still running$/d' "$1" >ends
  expect_count ends '^==[0-9]+== gpushim [0-9.]+: ' "$reports"
  expect_count ends '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' "$reports"
  expect_equal "$1: lines" $((2 * reports)) "$(wc -l <ends)"
}

# leak_marks SOURCE [FUNCTION...]: "function file:line bytes count" for each marked line.
leak_marks() {
  local source=$1

  shift
  awk -v file="${source##*/}" -v only=" $* " '
    match($0, /\/\* LEAK: [a-z_]+ [0-9]+ [0-9]+ \*\//) {
      split(substr($0, RSTART, RLENGTH), mark, " ")
      if (only == "  " || index(only, " " mark[3] " "))
        print mark[3], file ":" NR, mark[4], mark[5]
    }' "$source"
}

# leaks_found FILE: "function file:line size-text count" for each leak of a report.
#   The line of a leak is followed by its innermost frame, `#0 function  file:line`.
leaks_found() {
  awk '
    $2 == "LEAK" || $2 == "LIVE" { size = $4 " " $5; count = $7; waiting = 1 }
    waiting && $2 == "#0" { n = split($4, path, "/"); print $3, path[n], size, count
                            waiting = 0 }' "$1"
}

# expect_leaks FILE SOURCE [FUNCTION...]: the report names each leak marked in the source,
#   with function, file, line, size and count, has their sum, and names nothing else. Wrong
#   frees that the program means to make are counted in errors_meant.
expect_leaks() {
  local file=$1 source=$2 function place bytes count
  local total=0 allocations=0 places=0

  shift 2
  expect_only_report "$file"
  leak_marks "$source" "$@" >marks
  [[ -s marks ]] || fail "no leak is marked in $source"
  : >wanted
  while read -r function place bytes count; do
    echo "$function $place $(size_text $((bytes * count))) $count" >>wanted
    total=$((total + bytes * count)) allocations=$((allocations + count))
    places=$((places + 1))
  done <marks
  sort -o wanted wanted
  leaks_found "$file" | sort >found
  if ! cmp -s wanted found; then
    diff -u wanted found
    head -n 80 "$file"
    fail "leaks are not named as marked in ${source##*/}"
  fi
  expect_summary "$file" "${errors_meant:-0}" "$total" "$allocations" "$places"
}

# expect_planted FILE SOURCE: each leak marked in the source, with its size and count.
expect_planted() {
  local function place bytes count

  leak_marks "$2" >marks
  [[ -s marks ]] || fail "no leak is marked in $2"
  leaks_found "$1" >found
  while read -r function place bytes count; do
    grep -qxF "$function $place $(size_text $((bytes * count))) $count" found && continue
    head -n 80 "$1"
    fail "$function at $place is not named"
  done <marks
}

# expect_summary FILE ERRORS BYTES ALLOCATIONS PLACES
expect_summary() {
  local text

  text="$2 $(plural "$2" error), $(size_text "$3") leaked in $4 $(plural "$4" allocation),"
  text+=" $5 $(plural "$5" "call site")"
  expect_equal "$1: summary" "$text" "$(sed -n 's/^==[0-9]*== SUMMARY: gpushim: //p' "$1")"
}

# plural COUNT WORD
plural() {
  if [[ $1 -eq 1 ]]; then echo "$2"; else echo "$2s"; fi
}

# ---- What is built -------------------------------------------------------------------

# ways_of NAME: the ways a program was built in.
ways_of() {
  local way

  for way in shared static ptds linked dlsym proc; do
    [[ -x $apps/$1_$way ]] && echo "$way"
  done
}
