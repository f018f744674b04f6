# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# metrics.sh - GPUSHIM_METRICS_FILE: a file for Prometheus, always whole, while a program runs
# and at its end; it says what JSON says, is read by programs that are not ours, and never
# changes anything for the program.

# metrics_of COMMAND ARGUMENT...: asks tests/e2e/openmetrics.py.
metrics_of() {
  python3 -S "$here/openmetrics.py" "$@" || fail "${*:2}"
}

# expect_metric EXPECTED FILE NAME [LABEL=VALUE...]
expect_metric() {
  expect_equal "${*:2}" "$1" "$(metrics_of sum "${@:2}")"
}

# expect_metrics FILE: it is as the specification says, and others read it.
expect_metrics() {
  need python3
  metrics_of check "$1"
  expect_equal "the mode of $1" 644 "$(stat -c %a "$1")"
}

# json_figure FILE EXPRESSION: of `report`, in Python.
json_figure() {
  python3 -S -c 'import json, sys; report = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2" ||
    fail "$1: no $2"
}

# ---- at the end ------------------------------------------------------------------------

# The figures are those of the JSON of the same run, and of the marks in the source.
metrics_end_case() {
  local name

  same_as_native GPUSHIM_METRICS_FILE=m.prom GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json RANK=3 -- \
    "$apps/leaky_$1"
  expect_text shim.err "^==[0-9]+== files written: $PWD/r[.]json, $PWD/m[.]prom\$"
  expect_metrics m.prom
  for name in live_bytes:live_bytes peak_bytes:peak_bytes allocations_total:allocs frees_total:frees; do
    expect_metric "$(json_figure r.json "report['devices'][0]['totals']['${name#*:}']")" \
      m.prom "gpushim_${name%:*}" device=0 memory=device
    expect_metric "$(json_figure r.json "report['pinned_host']['totals']['${name#*:}']")" \
      m.prom "gpushim_${name%:*}" memory=pinned
  done
  for name in hits misses driver_calls; do
    expect_metric "$(json_figure r.json "report['devices'][0]['pool']['$name']")" \
      m.prom "gpushim_pool_${name}_total" device=0
  done
  for name in reserved_bytes idle_bytes; do
    expect_metric "$(json_figure r.json "report['devices'][0]['pool']['$name']")" \
      m.prom "gpushim_pool_$name" device=0
  done
  expect_metric 29884416 m.prom gpushim_leaked_bytes
  expect_metric "$(json_figure r.json "sum(o['bytes'] for o in report['owners'])")" m.prom gpushim_owner_live_bytes
  expect_metric 28311552 m.prom gpushim_owner_live_bytes device=0 kind=device "owner=leaky_$1"
  expect_metric 524288 m.prom gpushim_owner_live_bytes kind=managed "owner=leaky_$1"
  expect_metric 0 m.prom gpushim_process_running rank=3
  expect_equal "process" "$(json_figure r.json "report['process']['pid']")" \
    "$(metrics_of label m.prom gpushim_process_running pid)"
  expect_equal "program" "leaky_$1" "$(metrics_of label m.prom gpushim_process_info program)"
}
for way in $(ways_of leaky); do
  add_case "metrics $way" metrics_end_case "$way"
done

# Each device has its own figures; a clean run leaks nothing.
metrics_devices_case() {
  preloaded shim CUDASIM_DEVICES=8 GPUSHIM_METRICS_FILE=m.prom -- "$apps/devices_$1"
  expect_status shim 0
  expect_metrics m.prom
  expect_equal "devices" "$(seq 0 7)" "$(metrics_of label m.prom gpushim_peak_bytes device)"
  expect_equal "pools" "$(seq 0 7)" "$(metrics_of label m.prom gpushim_pool_reserved_bytes device)"
  expect_metric 0 m.prom gpushim_leaked_bytes
  expect_metric 6 m.prom gpushim_frees_total device=7
}
for way in $(ways_of devices); do
  add_case "metrics of eight devices $way" metrics_devices_case "$way"
done

