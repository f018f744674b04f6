# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# spill.sh - GPUSHIM_SPILL: what a full device refuses comes from host memory, up to a size; the report says
# how much.

# spill_run NAME [VAR=value...] -- ARGUMENT...: on a device of 64 MiB.
spill_run() {
  local name=$1 settings command

  split_settings "${@:2}"
  preloaded "$name" CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 GPUSHIM_SPILL=100M "${settings[@]}" -- \
    "$apps/group_$way" "${command[@]}"
}

spill_case() {
  local way=$1

  need_file "$apps/group_$way"
  spill_run take GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json GPUSHIM_REPORT_ON=exit GPUSHIM_VERBOSE=2 -- take
  expect_text take.out '^took 164 MiB$'
  expect_text take.err '^gpushim: GPU 0 is full: 2[.]00 MiB were allocated from host memory, which is slower; more may follow [(]GPUSHIM_SPILL[)]$'
  expect_text take.err '^==[0-9]+== GPU 0 .*: peak 164 MiB .*, 1 request failed, spilled 50 allocations, at most 100 MiB, to host memory$'
  expect_text take.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  expect_equal "spilled" "{'count': 50, 'peak_bytes': 104857600}" \
    "$(python3 -S -c 'import json; print(json.load(open("run.json"))["devices"][0]["spilled"])')"
  # What was given back can be spilled again; so can what a reset took.
  spill_run again -- again
  expect_equal "twice" $'took 164 MiB\ntook 164 MiB' "$(<again.out)"
  spill_run reset -- reset
  expect_equal "after a reset" $'took 164 MiB\ntook 164 MiB' "$(<reset.out)"
  spill_run ordered -- ordered
  expect_equal "given back in the order of a stream" $'took 164 MiB\ntook 164 MiB' "$(<ordered.out)"
  expect_text ordered.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  for setting in GPUSHIM_POOL=on GPUSHIM_POOL=off; do
    spill_run rows "$setting" -- rows
    expect_equal "in rows, $setting" $'took 164 MiB\ntook 164 MiB' "$(<rows.out)"
  done
  for served in driver pool; do
    spill_run stream GPUSHIM_ASYNC=$served -- stream
    expect_equal "taken in the order of a stream, by the $served" $'took 164 MiB\ntook 164 MiB' "$(<stream.out)"
    expect_text stream.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  done
}
for way in $(ways_of group); do
  add_case "spill $way" spill_case "$way"
done

# Nothing comes from the host without the variable, beyond its size, or where the device cannot reach it.
spill_limits_case() {
  local way=linked

  need_file "$apps/group_$way"
  spill_run off GPUSHIM_SPILL= -- take
  expect_text off.out '^took 64 MiB$'
  expect_no_text off.err 'spilled|host memory'
  spill_run little GPUSHIM_SPILL=2M -- take
  expect_text little.out '^took 66 MiB$'
  spill_run less GPUSHIM_SPILL=1M -- take
  expect_text less.out '^took 64 MiB$'
  spill_run cannot CUDASIM_ATTRIBUTES=CONCURRENT_MANAGED_ACCESS=0 -- take
  expect_text cannot.out '^took 64 MiB$'
  spill_run limit GPUSHIM_MEM_LIMIT=32M -- take
  expect_text limit.out '^took 132 MiB$'
  spill_run no_pool GPUSHIM_POOL=off -- take
  expect_text no_pool.out '^took 164 MiB$'
}
add_case "spill up to its size" spill_limits_case

# On a device that is too small for them programs print what they print on a larger one.
# spill_same_case PROGRAM [VAR=value...]
spill_same_case() {
  need_file "$apps/$1"
  run_in native CUDASIM_MEMORY=512M -- "$apps/$1"
  expect_status native 0
  preloaded shim CUDASIM_MEMORY=8M GPUSHIM_SPILL=1G GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json "${@:2}" -- "$apps/$1"
  expect_same native shim
  expect_text run.json '"spilled": [{]"count": [0-9]+'
}
for settings in '' GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=lazy GPUSHIM_CHECK=redzone:256 GPUSHIM_STACK=sample:1M; do
  # shellcheck disable=SC2086  # no setting, or one
  add_case "spill the same ${settings:-as on a larger device}" spill_same_case leaky_shared $settings
done
add_case "spill the same, largeblocks" spill_same_case largeblocks_linked
add_case "spill the same, pipeline" spill_same_case pipeline_static
