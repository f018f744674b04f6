# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# pressure.sh - GPUSHIM_PRESSURE and gpushim_on_pressure: the level of a device that fills,
# by whomever; what gives idle memory back, and what does not; what a called function may
# do; and that nothing is spent where nobody asked. docs/api.md

# pressed PREFIX [VAR=value...] -- WAY WHAT: on a device of 64 MiB.
pressed() {
  local prefix=$1 settings command

  split_settings "${@:2}"
  need_file "$apps/pressure_${command[0]}"
  preloaded "$prefix" CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 "${settings[@]}" -- "$apps/pressure_${command[0]}" "${command[1]}"
  expect_status "$prefix" 0
}

# A level is reached with the block that makes it, in the call that asks for the block; each
# is reached again after it has fallen, and reported while somebody wants to know.
# levels_case WAY WHAT ELEVATED WARNING CRITICAL [VARIABLE...]: with how many blocks
pressure_levels_case() {
  pressed shim "${@:6}" -- "$1" "$2"
  for round in 1 2 3; do
    if [[ $round -lt 3 ]]; then
      printf 'pressure: device 0, %s, still\n' "elevated with $3 blocks" "warning with $4 blocks" \
        "critical with $5 blocks" "out of memory with 17 blocks"
    fi
    echo 'pressure: 16 blocks'
    case $round in
    1) echo 'pressure: normal, called 4 times' ;;
    *) echo 'pressure: called 8 times' ;;
    esac
  done >expected
  diff -u expected shim.out || fail "the levels"
}
for way in $(ways_of pressure); do
  add_case "pressure levels $way" pressure_levels_case "$way" levels 12 13 16
done
for mode in GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait GPUSHIM_TRACK=off GPUSHIM_POOL_CACHE=0 \
  GPUSHIM_POOL_RELEASE=0; do
  add_case "pressure levels $mode" pressure_levels_case linked levels 12 13 16 "$mode"
done
add_case "pressure levels in stream order" pressure_levels_case linked async 12 13 16 GPUSHIM_ASYNC=pool
add_case "pressure levels of a device half as large" \
  pressure_levels_case linked levels 6 7 8 GPUSHIM_POOL_LIMIT=50%
add_case "pressure levels of its own choice" \
  pressure_levels_case linked levels 4 8 9 GPUSHIM_PRESSURE=elevated:0.25,warning:0.5,critical:0.55

# Without the library, and without the pool.
pressure_none_case() {
  run_in native CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 -- "$apps/pressure_$1" levels
  expect_status native 0
  expect_quiet native
  expect_no_text native.out 'device 0'
  pressed shim GPUSHIM_POOL=off -- "$1" levels
  expect_same native shim
}
add_case "pressure without the library shared" pressure_none_case shared
add_case "pressure without the library linked" pressure_none_case linked

# What a called function does, another thread can do meanwhile.
pressure_called_case() {
  pressed shim "${@:3}" -- "$1" "$2"
  expect_text shim.out "^pressure: $2: ok$"
  expect_no_text shim.err 'cudasim-finding'
}
for way in $(ways_of pressure); do
  add_case "pressure a call may do anything $way" pressure_called_case "$way" deep
  add_case "pressure in threads $way" pressure_called_case "$way" threads
done
for mode in GPUSHIM_FREE_SYNC=lazy GPUSHIM_ASYNC=pool GPUSHIM_CHECK=fill:poison GPUSHIM_CHECK=quarantine:8M \
  GPUSHIM_PRESSURE=warning:0.5=shrink:0.3 CUDASIM_SCHEDULE=hostile; do
  add_case "pressure a call may do anything $mode" pressure_called_case linked deep "$mode"
  add_case "pressure in threads $mode" pressure_called_case linked threads "$mode"
done

# Idle memory goes back in the call that reaches the level, and nobody is called; while a
# kernel runs, the call waits for nothing, and the memory goes back once the kernel is done.
pressure_shrink_case() {
  pressed shim GPUSHIM_PRESSURE=warning:0.80=shrink:0.50 GPUSHIM_VERBOSE=2 GPUSHIM_COLOR=never -- "$1" shrink
  printf 'pressure: %s\n' '46 MiB reserved, elevated' '32 MiB reserved, normal' 'little reserved at last' >expected
  diff -u expected shim.out || fail "what was given back"
  grep 'memory pressure on' shim.err >lines
  expect_count lines '' 3
  expect_text lines '^gpushim: memory pressure on GPU 0 rises from normal to elevated: 46[.]0 MiB of 64[.]0 MiB in use, of the device$'
  expect_text lines '^gpushim: memory pressure on GPU 0 rises from elevated to warning: 52[.]0 MiB of 64[.]0 MiB in use, of the device$'
  expect_text lines '^gpushim: memory pressure on GPU 0 falls from warning to normal: 32[.]0 MiB of 64[.]0 MiB in use, of the device$'
  expect_text shim.err 'GPU 0 .*, memory pressure up to warning \(3 changes\)$'
  pressed held GPUSHIM_PRESSURE=warning:0.80=shrink:0.50 -- "$1" held
  printf 'pressure: %s\n' '46 MiB reserved, elevated' 'device 0, warning with 5 blocks, still' \
    '52 MiB reserved, warning' 'little reserved at last' >expected
  diff -u expected held.out || fail "what was given back beside a kernel"
  expect_no_text held.err 'GPUSHIM_POOL_WAIT' # it has waited
}
for way in $(ways_of pressure); do
  add_case "pressure shrinks $way" pressure_shrink_case "$way"
done

