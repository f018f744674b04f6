# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# classes.sh - size classes and carving change how often the driver is asked, and nothing
# a program can see; a value that is wrong is named in one line, with what was done.

# driver_allocations FILE: how often the driver was asked for memory.
driver_allocations() {
  grep -cE '^cudasim: cuMemAlloc(_v[0-9])?$' "$1"
}

# 53 blocks at once: four segments as shipped, one each where all are rounded to 4 MiB.
classes_round_case() {
  preloaded plain CUDASIM_LOG=2 -- "$apps/limits_linked" warm 1
  preloaded classed GPUSHIM_POOL_SIZE_CLASSES=4M GPUSHIM_POOL_CARVE=off CUDASIM_LOG=2 -- \
    "$apps/limits_linked" warm 1
  expect_same plain classed
  expect_equal "driver allocations as shipped" 4 "$(driver_allocations plain.err)"
  expect_equal "driver allocations rounded" 53 "$(driver_allocations classed.err)"
}
add_case "classes round requests" classes_round_case

# classes_same_case "WHAT..." VARIABLE...: what fits natively fits. Where large blocks share
# segments, half of them freed need not be half of the device free: that is not asked.
classes_same_case() {
  local what programs=$1

  shift
  for what in $programs; do
    run_in native CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 -- "$apps/limits_linked" "$what" 300
    run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 "$@" -- \
      "$apps/limits_linked" "$what" 300
    expect_same native shim
    expect_only_report shim.err
  done
}
for value in stratified dotcompute; do
  add_case "classes $value on a full device" \
    classes_same_case "device mixed churn" GPUSHIM_POOL_SIZE_CLASSES="$value"
done
add_case "carve on a full device" classes_same_case churn GPUSHIM_POOL_CARVE=1
add_case "carve and classes on a full device" \
  classes_same_case churn GPUSHIM_POOL_CARVE=1 GPUSHIM_POOL_SIZE_CLASSES=dotcompute

# By default only where there is memory to spare.
carve_case() {
  local way apart always spare

  for way in off on auto; do
    preloaded "$way" GPUSHIM_POOL_CARVE=$way CUDASIM_MEMORY=4G CUDASIM_LOG=2 -- "$apps/limits_$1" churn 400
    expect_same off "$way"
  done
  apart=$(driver_allocations off.err)
  always=$(driver_allocations on.err)
  spare=$(driver_allocations auto.err)
  [[ $always -lt $spare && $spare -lt $apart ]] ||
    fail "driver allocations: $always (on), $spare (auto), $apart (off): not rising"
}
for way in shared static linked proc; do
  add_case "carve asks the driver less, $way" carve_case $way
done

classes_bad_case() {
  local value line

  for value in 4K,2K huge 4K,,8K 0; do
    preloaded shim GPUSHIM_POOL_SIZE_CLASSES="$value" -- "$apps/limits_linked" warm 1
    native native "$apps/limits_linked" warm 1
    expect_same native shim
    line="^gpushim: GPUSHIM_POOL_SIZE_CLASSES=$value: .*; sizes are not rounded\$"
    expect_count shim.err "$line" 1
    expect_count shim.err '^gpushim: GPUSHIM_POOL' 1
  done
  preloaded shim GPUSHIM_POOL_CARVE=perhaps -- "$apps/limits_linked" warm 1
  expect_count shim.err '^gpushim: GPUSHIM_POOL_CARVE=perhaps: .*; using auto' 1
}
add_case "classes with mistakes" classes_bad_case

# Blocks of 2 MiB and more start at 2 MiB and share no 2 MiB, whether large blocks share
# segments or not.
large_start_case() {
  same_as_native "$@" -- "$apps/largeblocks_linked"
}
for value in auto on off; do
  add_case "carve $value: where large blocks start" \
    large_start_case GPUSHIM_POOL_CARVE=$value CUDASIM_MEMORY=4G
done
