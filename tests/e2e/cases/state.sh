# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# state.sh - GPUSHIM_STATE_FILE: what a program had that was killed, by gpushim report.

# state_report PREFIX [VAR=value...] FILE...: the report of state files, in PREFIX.out.
state_report() {
  local prefix=$1 settings=()

  shift
  while [[ $1 == *=* ]]; do
    settings+=("$1")
    shift
  done
  need_file "$build/gpushim"
  run_in "$prefix" "${settings[@]}" -- "$build/gpushim" report "$@"
}

# Killed while two threads allocate: everything planted is named, and where it was killed.
state_killed_case() {
  preloaded shim GPUSHIM_STATE_FILE=state "${@:2}" -- "$apps/killed_$1" kill
  expect_status shim 137
  expect_quiet shim
  state_report found GPUSHIM_VERBOSE=2 state
  expect_status found 0
  expect_quiet found
  expect_only_report found.out
  expect_text found.out '^==[0-9]+== gpushim [0-9.]+: .*killed_[a-z]+ kill .*  ended without a report$'
  expect_text found.out '^==[0-9]+== from state, started 2[0-9]{3}-.*; run time until the last'
  expect_text found.out '^==[0-9]+==   traffic +[0-9,]+ allocs  [0-9,]+ frees$'
  expect_text found.out '^==[0-9]+== GPU 0 Simulated'
  expect_planted found.out "$sources/tests/apps/killed.c"
  expect_text found.out '^==[0-9]+== GPU 0 .*: [0-9.]+ MiB live at [0-9]+ call sites, peak '
  expect_no_text found.out 'at exit|leaked|LEAK'
  expect_pool found.out "${@:2}"
}

# expect_pool FILE [SETTING...]: what the pool did for a program that was killed, lately:
# each request was served by somebody, and none is in it that was not made.
expect_pool() {
  local file=$1 sum=0 allocs

  if [[ " $* " == *' GPUSHIM_POOL=off '* ]]; then
    expect_no_text "$file" '^==[0-9]+== (Pool of|  served by) '
    return
  fi
  expect_count "$file" '^==[0-9]+== Pool of GPU 0: reserved [0-9.]+ MiB.*, hit rate [0-9.]+ %' 1
  expect_count "$file" '^==[0-9]+==   driver +[0-9,]+ calls? took .* saved$' 1
  sum=$(sed -nE 's/^==[0-9]+==   served by //p' "$file" | grep -oE '[0-9,]+' | tr -d , |
    awk '{ sum += $1 } END { print sum }')
  allocs=$(sed -nE '/ GPU 0 /,/ Pinned /s/^==[0-9]+==   traffic +([0-9,]+) allocs?.*/\1/p' \
    "$file" | tr -d ,)
  ((sum > allocs / 10)) || fail "$sum requests of $allocs are in the pool's figures"
  # Two threads are in the middle of a call each.
  ((sum <= allocs + 2)) || fail "$sum requests, and $allocs allocations"
}
# A crash ends the program as natively; its memory was live.
state_crash_case() {
  same_as_native GPUSHIM_STATE_FILE=state -- "$apps/killed_$1" crash
  expect_status native 139
  expect_quiet shim
  state_report found state
  expect_count found.out '^==[0-9]+== Note: The process ended without a report[.] This is its memory' 1
  expect_text found.out '^==[0-9]+== LIVE 1: 6\.00 MiB in 1 allocation '
  expect_text found.out '^==[0-9]+== SUMMARY: gpushim: 0 errors, [0-9.]+ MiB live in [0-9]+ allocations, [0-9]+ call sites; ended without a report$'
  preloaded over GPUSHIM_STATE_FILE=over -- "$apps/killed_$1"
  state_report found over
  expect_no_text found.out 'Note: a signal'
  expect_text found.out '^==[0-9]+== from over, started '
}
for way in shared linked; do
  add_case "state of a crash $way" state_crash_case "$way"
done

