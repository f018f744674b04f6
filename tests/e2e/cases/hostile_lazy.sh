# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# hostile_lazy.sh - the programs of hostile.sh where a free waits for nothing
# (GPUSHIM_FREE_SYNC=lazy): no order lost, no wait, no early reuse, whatever the schedule.
# Left out are those that lean on the wait of a free; docs/free.md says why of each.

lazy_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 4)}

hostile_lazy_app_case() {
  local seed

  need_file "$apps/$1"
  for ((seed = 1; seed <= lazy_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1"
    expect_status native 0
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" GPUSHIM_REPORT_ON=oom \
      GPUSHIM_FREE_SYNC=lazy -- "$apps/$1"
    expect_same native shim
    expect_no_text shim.err 'cudasim-finding'
  done
}
for program in async_shared async_ptds capture_linked capture_static managed_shared \
  pinned_shared pipeline_shared pipeline_ptds pipeline_linked threads_shared threads_linked; do
  add_case "hostile lazy $program" hostile_lazy_app_case "$program"
done

# What leans on the wait: effects that are looked at behind a free ...
lazy_leaning=(idle.callback_behind_a_wait idle.event_behind_a_wait
  idle.host_function_behind_a_wait idle.leaned_on memory.free_as_a_wait)
# ... and the address of a block that is used again at once.
lazy_leaning+=(memory.free_of_a_destroyed_streams
  memory.free_that_waits_for_blocking_streams memory.freed_and_reused)
hostile_lazy_order_case() {
  local name wanted=()

  need_file "$build/order/order"
  preloaded list GPUSHIM_REPORT_ON=oom -- "$build/order/order" --list "$1"
  while read -r name _; do
    [[ $name == "$1"* && " ${lazy_leaning[*]} " != *" $name "* ]] && wanted+=("$name")
  done <list.out
  [[ ${#wanted[@]} -gt 0 ]] || fail "no program is named $1"
  preloaded order "${verdict_alone[@]}" GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL_WAIT=100ms -- \
    "$build/order/order" --seeds "$lazy_seeds" "${wanted[@]}"
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed under the library"
}
for topic in streams. legacy. per_thread. events. host. copies. host_function. words. \
  threads. memory.pinned ordered. graphs. programmatic. peers. \
  idle.; do
  add_case "hostile lazy order $topic" hostile_lazy_order_case "$topic"
done

hostile_lazy_bare_order_case() {
  local -x GPUSHIM_POOL_CACHE=0
  hostile_lazy_order_case "$@"
}
for topic in lazy. order. deadlock.; do
  add_case "hostile lazy order $topic" hostile_lazy_order_case "$topic"
  add_case "hostile lazy order $topic without caches" hostile_lazy_bare_order_case "$topic"
done

# A program that leans on it is still told: the mode is what it says it is.
hostile_lazy_leaning_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_FREE_SYNC=lazy -- \
    "$build/order/order" --seeds "$lazy_seeds" memory.free_as_a_wait
  expect_text order.out 'LOST ORDER'
}
add_case "hostile lazy order that leans on the wait" hostile_lazy_leaning_case
