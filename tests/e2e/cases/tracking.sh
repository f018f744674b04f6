# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# tracking.sh - less than everything recorded: call stacks sampled, small allocations
# without a place, a part of the run; stacks of frees; and memory of our own that does not
# grow.

uses outputs state

# ---- sampled stacks --------------------------------------------------------------------

# The figures of all devices and the SUMMARY, without its places.
tracking_figures() {
  sed -nE 's/^==[0-9]+== ([A-Z][^:]+: [0-9.]+ [KMGi]*B leaked).*/\1/p; s/^==[0-9]+== +(traffic) /\1 /p
    s/^==[0-9]+== SUMMARY: gpushim: (.*), [0-9,]+ call sites?$/\1/p' "$1"
}

# What is sampled is the stack: all sums are what they are without.
# tracking_exact_case PROGRAM [SETTING...]
tracking_exact_case() {
  local program=$1

  shift
  native native "$apps/$program"
  preloaded all GPUSHIM_VERBOSE=2 "${@:2}" -- "$apps/$program"
  preloaded some GPUSHIM_VERBOSE=2 "$@" -- "$apps/$program"
  expect_same native some
  tracking_figures all.err >expected
  tracking_figures some.err >found
  [[ -s expected ]] || fail "nothing is compared"
  cmp -s expected found && return
  diff -u expected found
  fail "other sums where less is recorded"
}
for program in leaky_shared leaky_static leaky_linked leaky_dlsym leaky_proc leaky_ptds \
  graphmem_linked virtual_linked; do
  add_case "tracking sampled, exact $program" \
    tracking_exact_case "$program" GPUSHIM_STACK=sample:256K
done
add_case "tracking sampled, exact without the pool" \
  tracking_exact_case leaky_shared GPUSHIM_STACK=sample:256K GPUSHIM_POOL=off
add_case "tracking sampled, exact lazily" \
  tracking_exact_case leaky_shared GPUSHIM_STACK=sample:256K GPUSHIM_FREE_SYNC=lazy
add_case "tracking small ones, exact" \
  tracking_exact_case leaky_shared GPUSHIM_STACK=min:1M
add_case "tracking small ones, exact without the pool" \
  tracking_exact_case leaky_linked GPUSHIM_STACK=min:1M GPUSHIM_POOL=off

# Of 4,000 blocks of 4 KiB some 240 have a stack, and stand for the others: the estimate
# is off by a third once in many millions of runs.
tracking_sampled_case() {
  local about

  preloaded shim GPUSHIM_STACK=sample:64K "${@:2}" -- "$apps/churn_$1" 4000 1 keep 4096
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== LEAK 1: about 1[0-9]\.[0-9] MiB in [3-5],[0-9]{3} allocations .*, by [0-9]+ sampled$' 1
  expect_text shim.err '#0 replace +churn\.c:[0-9]+$'
  expect_count shim.err ' without a call stack \(GPUSHIM_STACK=sample\): those with one stand for them$' 1
  expect_count shim.err 'Note: one call stack in 64\.0 KiB was recorded \(GPUSHIM_STACK=sample\): .* of 15\.6 MiB and [0-9]+ of 4,000 allocations have one$' 1
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 15\.6 MiB leaked in 4,000 allocations, 1 call site$' 1
  about=$(sed -nE 's/.*LEAK 1: about ([0-9.]+) MiB.*/\1/p' shim.err)
  awk -v about="$about" 'BEGIN { exit !(about > 10.4 && about < 20.8) }' ||
    fail "about $about MiB, which is far from 15.6"
}
for way in shared static linked; do
  add_case "tracking sampled $way" tracking_sampled_case "$way"
done
add_case "tracking sampled without the pool" tracking_sampled_case shared GPUSHIM_POOL=off

