# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# refusals.sh - nothing is refused that native serves: random requests of every kind on a
# small device, first without the library and then with it, while the driver fails now and
# then; what kernels wrote stays, the errors are the driver's, and nothing is left behind.
#
# E2E_REFUSAL_SEEDS  seeds a case (1; with E2E_LONG=yes 2; 8 in the stage fuzz)

refusal_seeds=${E2E_REFUSAL_SEEDS:-$(sized 1 2)}

# refusals_case WAY MODE FAIL [VARIABLE...]: FAIL are the failures made under the library.
refusals_case() {
  local program=$apps/refusals_$1 mode=$2 failures=$3 seed made=0

  shift 3
  need_file "$program"
  for ((seed = 1; seed <= refusal_seeds; seed++)); do
    run_in native CUDASIM_MEMORY=48M CUDASIM_LOG=1 -- "$program" "$mode" "$seed" 300
    expect_status native 0
    expect_text native.out 'answer 0$'
    run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=48M CUDASIM_LOG=1 \
      CUDASIM_FAIL="$failures" CUDASIM_SEED="$seed" "$@" -- \
      "$program" "$mode" "$seed" 300 native.out
    expect_status shim 0
    expect_text shim.out '^refusals: [0-9]+ requests'
    expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
    grep -vE '^(==[0-9]+==|refusals: the end)' shim.err >strange && fail "text on stderr"
    made=$((made + $(sed -nE 's/.* ([0-9]+) failures made.*/\1/p' shim.out)))
  done
  [[ -z $failures || $made -gt 0 ]] || fail "no failure was made"
}

others='cuMemAllocPitch:*%30,cuMemAllocManaged:*%30,cuMemAllocHost:*%30,cuMemAllocAsync:*%30'
others+=',cuArrayCreate:*%30,cuMemCreate:*%30,cuMemAlloc:*%10'
for mode in roomy full; do
  add_case "refusals $mode" refusals_case linked "$mode" ""
  add_case "refusals $mode runtime" refusals_case shared "$mode" ""
  add_case "refusals $mode a fifth fails" refusals_case linked "$mode" 'cuMemAlloc:*%20'
  add_case "refusals $mode the seventh fails" refusals_case shared "$mode" 'cuMemAlloc:7'
  add_case "refusals $mode all from the fourth fail" \
    refusals_case linked "$mode" 'cuMemAlloc:4+'
  add_case "refusals $mode another error" refusals_case linked "$mode" 'cuMemAlloc:*%20=304'
  add_case "refusals $mode all kinds fail" refusals_case linked "$mode" "$others"
done
add_case "refusals full, a limit" \
  refusals_case linked full 'cuMemAlloc:*%10' GPUSHIM_POOL_LIMIT=16M
add_case "refusals roomy, nothing kept" \
  refusals_case linked roomy 'cuMemAlloc:*%10' GPUSHIM_POOL_RELEASE=0

# A device that has failed answers as it does without the library, once a synchronize has
# told.
lost_case() {
  run_in native CUDASIM_FAIL=cuStreamSynchronize:1=lost -- "$apps/refusals_$1" lost 1
  run_in shim LD_PRELOAD="$shim" GPUSHIM_REPORT_ON=oom \
    CUDASIM_FAIL=cuStreamSynchronize:1=lost -- "$apps/refusals_$1" lost 1
  expect_text native.out 'sees it fail +46$'
  expect_same native shim
}
for way in shared linked; do
  add_case "refusals lost device $way" lost_case "$way"
done

# Any hooked call may be the one that tells of the failure; nothing hides it afterwards.
# told_case WAY CALL FAILING [FAILING WITH THE LIBRARY]
told_case() {
  run_in native CUDASIM_FAIL="$3=lost" -- "$apps/broken_$1" told "$2"
  preloaded shim GPUSHIM_REPORT_ON=oom CUDASIM_FAIL="${4:-$3}=lost" -- "$apps/broken_$1" told "$2"
  expect_text native.out 'sees it fail +46$'
  expect_same native shim
}
for way in shared static linked; do
  add_case "refusals a launch tells of a lost device $way" told_case "$way" launch cuLaunchKernel:1
  add_case "refusals a set tells of a lost device $way" told_case "$way" set cuMemsetD8:1
  add_case "refusals a copy tells of a lost device $way" told_case "$way" put cuMemcpyHtoD:1
  add_case "refusals a queued copy tells of a lost device $way" \
    told_case "$way" move cuMemcpyHtoDAsync:1
