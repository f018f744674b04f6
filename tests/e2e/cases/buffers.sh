# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# buffers.sh - sets of named buffers: C, and the Python module. docs/api.md

uses python owned

buffers_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 12)}

# buffers_case WAY [VARIABLE=...]... -- [MODE...]: the same with the library and without it.
buffers_case() {
  local settings command

  split_settings "${@:2}"
  need_file "$apps/namedbuffers_$1"
  run_in native "${settings[@]}" -- "$apps/namedbuffers_$1" "${command[@]}"
  expect_status native 0
  expect_quiet native
  preloaded shim "${settings[@]}" -- "$apps/namedbuffers_$1" "${command[@]}"
  expect_same native shim
  expect_no_text shim.err 'cudasim-finding'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
# Growth, limits, clean-up and statistics of each place; arguments; each request against a model of all buffers. They
# alone see: a sum that is not what the buffers hold, a request that is refused though a clean-up makes room, a
# clean-up that takes what is in use.
for way in $(ways_of namedbuffers); do
  add_case "owned buffers $way" buffers_case "$way" --
  add_case "owned buffers bad $way" buffers_case "$way" -- bad
done
add_case "owned buffers random" buffers_case linked -- random 7
# It alone sees: a clean-up that is not begun, or frees too little, where the device is full and the set is not.
add_case "owned buffers on a full device" buffers_case linked CUDASIM_MEMORY=64M -- full

# A clean-up that does not wait for other streams loses what they write.
buffers_hostile_case() {
  local mode seed

  for ((seed = 1; seed <= buffers_seeds; seed++)); do
    for mode in streams random; do
      buffers_case linked CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$mode" "$seed"
    done
  done
}
add_case "owned buffers hostile" buffers_hostile_case

# A fifth of the calls of a driver's function fail: no data, no byte of the sums and no memory is lost.
buffers_faults_case() {
  local code name

  for name in cuMemAlloc cuMemHostAlloc cuMemFree cuMemFreeHost cuMemcpyAsync cuStreamSynchronize; do
    for code in 2 999; do
      run_in native CUDASIM_FAIL="$name:*%20=$code" CUDASIM_SEED=3 -- "$apps/namedbuffers_linked" faults 3
      expect_status native 0
      expect_text native.out '^faults: met$'
      preloaded shim CUDASIM_FAIL="$name:*%20=$code" CUDASIM_SEED=3 -- "$apps/namedbuffers_linked" faults 3
      expect_status shim 0
      expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations'
    done
  done
}
add_case "owned buffers faults" buffers_faults_case

# A clean-up that cannot wait for the device moves nothing.
buffers_wait_case() {
  run_in native CUDASIM_FAIL='cuCtxSynchronize:*%20=999' CUDASIM_SEED=3 -- "$apps/namedbuffers_linked" faults 3
  expect_status native 0
  expect_text native.out '^faults: met$'
}
add_case "owned buffers failed waits" buffers_wait_case

add_case "owned buffers sanitized" owned_sanitized_case namedbuffers
for mode in bad 'random 5' 'streams 1'; do
  # shellcheck disable=SC2086  # a mode and its seed
  add_long_case "owned buffers sanitized ${mode%% *}" owned_sanitized_case namedbuffers $mode
done

# The name is a scope also of memory that a later request allocated.
buffers_leak_case() {
  preloaded leak -- "$apps/namedbuffers_shared" leak
  expect_text leak.err 'LEAK 1: 12[.]1 KiB in 1 allocation'
  expect_count leak.err '\[scope positions\]$' 1
}
add_case "owned buffers in the report" buffers_leak_case