# A rule takes what has no stack in proportion to what has one, and all of it where it
# knows all that has.
tracking_suppressed_case() {
  echo 'leak:replace' >all
  preloaded shim GPUSHIM_STACK=sample:64K GPUSHIM_SUPPRESSIONS=all \
    GPUSHIM_ERROR_EXITCODE=7 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- \
    "$apps/churn_$1" 4000 1 keep 4096
  expect_status shim 0
  expect_count shim.err '^==[0-9]+== Suppressed: 4,000 allocations, 15\.6 MiB by 1 rule \(of these 3,[0-9]{3} without a call stack, in proportion to those with one\)$' 1
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites$'
  need python3
  python3 -S -c '
import json
report = json.load(open("r.json"))
sampled = sum(place["count"] for place in report["suppressed"])
assert sampled + report["recorded"]["suppressed_count"] == 4000, report["recorded"]
assert report["unplaced"] == [] and report["leaks"] == [], report["unplaced"]' || fail "r.json"
  echo 'leak:churn.c max_bytes=1' >capped
  preloaded capped GPUSHIM_STACK=sample:64K GPUSHIM_SUPPRESSIONS=capped -- \
    "$apps/churn_$1" 4000 1 keep 4096
  expect_count capped.err '^==[0-9]+==   not suppressed: about [3-5],[0-9]{3} allocations of 1[0-9]\.[0-9] MiB in all, more than leak:churn\.c max_bytes=1 ' 1
  expect_text capped.err 'SUMMARY: gpushim: 0 errors, 15\.6 MiB leaked in 4,000 allocations, 1 call site$'
}
for way in shared linked; do
  add_case "tracking sampled, suppressed $way" tracking_suppressed_case "$way"
done

# From that size on each has its stack, and is what it is.
tracking_always_case() {
  preloaded shim GPUSHIM_STACK=sample:1G,always:4K -- \
    "$apps/churn_shared" 100 1 keep 4096
  expect_count shim.err '^==[0-9]+== LEAK 1: 400 KiB in 100 allocations \(100 % of leaked\)$' 1
  expect_no_text shim.err 'LEAK.*about|without a call stack'
  preloaded less GPUSHIM_STACK=sample:1T,always:4K -- \
    "$apps/churn_shared" 100 1 keep 4095
  expect_count less.err '^==[0-9]+== 400 KiB in 100 allocations without a call stack' 1
  expect_no_text less.err 'LEAK'
}
add_case "tracking sampled, large ones always" tracking_always_case

# tracking_small_case WAY
tracking_small_case() {
  preloaded shim GPUSHIM_STACK=min:8K "${@:2}" -- "$apps/churn_$1" 100 4 keep 4096
  expect_count shim.err '^==[0-9]+== 400 KiB in 100 allocations of less than 8\.00 KiB \(GPUSHIM_STACK=min\)$' 1
  expect_no_text shim.err 'LEAK'
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 400 KiB leaked in 100 allocations, 0 call sites$' 1
  preloaded clean GPUSHIM_STACK=min:1G "${@:2}" -- "$apps/threads_$1"
  expect_clean clean.err
}
for way in shared linked; do
  add_case "tracking small ones $way" tracking_small_case "$way"
done
add_case "tracking small ones without the pool" tracking_small_case linked GPUSHIM_POOL=off

# Wrong frees are found whatever has a stack.
tracking_errors_case() {
  native native "$apps/badfree_$1"
  preloaded all -- "$apps/badfree_$1"
  preloaded some "${@:2}" -- "$apps/badfree_$1"
  expect_same native some
  grep -oE 'ERROR [0-9]+: [a-z ]+ of' all.err >expected
  grep -oE 'ERROR [0-9]+: [a-z ]+ of' some.err >found
  [[ -s expected ]] || fail "nothing is compared"
  cmp expected found || fail "other errors"
}
for setting in GPUSHIM_STACK=sample:1T GPUSHIM_STACK=min:1T GPUSHIM_STACK=free; do
  add_case "tracking errors $setting" tracking_errors_case shared "$setting"
done