# The labels by which dcgm-exporter's metrics of a device join.
metrics_labels_case() {
  preloaded shim CUDASIM_DEVICES=2 GPUSHIM_METRICS_FILE=m.prom GPUSHIM_STATE_FILE=state -- "$apps/devices_shared"
  for name in live_bytes pool_reserved_bytes; do
    expect_equal "$name: UUID" "$(printf 'GPU-63756461-7369-6d2d-6465-766963652d%s\n' 61 62)" \
      "$(metrics_of label m.prom "gpushim_$name" UUID)"
    expect_equal "$name: bus" "$(printf '00000000:0%s:00.0\n' 1 2)" "$(metrics_of label m.prom "gpushim_$name" pci_bus_id)"
  done
  run_in found GPUSHIM_OUTPUT=prometheus GPUSHIM_OUTPUT_FILE=again.prom -- "$build/gpushim" report state
  expect_equal "from a state file" "$(metrics_of label m.prom gpushim_live_bytes UUID)" \
    "$(metrics_of label again.prom gpushim_live_bytes UUID)"
}
add_case "metrics with the labels of DCGM" metrics_labels_case

# Prometheus' own program, and a client's parsers: of this format, and of the older one.
metrics_readers_case() {
  local python status

  preloaded shim CUDASIM_DEVICES=8 GPUSHIM_METRICS_FILE=m.prom GPUSHIM_OUTPUT=openmetrics,prometheus \
    GPUSHIM_OUTPUT_FILE=m -- "$apps/leaky_shared"
  metrics_of check m.openmetrics
  cmp <(grep -v '^#' m.prom) <(grep -v '^#' m.openmetrics) || fail "two formats, two sets of samples"
  for python in python3 /usr/bin/python3; do
    "$python" "$here/openmetrics.py" client m.prom >said 2>&1 &&
      "$python" "$here/openmetrics.py" client m.openmetrics >said 2>&1
    status=$?
    [[ $status -ne 77 && $status -ne 127 ]] && break
  done
  case $status in
    0) ;;
    77 | 127) echo "no prometheus_client" >missing ;;
    *) cat said && fail "prometheus_client cannot read it" ;;
  esac
  if command -v promtool >/dev/null; then
    promtool check metrics <m.prom >said 2>&1 || { cat said && fail "promtool complains"; }
    [[ ! -s said ]] || { cat said && fail "promtool complains"; }
  elif [[ -e missing ]]; then
    skip "promtool, or python3's prometheus_client"
  fi
}
add_case "metrics read by promtool and prometheus_client" metrics_readers_case

# Whatever a program is called.
metrics_hostile_case() {
  local name=$'we"ird\\na\nme\e[31m\xff{} 1'

  cp "$apps/leaky_linked" "./$name"
  preloaded shim GPUSHIM_METRICS_FILE=m.prom -- "$PWD/$name"
  expect_status shim 0
  expect_metrics m.prom
  expect_equal "program" $'we"ird\\na\nme?[31m\xef\xbf\xbd{} 1' \
    "$(metrics_of label m.prom gpushim_process_info program)"
  metrics_of label m.prom gpushim_owner_live_bytes owner >owners
  expect_text owners '^we"ird'
}
add_case "metrics of a hostile name" metrics_hostile_case

# ---- while it runs ---------------------------------------------------------------------

# A reader that comes at any time finds a whole file, of a program that runs.
metrics_interval_case() {
  local looks=0 found program seen

  need python3
  start_preloaded shim GPUSHIM_METRICS_FILE=m.prom GPUSHIM_INTERVAL=stats:"$2" -- "$apps/growing_$1" 20
  program=$!
  while kill -0 "$program" 2>/dev/null; do
    ((looks == 12)) || { cp m.prom "seen.$looks" 2>/dev/null && looks=$((looks + 1)); }
    sleep 0.1
  done
  wait "$program" || fail "status $?"
  ((looks > 3)) || fail "$looks looks at it while it ran"
  for seen in seen.*; do
    metrics_of check "$seen"
  done
  expect_metric 1 seen.3 gpushim_process_running
  expect_metric none seen.3 gpushim_leaked_bytes
  found=$(metrics_of sum seen.3 gpushim_live_bytes)
  ((found >= 8388608)) || fail "not even the model: $found"
  expect_metric 0 m.prom gpushim_process_running
  expect_equal "files" ./m.prom "$(find . -name 'm.*' -o -name '.gpushim*')"
}
for way in shared static linked; do
  add_case "metrics at intervals $way" metrics_interval_case "$way" 50ms
done
add_case "metrics as often as can be" metrics_interval_case linked 1ms

