# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# endings.sh - contexts that end in ways that are easily missed: by the end of a green one,
# while they capture, without ever having been used. What comes after them is served as
# before, what they had is told as lost; and a full device that a context is to be made on.

# endings CORNER [VARIABLE...]: without the library and with it; the same output.
endings() {
  local settings=(CUDASIM_MEMORY=64M CUDASIM_DEVICES=2 CUDASIM_LOG=2)

  need_file "$apps/endings_linked"
  run_in native "${settings[@]}" -- "$apps/endings_linked" "$1"
  expect_status native 0
  preloaded shim "${settings[@]}" "${@:2}" -- "$apps/endings_linked" "$1"
  expect_same native shim
  grep -vE '^(cudasim: |rounds$|end of rounds$)' shim.err >report.err
}

# Between the lines of the program the driver is asked for no memory.
expect_no_calls() {
  expect_equal "calls of the driver in the rounds" 0 "$(sed -n '/^rounds/,/^end of rounds/p' "$1" |
    grep -cE '^cudasim: (cuMemAlloc_v2|cuMemHostAlloc)( |$)')"
}

# Nothing is lost, and afterwards the pool serves all requests.
# endings_served_case CORNER [VARIABLE...]
endings_served_case() {
  endings "$@"
  expect_clean report.err
  expect_no_calls shim.err
}
for corner in green_first capture_destroy capture_reset capture_release capture_green capture_in_green \
  capture_stays looked_at; do
  add_case "endings $corner" endings_served_case "$corner"
done

# Memory of a green context is the pool's. It alone sees requests there that the driver serves, and pinned and managed
# memory that is never used again because no wait is taken to cover a green context.
endings_green_case() {
  endings green_memory "$@"
  expect_clean report.err
  expect_equal "memory asked of the driver in the rounds" 0 "$(sed -n '/^rounds/,/^end of rounds/p' shim.err |
    grep -cE '^cudasim: cuMem.*(Alloc|Free)')"
}
add_case "endings green_memory" endings_green_case
# One line says which of it is not the pool's.
endings_green_async_case() {
  endings green_memory GPUSHIM_ASYNC=pool GPUSHIM_VERBOSE=2
  expect_count shim.err '^gpushim: the driver serves memory in the order of green contexts. streams$' 1
}
add_case "endings green_memory async" endings_green_async_case
add_case "endings green_memory lazy" endings_green_case GPUSHIM_FREE_SYNC=lazy

for corner in capture_destroy capture_stays; do
  add_case "endings $corner lazy" endings_served_case "$corner" GPUSHIM_FREE_SYNC=lazy
done

# The runtime's reset, while a stream captures.
# endings_reset_case WAY
endings_reset_case() {
  need_file "$apps/capture_$1"
  same_as_native CUDASIM_LOG=2 -- "$apps/capture_$1" reset
  expect_no_calls shim.err
}
for way in shared static linked proc; do
  add_case "endings reset in a capture $way" endings_reset_case "$way"
done

# The device is reset again and again while other threads allocate and free. It alone sees a thread that writes to
# the record of a block whose context has ended since: the record may be a hole of another context by then.
# endings_resets_case WAY [VARIABLE...]
endings_resets_case() {
  need_file "$apps/resets_$1"
  same_as_native "${@:2}" -- "$apps/resets_$1" "$(sized 800 6000)"
  expect_only_report shim.err
}
for way in shared linked; do
  add_case "endings resets among calls $way" endings_resets_case "$way" GPUSHIM_LEAK_MAX=3
done
add_case "endings resets among calls without caches" endings_resets_case linked GPUSHIM_LEAK_MAX=3 \
  GPUSHIM_POOL_CACHE=0

# What is lost is told as that, COUNT times.
# endings_lost_case CORNER COUNT [VARIABLE...]
endings_lost_case() {
  endings "$1" GPUSHIM_PEAK_MAX=0 "${@:3}"
  expect_only_report report.err
  expect_count report.err '^==[0-9]+==   cuMem(Host)?Alloc.*, live at reset$' "$2"
  expect_no_text report.err 'live at exit'
}
add_case "endings green_last" endings_lost_case green_last 1
add_case "endings green_alone" endings_lost_case green_alone 1
add_case "endings green_reset" endings_lost_case green_reset 2
add_case "endings green_reset without a pool" endings_lost_case green_reset 2 GPUSHIM_POOL=off

# Before a reset it is told what goes with it, also where a green context made it all.
endings_told_case() {
  endings green_known GPUSHIM_REPORT_ON=reset,oom
  expect_count report.err '^==[0-9]+== a context of GPU 0 is about to end, and its memory with it$' 1
}
add_case "endings green_known" endings_told_case

# Ends that two threads cause: what comes next is nobody's to end. Not in one run of many,
# if the library got it wrong.
endings_race_case() {
  local round

  need_file "$apps/endings_linked"
  for round in 1 2 3; do
    preloaded "shim$round" CUDASIM_DEVICES=2 CUDASIM_MEMORY=64M -- "$apps/endings_linked" green_race
    expect_status "shim$round" 0
    expect_clean "shim$round.err"
  done
}
add_case "endings green_race" endings_race_case

# What is out of memory is made again once idle memory was given back: each call named here
# fails once, or twice, the library holds idle memory each time, of the device and pinned.
# endings_full_case CORNER COUNT FAIL
endings_full_case() {
  endings "$1" CUDASIM_FAIL="$3"
  expect_clean report.err
  expect_count shim.err ' fails on request with 2$' "$2"
}
contexts=cuCtxCreate:3,cuCtxCreate:5,cuDevicePrimaryCtxRetain:1,cuDevicePrimaryCtxRetain:3
contexts_twice=cuCtxCreate:3,cuCtxCreate:4,cuCtxCreate:6,cuCtxCreate:7
contexts_twice+=,cuDevicePrimaryCtxRetain:1,cuDevicePrimaryCtxRetain:2
contexts_twice+=,cuDevicePrimaryCtxRetain:4,cuDevicePrimaryCtxRetain:5
mappings=cuMemHostRegister:1,cuImportExternalMemory:1,cuExternalMemoryGetMappedBuffer:1
mappings+=,cuMemCreate:1,cuMemMap:1,cuMulticastCreate:1
add_case "endings full_contexts" endings_full_case full_contexts 4 "$contexts"
add_case "endings full_contexts, twice" \
  endings_full_case full_contexts 8 "$contexts_twice"
small=cuEventCreate:1,cuFuncSetAttribute:1,cuKernelSetAttribute:1,cuMulticastAddDevice:1
add_case "endings full_small" endings_full_case full_small 4 "$small"
small_twice=$small,cuEventCreate:2,cuFuncSetAttribute:2,cuKernelSetAttribute:2
add_case "endings full_small, twice" \
  endings_full_case full_small 8 "$small_twice,cuMulticastAddDevice:2"
launches=cuLaunchKernel:1,cuLaunchCooperativeKernel:1,cuLaunchKernelEx:1
add_case "endings full_launches" endings_full_case full_launches 3 "$launches"
launches_twice=cuLaunchKernel:1,cuLaunchKernel:2,cuLaunchCooperativeKernel:1
add_case "endings full_launches, twice" endings_full_case full_launches 6 \
  "$launches_twice,cuLaunchCooperativeKernel:2,cuLaunchKernelEx:1,cuLaunchKernelEx:2"
add_case "endings full_green" endings_full_case full_green 1 cuGreenCtxCreate:1
add_case "endings full_mappings" endings_full_case full_mappings 6 "$mappings"