# Files: the estimate where readers take values as they are, both in JSON.
tracking_files_case() {
  need python3
  preloaded shim GPUSHIM_STACK=sample:64K,min:1K \
    GPUSHIM_OUTPUT=json,pprof,collapsed GPUSHIM_OUTPUT_FILE=r -- \
    "$apps/churn_shared" 4000 1 keep 4096
  expect_status shim 0
  expect_count r.collapsed '^GPU 0;main;.*;replace [0-9]{8}$' 1
  expect_no_text r.collapsed 'not sampled'
  python3 -S "$here/report_json.py" validate "$sources/docs/schema/report-1.json" r.json
  case $? in
    77) echo "no jsonschema" ;;
    0) ;;
    *) fail "r.json is not as its schema says" ;;
  esac
  python3 -S - <<'END' || fail "r.json has other figures"
import json
report = json.load(open("r.json"))
assert report["recorded"]["sample_bytes"] == 65536, report["recorded"]
assert report["summary"]["leaked_bytes"] == 4000 * 4096
places, rest = report["leaks"], report["unplaced"]
assert sum(p["bytes"] for p in places + rest) == 4000 * 4096
assert all(p["likely_bytes"] == 0 for p in rest)
assert 10e6 < sum(p["likely_bytes"] for p in places) < 24e6
assert report["not_grouped"] == {"bytes": 0, "count": 0}
END
}
add_case "tracking sampled, files" tracking_files_case

