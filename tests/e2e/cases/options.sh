# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# options.sh - the GPUSHIM_* variables: bad ones are named once and change nothing, and the
# ones about output and exit status do what they say.

# bad_option_case VARIABLE TEXT: one line that matches, besides a clean report.
bad_option_case() {
  same_as_native "$1" -- "$apps/pinned_shared"
  expect_count shim.err '^gpushim: ' 1
  expect_text shim.err "^gpushim: $2"
  grep -v '^gpushim: ' shim.err >rest
  expect_clean rest
}
add_case "options malformed size" \
  bad_option_case GPUSHIM_POOL_SEGMENT=banana 'GPUSHIM_POOL_SEGMENT=banana: not a size'
add_case "options size out of range" \
  bad_option_case GPUSHIM_POOL_SEGMENT=1K 'GPUSHIM_POOL_SEGMENT=1K: not in '
add_case "options unknown name" \
  bad_option_case GPUSHIM_SEGMNET=1G 'GPUSHIM_SEGMNET .*GPUSHIM_POOL_SEGMENT'
add_case "options malformed switch" \
  bad_option_case GPUSHIM_POOL=maybe 'GPUSHIM_POOL=maybe: not a switch'
add_case "options unknown choice" \
  bad_option_case GPUSHIM_STACK=deep 'GPUSHIM_STACK=deep: not one of '
add_case "options unwritable log file" \
  bad_option_case GPUSHIM_LOG_FILE=/nonexistent/log 'GPUSHIM_LOG_FILE: cannot write '
add_case "options log file is a folder" \
  bad_option_case GPUSHIM_LOG_FILE=/ 'GPUSHIM_LOG_FILE: cannot write '
add_case "options malformed pattern" \
  bad_option_case GPUSHIM_LOG_FILE=log.%z 'GPUSHIM_LOG_FILE=log.%z: '

# options_of_before: for each item of a list, the variable that it was before, a value that is not the default, the
# list. One line each.
options_of_before() {
  "$sources/scripts/def-rows" "$sources/shim/settings/options.def" | awk -F'|' '
    $1 == "GS_OPT" { field[++n] = $2; name[n] = $3; type[n] = $4; fallback[n] = $5 }
    $1 == "GS_OPT_CHOICE" && !($2 in word) && $3 != fallback[n] { word[$2] = $3 }
    $1 == "GS_OPT_LIST" { list[$2] = $3 }
    $1 == "GS_OPT_ITEM" { list_of[$3] = list[$2] }
    END {
      value["BOOL"] = "off"; value["SIZE"] = "1M"; value["UINT"] = 99; value["TIME"] = "1m"; value["TEXT"] = "USR1"
      for (i = 1; i <= n; i++) {
        if (!(field[i] in list_of) || list_of[field[i]] == name[i]) continue
        print name[i], type[i] == "ENUM" ? word[field[i]] : fallback[i] == "off" ? "on" : value[type[i]], list_of[field[i]]
      }
    }'
}

# same_options OLD NEW: both reports had the same settings, which are not the default's.
same_options() {
  python3 - "$@" <<'PYTHON'
import json, sys
old, new, default = (json.load(open(name + ".json"))["options"] for name in (*sys.argv[1:], "default"))
for options in (old, new, default):
    del options["GPUSHIM_OUTPUT_FILE"]
assert old == new, {name: (old[name], new[name]) for name in old if old[name] != new[name]}
assert old != default, "it has no effect"
PYTHON
}