# The reader is a program by itself: without the library beside it, it writes the same.
state_alone_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  need_file "$build/gpushim"
  cp "$build/gpushim" reader
  run_in alone -- ./reader report state
  expect_status alone 0
  expect_quiet alone
  expect_planted alone.out "$sources/tests/apps/killed.c"
}
add_case "state reader alone" state_alone_case

# A parent that never waits leaves the killed program as a zombie: it has ended.
state_zombie_case() {
  local parent zombie

  need_file "$build/gpushim"
  cat >parent <<SH
LD_PRELOAD=$shim LD_LIBRARY_PATH=$cuda_path GPUSHIM_STATE_FILE=state $apps/killed_shared kill >out 2>err &
echo \$! >child
exec sleep 60
SH
  sh parent &
  parent=$!
  await 30 test -s child
  await 30 grep -q ') Z ' "/proc/$(<child)/stat"
  zombie=$?
  run_in found -- "$build/gpushim" report state
  kill "$parent"
  wait "$parent" 2>/dev/null
  [[ $zombie -eq 0 ]] || fail 'the program is no zombie'
  expect_text found.out 'ended without a report'
}
add_case "state of a zombie" state_zombie_case

for way in shared static linked proc; do
  add_case "state killed $way" state_killed_case "$way"
done
add_case "state killed lazily" state_killed_case shared GPUSHIM_FREE_SYNC=lazy
add_case "state killed without the pool" state_killed_case linked GPUSHIM_POOL=off
add_case "state killed with frame pointers" state_killed_case shared GPUSHIM_STACK=fp

# A report without times that go on.
state_lines() {
  grep -vE '^==[0-9]+== (gpushim |from )' "$1" |
    sed -E 's/, (age|oldest) [0-9a-z. ]+(, newest [0-9a-z. ]+)?//; s/ .GPUSHIM_FREE_SYNC=lazy.*//; s/ (at|freed at) [0-9.]+( ?[mu]?s|m)[0-9a-z]*//g' |
    awk '!(/^==[0-9]+==$/ && last ~ /^==[0-9]+==$/) { print } { last = $0 }' | sed '1{/^==[0-9]*==$/d}'
}

# Of a program that the command gpushim ran, the file and the command say the same: killed, and by what; or that it
# ended itself, without a report. GPUSHIM_ERROR_EXITCODE counts what is live, too.
# state_seen_case WAY LIVE|LEAK ENDING FATE
state_seen_case() {
  run_in shim GPUSHIM_LIBRARY="$shim" RANK=3 CUDASIM_DEVICES=1 -- "$build/gpushim" --watch=parent --state-file=state \
    "$apps/ends_shared" "$1"
  state_report found GPUSHIM_ERROR_EXITCODE=23 state
  expect_status found 23
  expect_text found.out "^==[0-9]+== gpushim .*  $3\$"
  expect_count found.out "^==[0-9]+== $2 1: 3[.]00 MiB in 1 allocation " 1
  expect_text found.out "^==[0-9]+== SUMMARY: gpushim: 0 errors, 3[.]00 MiB $4 in 1 allocation, 1 call site\$"
  for file in shim.err found.out; do
    grep -vE '^==[0-9]+== (gpushim |from |written by |GPU |Pool )' "$file" | sed -E 's/, age [0-9a-z. ]+//' >"$file.same"
  done
  cmp -s shim.err.same found.out.same || { diff -u shim.err.same found.out.same; fail "the file says something else"; }
  run_in merged -- "$build/gpushim" merge state
  expect_text merged.out "^gpushim: .*  $3 +/"
  run_in shown -- "$build/gpushim" top --once state
  expect_text shown.out "[(]$3[)] rank 3: "
}
add_case "state of an end that the command saw: kill" state_seen_case kill LIVE 'killed by SIGKILL' \
  'live when killed by SIGKILL [(]rank 3[)]'
add_case "state of an end that the command saw: abort" state_seen_case abort LIVE 'killed by SIGABRT' \
  'live when killed by SIGABRT [(]rank 3[)]'
add_case "state of an end that the command saw: exit_group" state_seen_case raw9 LEAK 'exit_group 9' leaked

