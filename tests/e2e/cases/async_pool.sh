# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# async_pool.sh - stream-ordered memory from the pool (GPUSHIM_ASYNC=pool): the same
# results by every way of linking, no order lost under hostile schedules, no call of the
# driver in the steady state, and a report that names kind and call. docs/async.md

uses options

async_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 4)}

# async_way_case PROGRAM MODE: the program's output is that of the program alone.
async_way_case() {
  need_file "$apps/$1"
  same_as_native GPUSHIM_ASYNC="$2" -- "$apps/$1"
  expect_status native 0
  expect_clean shim.err
}
for way in $(ways_of async); do
  add_case "async pool $way" async_way_case "async_$way" pool
  add_case "async driver $way" async_way_case "async_$way" driver
done
for program in pipeline_shared threads_shared pinned_linked managed_shared sizes_linked devices_linked; do
  add_case "async pool $program" async_way_case "$program" pool
done

async_hostile_case() {
  local seed

  need_file "$apps/$1"
  for ((seed = 1; seed <= async_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1"
    expect_status native 0
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" GPUSHIM_REPORT_ON=oom \
      GPUSHIM_ASYNC=pool "${@:2}" -- "$apps/$1"
    expect_same native shim
    expect_no_text shim.err 'cudasim-finding'
  done
}
for program in async_shared async_ptds async_linked capture_linked capture_static freewait_shared \
  managed_shared pipeline_shared pipeline_ptds threads_shared; do
  add_case "async hostile $program" async_hostile_case "$program"
done
add_case "async hostile lazy async_linked" async_hostile_case async_linked GPUSHIM_FREE_SYNC=lazy
add_case "async hostile uncached async_linked" async_hostile_case async_linked GPUSHIM_POOL_CACHE=0

# The oracle's own programs: no verdict changes, those made for this mode included.
async_order_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_ASYNC=pool -- \
    "$build/order/order" --seeds "$async_seeds" "$@"
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed under the library"
}
for topic in async. streams. legacy. per_thread. events. host. copies. host_function. words. \
  threads. memory.freed memory.free_as memory.free_of memory.pinned ordered. graphs. \
  programmatic. peers. idle.; do
  add_case "async order $topic" async_order_case "$topic"
done

# Where frees do not wait there may be memory that nobody has and nobody waited for yet.
async_lazy_order_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy -- \
    "$build/order/order" --seeds "$async_seeds" async.
  expect_status order 0
}
add_case "async order lazy" async_lazy_order_case

# The same programs are right natively, and where the driver serves.
async_driver_order_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_ASYNC=driver -- \
    "$build/order/order" --seeds "$async_seeds" async.
  expect_status order 0
  run_in alone -- "$build/order/order" --seeds "$async_seeds" async.
  expect_status alone 0
}
add_case "async order of the driver" async_driver_order_case

# How often the driver was asked: once a stream, instead of once an allocation.
# count_driver_calls FILE
count_driver_calls() {
  grep -cE '^cudasim: cuMem(Alloc(FromPool)?|Free)Async' "$1"
}
async_calls_case() {
  need_file "$apps/async_linked"
  run_in native CUDASIM_LOG=2 -- "$apps/async_linked"
  preloaded shim CUDASIM_LOG=2 GPUSHIM_ASYNC=pool -- "$apps/async_linked"
  expect_same native shim
  [[ $(count_driver_calls native.err) -ge 400 ]] || fail "the program hardly allocates"
  [[ $(count_driver_calls shim.err) -le 8 ]] || fail "the driver was asked too often"
}
add_case "async pool calls" async_calls_case

# Leaks: kind and call, as when the driver serves.
async_leaks_case() {
  need_file "$apps/leaky_$1"
  preloaded shim GPUSHIM_ASYNC=pool -- "$apps/leaky_$1"
  expect_status shim 0
  expect_leaks shim.err "$sources/tests/apps/leaky.c"
  preloaded driver GPUSHIM_ASYNC=driver -- "$apps/leaky_$1"
  sed -nE 's/^==[0-9]+==   (cu[A-Za-z]*Async[A-Za-z_]*,.*)/\1/p' shim.err |
    sed -E 's/(stream|context) 0x[0-9a-f]+/\1/g; s/, age [0-9a-z. ]+//' >pooled
  sed -nE 's/^==[0-9]+==   (cu[A-Za-z]*Async[A-Za-z_]*,.*)/\1/p' driver.err |
    sed -E 's/(stream|context) 0x[0-9a-f]+/\1/g; s/, age [0-9a-z. ]+//' >driven
  [[ -s pooled ]] || fail "no stream-ordered allocation is named"
  cmp -s pooled driven && return
  diff pooled driven
  fail "the report names the allocation otherwise"
}
for way in shared static linked proc; do
  add_case "async leaks $way" async_leaks_case "$way"
done

add_case "async unknown choice" bad_option_case GPUSHIM_ASYNC=perhaps \
  'GPUSHIM_ASYNC=perhaps: not one of '

# With the pool off there is none to serve from.
async_without_pool_case() {
  run_in native -- "$apps/async_linked"
  preloaded shim GPUSHIM_ASYNC=pool GPUSHIM_POOL=off CUDASIM_LOG=2 -- "$apps/async_linked"
  expect_same native shim
  [[ $(count_driver_calls shim.err) -ge 400 ]] || fail "the driver was not asked"
}
add_case "async without the pool" async_without_pool_case

# Why the driver serves after all is said once, to who asks.
async_why_case() {
  need_file "$build/order/order"
  preloaded order GPUSHIM_ASYNC=pool GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE="$PWD/log" -- \
    "$build/order/order" --seeds 1 async.another_current_pool
  expect_status order 0
  expect_count log 'the driver serves stream-ordered memory of GPU 0 from now on: .* another pool$' 1
}
add_case "async another pool" async_why_case