# A signal, a full device: the file is there before the end.
metrics_asked_case() {
  preloaded shim GPUSHIM_REPORT_ON=exit,oom,USR1 GPUSHIM_METRICS_FILE=m.prom -- "$apps/interim_$1" usr1 m.prom
  expect_status shim 0
  expect_text shim.out '^interim: answered$'
  preloaded full GPUSHIM_METRICS_FILE=/dev/stdout -- "$apps/interim_$1" oom
  expect_status full 0
  expect_count full.out '^gpushim_process_info\{' 2
  expect_equal "does it run" "1 0" "$(sed -n 's/^gpushim_process_running.* //p' full.out | xargs)"
}
for way in shared static linked; do
  add_case "metrics when asked $way" metrics_asked_case "$way"
done

# What is asked for while they are written comes after them.
metrics_beside_case() {
  local turn

  for turn in 1 2 3 4 5 6; do
    preloaded "shim$turn" GPUSHIM_METRICS_FILE=m.prom GPUSHIM_INTERVAL=stats:1ms GPUSHIM_REPORT_ON=oom -- \
      "$apps/interim_linked" oom
    expect_status "shim$turn" 0
    expect_count "shim$turn.err" '^==[0-9]+== gpushim [0-9.]+: .*  out of memory$' 1
  done
}
add_case "metrics beside a report" metrics_beside_case

# Killed in the midst of writing: the last whole file, or none.
metrics_killed_case() {
  local turn program

  need python3
  for turn in 1 2 3 4 5 6 7 8; do
    rm -f m.prom
    start_preloaded shim GPUSHIM_METRICS_FILE=m.prom GPUSHIM_INTERVAL=stats:1ms -- "$apps/growing_linked" 20
    program=$!
    sleep "0.$((turn * 6 + 10))"
    kill -KILL "$program"
    wait "$program" 2>/dev/null
    [[ ! -e m.prom ]] || metrics_of check m.prom
  done
  [[ -e m.prom ]] || fail "never a file"
  expect_metric 1 m.prom gpushim_process_running
}
add_case "metrics of a killed program" metrics_killed_case

# Each process that used CUDA has a file of its own; a child that did not has none.
metrics_fork_case() {
  local pid

  same_as_native GPUSHIM_METRICS_FILE=m.%p.prom GPUSHIM_INTERVAL=stats:"$2" -- "$apps/fork_$1"
  sed -nE 's/^==([0-9]+)== SUMMARY: .*/\1/p' shim.err | sort -u >reporters
  find . -name 'm.*.prom' | sed -E 's/.*m[.]([0-9]+)[.]prom/\1/' | sort -u >written
  expect_equal "files" "$(<reporters)" "$(<written)"
  while read -r pid; do
    expect_metrics "m.$pid.prom"
    expect_equal "pid" "$pid" "$(metrics_of label "m.$pid.prom" gpushim_process_running pid)"
  done <reporters
}
for way in shared static linked; do
  add_case "metrics of forked processes $way" metrics_fork_case "$way" 60m
done
add_case "metrics of forked processes, often" metrics_fork_case linked 1ms

# ---- files that cannot be --------------------------------------------------------------

# metrics_refused_case NAME REASON: one line, however often it is tried.
metrics_refused_case() {
  mkdir folder
  echo old >precious
  ln -s precious link
  same_as_native GPUSHIM_METRICS_FILE="$1" GPUSHIM_INTERVAL=stats:10ms GPUSHIM_LEAK_MAX=0 -- \
    "$apps/growing_linked" 3
  expect_count shim.err '^gpushim: ' 1
  expect_count shim.err "^gpushim: GPUSHIM_METRICS_FILE: cannot write [^ ]*: $2; left out\$" 1
  expect_no_text shim.err 'files written'
  expect_count shim.err ' SUMMARY: gpushim: 0 errors' 1
  expect_equal "left behind" "" "$(find . -name '.gpushim*')"
  expect_equal "a file" old "$(<precious)"
  [[ -L link && -d folder ]] || fail "what was in the way is gone"
}
add_case "metrics to a full device" metrics_refused_case /dev/full "no space left"
add_case "metrics to no folder" metrics_refused_case none/m.prom "no such file or directory"
add_case "metrics through a file" metrics_refused_case precious/m.prom "not a directory"
add_case "metrics over a folder" metrics_refused_case folder "is a directory"
add_case "metrics over a link" metrics_refused_case link "a symbolic link is in the way"
add_case "metrics with a long name" metrics_refused_case "$(printf 'n%.0s' {1..300})" "name too long"