# What is in the file is what was reported at the end, but for who held the peaks, and the
# pool by size.
state_same_case() {
  preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE=log \
    GPUSHIM_LEAK_MAX=1000 GPUSHIM_PEAK_MAX=0 "${@:2}" -- "$apps/$1"
  state_report found GPUSHIM_LEAK_MAX=1000 GPUSHIM_VERBOSE=2 state
  expect_status found 0
  expect_quiet found
  grep '^==' log | grep -vE '^==[0-9]+==   (free space |by size |  [0-9].* in [0-9,]+ +[0-9])' >at_exit
  state_lines at_exit >expected
  state_lines found.out >lines
  [[ -s lines ]] || fail "nothing is compared"
  cmp -s expected lines && return
  diff -u expected lines | head -n 60
  fail "the state file has another report"
}
for program in leaky badfree reset threads async managed pinned arrays external \
  registered virtual graphmem devices context vmm hostpools; do
  for way in shared linked; do
    [[ $program =~ ^(context|vmm)$ && $way == shared ]] && continue
    add_case "state same as at exit $program $way" state_same_case "${program}_$way"
  done
done
add_case "state same as at exit in mode pool" state_same_case async_shared GPUSHIM_ASYNC=pool
add_case "state same as at exit without stacks" state_same_case leaky_shared GPUSHIM_STACK=off

# The pool's figures of programs that were killed are of a moment that is told.
state_as_of_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_linked" many 50000
  state_report found state
  expect_count found.out '^==[0-9]+== Pool of GPU 0: reserved .*hit rate [0-9.]+ %(, rounding waste [0-9.]+ %)?(, as of [0-9.]+ m?s)?$' 1
  preloaded over GPUSHIM_STATE_FILE=over -- "$apps/leaky_linked"
  state_report found over
  expect_text found.out '^==[0-9]+== Pool of GPU 0: reserved '
  expect_no_text found.out ', as of '
}
add_case "state figures of which moment" state_as_of_case

# What held more and more when it was last looked at.
state_growth_case() {
  local pid

  start_preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_INTERVAL=stats:200ms -- "$apps/growing_$1" 100
  pid=$!
  await 20 grep -q 'GROWING 1' shim.err
  kill -KILL "$pid"
  wait "$pid"
  state_report found state
  expect_only_report found.out
  expect_text found.out '; run time until the last allocation, free or sample$'
  expect_count found.out '^==[0-9]+== last sample at [0-9:.]+ UTC \([0-9.]+ m?s\): [0-9.]+ MiB live in [0-9]+ allocations, [-+][0-9.]+ [KM]iB in the last [0-9.]+ ms \([0-9.]+ [KM]iB/s\)$' 1
  expect_count found.out '^==[0-9]+== GROWING 1: [+][0-9.]+ [KM]iB in the last [0-9.]+ m?s \([0-9.]+ [KM]iB/s\), in [0-9]+ of [0-9]+ samples; now ' 1
  awk '/ GROWING / { growing = 1 } growing && $2 == "#0" { print $3; growing = 0 }' found.out >places
  expect_text places '^keep_session$'
  expect_no_text places '^(load_model|refill_cache)$'
  expect_text found.out '^==[0-9]+== LIVE .*, still growing$'
}
for way in shared linked; do
  add_case "state of what grows $way" state_growth_case "$way"
done

state_python_case() {
  need python3
  python3 -S -c 'import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 14))' ||
    skip "CPython 3.8 to 3.13"
  preloaded shim PYTHONUTF8=1 GPUSHIM_STATE_FILE=state GPUSHIM_LEAK_MAX=1000 -- \
    python3 -SB "$sources/tests/apps/python/planted.py"
  state_report found GPUSHIM_LEAK_MAX=1000 state
  grep '^==' shim.err >at_exit
  state_lines at_exit | grep -v '^==[0-9]*== GPU 0' >expected
  state_lines found.out | grep -v '^==[0-9]*== GPU 0' >lines
  expect_text lines '[.]py:[0-9]+$'
  expect_equal "Python's places" "$(grep -E '[.]py:' expected)" "$(grep -E '[.]py:' lines)"
}
add_case "state of a Python program" state_python_case