# A variable of before does what its item of the list does, which the launcher writes; one line says so.
options_before_case() {
  local name value list new tried=0

  need python3
  preloaded default GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=default.json -- "$apps/pinned_shared"
  while read -r name value list; do
    new=${name#GPUSHIM_} new=${new,,}
    new=$("$build/gpushim" --library="$shim" "--${new//_/-}=$value" --print true | grep -o " $list=[^ ]*")
    preloaded old "$name=$value" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=old.json -- "$apps/pinned_shared"
    preloaded new "${new# }" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=new.json -- "$apps/pinned_shared"
    expect_count old.err "^gpushim: $name=$value is now ${new# }\$" 1
    expect_no_text new.err ' is now '
    same_options old new || fail "$name=$value is not $new"
    tried=$((tried + 1))
  done < <(options_of_before)
  [[ $tried -gt 4 ]] || fail "$tried tried"
}
add_case "options each variable of before" options_before_case

# One line for each value that is none, by the library and under the command, and the others stay in force.
# options_wrong_case NAME VALUE LINE [VAR=value...]: NAME has VALUE in the report.
options_wrong_case() {
  local way

  for way in shim launched; do
    if [[ $way == shim ]]; then
      preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/shim.json" "${@:4}" -- "$apps/pinned_shared"
    else
      run_in launched GPUSHIM_LIBRARY="$shim" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/launched.json" \
        "${@:4}" -- "$build/gpushim" --watch=off "$apps/pinned_shared"
    fi
    expect_status $way 0
    grep '^gpushim: ' $way.err | grep -v ' is now ' >lines
    expect_count lines "^gpushim: $3" 1
    expect_count lines . 1
    expect_text $way.json "^ +\"GPUSHIM_$1\": \"$2\""
  done
}
add_case "options a bad item" options_wrong_case CHECK_ARGS on 'GPUSHIM_CHECK=redzone:bad: not a size .*; using 0$' \
  GPUSHIM_CHECK=args,redzone:bad
add_case "options an item out of range" options_wrong_case STACK fp 'GPUSHIM_STACK=depth:500: not in 1 to 128; using 32$' \
  GPUSHIM_STACK=fp,depth:500
add_case "options a list without items" options_wrong_case CHECK_REDZONE 256 'GPUSHIM_CHECK=bogus: not one of .*; left out$' \
  GPUSHIM_CHECK=bogus GPUSHIM_CHECK_REDZONE=256
add_case "options no signal" options_wrong_case TRACK on 'GPUSHIM_TRACK_SIGNAL=off: not a signal .*; ignored$' \
  GPUSHIM_TRACK_SIGNAL=off
add_case "options a signal with control characters" options_wrong_case LEAK_REPORT exit \
  'GPUSHIM_DUMP_SIGNAL=U.x1b.*: not a signal .*; ignored$' GPUSHIM_DUMP_SIGNAL=$'U\e[31m'

# A child that is forked after its parent's first CUDA call says nothing again; the one forked before has a first call
# of its own.
options_before_once_case() {
  preloaded shim GPUSHIM_CHECK_REDZONE=256 -- "$apps/fork_shared"
  expect_count shim.err ' is now ' 2
}
add_case "options variable of before in a forked child" options_before_once_case

# Nor does a program in the place of one that has said it.
options_before_exec_case() {
  preloaded shim GPUSHIM_CHECK_REDZONE=256 -- "$apps/oddities_static" exec
  expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: ' 2
  expect_count shim.err ' is now ' 1
}
add_case "options variable of before in the next program" options_before_exec_case

# idle_option_case SETTING... TEXT: good values that do nothing, one line.
idle_option_case() {
  native native "$apps/pinned_shared"
  preloaded shim "${@:1:$#-1}" -- "$apps/pinned_shared"
  expect_same native shim
  expect_count shim.err '^gpushim: ' 1
  expect_text shim.err "^gpushim: ${*: -1}"
}
for switch in TRACK ENABLE; do
  add_case "options ERROR_EXITCODE without $switch" idle_option_case "GPUSHIM_$switch=off" \
    GPUSHIM_ERROR_EXITCODE=3 "GPUSHIM_ERROR_EXITCODE=3: with GPUSHIM_$switch=off nothing is checked"
  add_case "options DUMP_SIGNAL without $switch" idle_option_case "GPUSHIM_$switch=off" \
    GPUSHIM_REPORT_ON=exit,oom,USR1 "GPUSHIM_REPORT_ON=USR1: with GPUSHIM_$switch=off there is nothing to report; "
done
for setting in REPORT_ON=term STATE_FILE=s INTERVAL=90s LEAK_SCAN=on WRITE_SUPPRESSIONS=r; do
  add_case "options ${setting%=*} without TRACK" idle_option_case GPUSHIM_TRACK=off \
    "GPUSHIM_$setting" "GPUSHIM_$setting: with GPUSHIM_TRACK=off there is no"
done
for setting in MEM_LIMIT=1G OUTPUT=json STATE_FILE=s METRICS_FILE=m TRACE_FILE=t; do
  add_case "options ${setting%=*} without ENABLE" idle_option_case GPUSHIM_ENABLE=off \
    "GPUSHIM_$setting" "GPUSHIM_$setting: with GPUSHIM_ENABLE=off "
done
for setting in WARMUP=4K:2 ASYNC=pool FREE_SYNC=lazy POOL_VMM=on POOL_SEGMENT=2M POOL_SIZE_CLASSES=4K,1M \
  POOL_CARVE=on POOL_CACHE=0 POOL_LIMIT=50% POOL_RELEASE=0; do
  add_case "options ${setting%=*} without POOL" idle_option_case GPUSHIM_POOL=off \
    "GPUSHIM_$setting" "GPUSHIM_$setting: with GPUSHIM_POOL=off "
done
add_case "options POOL_CARVE with POOL_VMM" idle_option_case GPUSHIM_POOL_VMM=on GPUSHIM_POOL_CARVE=on \
  'GPUSHIM_POOL_CARVE=on: with GPUSHIM_POOL_VMM=on requests share no driver allocations'
add_case "options OUTPUT_FILE alone" idle_option_case GPUSHIM_OUTPUT_FILE=r \
  'GPUSHIM_OUTPUT_FILE=r: there is no GPUSHIM_OUTPUT; no file is written'
add_case "options OUTPUT_INTERVAL alone" idle_option_case GPUSHIM_INTERVAL=output:90s \
  'GPUSHIM_INTERVAL=90s: there is no GPUSHIM_OUTPUT; no file is written'
add_case "options TRACE_LIMIT alone" idle_option_case GPUSHIM_TRACE_LIMIT=1M \
  'GPUSHIM_TRACE_LIMIT=1M: there is no GPUSHIM_TRACE_FILE'

# Many bad values at once: each is named, the program goes on.
bad_options_case() {
  local value

  value=$(printf 'x%.0s' {1..5000})
  same_as_native GPUSHIM_POOL="$value" GPUSHIM_STACK=depth:-1 GPUSHIM_LEAK_MAX=1e9 \
    GPUSHIM_ERROR_EXITCODE=256 GPUSHIM_= GPUSHIM_XYZZY=1 GPUSHIM_LOG_FILE= \
    GPUSHIM_SYMBOLIZE=timeout:soon -- "$apps/pinned_shared"
  expect_count shim.err '^gpushim: ' 7
  grep -v '^gpushim: ' shim.err >rest
  expect_clean rest
}
add_case "options many bad values" bad_options_case

# A problem is not mentioned in a program that never calls CUDA.
bad_option_plain_case() {
  preloaded shim GPUSHIM_POOL=maybe GPUSHIM_HELP=1 GPUSHIM_LOG_FILE=log -- "$apps/plain"
  expect_status shim 0
  expect_quiet shim
  [[ ! -e log ]] || fail "a log file without a CUDA call"
}
add_case "options unnoticed without CUDA" bad_option_plain_case

# log_file_case PATTERN GLOB: the report goes to the file, standard error stays empty.
log_file_case() {
  local files

  preloaded shim GPUSHIM_LOG_FILE="$1" RANK=3 JOB=night -- "$apps/pinned_shared"
  expect_status shim 0
  expect_quiet shim
  shopt -s nullglob
  # shellcheck disable=SC2206  # the glob is meant to be expanded
  files=($2)
  expect_equal "files that match $2" 1 "${#files[@]}"
  expect_clean "${files[0]}"
}
add_case "options log file" log_file_case report.txt report.txt
add_case "options log file by process" log_file_case 'report.%p.%e' 'report.[1-9]*.pinned_shared'
add_case "options log file by rank" log_file_case 'r%r-%q{JOB}-100%%' 'r3-night-100%'
add_case "options log file by host and time" log_file_case '%h.%t' "*.20[0-9]*T[0-9]*Z"

# A second run appends.
log_file_append_case() {
  preloaded shim GPUSHIM_LOG_FILE=log -- "$apps/pinned_shared"
  preloaded shim GPUSHIM_LOG_FILE=log -- "$apps/managed_shared"
  expect_clean log 2
}
add_case "options log file is appended to" log_file_append_case

# exitcode_case PROGRAM STATUS CODE [ARGUMENT...]
exitcode_case() {
  local program=$1 status=$2 code=$3

  shift 3
  native native "$apps/$program" "$@"
  preloaded shim GPUSHIM_ERROR_EXITCODE="$code" -- "$apps/$program" "$@"
  expect_status shim "$status"
  cmp -s native.out shim.out || fail "output is not that of the program alone"
}
add_case "options exit code on leaks" exitcode_case leaky_shared 23 23
add_case "options exit code on leaks static" exitcode_case leaky_static 23 23
add_case "options exit code on errors" exitcode_case badfree_linked 23 23
add_case "options exit code when clean" exitcode_case pipeline_shared 0 23
add_case "options exit code keeps the program's" exitcode_case oddities_shared 9 23
add_case "options exit code 0" exitcode_case leaky_shared 0 0
# A wrong value turns no check off.
add_case "options exit code too large" exitcode_case leaky_shared 1 999
add_case "options exit code that is a word" exitcode_case leaky_shared 1 on
add_case "options exit code that is a word, when clean" exitcode_case pipeline_shared 0 on

# A program in which CUDA did not start has leaked nothing, and that is no pass.
no_start_case() {
  preloaded shim CUDASIM_DEVICES=0 GPUSHIM_ERROR_EXITCODE=23 GPUSHIM_STATE_FILE=state \
    GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json -- sh -c "$apps/leaky_$1; exit 0"
  expect_text shim.err '^==[0-9]+== Note: CUDA did not start: cuInit returned 100 \(CUDA_ERROR_NO_DEVICE\)$'
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: nothing recorded: CUDA did not start$'
  expect_text report.json '"no_start": "cuInit returned 100 \(CUDA_ERROR_NO_DEVICE\)"'
  need_file "$build/gpushim"
  run_in found GPUSHIM_ERROR_EXITCODE=23 -- "$build/gpushim" report state
  expect_status found 23
  expect_text found.out 'SUMMARY: gpushim: nothing recorded: CUDA did not start$'
  run_in line -- "$build/gpushim" report --summary state
  expect_text line.out '  CUDA did not start  '
  # This program expects that, and would end with 0.
  preloaded absent CUDASIM_DEVICES=0 GPUSHIM_ERROR_EXITCODE=23 -- "$apps/absent_linked"
  expect_status absent 23
}
for way in shared static proc; do
  add_case "options CUDA does not start $way" no_start_case "$way"
done

# terminal PREFIX SETTING... -- COMMAND...: like run_in, on a terminal; what it shows is in PREFIX.out.
terminal() {
  local prefix=$1 settings command

  split_settings "${@:2}"
  cat >terminal.py <<'PYTHON'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
PYTHON
  run_in "$prefix" "${settings[@]}" -- python3 "$case_dir/terminal.py" env LD_PRELOAD="$shim" "${command[@]}" </dev/null
}

# On a terminal a report has colours, unless the user wants none; without them it is the same text.
color_case() {
  local escape=$'\033' program=$apps/leaky_shared
  need python3
  terminal colored TERM=xterm -- "$program"
  expect_text colored.out "${escape}\\[1;31mLEAK 1${escape}\\[0m: "
  for setting in NO_COLOR=1 TERM=dumb TERM= GPUSHIM_COLOR=never; do
    terminal plain TERM=xterm "$setting" -- "$program"
    expect_text plain.out '== LEAK 1: '
    expect_no_text plain.out "$escape"
  done
  preloaded pipe -- "$program"
  expect_no_text pipe.err "$escape"
  preloaded always GPUSHIM_COLOR=always GPUSHIM_LOG_FILE=log -- "$program"
  expect_text log "${escape}\\[1;31mSUMMARY: "
  # Times, process ids and addresses apart, it is the report without colours.
  # An age of 0 ms is left out, and what the pool holds depends on who was first.
  local same='s/==[0-9]+==//; s/, (age|oldest) [^,]*(, newest [^,]*)?//; /Pool of /d; s/[0-9.]+ ([mu]?s)\b/T/g'
  sed "s/${escape}\\[[0-9;]*m//g" log | sed -E "$same" >stripped
  sed -E "$same" pipe.err >plain
  cmp -s plain stripped && return
  diff plain stripped
  fail 'the text differs without its colours'
}
add_case "options colours" color_case

help_case() {
  preloaded shim GPUSHIM_HELP=1 -- "$apps/leaky_shared"
  expect_status shim 0
  expect_text shim.err '^  GPUSHIM_POOL_SEGMENT=SIZE'
  expect_text shim.err '^  GPUSHIM_STACK='
  [[ ! -s shim.out ]] || fail "text on standard output"
}
add_case "options GPUSHIM_HELP" help_case

verbose_case() {
  preloaded shim GPUSHIM_VERBOSE=3 -- "$apps/pinned_shared"
  expect_status shim 0
  expect_text shim.err '^gpushim: alloc 0x[0-9a-f]+, [0-9.]+ [KM]iB, by cudaMallocHost, thread [0-9]+$'
  # Each allocation has its line, and each free.
  [[ $(grep -c '^gpushim: alloc ' shim.err) == "$(grep -c '^gpushim: free ' shim.err)" ]] ||
    fail 'lines of allocations and frees differ'
  grep -v '^gpushim: ' shim.err >rest
  expect_only_report rest
  expect_text rest '^==[0-9]+== Pinned host memory: peak '
  expect_text rest '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked'
}
add_case "options GPUSHIM_VERBOSE=3" verbose_case