# A level without an action leaves idle memory alone.
pressure_keeps_case() {
  pressed shim "$@" -- linked shrink
  printf 'pressure: %s\n' '46 MiB reserved, elevated' 'device 0, warning with 5 blocks, still' \
    '52 MiB reserved, warning' 'much reserved at last' >expected
  diff -u expected shim.out || fail "what was given back"
}
add_case "pressure shrinks nothing unasked" pressure_keeps_case
add_case "pressure shrinks nothing at another level" pressure_keeps_case GPUSHIM_PRESSURE=critical=shrink:0.50
add_case "pressure shrinks nothing by none" pressure_keeps_case GPUSHIM_PRESSURE=warning=none,critical=shrink:0.50

# Memory that others take is seen with the pool's next segment, and without one in time.
pressure_neighbour_case() {
  pressed shim "${@:2}" -- "$1" neighbour
  printf 'pressure: %s\n' 'elevated, called 0 times' 'device 0, warning with 1 blocks, still' 'called 1 times' >expected
  diff -u expected shim.out || fail "the neighbour"
}
add_case "pressure by a neighbour linked" pressure_neighbour_case linked
add_case "pressure by a neighbour shared" pressure_neighbour_case shared GPUSHIM_PRESSURE=warning:0.80=shrink:0.70

# What is logged: a rise to warning and above by default, and each change on request.
pressure_lines_case() {
  pressed quiet GPUSHIM_PRESSURE=warning -- linked plain
  grep -o 'memory pressure on GPU 0 rises from .*' quiet.err >lines
  printf 'memory pressure on GPU 0 rises from %s in use, of the device\n' \
    'elevated to warning: 52.0 MiB of 64.0 MiB' 'warning to critical: 64.0 MiB of 64.0 MiB' \
    'critical to out of memory: 64.0 MiB of 64.0 MiB' >expected
  diff -u expected lines || fail "the lines"
  expect_no_text quiet.err 'falls'
  pressed silent GPUSHIM_PRESSURE=warning GPUSHIM_VERBOSE=0 -- linked plain
  expect_no_text silent.err 'memory pressure on'
  pressed limit GPUSHIM_PRESSURE=warning GPUSHIM_POOL_LIMIT=50% -- linked plain
  expect_text limit.err 'to warning: 28[.]0 MiB of 32[.]0 MiB in use, of GPUSHIM_POOL_LIMIT$'
  pressed smaller GPUSHIM_PRESSURE=warning GPUSHIM_MEM_LIMIT=32M CUDASIM_MEMORY=1G -- linked levels
  expect_text smaller.err 'to warning: 28[.]0 MiB of 32[.]0 MiB in use, of GPUSHIM_MEM_LIMIT$'
}
add_case "pressure lines" pressure_lines_case

# The files of the report, and what a killed process leaves.
pressure_files_case() {
  pressed shim GPUSHIM_PRESSURE=warning GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/out.json" \
    GPUSHIM_STATE_FILE="$PWD/state" -- linked plain
  run_in report -- "$build/gpushim" report --verbose=2 "$PWD/state"
  expect_text report.out 'GPU 0 .*, memory pressure up to out of memory \([0-9]+ changes\)'
  expect_text out.json '"pressure": \{"highest": "out of memory", "changes": [0-9]+\}'
  pressed unset GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/none.json" GPUSHIM_VERBOSE=2 -- linked plain
  expect_text none.json '"pressure": null'
  expect_no_text unset.err 'memory pressure'
  need python3
  for file in out.json none.json; do
    python3 -S "$here/report_json.py" validate "$sources/docs/schema/report-1.json" $file || fail "the schema"
  done
}
add_case "pressure in files" pressure_files_case

# A value with a mistake is named once, and is as good as none.
pressure_bad_case() {
  local value why

  while IFS='|' read -r value why; do
    pressed shim GPUSHIM_PRESSURE="$value" -- linked plain
    expect_count shim.err 'GPUSHIM_PRESSURE' 1
    grep -qF "gpushim: GPUSHIM_PRESSURE=$value: $why" shim.err || { cat shim.err && fail "$value"; }
    expect_text shim.err '; memory pressure is ignored$'
    expect_no_text shim.err 'memory pressure on'
  done <<'END'
high:0.8|a level is not elevated, warning or critical
out of memory:0.99|a level is not elevated, warning or critical
warning:80%|a share is not from 0.05 to 1 (such as 0.80)
warning:0.8=grow:0.7|not LEVEL:SHARE, followed by =none or =shrink:SHARE if needed
warning:0.8=shrink:0.9|the share of a shrink is not below the share of its level
warning:0.96|the levels do not rise
warning,warning:0.9|a level is named twice
warning,|it ends with a comma
END
  pressed off GPUSHIM_PRESSURE=warning GPUSHIM_POOL=off -- linked plain
  expect_count off.err 'GPUSHIM_PRESSURE=warning.*GPUSHIM_POOL=off' 1
}
add_case "pressure with mistakes" pressure_bad_case

# Unset, the driver is asked for nothing; set, once a second and where a level may change.
pressure_asks_case() {
  for prefix in unset shim; do
    pressed $prefix CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report \
      GPUSHIM_PRESSURE="$([[ $prefix == unset ]] || echo warning)" -- linked plain
    driver_calls $prefix.err cuMemGetInfo >$prefix.calls
  done
  echo "cuMemGetInfo: $(<unset.calls), $(<shim.calls)"
  [[ $(<shim.calls) -gt $(<unset.calls) ]] || fail "the driver was not asked before a level changed"
  [[ $(<shim.calls) -le $(($(<unset.calls) + 10)) ]] || fail "the driver was asked too often"
}
add_case "pressure seldom asks what is free" pressure_asks_case