tracking_pprof_case() {
  local reader

  read -ra reader <<<"$(profile_reader)"
  [[ ${#reader[@]} -gt 0 ]] || skip "pprof"
  preloaded shim GPUSHIM_STACK=sample:64K GPUSHIM_OUTPUT=pprof GPUSHIM_OUTPUT_FILE=r.pb -- \
    "$apps/churn_shared" 4000 1 keep 4096
  env HOME="$PWD" "${reader[@]}" -top -unit=b -sample_index=inuse_space r.pb >top 2>complaints ||
    { cat complaints && fail "pprof cannot read it"; }
  awk '$NF == "replace" && $1 + 0 > 10e6 && $1 + 0 < 24e6 { found = 1 } END { exit !found }' top ||
    { cat top && fail "pprof has no estimate"; }
}
add_case "tracking sampled, pprof" tracking_pprof_case

# The share of stacks is changed while the program runs. Would alone see: stacks weighed by the setting at the end, which
# makes what is known exactly a third of what it is, or what stands for others as small as it was sampled.
tracking_resampled_case() {
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json "${@:2}" -- "$apps/asked_$1" "$PWD/over" samples
  expect_status shim 0
  expect_count shim.out '^asked: STACK=.*: success$' 3
  expect_text shim.err 'LEAK .: 16[.]0 MiB in 4,096 allocations '
  expect_count shim.err 'LEAK .: about ([89]|1[0-9]|2[0-4])[.][0-9]+ MiB in .* by [0-9]+ sampled$' 2
  expect_text shim.err 'Note: the share of call stacks was changed, from .* on one in 256 KiB \(GPUSHIM_STACK=sample\): '
  expect_equal 'the changes' 3 "$(json_get run.json recorded sample_changes)"
}
for way in shared static linked; do
  add_case "tracking resampled $way" tracking_resampled_case "$way"
done
add_case "tracking resampled without the pool" tracking_resampled_case linked GPUSHIM_POOL=off
add_case "tracking resampled, sampled from the start" tracking_resampled_case linked GPUSHIM_STACK=sample:1M

# What is in the state file says the same.
tracking_state_case() {
  preloaded shim GPUSHIM_STACK=sample:64K GPUSHIM_STATE_FILE=state -- \
    "$apps/churn_shared" 4000 1 keep 4096
  state_report found state
  expect_status found 0
  expect_equal "the state file's leak" "$(grep -o 'LEAK 1: .*' shim.err)" \
    "$(grep -o 'LEAK 1: .*' found.out)"
  expect_equal "the state file's note" "$(grep -o 'Note: one .*' shim.err)" \
    "$(grep -o 'Note: one .*' found.out)"
  preloaded window GPUSHIM_TRACK=USR2 GPUSHIM_STATE_FILE=state2 -- "$apps/windows_shared"
  state_report found2 state2
  expect_equal "the state file's window" "$(grep -o 'recorded from .*' window.err)" \
    "$(grep -o 'recorded from .*' found2.out)"
}
add_case "tracking in a state file" tracking_state_case

# ---- stacks of frees -------------------------------------------------------------------

# tracking_free_stack_case WAY [SETTING...]
tracking_free_stack_case() {
  same_as_native "${@:2}" -- "$apps/badfree_$1" double
  expect_count shim.err '^==[0-9]+==   first freed at [0-9.]+ [mu]?s by thread [0-9]+$' 1
  expect_text shim.err '#0 free_twice +badfree\.c:22$'
  expect_no_text shim.err 'no call stack'
  preloaded off "${@:2}" GPUSHIM_STACK=free:off -- "$apps/badfree_$1" double
  expect_count off.err '^==[0-9]+==   first freed at .* \(no call stack recorded: GPUSHIM_STACK=free\)$' 1
}
for way in shared static linked; do
  add_case "tracking stacks of frees $way" tracking_free_stack_case "$way"
done
add_case "tracking stacks of frees, without the pool" tracking_free_stack_case shared GPUSHIM_POOL=off
add_case "tracking stacks of frees, lazily" \
  tracking_free_stack_case shared GPUSHIM_FREE_SYNC=lazy

# ---- a part of the run -----------------------------------------------------------------

# The program asks for it itself, in the middle.
# tracking_window_case WAY [SETTING...]
tracking_window_case() {
  same_as_native GPUSHIM_TRACK=later,USR2 "${@:2}" -- "$apps/windows_$1"
  expect_count shim.err '^gpushim: recording (started|stopped) at [0-9.]+ m?s by SIGUSR2; now ' 2
  expect_count shim.err '^==[0-9]+== recorded from [0-9.]+ m?s to [0-9.]+ m?s: allocations at other times' 1
  grep '^==' shim.err >report
  expect_leaks report "$sources/tests/apps/windows.c"
}
for way in shared static linked proc; do
  add_case "tracking a window $way" tracking_window_case "$way"
done
add_case "tracking a window without the pool" tracking_window_case shared GPUSHIM_POOL=off
add_case "tracking a window lazily" tracking_window_case linked GPUSHIM_FREE_SYNC=lazy
add_case "tracking a window of the async pool" tracking_window_case shared GPUSHIM_ASYNC=pool

# From the start to the first signal: what comes before it and is freed later is taken off.
tracking_stop_case() {
  preloaded shim GPUSHIM_TRACK=12 -- "$apps/windows_$1"
  expect_text shim.err '^==[0-9]+== recorded 2 times, first from 0 s, last from [0-9.]+ [mu]?s on: '
  leaks_found shim.err | sort >found
  grep -q '^before_it ' found || { cat found && fail "what was recorded at first is missing"; }
  grep -q '^after_it ' found || { cat found && fail "what was recorded at last is missing"; }
  grep -q '^inside_it ' found && fail "what was not recorded is reported"
  expect_equal places 2 "$(wc -l <found)"
}
add_case "tracking stopped and started" tracking_stop_case shared

# Seven signals: four windows.
tracking_many_case() {
  preloaded shim GPUSHIM_TRACK=later,SIGUSR2 -- "$apps/windows_$1" many
  expect_status shim 0
  expect_count shim.err '^gpushim: recording started ' 4
  expect_count shim.err '^gpushim: recording stopped ' 3
  expect_text shim.err '^==[0-9]+== recorded 4 times, first from '
  expect_text shim.err 'LEAK 1: 85\.0 KiB in 4 allocations \(100 % of leaked\)'
}
for way in shared linked; do
  add_case "tracking several windows $way" tracking_many_case "$way"
done

# Wrong frees are told of while it records, and blame nobody for what was not recorded.
tracking_wrong_case() {
  same_as_native GPUSHIM_TRACK=later,USR2 "${@:2}" -- "$apps/windows_$1" wrong
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: ' 2
  expect_count shim.err '^==[0-9]+== ERROR 1: double free of ' 1
  expect_count shim.err '^==[0-9]+== ERROR 2: invalid free of 0x1234500 ' 1
}
for way in shared static linked; do
  add_case "tracking wrong frees in a window $way" tracking_wrong_case "$way"
done
add_case "tracking wrong frees in a window, without the pool" \
  tracking_wrong_case linked GPUSHIM_POOL=off

# Never started: nothing recorded, no error, and the report says so.
# tracking_never_case PROGRAM [ARGUMENT...]
tracking_never_case() {
  same_as_native GPUSHIM_TRACK=later,RTMIN+3 -- "$apps/$1" "${@:2}"
  expect_only_report shim.err
  expect_count shim.err 'nothing was recorded: tracking was never started' 1
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites$' 1
  expect_equal lines 3 "$(wc -l <shim.err)"
}
for program in leaky_shared leaky_static badfree_linked pinned_shared managed_linked async_shared \
  graphmem_linked virtual_linked arrays_linked external_linked registered_shared; do
  add_case "tracking never started $program" tracking_never_case "$program"
done

# Eight threads allocate while another process sends the signal again and again: every
# record is taken off, and no free is taken for a wrong one.
# tracking_storm_case WAY [SETTING...]
tracking_storm_case() {
  same_as_native GPUSHIM_TRACK=USR2 GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE=log "${@:2}" -- \
    "$apps/windows_$1" storm 4000
  expect_quiet shim
  expect_text log '^gpushim: recording stopped '
  grep '^==' log >report
  expect_text report 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites$'
  awk '$2 == "traffic" && $3 != $5 { exit 1 }' report || { cat report && fail "counts are lost"; }
}
for way in shared static linked; do
  add_case "tracking switched in a storm $way" tracking_storm_case "$way"
done
add_case "tracking switched in a storm, without the pool" tracking_storm_case linked GPUSHIM_POOL=off
add_case "tracking switched in a storm, sampled" \
  tracking_storm_case linked GPUSHIM_STACK=sample:32K

# What the program does with a signal goes first; a child without CUDA ends by it.
tracking_own_case() {
  same_as_native GPUSHIM_TRACK=USR2 -- "$apps/windows_shared" own
  expect_text shim.err '^gpushim: GPUSHIM_TRACK=USR2: the program handles or ignores'
  same_as_native GPUSHIM_TRACK=USR2 -- "$apps/windows_shared" child
  expect_clean shim.err
}
add_case "tracking leaves the program its signals" tracking_own_case

# Forked children, threads that come and go: as without.
tracking_fork_case() {
  same_as_native GPUSHIM_TRACK=later,USR2 -- "$apps/fork_$1"
  preloaded sampled GPUSHIM_STACK=sample:4K,free -- "$apps/fork_$1"
  expect_same native sampled
}
for way in shared linked; do
  add_case "tracking in forked children $way" tracking_fork_case "$way"
done

# ---- bad inputs --------------------------------------------------------------------------

# tracking_bad_case LINE SETTING...: that line and no other, and the program is as without.
tracking_bad_case() {
  same_as_native "${@:2}" -- "$apps/pinned_shared"
  expect_count shim.err '^gpushim: ' 1
  expect_text shim.err "^gpushim: $1"
}
for item in sample min always table; do
  add_case "tracking bad $item" \
    tracking_bad_case "GPUSHIM_STACK=$item:-1: not in " "GPUSHIM_STACK=$item:-1"
done
add_case "tracking STACK_TABLE out of range" \
  tracking_bad_case 'GPUSHIM_STACK=table:4K: not in ' GPUSHIM_STACK=table:4K
add_case "tracking bad TRACK_START" \
  tracking_bad_case 'GPUSHIM_TRACK=sooner: not a switch' GPUSHIM_TRACK=sooner
add_case "tracking bad STACK_FREE" \
  tracking_bad_case 'GPUSHIM_STACK=free:2: not one of auto, on, off' GPUSHIM_STACK=free:2
for value in KILL 9 SEGV RTMIN+99 USR2x; do
  add_case "tracking bad signal $value" tracking_bad_case \
    "GPUSHIM_TRACK=${value/+/[+]}: not one of on, off, later, a signal such as USR1; left out" "GPUSHIM_TRACK=on,$value"
done
add_case "tracking by the other signal" tracking_bad_case \
  'GPUSHIM_TRACK=10: GPUSHIM_REPORT_ON has that signal; ignored' \
  GPUSHIM_TRACK=10 GPUSHIM_REPORT_ON=exit,oom,USR1
add_case "tracking by a signal, off" tracking_bad_case \
  'GPUSHIM_TRACK=USR2: with off there is nothing' \
  GPUSHIM_TRACK=off,USR2
add_case "tracking without a start" tracking_bad_case \
  'GPUSHIM_TRACK=later: without a signal nothing starts the recording' GPUSHIM_TRACK=later
add_case "tracking large ones always, alone" tracking_bad_case \
  'GPUSHIM_STACK=always:1048576: without GPUSHIM_STACK=sample' \
  GPUSHIM_STACK=always:1M
add_case "tracking sampled, no stacks" tracking_bad_case \
  'GPUSHIM_STACK=sample:4096: with GPUSHIM_STACK=off' \
  GPUSHIM_STACK=sample:4K,off
add_case "tracking small ones against large ones" tracking_bad_case \
  'GPUSHIM_STACK=always:1024: less than GPUSHIM_STACK=min' \
  GPUSHIM_STACK=sample:1M,always:1K,min:2K

# ---- memory of our own -------------------------------------------------------------------

# Allocations without end from many places: the process is as large at the end as at a
# third. scripts/test --full takes 10 million.
# tracking_flat_case [SETTING...]
tracking_flat_case() {
  local count=${E2E_CHURN:-1000000}

  same_as_native "$@" -- "$apps/churn_linked" "$count" 4096
  expect_no_text shim.out grew
}
add_case "tracking memory stays flat" tracking_flat_case
add_case "tracking memory stays flat, sampled" tracking_flat_case GPUSHIM_STACK=sample:64K
add_case "tracking memory stays flat, with stacks of frees" tracking_flat_case GPUSHIM_STACK=free
add_case "tracking memory stays flat, with sums" tracking_flat_case GPUSHIM_OUTPUT=pprof \
  GPUSHIM_OUTPUT_FILE=/dev/null

# More stacks than there is memory for: the rest has none, and a line says so. What was
# allocated is all there.
tracking_full_case() {
  preloaded shim GPUSHIM_STACK=table:1M,depth:64 GPUSHIM_LEAK_MAX=1 -- \
    "$apps/churn_$1" 40000 30000 keep 256
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err 'Note: the table of call stacks is full \(GPUSHIM_STACK=table\): [0-9,]+ calls found no room for a new one$' 1
  expect_text shim.err 'SUMMARY: .* 9\.77 MiB leaked in 40,000 allocations, '
  expect_text shim.err 'no call stack was recorded$'
  preloaded room GPUSHIM_LEAK_MAX=1 GPUSHIM_STACK=depth:64 -- \
    "$apps/churn_$1" 40000 30000 keep 256
  expect_no_text room.err 'is full|no call stack'
  expect_text room.err ' 30,000 call sites$'
}
add_case "tracking more stacks than fit" tracking_full_case shared