# While it runs: live, and no leak.
state_running_case() {
  local pid

  start_preloaded shim GPUSHIM_STATE_FILE=state -- timeout 100 "$apps/killed_$1" ask over
  pid=$!
  await 25 grep -q planted shim.out
  state_report found state
  state_report summary --summary state
  : >over
  wait "$pid"
  expect_text summary.out '^gpushim: +[0-9]+ +- +[0-9.]+ MiB +[0-9.]+ MiB +- +[0-9,]+ +0  runs +[^ ]*/killed_'
  expect_only_report found.out
  expect_text found.out '^==[0-9]+== gpushim [0-9.]+: .*  runs$'
  expect_text found.out '^==[0-9]+== LIVE 1: 6\.00 MiB in 1 allocation '
  expect_text found.out '; still running$'
  expect_no_text found.out 'LEAK'
  state_report found state
  expect_text found.out '^==[0-9]+== gpushim [0-9.]+: .*  exit 0$'
  expect_text found.out 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for way in shared linked; do
  add_case "state while it runs $way" state_running_case "$way"
done

# Files that something empties while the program runs, as log rotation does: the program
# goes on, and nothing is lost; before, the next call ended it by SIGBUS.
# state_emptied_case COMMAND: what empties them
state_emptied_case() {
  local pid

  start_preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_TRACE_FILE=trace -- "$apps/killed_shared" ask over
  pid=$!
  await 25 grep -q planted shim.out
  eval "$1"
  : >over
  wait "$pid"
  expect_equal "status" 0 "$?"
  expect_clean shim.err
  expect_equal "data files" '' "$(find . -name '*.data')"
  state_report found state
  expect_text found.out '^==[0-9]+== gpushim [0-9.]+: .*  exit 0$'
  expect_text found.out 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  "$build/gpushim" replay --to-csv trace >trace.csv || fail "the trace"
  expect_equal "recorded allocations" 7 "$(grep -c ',a,' trace.csv)"
}
add_case "state emptied while it runs" state_emptied_case ': >state; : >trace'
add_case "state cut while it runs" state_emptied_case 'truncate -s 12 state; truncate -s 3 trace'
add_case "state removed while it runs" state_emptied_case 'rm state trace'
add_case "state moved while it runs" state_emptied_case 'mv state old; mv trace older'

# Emptied, and then killed: the data is found.
state_emptied_killed_case() {
  local pid

  start_preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_TRACE_FILE=trace -- "$apps/killed_shared" ask over
  pid=$!
  await 25 grep -q planted shim.out
  "$@"
  kill -KILL "$pid"
  wait "$pid"
  state_report found state
  expect_text found.out '  ended without a report$'
  expect_planted found.out "$sources/tests/apps/killed.c"
  "$build/gpushim" replay --to-csv trace >trace.csv || fail "the trace"
  expect_equal "recorded allocations" 7 "$(grep -c ',a,' trace.csv)"
}
add_case "state killed, with its data beside it" state_emptied_killed_case true
add_case "state emptied and killed" state_emptied_killed_case truncate -s 0 state trace

# Another file has the name by now: neither is lost, and a line says where the data is.
state_replaced_case() {
  local pid

  start_preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" ask over
  pid=$!
  await 25 grep -q planted shim.out
  rm state
  echo mine >state
  : >over
  wait "$pid"
  expect_equal "status" 0 "$?"
  expect_equal "another's file" mine "$(<state)"
  expect_count shim.err '^gpushim: GPUSHIM_STATE_FILE=.*/state: exists; the data is in .*/state\.data$' 1
  state_report found state.data
  expect_text found.out '  exit 0$'
}
add_case "state of a name that is taken meanwhile" state_replaced_case

# A copy of the name alone, and a link to the name.
state_copied_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  mkdir folder
  cp state folder/copy
  ln -s ../state folder/link
  state_report found folder/copy folder/link
  expect_count found.err '^gpushim: folder/copy: its data is missing: copy NAME\.data with it; no report$' 1
  expect_planted found.out "$sources/tests/apps/killed.c"
}
add_case "state copied without its data" state_copied_case

