# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# hostile.sh - programs under the library while the simulated device runs their work as
# late and in as unlucky an order as CUDA allows: the output is that of the program alone,
# and the oracle (docs/simulator.md) finds no order lost, none needed, no wait too many.

hostile_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 4)}
hostile_first=${E2E_HOSTILE_FIRST:-1} # --full has run the earlier ones when it comes to more seeds

# hostile_case PROGRAM [ARGUMENT...]
hostile_case() {
  local seed

  need_file "$apps/$1"
  for ((seed = hostile_first; seed <= hostile_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1" "${@:2}"
    expect_status native 0
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" GPUSHIM_REPORT_ON=oom \
      -- "$apps/$1" "${@:2}"
    expect_same native shim
    expect_no_text shim.err 'cudasim-finding'
  done
}
for program in async_shared async_ptds capture_linked capture_static freewait_shared \
  freewait_linked managed_shared pinned_shared pipeline_shared pipeline_ptds \
  pipeline_linked threads_shared threads_linked; do
  add_case "hostile $program" hostile_case "$program"
done

# The oracle's own programs: the library changes no verdict but where its free waits more
# than CUDASIM_FREE_WAITS says of the native one.
hostile_order_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=100ms -- \
    "$build/order/order" --seeds "$hostile_seeds" "$@"
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed under the library"
}
hostile_bare_order_case() {
  local -x GPUSHIM_POOL_CACHE=0
  hostile_order_case "$@"
}
for topic in streams. legacy. per_thread. events. host. copies. host_function. words. \
  threads. memory.freed memory.free_as memory.free_of memory.pinned ordered. graphs. programmatic. peers. idle. rules.; do
  add_case "hostile order $topic" hostile_order_case "$topic"
done
# One stream and what comes after it; a device that waits for the host.
for topic in order. deadlock.; do
  add_case "hostile order $topic" hostile_order_case "$topic"
  add_case "hostile order $topic without caches" hostile_bare_order_case "$topic"
done

# Memory that other contexts or the host may use, in the schedule by threads.
hostile_threads_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=100ms -- \
    "$build/order/order" --threads --seeds "$(sized 1 2)" --jobs 4 peers. pools.
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed under the library"
}
add_case "hostile order by threads" hostile_threads_case

# What cannot be served in any case is refused at once, however long one may wait.
hostile_refused_at_once_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_FREE_SYNC="$1" GPUSHIM_POOL_WAIT=60m -- \
    "$build/order/order" --seeds "$hostile_seeds" deadlock.full_out_of_memory
  expect_status order 0
}
for mode in native lazy; do
  add_case "hostile refused at once $mode" hostile_refused_at_once_case "$mode"
done

# A framework that is out of memory frees what it caches and asks again: it is served at
# once, as natively, however long an allocation may wait.
hostile_asked_again_case() {
  local began=$EPOCHREALTIME ended
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=60m -- \
    "$build/order/order" --seeds "$hostile_seeds" --jobs 2 deadlock.asked_again \
    deadlock.full_of_idle_memory
  ended=$EPOCHREALTIME
  expect_status order 0
  echo "$hostile_seeds runs took $(((${ended/./} - ${began/./}) / 1000)) ms"
}
add_case "hostile asked again after a refusal" hostile_asked_again_case

# What idle memory would have served, had the device not been busy for ever, is out of
# memory after a while, and a line says so.
hostile_refused_after_a_while_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=50ms GPUSHIM_LOG_FILE="$PWD/log" -- \
    "$build/order/order" --seeds 1 deadlock.full_of_small_idle_memory
  expect_status order 0
  expect_text log '^gpushim: GPU 0 is out of memory, and .*GPUSHIM_POOL_WAIT \(50 ms\)'
}
add_case "hostile refused after a while" hostile_refused_after_a_while_case
