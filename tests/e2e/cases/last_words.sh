# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# last_words.sh - the process is ended once more while its report is being written: whoever
# comes second waits for the report, as long as it gets on.

# last_words HOW [VARIABLE...]: the helper for files and lines lets the program know that it has
# been asked, and takes a second to say nothing. What the variable helper says comes first.
last_words() {
  need_file "$apps/lastwords_linked"
  mkdir helpers
  printf '#!/bin/sh\n%s\n: >%q/asked\nsleep 1\n' "${helper:-}" "$PWD" >helpers/llvm-symbolizer
  chmod 755 helpers/llvm-symbolizer
  preloaded shim PATH="$PWD/helpers:$PATH" GPUSHIM_PEAK_MAX=0 GPUSHIM_SYMBOLIZE=timeout:20s \
    GPUSHIM_STATE_FILE=state GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json "${@:2}" \
    -- "$apps/lastwords_linked" "$1"
}

# expect_last_words: the report and the files are whole, and the state file says so.
expect_last_words() {
  [[ $(<shim.status) == [56] ]] || fail "status $(<shim.status)"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 1000 B leaked in 1 allocation' 1
  [[ -s report.json ]] || fail "no report.json"
  grep -qa 'exit 5' state || fail "no ending in the state file"
}

# A handler on another thread ends the process, between that thread's calls.
last_words_other_case() {
  last_words "$1"
  expect_last_words
}
for how in exit _exit; do
  add_case "last words $how in a handler of another thread" last_words_other_case $how
done

# The same amidst a call of that thread, which it can then write no report for.
last_words_inside_case() {
  last_words inside GPUSHIM_FREE_SYNC=wait
  [[ $(<shim.status) == [56] ]] || fail "status $(<shim.status)"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, [0-9.]+ [KiB]+ leaked' 1
  grep -qa 'exit 5' state || fail "no ending in the state file"
}
add_case "last words exit in a handler amidst a call" last_words_inside_case

# On the thread that writes the report nobody waits for it, and the state file has no ending.
last_words_same_case() {
  last_words "$1"
  expect_status shim 6
  expect_no_text shim.err 'SUMMARY'
  expect_count shim.err '^gpushim: the report is cut off: a signal handler' 1
  ! grep -qaE 'exit [56]' state || fail "an ending in the state file"
}
for how in same _same; do
  add_case "last words $how thread" last_words_same_case $how
done

# A thread that stands still, or is no more, does not keep the process for ever.
last_words_stuck_case() {
  last_words "$1" GPUSHIM_SYMBOLIZE=timeout:1s
  expect_status shim 6
  expect_no_text shim.err 'SUMMARY'
  ! grep -qaE 'exit [56]' state || fail "an ending in the state file"
}
for how in stuck gone; do
  add_case "last words $how" last_words_stuck_case $how
done

# Killed within the report: the state file has no ending, and still all that the report needs.
last_words_killed_case() {
  # shellcheck disable=SC2016  # the helper's parent
  local helper='kill -9 $PPID'

  last_words same
  expect_status shim 137
  expect_no_text shim.err 'SUMMARY'
  [[ ! -e report.json ]] || fail "report.json is there"
  run_in report -- "$build/gpushim" report state
  expect_text report.out 'ended without a report$'
  expect_count report.out '^==[0-9]+== SUMMARY: gpushim: 0 errors, 1000 B live in 1 allocation, 1 call site; ended without a report$' 1
}
add_case "last words of a program that is killed" last_words_killed_case

# A reader who takes the report bit by bit gets all of it, also where another thread waits.
last_words_slow_reader_case() {
  need python3
  need_file "$apps/lastwords_linked"
  cat >reader.py <<'PYTHON'
import fcntl, os, subprocess, sys, time
reader, writer = os.pipe()
fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
child = subprocess.Popen(sys.argv[1:], stderr=writer)
os.close(writer)
while text := os.read(reader, 256):
    sys.stdout.buffer.write(text)
    time.sleep(0.08)
sys.exit(child.wait())
PYTHON
  run_in shim -- python3 -S reader.py env LD_PRELOAD="$shim" GPUSHIM_SYMBOLIZE=off,timeout:10ms \
    GPUSHIM_PEAK_MAX=0 GPUSHIM_LEAK_MAX=1000 GPUSHIM_STATE_FILE=state GPUSHIM_STACK=depth:64 "$apps/lastwords_linked" places
  [[ $(<shim.status) == [56] ]] || fail "status $(<shim.status)"
  [[ $(wc -c <shim.out) -gt 20000 ]] || fail "too short to take long"
  expect_count shim.out '^==[0-9]+== SUMMARY: gpushim: 0 errors, 58.6 KiB leaked in 60 allocations' 1
  grep -qaE 'exit [56]' state || fail "no ending in the state file"
}
add_case "last words to a slow reader" last_words_slow_reader_case