state_reset_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_$1" reset
  state_report found state
  expect_text found.out '^==[0-9]+== GPU 0 .* live .*\(6\.01 MiB live at reset\), peak '
  expect_text found.out '^==[0-9]+== LIVE 1: 12\.0 MiB in 2 allocations|^==[0-9]+== LIVE 2: 6\.00 MiB in 1 '
  preloaded shim GPUSHIM_STATE_FILE=state2 -- "$apps/killed_$1" wrong
  state_report found state2
  expect_text found.out '^==[0-9]+== ERROR 1: double free of '
  expect_text found.out '#0 free_wrongly +killed\.c:[0-9]+$'
  expect_text found.out 'SUMMARY: gpushim: 1 error, 0 B live'
}
for way in shared linked; do
  add_case "state of what was lost and of errors $way" state_reset_case "$way"
done

# It cannot become another program, and is killed later.
state_exec_case() {
  echo '#!/nowhere/at/all' >bad
  chmod +x bad
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_linked" exec "$PWD/bad"
  expect_count shim.err '  exec .*/bad$' 1
  state_report found state
  expect_text found.out '  ended without a report$'
  expect_planted found.out "$sources/tests/apps/killed.c"
}
add_case "state after an exec that fails" state_exec_case

# A child has a file of its own, by %p or beside its parent's.
state_fork_case() {
  preloaded shim GPUSHIM_STATE_FILE="$2" -- "$apps/killed_$1" fork
  expect_equal "files" 2 "$(find . -name 'state*' ! -name '*.data' | wc -l)"
  for file in $(find . -name 'state*' ! -name '*.data'); do
    state_report found "$file"
    expect_planted found.out "$sources/tests/apps/killed.c"
  done
}
add_case "state of a child by its pattern" state_fork_case shared state.%p
add_case "state of a child beside its parent's" state_fork_case linked state

# Forked while other threads record: neither is in the other's way, and no child has a file.
state_fork_race_case() {
  same_as_native GPUSHIM_STATE_FILE=state.%p -- "$apps/forkrace_$1" calls
  state_report found state.*
  expect_text found.out '  exit 0$'
  expect_no_text found.out 'ended without a report'
}
for way in shared linked; do
  add_case "state of forks among calls $way" state_fork_race_case "$way"
done

# One that has served is replaced; what was killed, and what is no state file, stays.
state_names_case() {
  preloaded one GPUSHIM_STATE_FILE=state -- "$apps/leaky_shared"
  preloaded two GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  expect_no_text two.err 'exists'
  preloaded three GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  expect_count three.err '^gpushim: GPUSHIM_STATE_FILE=.*/state: exists; writing .*/state\.[0-9]+$' 1
  state_report found state state.*
  expect_count found.out '  ended without a report$' 2
  preloaded again GPUSHIM_STATE_FILE=over -- "$apps/leaky_shared"
  preloaded again GPUSHIM_STATE_FILE=over -- "$apps/leaky_shared"
  expect_equal "one that has served is replaced" over "$(echo over*)"
  ln -s nowhere link
  preloaded link GPUSHIM_STATE_FILE=link -- "$apps/leaky_shared"
  expect_count link.err 'link: exists; writing .*/link\.[0-9]+$' 1
  [[ ! -e nowhere ]] || fail "a link was followed"
  echo mine >text
  preloaded four GPUSHIM_STATE_FILE=text -- "$apps/leaky_shared"
  expect_count four.err 'text: exists; writing .*/text\.[0-9]+$' 1
  expect_equal "another's file" mine "$(<text)"
  expect_text found.out 'LIVE 1'
}
add_case "state names" state_names_case