done
add_case "refusals an allocation tells of a lost device" \
  told_case linked malloc cuMemAlloc:4 cuMemAlloc:3

# An error that passes leaves the memory with the program, which may free it again; the pool
# goes on.
free_again_case() {
  local waits=cuCtxSynchronize:1=2,cuCtxSynchronize:6=2,cuCtxSynchronize:8=2

  waits+=,cuMemFree:1=2 # managed memory whose wait fails is the driver's to free
  run_in native CUDASIM_FAIL=cuMemFree:1=2,cuMemFreeHost:1=2,cuMemFree:7=2 -- "$apps/broken_$1" again
  preloaded shim CUDASIM_LOG=2 CUDASIM_FAIL=$waits -- "$apps/broken_$1" again
  expect_count native.out 'a free .*fails +2$' 3
  expect_same native shim
  expect_equal "allocations by the driver" 1 "$(driver_calls shim.err cuMemAlloc)"
}

# Where the device is short of memory a free of a segment of its own, while work runs, is the
# driver's own: its code is the program's, no other wait is made, and the books are right.
free_short_case() {
  run_in native CUDASIM_MEMORY=64M CUDASIM_FAIL=cuMemFree:1=2 -- "$apps/broken_$1" short
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_LOG=2 CUDASIM_FAIL=cuMemFree:1=2 \
    GPUSHIM_LOG_FILE=report -- "$apps/broken_$1" short
  expect_text native.out 'a free that fails +2$'
  expect_same native shim
  expect_equal "frees by the driver" 6 "$(driver_calls shim.err cuMemFree)"
  expect_equal "waits" 0 "$(driver_calls shim.err cuCtxSynchronize)"
  expect_text report 'SUMMARY: gpushim: 1 error, '
}
for way in shared static linked; do
  add_case "refusals a free that failed once $way" free_again_case "$way"
  add_case "refusals a free on a short device that failed once $way" free_short_case "$way"
done

# A fill of the checks that never ends holds a block back. In a context that has failed nobody
# waits for it.
checked_case() {
  local failures=cuMemsetD8Async:2=never,cuStreamSynchronize:1=lost

  preloaded shim "$@" GPUSHIM_POOL_WAIT=10s GPUSHIM_REPORT_ON=oom CUDASIM_FAIL="$failures" -- \
    "$apps/broken_linked" checked
  expect_status shim 0
  expect_text shim.out 'sees it fail +46$'
  expect_count shim.out 'an allocation +46$' 3
  expect_text shim.out 'take more than 2 s +0$'
}
add_case "refusals lost device with a red zone" checked_case GPUSHIM_CHECK=redzone:256
add_case "refusals lost device with fills" checked_case GPUSHIM_CHECK=fill:poison

# What is short may be another device's memory than the current context's, and an idle
# device gives memory back whatever it may cost to wait for a busy one.
elsewhere_case() {
  local -x CUDASIM_MEMORY=64M CUDASIM_DEVICES=2
  run_in native -- "$apps/elsewhere_linked" "$1"
  expect_status native 0
  run_in shim LD_PRELOAD="$shim" "${@:2}" -- "$apps/elsewhere_linked" "$1"
  expect_same native shim
}
for mode in native lazy; do
  for way in pool stream node; do
    add_case "refusals on another device, $way, $mode" \
      elsewhere_case "$way" GPUSHIM_FREE_SYNC="$mode"
  done
done
for mode in native lazy; do
  add_case "refusals of pitched memory in holes, $mode" elsewhere_case pitch GPUSHIM_FREE_SYNC="$mode"
done
add_case "refusals of an idle device, no wait" elsewhere_case late GPUSHIM_POOL_WAIT=0

# What another thread is giving back at the moment is nobody's: natively it is free.
beside_case() {
  local -x CUDASIM_LATENCY=table
  printf '%s\n' 'origin: test' 'cuMemFree 40000000' >table
  elsewhere_case beside
}
add_case "refusals beside memory on its way back" beside_case