# A file system of one page, and one that is read-only.
metrics_disk_case() {
  local where

  mkdir locked small
  unshare -m true 2>/dev/null || skip "a file system of our own"
  cat >mounted <<'END'
mount -t tmpfs -o size=8k tmpfs small && mount -t tmpfs -o ro tmpfs locked || exit 77
"$@"
status=$?
find small locked -name '.gpushim*' >left
cp small/m.prom kept 2>/dev/null
exit $status
END
  native native "$apps/growing_linked" 3
  for where in small locked; do
    preloaded "$where" GPUSHIM_METRICS_FILE="$PWD/$where/m.prom" GPUSHIM_INTERVAL=stats:10ms GPUSHIM_LEAK_MAX=0 -- \
      unshare -m bash mounted "$apps/growing_linked" 3
    [[ $(<"$where.status") != 77 ]] || skip "a file system of our own"
    expect_same native "$where"
    expect_count "$where.err" '^gpushim: ' 1
    expect_equal "left behind" "" "$(<left)"
  done
  # There is room for one: the next one has none beside it, and the first one stays whole.
  need python3
  metrics_of check kept
  expect_text small.err '^gpushim: GPUSHIM_METRICS_FILE: cannot write .*: no space left; left out$'
  expect_text locked.err '^gpushim: GPUSHIM_METRICS_FILE: cannot write .*: read-only file system; left out$'
}
add_case "metrics to a full disk, and to one that is read-only" metrics_disk_case

metrics_bad_case() {
  preloaded log GPUSHIM_METRICS_FILE=./same GPUSHIM_LOG_FILE=same -- "$apps/leaky_linked"
  expect_quiet log
  expect_count same '^gpushim: GPUSHIM_METRICS_FILE: cannot write .*/same: it is GPUSHIM_LOG_FILE; left out$' 1
  expect_text same 'SUMMARY: gpushim: 0 errors, 28[.]5 MiB'
  # Would see metrics that replace the report of the same name, which both count as their own.
  preloaded one GPUSHIM_METRICS_FILE=./one GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=one -- "$apps/leaky_linked"
  expect_count one.err '^gpushim: GPUSHIM_METRICS_FILE: cannot write .*/one: it is a file of GPUSHIM_OUTPUT; left out$' 1
  expect_text one '"gpushim-report"'
  preloaded off GPUSHIM_METRICS_FILE=m.prom GPUSHIM_TRACK=off -- "$apps/leaky_linked"
  expect_count off.err '' 1
  expect_text off.err '^gpushim: GPUSHIM_METRICS_FILE=m[.]prom: with GPUSHIM_TRACK=off there is nothing to count; no file is written$'
  preloaded none GPUSHIM_METRICS_FILE=m.prom -- sleep 0
  expect_quiet none
  preloaded pattern GPUSHIM_METRICS_FILE=m.%z -- "$apps/pipeline_linked"
  expect_count pattern.err '^gpushim: GPUSHIM_METRICS_FILE=m[.]%z: ' 1
  [[ ! -e m.prom ]] || fail "a file without figures"
}
add_case "metrics that cannot be" metrics_bad_case

# ---- of a state file -------------------------------------------------------------------

# The reader writes them as any other output, and leaves the running program's file alone.
metrics_state_case() {
  need_file "$build/gpushim"
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/killed_shared" kill
  run_in found GPUSHIM_METRICS_FILE=m.prom -- "$build/gpushim" report --output=openmetrics,csv --output-file=r state
  expect_status found 0
  expect_quiet found
  [[ ! -e m.prom ]] || fail "a file of the reader's own"
  need python3
  metrics_of check r.openmetrics
  expect_metric 0 r.openmetrics gpushim_process_running
  expect_equal "program" killed_shared "$(metrics_of label r.openmetrics gpushim_process_info program)"
  [[ $(metrics_of sum r.openmetrics gpushim_leaked_bytes device=0) -gt 6291456 ]] || fail "too little leaked"
  expect_text r.csv ',keep_large,'
  expect_text r.csv ',[0-9]+,,,,,[^,]*,[^,]*,[^,]*$'
}
add_case "metrics of a state file" metrics_state_case
