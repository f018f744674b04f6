# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# released.sh - gpushim_release and gpushim_resume: a scope's memory goes to the device and
# comes back with its contents, graphs run again, wrong uses are refused, and no order is
# lost. docs/tuning.md

released=(GPUSHIM_RELEASABLE=kv_cache CUDASIM_MEMORY=64M CUDASIM_DEVICES=1)
away='release: success, 3 of 13632000 bytes, 14 MiB of the device, 14 MiB on the host; 1 of 4096 bytes: not on pages of its own'
back='resume: success, 3 of 13632000 bytes, 14 MiB of the device, 0 MiB on the host'
no_more='resume: success, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host'

# released_run WAY WHAT [KEEP] [VARIABLE...]
released_run() {
  need_file "$apps/released_$1"
  preloaded shim "${released[@]}" "${@:4}" -- "$apps/released_$1" "$2" "$3"
  expect_status shim 0
}

# Work in flight is waited for, and the device has 14 MiB more meanwhile.
released_contents_case() {
  released_run "$1" contents "${@:2}"
  expect_equal 'what it says' "$away
free: 14 MiB more
${away/3 of 13632000 bytes, 14 MiB of/0 of 0 bytes, 0 MiB of}
$back
free: 0 MiB more
$no_more
contents: right, others right
$away
$back
again: right, others right" "$(<shim.out)"
  expect_clean shim.err
}
for way in $(ways_of released); do
  add_case "released contents $way" released_contents_case "$way" pinned
done
add_case "released contents in plain memory" released_contents_case linked plain
for setting in GPUSHIM_POOL_VMM=on GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait GPUSHIM_ASYNC=pool GPUSHIM_POOL_CARVE=on \
  GPUSHIM_MEM_LIMIT=40M CUDASIM_FAIL=cuMemHostRegister:1; do
  add_case "released contents $setting" released_contents_case linked pinned "$setting"
done

# Discarded: undefined, and in the simulated device not what it was.
released_discard_case() {
  released_run linked contents discard
  expect_equal 'on the host' 0 "$(grep -c '14 MiB on the host' shim.out)"
  expect_count shim.out '^(contents|again): lost, others right$' 2
}
add_case "released and discarded" released_discard_case

# Under hostile schedules nothing reads or writes too early or too late.
released_order_case() {
  local seed

  for ((seed = 1; seed <= $(sized 3 20); seed++)); do
    released_run linked "$1" pinned CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" "${@:2}"
    expect_text shim.out ': right, others right$'
    expect_no_text shim.out 'LOST|lost'
    expect_no_text shim.err '^cudasim'
  done
}
for what in contents graph full threads; do
  add_case "released in order, $what" released_order_case "$what"
done
add_case "released in order, threads, stream-ordered pool" released_order_case threads GPUSHIM_ASYNC=pool
add_case "released in order, threads, lazy" released_order_case threads GPUSHIM_FREE_SYNC=lazy

# A captured graph names addresses: it runs again. While a stream captures nothing moves.
released_graph_case() {
  released_run "$1" graph pinned
  expect_equal 'what it says' "release: not possible now, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
resume: not possible now, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
$away
$back
graph: right, others right
$away
$back
graph again: right, others right" "$(<shim.out)"
  expect_clean shim.err
}
for way in $(ways_of released); do
  add_case "released graph $way" released_graph_case "$way"
done

# Copies and sets are refused and reported; frees work; what is new is as usual.
released_uses_case() {
  released_run "$1" uses pinned
  expect_equal 'what it says' "$away
read: 1
write: 1
set: 1
others: 0
freed twice: 1
release: success, 1 of 2097152 bytes, 2 MiB of the device, 10 MiB on the host; 1 of 4096 bytes: not on pages of its own
resume: success, 1 of 8388608 bytes, 8 MiB of the device, 0 MiB on the host
$no_more" "$(<shim.out)"
  expect_count shim.err 'ERROR [123]: use of released memory at 0x[0-9a-f]+ \(GPU 0, cu' 3
  expect_count shim.err 'ERROR 4: double free' 1
  expect_text shim.err 'SUMMARY: gpushim: 4 errors, 0 B leaked'
}
for way in $(ways_of released); do
  add_case "released uses $way" released_uses_case "$way"
done

# Without room it stays released, with its contents, and comes back later.
released_full_case() {
  released_run "$1" full pinned "${@:2}"
  expect_equal 'what it says' "$away
resume: out of memory, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
$back
full: right, others right" "$(<shim.out)"
}
for way in $(ways_of released); do
  add_case "released on a full device $way" released_full_case "$way" GPUSHIM_REPORT_ON=off
