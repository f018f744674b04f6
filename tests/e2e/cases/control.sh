# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# control.sh - gpushim stats, dump, owners, set, trim and top ask running processes: what they answer, who may
# ask, and that a process with the thread that answers is as natively.

# control_start NAME [VAR=value...] -- COMMAND...: in the background, until it says that it is ready. Its number is in
# `pid`, in `pids` those of all.
pids=()
control_start() {
  local name=$1 settings command

  split_settings "${@:2}"
  need_file "$build/gpushim"
  [[ ${command[0]} != */* ]] || need_file "${command[0]}"
  start_preloaded "$name" GPUSHIM_LOG_FILE=/dev/null "${settings[@]}" -- "${command[@]}"
  pid=$!
  pids+=("$pid")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT # of a case that fails
  await 25 grep -qs ready "$name.out" || fail "$name does not start"
}

# control_thread PID: the number of the thread that answers.
control_thread() {
  local comm

  comm=$(grep -ls '^gpushim-ctrl:' /proc/"$1"/task/*/comm) || return 1
  comm=${comm%/comm}
  echo "${comm##*/}"
}

control_end() {
  local status=0

  : >over
  wait "${pids[@]}" || status=$?
  expect_equal "the program's status" 0 "$status"
}

# ask PREFIX WORD...: gpushim WORD...
ask() {
  run_in "$1" -- "$build/gpushim" "${@:2}"
}

# expect_told PREFIX TEXT: nothing else, with status 1.
expect_told() {
  expect_status "$1" 1
  expect_equal "what is told" "gpushim: process $pid: $2" "$(<"$1.err")"
  [[ ! -s $1.out ]] || fail "$1.out is not empty"
}

# ---- What is answered ----------------------------------------------------------------

control_answers_case() {
  local name

  need python3
  control_start program -- "$apps/asked_$1" "$PWD/over"
  ask stats stats "$pid"
  ask json stats --json "$pid"
  ask dump dump "$pid"
  ask owners owners "$pid"
  ask set set "$pid" leak-max=0
  ask less dump "$pid"
  ask again set "$pid" leak-max=9
  ask paths set "$pid" full-paths=on
  ask whole dump "$pid"
  ask list set "$pid" report-on=exit
  ask term set "$pid" report-on=exit,term
  ask start set GPUSHIM_POOL=off "$pid"
  ask trim trim "$pid"
  ask top top
  ask named stats "asked_$1" # others of the name may run beside this one
  control_end
  expect_count named.out "^$pid: " 1
  expect_equal "what the program says" 'asked: ready' "$(<program.out)"
  expect_text stats.out "^$pid: .*/asked_$1 "
  expect_text stats.out '^  GPU 0 [0-9a-f:.]+: 1[.]00 MiB live, peak 1[.]00 MiB, 1 allocation in all, [0-9.]+ MiB reserved$'
  expect_count stats.out . 2
  python3 -S -c 'import json, sys; json.load(sys.stdin)' <json.out || fail "the statistics are no JSON"
  expect_text json.out "^{\"pid\":$pid,.*\"live_bytes\":1048576,.*\"reserved_bytes\":[0-9]+,.*}\$"
  expect_text dump.out "^==$pid== gpushim [0-9.]+: .*  on gpushim dump\$"
  expect_text dump.out "^==$pid== LIVE 1: 1[.]00 MiB in 1 allocation "
  expect_text dump.out '#0 hold +asked[.]c:[0-9]+$'
  expect_text dump.out '; still running$'
  expect_text owners.out "^==$pid==   asked_$1 +1[.]00 MiB +1\$"
  expect_no_text owners.out 'LIVE|LEAK_MAX'
  expect_equal "the setting" "$pid: GPUSHIM_LEAK_MAX=0" "$(<set.out)"
  expect_no_text less.out 'LIVE 1'
  expect_equal "the setting" "$pid: GPUSHIM_FULL_PATHS=on" "$(<paths.out)"
  expect_text whole.out '#0 hold +[^ ]*/tests/apps/asked[.]c:[0-9]+$'
  expect_equal "the setting" "$pid: GPUSHIM_REPORT_ON=exit" "$(<list.out)"
  expect_told term "GPUSHIM_REPORT_ON: term is read only at the start of a program; unchanged"
  expect_told start "GPUSHIM_POOL is read only at the start of a program; unchanged"
  expect_text trim.out "^$pid: 0 B of idle GPU memory returned to the driver"
  expect_text top.out "^ +$pid +0  1[.]00 MiB +[0-9.]+ MiB .* [^ ]*/asked_$1 "
  for name in stats json dump owners set less again paths whole list trim; do
    expect_status "$name" 0
    expect_quiet "$name"
  done
}
for way in shared static linked; do
  add_case "control answers $way" control_answers_case "$way"
done

# What is not known is no 0. Only here: GPUSHIM_TRACK=off counts nothing, and yet its pool has memory; without a
# pool nothing is reserved.
control_unknown_case() {
  local untracked unpooled

  control_start untracked GPUSHIM_TRACK=off -- "$apps/asked_$1" "$PWD/over"
  untracked=$pid
  control_start unpooled GPUSHIM_POOL=off -- "$apps/asked_$1" "$PWD/over"
  unpooled=$pid
  ask stats stats "$untracked" "$unpooled"
  ask top top
  control_end
  expect_text stats.out '^  GPU 0 [0-9a-f:.]+: not recorded [(]GPUSHIM_TRACK=off[)], [1-9][0-9.]* MiB reserved$'
  expect_text stats.out '^  GPU 0 [0-9a-f:.]+: 1[.]00 MiB live, peak 1[.]00 MiB, 1 allocation in all$'
  expect_text top.out "^ +$untracked +0 +- +[1-9][0-9.]* MiB +- +- +-  [(]not recorded[)] "
  expect_text top.out "^ +$unpooled +0  1[.]00 MiB +-  1[.]00 MiB +- "
}
add_case "control answers what is not known" control_unknown_case shared

# Without call stacks no owner is known, and the sum is: the report alone would leave the table out.
control_no_owner_case() {
  control_start program GPUSHIM_STACK=off -- "$apps/asked_shared" "$PWD/over"
  ask owners owners "$pid"
  control_end
  expect_text owners.out "^==$pid== Memory by owner, GPU 0 +live +allocs\$"
  expect_text owners.out "^==$pid==   unknown +1[.]00 MiB +1\$"
}
add_case "control answers owners without call stacks" control_no_owner_case

# A scope's memory goes and comes from outside, by number or name; what cannot be is told.
control_release_case() {
  local name own=released.$BASHPID # of no other run's program

  ln -s "$apps/released_$1" "$own"
  control_start program GPUSHIM_RELEASABLE=kv_cache CUDASIM_MEMORY=64M -- "./$own" outside pinned "$PWD/over"
  ask away release "$pid" kv_cache
  ask stats stats "$pid"
  ask bare resume "$pid"
  ask pause pause "$pid"
  ask twice release "$pid" kv_cache
  ask back resume "$pid" kv_cache
  ask none resume "$pid" kv_cache
  ask named release --plain "$own" kv_cache
  ask named_back resume "$own" kv_cache
  ask unknown release --discard "$pid" engine
  control_end
  expect_equal 'what is released' "$pid: kv_cache: 14.0 MiB of GPU memory released, contents on the host; \
4.00 KiB remain: not on pages of its own" "$(<away.out)"
  expect_text stats.out '17[.]0 MiB live, .* 6[.]00 MiB reserved$'
  expect_text stats.out "^  released: kv_cache, 14[.]0 MiB \\(back with gpushim resume $pid kv_cache\\)\$"
  expect_status bare 1
  expect_equal 'resume without its scope' \
    "gpushim: process $pid: not paused; its scope kv_cache is released: gpushim resume $pid kv_cache brings it back" "$(<bare.err)"
  expect_status pause 1
  expect_text pause.err "^gpushim: process $pid: its state: CUDA_ERROR_[A-Z_]+: it uses CUDA, but the driver does not let it be checkpointed\$"
  expect_equal 'a second release' "$pid: kv_cache: nothing to release; 4.00 KiB remain: not on pages of its own" \
    "$(<twice.out)"
  expect_equal 'what is back' "$pid: kv_cache: 14.0 MiB of GPU memory restored" "$(<back.out)"
  expect_equal 'a second resume' "$pid: kv_cache: nothing to resume" "$(<none.out)"
  expect_count named.out "^$pid: kv_cache: 14[.]0 MiB of GPU memory released" 1
  expect_count named_back.out "^$pid: kv_cache: 14[.]0 MiB of GPU memory restored\$" 1
  expect_told unknown 'GPUSHIM_RELEASABLE does not name engine'
  expect_text program.out '^outside: right, others right$'
  for name in away stats twice back none named named_back; do
    expect_status "$name" 0
    expect_quiet "$name"
  done
  ask usage release 1
  expect_status usage 2
  expect_text usage.err '^gpushim: release: no SCOPE is given$'
  ask path release 1 a/b
  expect_status path 2
  expect_text path.err '^gpushim: release: not the name of a scope: a/b$'
}
for way in shared linked; do
  add_case "control releases $way" control_release_case "$way"
done

# The report in each format, of one process, by number or name.
control_export_case() {
  local format first status

  need python3
  control_start program -- "$apps/asked_$1" "$PWD/over"
  first=$pid
  for format in json pprof collapsed collapsed-peak csv prometheus openmetrics junit sarif journal; do
    ask "$format" export "$pid" "$format"
    expect_status "$format" 0
    expect_quiet "$format"
  done
  ask named export "asked_$1" JSON
  ask total export "$pid" collapsed-total
  control_start counts GPUSHIM_OUTPUT=pprof GPUSHIM_OUTPUT_FILE=/dev/null -- "$apps/asked_$1" "$PWD/over" idle
  ask all export "$pid" collapsed-total
  ask both export "asked_$1" json
  ask without export "$pid"
  ask nobody export json
  ask unknown export "$pid" yaml
  ask twice stats "$pid" "$pid"
  ask two export "$pid" "$pid" json
  ask every export --all json
  control_end
  python3 -S "$here/report_json.py" validate "$sources/docs/schema/report-1.json" json.out >problems
  status=$?
  [[ $status -eq 0 || $status -eq 77 ]] || { cat problems && fail "the JSON is not as its schema says"; }
  expect_count json.out '"running": true' 1
  expect_text json.out '"ending": "on gpushim export"'
  expect_text json.out '{"bytes": 1048576, "count": 1, '
  expect_text collapsed.out '^GPU 0;main;hold 1048576$'
  expect_text csv.out '^0,device,asked_.*,main;hold,1048576,1,'
  expect_equal "live memory" "skipped|1.00 MiB" \
    "$(python3 -S "$here/ci_files.py" cases junit.out | sed -nE 's/^([a-z]+)[|][^|]*[|]leak, .* at hold .*[|](1.00 MiB) .*: live$/\1|\2/p')"
  expect_text sarif.out '"ruleId": "leak", "ruleIndex": 0, "level": "note", .*, at hold asked[.]c:[0-9]+ < main asked'
  expect_count journal.out '^GPUSHIM_RUNNING=true$' 1
  for format in prometheus openmetrics; do
    python3 -S "$here/openmetrics.py" check "$format.out" || fail "$format"
    expect_text "$format.out" "^gpushim_live_bytes[{].*pid=\"$first\".* 1048576\$"
  done
  if command -v go >/dev/null; then
    run_in top HOME="$PWD" -- go tool pprof -top pprof.out
    expect_text top.out '^ +1MB .* hold$'
  fi
  expect_text all.out '^GPU 0;main 41943040$'
  [[ $(<named.status) == 0 ]] || expect_text named.err 'processes have this name' # others may run beside this one
  expect_status both 1
  expect_text both.err "^gpushim: asked_$1: [0-9]+ processes have this name, such as [0-9]+ and [0-9]+: give the PID of one\$"
  expect_status total 1
  expect_text unknown.err '"yaml" is not a format [(]json, .*, openmetrics, .*, state[)]$'
  expect_count twice.out '^[0-9]+: ' 1
  expect_text total.err 'it has not counted all allocations: start it with GPUSHIM_OUTPUT=collapsed-total$'
  for format in without nobody unknown two every; do
    expect_status "$format" 2
    expect_count "$format.err" '^gpushim: ' 1
  done
}
for way in shared linked; do
  add_case "control export $way" control_export_case "$way"
done

# A state file that was made of a running process, read when that has ended. Alone it would see the copy taken for the
# last state of a process that was killed.
control_copy_case() {
  local copy ending='as of [0-9.]+ m?s, still running then'

  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  ask export export "$pid" state
  mv export.out copy
  ask trace trace --for=1 "$pid" trace
  ask json export "$pid" json
  mkdir folder
  cp copy folder
  run_in early -- "$build/gpushim" report copy
  control_end
  run_in late -- "$build/gpushim" report copy
  for copy in copy trace.state; do
    run_in report GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json GPUSHIM_ERROR_EXITCODE=3 -- "$build/gpushim" report "$copy"
    expect_status report 0
    expect_quiet report
    expect_text report.out "^==$pid== gpushim .*  $ending\$"
    expect_text report.out '^==[0-9]+== LIVE 1: '
    expect_text report.out '^==[0-9]+== gpushim: 0 errors so far, 1[.]00 MiB live in 1 allocation, 1 call site; still running then$'
    expect_no_text report.out 'killed|without a report|that moment|its time is'
    python3 -S -c 'import json
process = json.load(open("report.json"))["process"]
assert process["running"] and "killed" not in process, process' || fail "the JSON of $copy"
    run_in sum -- "$build/gpushim" merge "$copy"
    expect_text sum.out "^gpushim: +$pid .* $ending +[^ ]*/asked_linked "
    run_in page -- "$build/gpushim" html -o page.html "$copy"
    expect_status page 0
    run_in named -- "$build/gpushim" top "$copy"
    expect_text named.out '  [(]a copy, still running then[)] [^ ]*/asked_linked '
  done
  expect_same early late
  run_in sum -- "$build/gpushim" merge json.out
  expect_text sum.out "^gpushim: +$pid .* on gpushim export +[^ ]*/asked_linked "
  run_in top -- "$build/gpushim" top folder
  expect_text top.out '  0 processes, 0 B live, 0 B reserved$'
}
add_case "control export of a state file, read later" control_copy_case

# ---- A trace of a running process --------------------------------------------------------

# control_traced WAY [VAR=value...]: a program that takes and frees from four threads, until it is told.
control_traced() {
  mkdir -p told
  control_start program "${@:2}" -- "$apps/traced_$1" "$PWD/told"
}

# control_trace_round NUMBER: a trace that ends while the program rests, and what is live then by the program.
control_trace_round() {
  "$build/gpushim" trace "$pid" "trace$1" >"trace$1.out" 2>"trace$1.err" &
  sleep 0.4
  : >told/pause
  await 25 control_rests "$1" || fail "the program does not rest"
  kill -INT $!
  wait $! || fail "the trace: $(<"trace$1.err")"
  ask "live$1" stats --json "$pid"
  rm told/pause
}

control_rests() { [[ $(grep -c '^traced: GPU' program.out) -ge $1 ]]; }

# control_trace_holds NUMBER: what is live at the end of the trace is what the program says, at its lines.
control_trace_holds() {
  local said

  said=$(grep '^traced: GPU' program.out | sed -n "$1p")
  expect_equal "what is said" "$pid: trace$1, with call stacks in trace$1.state" "$(<"trace$1.out")"
  run_in made -- "$build/gpushim" timeline --as=perfetto --most=4294967295 -o perfetto.file "trace$1" "trace$1.state"
  expect_status made 0
  expect_quiet made
  python3 -S "$here/timeline.py" perfetto || fail "not a timeline"
  expect_equal "live memory" "$said" "$(awk '/^live: GPU 0 take traced[.]c:[0-9]+ / { gpu += $(NF - 1); n += $NF }
    /^live: pinned host memory take traced[.]c:[0-9]+ / { host += $(NF - 1); m += $NF }
    END { printf "traced: GPU %d in %d, host %d in %d", gpu, n, host, m }' perfetto.found)"
  expect_no_text perfetto.found '^live: .* (unknown|[?])'
  [[ $traced_pool == off ]] || expect_text perfetto.found '^reserved: GPU 0 '
  run_in report -- "$build/gpushim" report "trace$1.state"
  [[ $traced_pool == off ]] || expect_text report.out '== Pool of GPU 0: reserved '
}

# Two traces of one process, each begun while four threads work. Would see an allocation from before that is left
# out, doubled or nameless, and a second trace that is not one of its own.
control_trace_case() {
  local traced_pool=on

  [[ $* != *POOL=off* ]] || traced_pool=off
  need python3
  control_traced "$@"
  control_trace_round 1
  control_trace_round 2
  : >told/over
  wait "$pid" || fail "the program's status"
  control_trace_holds 1
  control_trace_holds 2
}
for way in shared static linked ptds; do
  add_case "control trace $way" control_trace_case "$way"
done
add_case "control trace without the pool" control_trace_case shared GPUSHIM_POOL=off
add_case "control trace of stream-ordered memory" control_trace_case linked GPUSHIM_ASYNC=pool
add_case "control trace with a state file" control_trace_case shared GPUSHIM_STATE_FILE=state

# What cannot be, and what ends before.
control_trace_bad_case() {
  control_start program -- "$apps/asked_shared" "$PWD/over"
  : >there
  ask exists trace --for=1 "$pid" there
  ask nowhere trace --for=1 "$pid" no/where
  ask once set "$pid" trace-file=first
  ask again trace --for=1 "$pid" second
  ask ended set "$pid" trace-file=
  mkdir 100%
  ask percent trace --for=1 "$pid" '100%/%p'
  "$build/gpushim" trace "$pid" last >last.out 2>last.err &
  await 25 [ -e last ] || fail "no trace begins"
  control_end
  wait $! || fail "a trace that the program's end has ended has status $?"
  expect_status exists 2
  expect_equal 'what is told' 'gpushim: trace: there: exists; name a new file' "$(<exists.err)"
  expect_told nowhere "GPUSHIM_TRACE_FILE=$PWD/no/where: no such file or directory"
  expect_equal 'what is set' "$pid: GPUSHIM_TRACE_FILE=$PWD/first" "$(<once.out)"
  expect_told again "GPUSHIM_TRACE_FILE=$PWD/second: a trace is being recorded: end it first (GPUSHIM_TRACE_FILE=, gpushim set PID trace-file=)"
  expect_equal 'what is set' "$pid: GPUSHIM_TRACE_FILE=" "$(<ended.out)"
  expect_equal 'a name with percent signs' "$pid: 100%/%p, with call stacks in 100%/%p.state" "$(<percent.out)"
  expect_equal 'what has ended' "$pid: last, with call stacks in last.state" "$(<last.out)"
  expect_quiet last
  run_in massif -- "$build/gpushim" timeline --as=massif -o - last last.state
  expect_text massif.out 'hold [(].*/asked[.]c:'
  run_in massif -- "$build/gpushim" timeline --as=massif -o - first first.state
  expect_text massif.out 'hold [(].*/asked[.]c:'
  run_in csv -- "$build/gpushim" replay --to-csv last
  expect_equal 'the trace' 1 "$(grep -c ',a,.*,1048576,' csv.out)"
  # What was live at the start is of the thread that has allocated it, not of the one that answers.
  run_in threads -- "$build/gpushim" replay last
  expect_text threads.out '^  trace  .* 1 stream, 1 thread$'
  ask nobody trace --for=1 "$pid" nobody
  expect_status nobody 1
  for words in "" 1 "1 a b" "--all a"; do
    # shellcheck disable=SC2086  # words
    ask usage trace $words
    expect_status usage 2
    expect_count usage.err '^gpushim: trace' 1
  done
}
add_case "control trace bad" control_trace_bad_case

# Where the address space is limited the data is in many places, as before; the trace is there all the same.
control_trace_limited_case() {
  # shellcheck disable=SC2016  # the inner shell's
  control_start program -- bash -c 'ulimit -v 200000000; exec "$0" "$1"' "$apps/asked_shared" "$PWD/over"
  ask trace trace --for=1 "$pid" trace
  ask state export "$pid" state
  control_end
  expect_status trace 1
  expect_equal 'what there is' "$pid: trace, without call stacks" "$(<trace.out)"
  expect_told state "its data is not in one place: the address space of the process is limited (ulimit -v)"
}
add_case "control trace with limited addresses" control_trace_limited_case

# In the process's view the folder is another one: the file comes from there.
control_trace_container_case() {
  local settings command

  need unshare
  unshare -mnipf --mount-proc true 2>/dev/null || skip "name spaces of our own"
  mkdir inside
  clean_env "$case_dir" "$cuda_path" -- LD_PRELOAD="$shim" GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
  # shellcheck disable=SC2016  # the inner shell's
  unshare -mnipf --mount-proc --kill-child env -i PATH="$PATH" "${settings[@]}" bash -c \
    'mount -t tmpfs none inside && exec "$@"' bash "${command[@]}" >program.out 2>program.err </dev/null &
  pids+=("$!")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "it does not start"
  pid=$(pgrep -P "${pids[0]}") || fail "no process"
  ask trace trace --for=1 "$pid" inside/trace
  control_end
  expect_status trace 0
  expect_quiet trace
  run_in csv -- "$build/gpushim" replay --to-csv inside/trace
  expect_equal 'the trace' 1 "$(grep -c ',a,.*,1048576,' csv.out)"
  run_in massif -- "$build/gpushim" timeline --as=massif -o - inside/trace inside/trace.state
  expect_text massif.out 'hold [(].*/asked[.]c:'
  [[ ! -e /tmp/gpushim-trace.$pid ]] || fail "a file is left"
}
add_case "control trace of a container" control_trace_container_case

# ---- Options at run time ---------------------------------------------------------------------

# Each is in force from then on; what is no value changes nothing.
control_settings_case() {
  printf 'leak:hold\n' >rules
  control_start program -- "$apps/asked_shared" "$PWD/over"
  ask cache set "$pid" pool-cache=1M,stream:10
  ask no_cache set "$pid" pool-cache=5G
  ask pressure set "$pid" pressure=warning:0.75
  ask no_pressure set "$pid" pressure=alarm:0.5
  ask rules set "$pid" suppressions=rules
  ask dump dump "$pid"
  ask no_rules set "$pid" suppressions=absent
  ask rule set "$pid" suppressions=leak:hold
  ask none set "$pid" suppressions=
  ask whole dump "$pid"
  ask stacks set "$pid" stack=sample:1M,always:2M
  ask depth set "$pid" stack=sample:1M,depth:5
  control_start uncached GPUSHIM_POOL_CACHE=0 -- "$apps/asked_shared" "$PWD/over"
  ask later set "$pid" pool-cache=1M
  control_end
  expect_equal 'the cache' "${pids[0]}: GPUSHIM_POOL_CACHE=1M,stream:10" "$(<cache.out)"
  expect_equal 'the pressure' "${pids[0]}: GPUSHIM_PRESSURE=warning:0.75" "$(<pressure.out)"
  expect_equal 'the rules' "${pids[0]}: GPUSHIM_SUPPRESSIONS=$PWD/rules" "$(<rules.out)"
  expect_equal 'the stacks' "${pids[0]}: GPUSHIM_STACK=sample:1M,always:2M" "$(<stacks.out)"
  expect_text depth.err 'GPUSHIM_STACK: depth:5 is read only at the start of a program'
  expect_no_text dump.out 'LIVE 1'
  expect_text whole.out 'LIVE 1'
  expect_told later "GPUSHIM_POOL_CACHE=1M: the program started without a cache (GPUSHIM_POOL_CACHE=0); unchanged"
  pid=${pids[0]}
  expect_text no_cache.err '^gpushim: --pool-cache=5G: the size is above 1G$'
  expect_text no_pressure.err '^gpushim: --pressure=alarm:0.5: a level is not elevated, warning or critical$'
  expect_told no_rules "GPUSHIM_SUPPRESSIONS=absent: cannot read absent: no such file or directory; unchanged"
  expect_text rule.err 'a rule, not a file: put it into a file and name the file$'
}
add_case "control settings" control_settings_case

# What the report at the end writes. The fault: a setting that is stored and not used, or the name and the formats of
# before.
control_outputs_case() {
  printf 'deny:x\n' >denied
  control_start program GPUSHIM_OUTPUT=pprof GPUSHIM_OUTPUT_FILE=early -- "$apps/asked_shared" "$PWD/over" leak
  ask formats set "$pid" output=json,csv
  ask name set "$pid" output-file=late
  ask value set "$pid" output=jason
  control_start other -- "$apps/asked_shared" "$PWD/over"
  ask total set "$pid" output=collapsed-total
  expect_told total "GPUSHIM_OUTPUT=collapsed-total: collapsed-total needs the sums of all allocations: start with it; unchanged"
  pid=${pids[0]}
  ask rules set "$pid" write-suppressions=rules.txt
  ask scan set "$pid" leak-scan=on
  echo mine >late.json
  ask force set "$pid" force=on
  ask denied set "$pid" suppressions=denied
  printf 'leak:x\nfoo:y\n' >wrong
  ask wrong set "$pid" suppressions=wrong
  printf 'leak:x\nrace:y\n' >shared
  ask shared set "$pid" suppressions=shared
  control_start untracked GPUSHIM_TRACK=off -- "$apps/asked_shared" "$PWD/over"
  ask untracked set "$pid" output=json
  expect_told untracked "GPUSHIM_OUTPUT=json: nothing is written: tracking is off; unchanged"
  echo mine >own
  control_start itself -- "$apps/asked_shared" "$PWD/over" sets
  control_end
  sed -n 's/^asked: \([A-Z_]*=\)/\1/p' itself.out >set
  printf '%s\n' 'OUTPUT=json: success' 'OUTPUT_FILE=own: success' 'OUTPUT=jason: an argument is not valid' \
    'WRITE_SUPPRESSIONS=own.txt: success' 'LEAK_SCAN=on: success' 'FORCE=on: success' >wanted
  cmp -s wanted set || { diff -u wanted set; fail "gpushim_set_option"; }
  expect_text own '"fate": "still referenced"'
  expect_text own.txt '^leak:\^hold[$] max_bytes=1M$'
  pid=${pids[0]}
  expect_equal 'what is set' "$pid: GPUSHIM_OUTPUT=json,csv" "$(<formats.out)"
  expect_equal 'what is set' "$pid: GPUSHIM_OUTPUT_FILE=$PWD/late" "$(<name.out)"
  [[ -s late.csv ]] || fail "no file of the second format"
  [[ -z $(compgen -G 'early*') ]] || fail "a file of the name of before"
  [[ ! -e late.pb ]] || fail "a file of the format of before"
  expect_status value 2
  expect_text value.err '^gpushim: --output=jason: "jason" is not a format '
  expect_told denied "GPUSHIM_SUPPRESSIONS=$PWD/denied: a file with deny: rules is read only at the start of a program; unchanged"
  expect_told wrong "GPUSHIM_SUPPRESSIONS=$PWD/wrong: $PWD/wrong:2: not one of leak:, free:, overrun:, arg:, peak: and \
deny:; unchanged"
  # A file that ThreadSanitizer has rules in, too, is as good as at the start.
  expect_equal 'rules of several tools' "$pid: GPUSHIM_SUPPRESSIONS=$PWD/shared" "$(<shared.out)"
  expect_text late.json '"gpushim-report"'
  expect_text late.json '"fate": "still referenced"'
  expect_text rules.txt '^leak:\^hold[$] max_bytes=1M$'
}
add_case "control outputs" control_outputs_case

# The fault: a list that has an option which `set` then refuses, lacks one, or has a value of before.
control_options_case() {
  local name value

  control_start program GPUSHIM_LEAK_MAX=7 -- "$apps/asked_shared" "$PWD/over"
  ask all set "$pid"
  ask changed set "$pid" leak-max=8
  ask one set "$pid" leak-max
  ask every set --all leak-max
  ask list set "$pid" report_on
  ask start set "$pid" GPUSHIM_POOL_SEGMENT
  ask unknown set "$pid" leek-max
  ask process set "$pid" no-such-program
  while read -r name value; do
    value=${value//\"/}
    run_in back -- "$build/gpushim" set "$pid" "$name=$value"
    expect_status back 0
  done < <(sed 1d all.out)
  control_start limited GPUSHIM_MEM_LIMIT=64M GPUSHIM_POOL=off -- "$apps/asked_shared" "$PWD/over"
  ask limited set "$pid"
  control_end
  pid=${pids[0]}
  expect_equal 'the title' "$pid: options that gpushim set can change" "$(sed -n 1p all.out)"
  expect_count all.out '^  leak-max         7$' 1
  expect_count all.out '^  report-on        exit,oom$' 1
  expect_count all.out '^  suppressions     ""$' 1
  expect_count all.out '^  pool-cache       32M$' 1
  expect_no_text all.out 'mem-limit'
  expect_count limited.out '^  mem-limit        64M$' 1
  expect_no_text limited.out 'pool-'
  expect_equal 'one value' "$pid: GPUSHIM_LEAK_MAX=8" "$(<one.out)"
  expect_count every.out "^$pid: GPUSHIM_LEAK_MAX=8\$" 1
  expect_equal 'one value' "$pid: GPUSHIM_REPORT_ON=exit,oom" "$(<list.out)"
  expect_equal 'one value' "$pid: GPUSHIM_POOL_SEGMENT=20M" "$(<start.out)"
  expect_status unknown 2
  expect_equal "what is told" "gpushim: set: no option leek-max: did you mean leak-max?" "$(<unknown.err)"
  expect_status process 2
  expect_equal "what is told" "gpushim: set: no option no-such-program, and no process of this name" "$(<process.err)"
  expect_equal "what is listed" "" "$(<process.out)"
}
add_case "control options" control_options_case

# The idle 40 MiB go back, by the trim thread alone.
control_trim_case() {
  control_start keeps GPUSHIM_POOL_TRIM=60m -- "$apps/asked_linked" "$PWD/over" idle
  ask before stats "$pid"
  ask trim trim "$pid"
  ask after stats "$pid"
  control_start never GPUSHIM_POOL_TRIM=thread:off -- "$apps/asked_linked" "$PWD/over" idle
  ask refused trim "$pid"
  control_start without GPUSHIM_POOL=off -- "$apps/asked_linked" "$PWD/over" idle
  ask none trim "$pid"
  control_end
  expect_text before.out ' 4[0-9][.0-9]* MiB reserved$'
  expect_text trim.out ': 40[.]0 MiB of idle GPU memory returned to the driver'
  expect_no_text after.out ' 4[0-9][.0-9]* MiB reserved$'
  pid=${pids[1]} expect_told refused "nothing is returned: GPUSHIM_POOL_TRIM=thread:off, and no other thread may call the driver"
  expect_told none "the pool is off: there is no idle memory"
}
add_case "control trim" control_trim_case

# A lower limit takes the idle memory beyond it, by the trim thread. Alone sees a limit that leaves the 40 MiB idle.
control_lower_case() {
  control_start keeps GPUSHIM_MEM_LIMIT=128M GPUSHIM_POOL_TRIM=60m -- "$apps/asked_linked" "$PWD/over" idle
  ask before stats "$pid"
  ask lower set "$pid" mem-limit=8M
  ask after stats "$pid"
  control_end
  expect_text before.out ' 4[0-9][.0-9]* MiB reserved$'
  expect_equal 'the answer' "$pid: GPUSHIM_MEM_LIMIT=8M" "$(<lower.out)"
  expect_text after.out ' [2-8]([.][0-9]+)? MiB reserved$'
}
add_case "control lower limit" control_lower_case

# Every process at once, by number and by --all.
control_many_case() {
  local i count

  count=$(sized 20 50)
  for ((i = 0; i < count; i++)); do
    start_preloaded "program$i" GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
    pids+=("$!")
  done
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  for ((i = 0; i < count; i++)); do
    await 60 grep -qs ready "program$i.out" || fail "program $i does not start"
  done
  ask named stats "${pids[@]}"
  ask all stats --all --json
  ask top top
  for pid in "${pids[@]}"; do
    expect_count named.out "^$pid: " 1
    expect_count all.out "^{\"pid\":$pid," 1
    expect_count top.out "^ +$pid +0 " 1
  done
  control_end
  expect_status named 0
}
add_case "control of many" control_many_case

# ---- Who is not asked ----------------------------------------------------------------

# control_off_case WHY SETTING [WAY]: there is no thread; the line says why.
control_off_case() {
  control_start program "$2" -- "$apps/asked_linked" "$PWD/over" "${@:3}"
  control_thread "$pid" && fail "there is a thread"
  ask stats stats "$pid"
  control_end
  expect_told stats "$1"
}
add_case "control off" control_off_case "it was started with GPUSHIM_CONTROL=off" GPUSHIM_CONTROL=off
add_case "control of what is switched off" control_off_case "it was started with GPUSHIM_ENABLE=off" GPUSHIM_ENABLE=off
add_case "control without a context" control_off_case "it has no CUDA context" GPUSHIM_CONTROL=on without

control_none_case() {
  local name

  sleep 60 &
  pid=$!
  pids+=("$pid")
  ask plain stats "$pid"
  kill "$pid"
  wait "$pid"
  ask ended stats "$pid"
  expect_told plain "it runs without libgpushim.so (gpushim attach records it from now on)"
  expect_told ended "no such process"
  ask word stats 0
  ask name stats no-such-program
  ask two set "$$" leak-max=1 leak-min-bytes=2
  ask unknown set "$$" leek-max=1
  ask value set "$$" leak-max=many
  ask item set "$$" check=arg
  ask both stats --all "$$"
  for name in word two unknown value item both; do
    expect_status "$name" 2
    expect_count "$name.err" '^gpushim: ' 1
  done
  expect_equal "what is told" "gpushim: set: no option leek-max: did you mean leak-max?" "$(<unknown.err)"
  expect_status name 1
  expect_equal "what is told" "gpushim: no-such-program: no process of this name can be asked" "$(<name.err)"
}
add_case "control of no program" control_none_case

# The command stayed the program's parent, and $! is its own number: it says so, and which the program's is. Alone it
# would see a library that is loaded into the command.
control_launcher_case() {
  local settings command word

  need_file "$build/gpushim"
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- GPUSHIM_LIBRARY="$shim" GPUSHIM_LOG_FILE=/dev/null -- \
    "$build/gpushim" "$1" "$apps/asked_linked" "$PWD/over"
  env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pid=$!
  pids+=("$pid")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "the program does not start"
  for word in stats dump trim attach detach trace pause; do
    # shellcheck disable=SC2046  # no word, or one
    ask "$word" "$word" "$pid" $([[ $word != trace ]] || echo file)
    expect_status "$word" 1
    expect_count "$word.err" "^gpushim: process $pid: it is gpushim itself; its program is process [0-9]+\$" 1
  done
  ask program stats "$(sed 's/.* //' stats.err)"
  expect_text program.out '^  GPU 0 .*: 1[.]00 MiB live'
  control_end
}
for way in --watch=parent --summary; do
  add_case "control of the command itself, $way" control_launcher_case "$way"
done

# It gives up soon, says why, and goes on where the program does.
control_stopped_case() {
  local began

  control_start program -- "$apps/asked_linked" "$PWD/over"
  kill -STOP "$pid"
  began=$SECONDS
  ask stats stats "$pid"
  ask top top
  [[ $((SECONDS - began)) -lt 8 ]] || fail "it waits for too long"
  kill -CONT "$pid"
  ask again stats "$pid"
  control_end
  expect_told stats "it is stopped, by a signal or a debugger"
  # Of the machine's other processes one may be named in its place.
  expect_text top.err "process $pid: it is stopped, by a signal or a debugger|^gpushim: .*; and [0-9]+ more "
  expect_status again 0
}
add_case "control of what is stopped" control_stopped_case

# ---- Forks, execs, descriptors, ends ---------------------------------------------------

# A child answers by itself once it has a context; so does an image.
control_fork_case() {
  local child plain

  control_start parent -- "$apps/asked_$1" "$PWD/over" fork
  child=$(sed -n 's/^asked: CUDA child //p' parent.out)
  plain=$(sed -n 's/^asked: plain child //p' parent.out)
  await 20 control_thread "$child" || fail "no thread of the child's"
  ask both stats "$pid" "$child"
  ask none stats "$plain"
  expect_status both 0
  pid=$plain expect_told none "it has no CUDA context"
  control_end
  control_start image -- "$apps/asked_$1" "$PWD/never" exec
  ask stats stats "$pid"
  expect_count stats.out '1[.]00 MiB live' 1
  kill "$pid"
}
for way in shared static linked; do
  add_case "control after fork and exec $way" control_fork_case "$way"
done

# The library needs no descriptor to answer: a program that closes every descriptor and fills its table is as natively.
control_close_case() {
  : >over
  same_as_native -- "$apps/asked_linked" over close
  expect_text native.out 'the first free descriptor is 3$'
  rm over
  control_start program -- "$apps/asked_linked" "$PWD/over" close
  ask stats stats "$pid"
  control_end
  expect_status stats 0
}
add_case "control has no descriptor of the program's" control_close_case

# A report for somebody else makes no child in the program: the command finds its lines, also where the program has
# nothing to find them with.
control_child_case() {
  control_start program PATH=/none -- "$apps/asked_linked" "$PWD/over" "$@"
  ask dump dump "$pid"
  control_end
  expect_status dump 0
  expect_text dump.out "^==$pid== LIVE 1: 1[.]00 MiB in 1 allocation "
  expect_text dump.out "^==$pid== +#0 hold +asked[.]c:[0-9]+\$"
  expect_no_text dump.out 'left out'
  expect_no_text program.out 'a child has ended'
}
add_case "control finds lines" control_child_case
add_case "control of what hears of children" control_child_case parent
# Nor does an export, which has stacks, too.
control_export_child_case() {
  control_start program -- "$apps/asked_linked" "$PWD/over" "$1"
  ask json export "$pid" json
  control_end
  expect_status json 0
  expect_text json.out '"function": "hold"'
  expect_text json.out '"line": [1-9]'
  expect_no_text program.out 'a child has ended'
}
add_case "control export of what hears of children" control_export_child_case parent
add_case "control export of what blocks the signal of children" control_export_child_case blocker
add_case "control of what blocks the signal of children" control_child_case blocker

# Alone sees: a helper's end that reaches the program, from a report on a signal or at an interval.
control_unasked_case() {
  control_start program GPUSHIM_LOG_FILE=asked.log GPUSHIM_REPORT_ON=exit,USR1 GPUSHIM_OUTPUT=json \
    GPUSHIM_OUTPUT_FILE=asked.json GPUSHIM_INTERVAL=output:100ms -- "$apps/asked_linked" "$PWD/over" "$1"
  kill -USR1 "$pid"
  await 25 grep -qs 'still running$' asked.log || fail "no report on the signal"
  await 25 grep -qs '"ending": "at an interval"' asked.json || fail "no file at an interval"
  expect_no_text program.out 'a child has ended'
  expect_text asked.log "^==$pid== +#0 hold "
  expect_text asked.log "^==$pid== Note: file and line are left out: the program handles SIGCHLD"
  control_end
  [[ $1 == parent ]] || expect_text program.out 'no child'
}
for way in parent blocker; do
  add_case "reports beside a program that hears of children, $way" control_unasked_case "$way"
done

# As many signals wait as may: the thread hears that it must end.
control_queue_case() {
  same_as_native -- bash -c 'ulimit -i 0; exec "$0" last' "$apps/alike_linked"
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors' 1
}
add_case "control ends without room for signals" control_queue_case

# What the system has of a process is as natively.
control_alike_case() {
  same_as_native GPUSHIM_CONTROL="$2" -- "$apps/alike_linked" "$1"
  [[ $1 == killed ]] || expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors' 1
}
for way in last idle queue locks table signals user cancel spaces contexts killed; do
  for setting in "" on; do
    [[ $way$setting != killedon ]] || continue # what asks all processes would end it
    add_case "control alike $way${setting:+ $setting}" control_alike_case "$way" "$setting"
  done
done

# Threads of the library that wait for something else end with the program's, too.
control_remain_case() {
  same_as_native "$1" -- "$apps/alike_linked" last
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors' 1
}
for setting in GPUSHIM_REPORT_ON=exit,oom,USR1 GPUSHIM_TRACK=USR2 GPUSHIM_INTERVAL=stats:1h; do
  add_case "control alike last with $setting" control_remain_case "$setting"
done

# What ends between two refreshes has ended; whether with a report, top does not know.
control_top_end_case() {
  control_start program -- "$apps/asked_linked" "$PWD/over"
  "$build/gpushim" top -d 0.5 -n 100 >top.out 2>top.err &
  pids+=($!)
  await 20 grep -q "^ *$pid .*asked_linked" top.out || fail "top does not show the program"
  : >over
  await 20 grep -q "^ *$pid .*  (ended) .*/asked_linked " top.out || fail "top does not say that it has ended"
  kill "${pids[1]}"
}
add_case "control top of what ends" control_top_end_case

# A filter that came later is seen: the thread sleeps on, and the program lives.
control_filter_case() {
  control_start program "$@" -- "$apps/alike_linked" killed "$PWD/over"
  ask stats stats "$pid"
  ask top top
  control_end
  expect_text program.out 'it lives$'
  expect_told stats "it has installed a seccomp filter, which may end it for an answer: start it with GPUSHIM_CONTROL=on if the filter allows rt_sigtimedwait, shmctl, shmat and shmdt"
}
add_case "control of what has a filter" control_filter_case

# A filter's handler answers for the thread, too; one that was there before, and is not the container's, keeps it away.
control_trap_case() {
  control_start program GPUSHIM_CONTROL=on -- "$apps/alike_linked" trapped "$PWD/over"
  ask stats stats --wait 2 "$pid"
  control_end
  expect_text program.out 'it lives$'
  expect_told stats "no answer in time (--wait)"
}
add_case "control of what traps" control_trap_case

# It ends while it is asked, again and again.
control_ending_case() {
  local i

  for ((i = 0; i < $(sized 8 40); i++)); do
    rm -f over
    control_start program -- "$apps/asked_linked" "$PWD/over"
    : >over
    while kill -0 "$pid" 2>/dev/null; do
      ask dump dump "$pid" &
      ask stats stats --all --wait 2
    done
    wait "$pid" || fail "its status is $?"
    wait
  done
}
add_case "control of what ends" control_ending_case

# ---- Who asks, and how -----------------------------------------------------------------

# send_signals PID TID COUNT: signals of the form of a request, with segments that are none, or are not for it.
send_signals() {
  python3 -S - "$@" <<'PYTHON'
import ctypes, random, struct, sys
pid, tid, count = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
TGSIGQUEUEINFO = {'x86_64': 297, 'aarch64': 240}[__import__('os').uname().machine]
libc.shmat.restype = ctypes.c_void_p
made = random.Random(1)
own = []
for size in (1, 24, 4096, 65568, 70000):
    own.append(libc.shmget(0, ctypes.c_size_t(size), 0o1600))
    at = libc.shmat(own[-1], None, 0)
    ctypes.memmove(at, made.randbytes(size), size)
    libc.shmctl(own[-1], 0, None)
# The right head, with a request that has no end.
box = libc.shmget(0, ctypes.c_size_t(70000), 0o1600)
at = libc.shmat(box, None, 0)
ctypes.memmove(at, struct.pack('<QIIIIQ', 0x316d696873757067, 1, 32 + 4096 + 61440, 0, 0, 0) + b'x' * 65536, 65568)
libc.shmctl(box, 0, None)
own.append(box)
sent = 0
for i in range(count):
    value = own[i % len(own)] if i % 2 else made.randrange(-2**31, 2**31)
    info = struct.pack('<iiiiiii', 32, 0, made.choice((-1, -1, -1, -2)), 0, 0, 0, value).ljust(128, b'\0')
    sent += libc.syscall(TGSIGQUEUEINFO, pid, tid, 32, info) == 0
print(sent)
PYTHON
}

# A client that is stopped, killed, or sends anything keeps neither the program nor others.
control_hostile_case() {
  local i

  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  [[ $(send_signals "$pid" "$(control_thread "$pid")" 300) -gt 100 ]] || fail "no signals can be sent"
  for ((i = 0; i < 20; i++)); do
    "$build/gpushim" dump "$pid" >/dev/null 2>&1 &
    sleep 0.0$((RANDOM % 10))
    kill -9 "$!" 2>/dev/null
    wait "$!"
  done
  ask stats stats "$pid"
  control_end
  expect_status stats 0
  expect_no_text /proc/sysvipc/shm " $pid "
}
add_case "control by a hostile client" control_hostile_case

# Who gives a thread the name of one that answers is left alone: the signal would end the process.
control_squatted_case() {
  need python3
  python3 -S - <<'PYTHON' >squat.out &
import ctypes, sys, threading, time
def thread():
    ctypes.CDLL(None).prctl(15, b'gpushim-ctrl:0', 0, 0, 0)
    print('ready', flush=True)
    time.sleep(60)
threading.Thread(target=thread).start()
PYTHON
  pid=$!
  pids+=("$pid")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 20 grep -q ready squat.out || fail "nobody squats"
  ask one stats --wait 2 "$pid"
  ask all stats --all
  kill -0 "$pid" || fail "it was ended"
  kill "$pid"
  expect_told one "it runs without libgpushim.so (gpushim attach records it from now on)"
  expect_no_text all.err "process $pid"
}
add_case "control of a squatted name" control_squatted_case

# Another user gets nothing, by the command or by hand; root asks whom it likes.
control_user_case() {
  local another=(setpriv --reuid=12345 --regid=12345 --clear-groups)

  need setpriv
  need python3
  [[ $(id -u) -eq 0 ]] || skip "root, to become another user"
  "${another[@]}" test -x "$build/gpushim" -a -r "$shim" || skip "a build folder that other users may read"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  run_in other -- "${another[@]}" "$build/gpushim" stats "$pid"
  run_in all -- "${another[@]}" "$build/gpushim" stats --all
  expect_told other "it is another user's process"
  expect_no_text all.out "^$pid:"
  chmod 755 . "$case_dir/.." "$scratch"
  control_start theirs -- "${another[@]}" "$apps/asked_linked" "$PWD/over"
  ask root stats "$pid"
  run_in own -- "${another[@]}" "$build/gpushim" stats "$pid"
  control_start hidden_one -- "${another[@]}" "$apps/asked_linked" "$PWD/over" hidden
  ask hidden stats "$pid"
  control_end
  expect_status root 0
  expect_status own 0
  expect_status hidden 0
}
add_case "control by another user" control_user_case

# ---- Containers ------------------------------------------------------------------------

# From outside a process has another number and another IPC namespace; root finds it nevertheless.
control_namespace_case() {
  local settings command

  need unshare
  unshare -npf true 2>/dev/null || skip "name spaces of our own"
  need_file "$build/gpushim"
  clean_env "$case_dir" "$cuda_path" -- LD_PRELOAD="$shim" GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
  unshare "$@" --kill-child env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pids+=("$!")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "it does not start"
  pid=$(pgrep -P "${pids[0]}") || pid=${pids[0]}
  ask stats stats "$pid"
  control_end
  expect_status stats 0
  expect_text stats.out "^$pid: .*/asked_linked "
}
add_case "control of another process namespace" control_namespace_case -pf

# There a number of /proc is another process: nobody gets the signal.
control_proc_case() {
  need unshare
  unshare -pf true 2>/dev/null || skip "name spaces of our own"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  run_in stats -- unshare -pf "$build/gpushim" stats "$pid"
  control_end
  expect_told stats "/proc is that of another PID namespace"
}
add_case "control through the /proc of another namespace" control_proc_case
add_case "control of another IPC namespace" control_namespace_case -if
add_case "control of a container" control_namespace_case -mnipf --mount-proc

# What root lacks in a container is named, without waiting for an answer: another user's process with an IPC namespace
# of its own.
control_capability_case() {
  local settings command capability said

  need unshare
  need setpriv
  [[ $(id -u) -eq 0 ]] || skip "root, to have fewer capabilities"
  unshare -i true 2>/dev/null || skip "name spaces of our own"
  chmod 755 . "$case_dir/.." "$scratch"
  clean_env "$case_dir" "$cuda_path" -- LD_PRELOAD="$shim" GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
  unshare -i setpriv --reuid=12345 --clear-groups env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pids+=("$!")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "it does not start"
  pid=${pids[0]}
  while IFS='|' read -r capability said; do
    run_in "$capability" -- setpriv --bounding-set="-$capability" "$build/gpushim" stats --wait=3600 "$pid"
    expect_status "$capability" 1
    expect_equal "without $capability" "gpushim: process $pid: $said" "$(<"$capability.err")"
    run_in "top_$capability" -- setpriv --bounding-set="-$capability" "$build/gpushim" top --once
    expect_text "top_$capability.err" "process $pid: $said|and [0-9]+ more files?$"
  done <<'END'
sys_ptrace|its namespaces cannot be seen without CAP_SYS_PTRACE
sys_admin|it is in another IPC namespace, which cannot be entered without CAP_SYS_ADMIN
setuid|it is another user's, which cannot be asked without CAP_SETUID
kill|it is another user's, which cannot be woken without CAP_KILL
END
  # With these four alone it answers.
  run_in few -- setpriv --bounding-set=-all,+sys_ptrace,+sys_admin,+setuid,+kill "$build/gpushim" stats "$pid"
  control_end
  expect_status few 0
  expect_text few.out "^$pid: .*/asked_linked "
}
add_case "control with few capabilities" control_capability_case

# The pod and the container are those of the control group.
control_pod_case() {
  local root id group uid=0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f

  for root in /sys/fs/cgroup/systemd /sys/fs/cgroup; do
    [[ -e $root/cgroup.procs ]] && break
  done
  printf -v id '%052x' "$$"
  group=$root/gpushim-test.$$/kubepods-pod${uid//-/_}.slice/cri-containerd-1234567890ab$id.scope
  [[ -e $root/cgroup.procs ]] || skip "control groups"
  mkdir -p "$group" 2>/dev/null || skip "a control group of our own"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  echo "$pid" >"$group/cgroup.procs" || skip "a control group of our own"
  ask stats stats "$pid"
  ask top top
  control_end
  (cd "$root" && rmdir -p "${group#"$root/"}")
  expect_text stats.out "^$pid: pod $uid, container 1234567890ab: .*/asked_linked "
  expect_text top.out "^ +$pid +0 .* container 1234567890ab: .*/asked_linked "
}
add_case "control of a pod" control_pod_case