state_outputs_case() {
  local ended

  need python3
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  ended=$(($(date +%s) + 1))
  sleep 1
  state_report found GPUSHIM_OUTPUT=json,collapsed GPUSHIM_OUTPUT_FILE=out \
    GPUSHIM_ERROR_EXITCODE=7 state
  expect_status found 7
  python3 -S -c '
import json
import sys
report = json.load(open("out.json"))
assert "killed_shared kill" in json.dumps(report), report
assert "keep_large" in json.dumps(report)
assert report["process"]["program"].endswith("/killed_shared"), report["process"]
assert not report["process"]["running"]
assert report["time"]["end_unix_ms"] <= int(sys.argv[1]) * 1000, report["time"]
gpu = report["devices"][0]
assert gpu["pool"]["hits"] > 0 and gpu["pool"]["reserved_bytes"] > 0, gpu
assert gpu["not_allocated_via_api_bytes"] is None, gpu
assert report["summary"]["allocs"] > 20000 and report["summary"]["peak_bytes"] > 6291456
' "$ended" || fail "out.json"
  expect_text out.collapsed 'keep_large'
  echo 'leak:keep_*' >rules
  state_report found GPUSHIM_SUPPRESSIONS=rules state
  expect_no_text found.out '#0 keep_'
  expect_text found.out 'Suppressed: '
}
add_case "state to other formats" state_outputs_case

# ---- What cannot be read or written ---------------------------------------------------

state_bad_case() {
  local length

  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  mkdir folder
  : >empty
  echo text >text
  mv state.data state
  for length in 7 100 5000 60000; do
    head -c "$length" state >"cut$length"
  done
  head -c 8 state >other
  head -c 8 /dev/zero >>other
  tail -c +17 state >>other
  cp empty 4712
  state_report process 4711 4712 # a process is asked by another command; a file may have a number as its name
  expect_status process 1
  expect_equal 'a process, a file' "gpushim: 4711: no such file or directory; no report (of a running process: gpushim dump 4711)
gpushim: 4712: not a state file of gpushim; no report" "$(<process.err)"
  state_report found missing folder empty text cut7 cut100 cut5000 cut60000 other state
  expect_status found 1
  expect_count found.out 'SUMMARY: gpushim:' 1
  expect_count found.err '^gpushim: .*; no report$' 9
  expect_text found.err '^gpushim: missing: no such file or directory; no report$'
  expect_text found.err '^gpushim: folder: not a regular file; no report$'
  expect_text found.err '^gpushim: empty: not a state file of gpushim; no report$'
  expect_text found.err '^gpushim: text: not a state file of gpushim; no report$'
  expect_text found.err '^gpushim: cut7: not a state file of gpushim; no report$'
  expect_text found.err '^gpushim: cut5000: cut short; no report$'
  expect_text found.err '^gpushim: other: of another build of gpushim; no report$'
}
add_case "state files that cannot be read" state_bad_case

# cut_lines PREFIX STATUS LINE: the command said this, and nothing of the file's.
cut_lines() {
  expect_status "$1" "$2"
  expect_equal "what $1 says" "$3" "$(<"$1.err")"
}

# A copy that ends after the tracker's own data and before what was allocated since: alone it would see a file that
# is read as one of fewer allocations. Its bytes past those in use are no loss.
state_cut_case() {
  local length used words

  preloaded shim GPUSHIM_STATE_FILE=whole -- "$apps/leaky_shared"
  mkdir states
  used=$(od -An -tu8 -j48 -N8 whole)
  for length in $((used * 12 / 20)) $((used * 15 / 20)) $((used * 18 / 20)) $((used - 1)); do
    head -c "$length" whole >states/cut
    state_report one GPUSHIM_ERROR_EXITCODE=3 states/cut
    cut_lines one 1 'gpushim: states/cut: cut short; no report'
    run_in two -- "$build/gpushim" diff --fail-on=new,grown whole states/cut
    cut_lines two 1 'gpushim: states/cut: cut short; nothing is compared'
    run_in page -- "$build/gpushim" html states/cut
    cut_lines page 1 'gpushim: states/cut: cut short; no HTML written'
    run_in now -- "$build/gpushim" top states/cut
    cut_lines now 1 'gpushim: states/cut: cut short'
    [[ ! -s one.out && ! -s two.out ]] || fail "something of a file that is cut"
  done
  head -c "$used" whole >enough
  state_report used GPUSHIM_ERROR_EXITCODE=3 enough
  expect_status used 3
  cp whole states/whole
  for words in 'states/cut states/whole' states; do
    # shellcheck disable=SC2086  # two words
    run_in sum -- "$build/gpushim" merge $words
    cut_lines sum 1 'gpushim: states/cut: cut short; left out'
    expect_text sum.out '^gpushim: +[0-9]+ +- +30[.]3 MiB +28[.]5 MiB '
  done
}
add_case "state that is cut short" state_cut_case