done
add_case "released on a full device, limited" released_full_case linked GPUSHIM_MEM_LIMIT=48M GPUSHIM_REPORT_ON=off

# The report of a refusal counts what is on the device.
released_refusal_case() {
  released_run linked full pinned
  expect_text shim.err '^==[0-9]+== GPU 0 has 64[.]0 MiB: 62[.]0 MiB live, 2[.]00 MiB free but fragmented, 0 B elsewhere; 13[.]0 MiB released$'
}
add_case "released beside a refusal" released_refusal_case

# Memory with attributes is the device's as long as it lives.
released_held_case() {
  released_run "$1" held pinned
  expect_text shim.out '^release: success, 2 of 11534848 bytes, 12 MiB .*; 1 of 2097152 bytes: exported, registered, or with attributes$'
}
for way in $(ways_of released); do
  add_case "released held $way" released_held_case "$way"
done

# With a context ends all of it.
released_ends_case() {
  released_run "$1" ends pinned GPUSHIM_REPORT_ON=off
  expect_equal 'what it says' "$away
$no_more
$away
$back
ends: right, others right
$away" "$(<shim.out)"
}
for way in $(ways_of released); do
  add_case "released and a context that ends $way" released_ends_case "$way"
done

# A failed call changes nothing: a second resume brings everything.
released_failure_case() {
  local call

  for call in cuMemCreate:4 cuMemMap:4 cuMemSetAccess:4 cuMemcpyHtoDAsync:2 cuMemUnmap:1; do
    released_run linked full pinned GPUSHIM_REPORT_ON=off CUDASIM_FAIL="$call"
    expect_text shim.out '^full: right, others right$'
  done
  released_run linked full pinned GPUSHIM_REPORT_ON=off CUDASIM_FAIL=cuMemcpyDtoHAsync:1
  expect_text shim.out '^release: a CUDA call failed, 0 of 0 bytes'
  expect_text shim.out '^full: right, others right$'
}
add_case "released with failing calls" released_failure_case

released_edges_case() {
  released_run "$1" edges pinned
  expect_equal 'what it says' "unknown: not found, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
unknown: not found, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
no name: an argument is not valid, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
no way: an argument is not valid, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
release: success, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
$no_more
release: not possible now, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
$away
child: gpushim is not active in this process, 0 of 0 bytes, 0 MiB of the device, 0 MiB on the host
child ended: 0
$back" "$(<shim.out)"
}
for way in $(ways_of released); do
  add_case "released edges $way" released_edges_case "$way"
done

# Where nothing can be released a line or the answer says so, and the program runs on.
released_without_case() {
  released_run linked contents pinned GPUSHIM_POOL=off
  expect_text shim.err '^gpushim: GPUSHIM_RELEASABLE=kv_cache: with GPUSHIM_POOL=off nothing can be released$'
  expect_text shim.out '^release: switched off by an option'
  released_run linked contents pinned GPUSHIM_CHECK=redzone:256
  expect_text shim.err '^gpushim: GPUSHIM_RELEASABLE=kv_cache: with a check of memory nothing can be released$'
  expect_text shim.out '; 4 of 13636096 bytes: not on pages of its own$'
  released_run linked contents pinned CUDASIM_ATTRIBUTES=VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED=0
  expect_text shim.err '^gpushim: GPUSHIM_RELEASABLE: the device has no virtual memory management: device memory comes from cuMemAlloc$'
  released_run linked contents pinned GPUSHIM_RELEASABLE=
  expect_text shim.out '^release: not found'
  released_run linked contents pinned GPUSHIM_RELEASABLE=engine/kv_cache,kv_cache
  expect_text shim.err '^gpushim: GPUSHIM_RELEASABLE: engine/kv_cache: not the name of one scope$'
  expect_text shim.out '^contents: right, others right$'
  released_run linked contents pinned GPUSHIM_TRACK=off
  expect_text shim.out "^${away%%;*}\$"
  native native "$apps/released_linked" contents
  expect_text native.out '^contents: right, others right$'
}
add_case "released where nothing can be" released_without_case

# Another process has the memory meanwhile.
released_shared_case() {
  local shared=("${released[@]}" CUDASIM_SHARED="$PWD/devices")

  start_preloaded first "${shared[@]}" -- "$apps/released_linked" wait pinned "$PWD/over"
  await 25 grep -qs '^release: success' first.out || fail 'nothing was released'
  preloaded second "${shared[@]}" GPUSHIM_REPORT_ON=off -- "$apps/released_linked" take
  : >over
  wait $! || fail 'the first program'
  expect_text second.out '^taken: (5[0-9]|60) MiB$'
  expect_text first.out '^waited: right, others right$'
}
add_case "released for another process" released_shared_case