# Cut anywhere, or with any bytes changed, it says something and ends in order.
state_damaged_case() {
  need python3
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  mv state.data state
  SEED=$1 FILES=$(sized 30 60) python3 -S -c '
import os, random
random.seed(int(os.environ["SEED"]))
good = open("state", "rb").read()
used = int.from_bytes(good[48:56], "little")
for i in range(int(os.environ["FILES"])):
    data = bytearray(good)
    if i % 4 == 0:
        data = data[:random.randrange(len(data))]
    for _ in range(random.choice((1, 10, 1000, 30000))):
        at = random.randrange(16, len(data)) if len(data) > 16 else 0
        if len(data) > 16:
            data[at] = random.randrange(256)
    for _ in range(random.choice((0, 100, 10000))):
        at = random.randrange(8, max(9, len(data) // 8 - 1)) * 8
        word = random.choice((0, 1, 2**64 - 1, 2**32 - 1, random.getrandbits(48),
                              int.from_bytes(good[32:40], "little") + random.randrange(len(good))))
        if at > 15 and at + 8 <= len(data):
            data[at:at + 8] = word.to_bytes(8, "little")
    open("bad%d" % i, "wb").write(data)
' || fail "cannot damage"
  for file in bad*; do
    state_report found GPUSHIM_SYMBOLIZE=off "$file"
    [[ $(<found.status) =~ ^[01]$ ]] || fail "$file: status $(<found.status)"
    grep -qE 'SUMMARY: gpushim:|; no report$|still running( then)?$' found.out found.err ||
      fail "$file: nothing was said"
  done
}
add_case "state damaged 1" state_damaged_case 1
add_case "state damaged 2" state_damaged_case 2

state_unwritable_case() {
  same_as_native GPUSHIM_STATE_FILE="$1" -- "$apps/leaky_shared"
  expect_count shim.err "^gpushim: GPUSHIM_STATE_FILE=.*: $2; not written\$" 1
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 28\.5 MiB leaked'
}
add_case "state in a folder that is not there" state_unwritable_case /nowhere/state 'cannot be created: .*'
add_case "state under a name that is too long" state_unwritable_case \
  "$(printf '%0300d' 7)" 'cannot be created: .*'

# The file may not grow any more; what was recorded by then is there.
state_limit_case() {
  native native "$apps/killed_linked" many 50000
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_linked" many 50000 6815744
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_STATE_FILE=.*: cannot grow: file too large; allocations from now on ' 1
  expect_equal "lines" 1 "$(wc -l <shim.err)"
  state_report found state
  expect_text found.out '; it could not grow and is incomplete$'
  expect_text found.out '^==[0-9]+== LIVE 1: .* in [0-9,]+ allocations'
}
add_case "state larger than files may become" state_limit_case

state_off_case() {
  preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_TRACK=off -- "$apps/leaky_shared"
  expect_count shim.err 'GPUSHIM_STATE_FILE=state: with GPUSHIM_TRACK=off there is nothing to keep' 1
  [[ ! -e state ]] || fail "a file was made"
}
add_case "state without tracking" state_off_case

# A folder is no name of a file, nor is a file beside it what was meant.
state_folder_case() {
  mkdir folder
  ln -s folder link
  for name in folder link; do
    preloaded shim GPUSHIM_STATE_FILE=$name -- "$apps/pinned_shared"
    expect_status shim 0
    expect_count shim.err "^gpushim: GPUSHIM_STATE_FILE=$name: cannot be created: is a directory; not written\$" 1
  done
  expect_equal "files" "folder link" "$(find . -maxdepth 1 \( -name 'folder*' -o -name 'link*' \) -printf '%f\n' | sort | paste -sd ' ')"
}
add_case "state in the place of a folder" state_folder_case

# A hundred thousand live blocks.
state_many_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_linked" many 100000
  state_report found state
  expect_text found.out '^==[0-9]+== GPU 0 .*: 97\.7 MiB live at 1 call site, peak '
  expect_text found.out 'SUMMARY: gpushim: 0 errors, 97\.7 MiB live in 100,000 allocations, 1 call site; ended without a report$'
}
add_case "state of a hundred thousand" state_many_case

# A tool that searches all readable memory, as Memcheck does for leaks, gets a SIGBUS for each word of a mapping that its
# file does not reach: for hours. The file grows here. Alone sees: a readable room for a file that has not grown into it.
state_room_case() {
  need gcc
  cat >room.c <<'C'
#include <stdio.h>
#include <sys/stat.h>
extern int cudaMalloc(void **, size_t);
int main(void)
{
    char line[4096], mode[8], path[4096];
    unsigned long from, to, offset;
    struct stat info;
    void *block;
    for (int i = 0; i < 60000; i++)
        if (cudaMalloc(&block, 256) != 0)
            return 1;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &from, &to, mode, &offset, path) == 5 && mode[0] == 'r' &&
            stat(path, &info) == 0 && offset + (to - from) > ((unsigned long)info.st_size + 4095 & ~4095ul))
            printf("%s of %ld bytes is readable to %lu\n", path, (long)info.st_size, offset + (to - from));
    return 0;
}
C
  gcc room.c -o room -L"$build/sim" -lcudart || fail "gcc"
  same_as_native GPUSHIM_STATE_FILE=state -- ./room
  expect_equal "bytes of output" 0 "$(wc -c <shim.out)"
  state_report found state
  expect_text found.out ' in 60,000 allocations, '
}
add_case "state, readable as far as the file reaches" state_room_case

# Sampling that changes while the program runs: each call stack stands for as many allocations as when it was recorded,
# also in the file that a killed program leaves. Alone sees estimates there by the last setting for all stacks.
state_resampled_case() {
  need gcc
  cat >resampled.c <<'C'
#include <gpushim.h>
#include <signal.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t);
#define PART(name)                                                                                                     \
    __attribute__((noinline)) void name(void)                                                                          \
    {                                                                                                                  \
        void *block;                                                                                                   \
        for (int i = 0; i < 4000; i++)                                                                                 \
            if (cudaMalloc(&block, 4096))                                                                              \
                _exit(1);                                                                                              \
        __asm__ volatile("");                                                                                          \
    }
PART(seldom)
PART(each)
PART(again)
int main(void)
{
    seldom();
    if (gpushim_set_option("STACK", "sample:0", NULL, 0))
        return 2;
    each();
    if (gpushim_set_option("STACK", "sample:128K", NULL, 0))
        return 3;
    again();
    kill(getpid(), SIGKILL);
}
C
  gcc -g -I"$sources/include" resampled.c -o resampled -L"$build/sim" -lcudart -ldl || fail "gcc"
  preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_STACK=sample:64K -- ./resampled
  expect_status shim 137
  state_report found state
  expect_text found.out ': 15[.]6 MiB in 4,000 allocations '
  grep -A3 -E ' (LIVE|LEAK) [0-9]+: ' found.out | grep -E ': about |#0' >estimates
  for name in seldom again; do
    about=$(grep -B1 "#0 $name " estimates | sed -nE 's/.*: about ([0-9.]+) MiB.*/\1/p')
    awk -v about="$about" 'BEGIN { exit !(about > 9 && about < 24) }' || fail "$name: about $about MiB, which is far from 15.6"
  done
}
add_case "state of stacks that are sampled otherwise" state_resampled_case
