# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# capacity.sh - a small device holds as much under the library as without it, whatever it
# is filled with, and whatever was freed before.

capacity_seeds=${E2E_CAPACITY_SEEDS:-60}

# capacity_case FIRST [VARIABLE...]: plans from that number on.
capacity_case() {
  local -x CUDASIM_MEMORY=64M CUDASIM_DEVICES=2

  need_file "$apps/capacity_linked"
  run_in native -- "$apps/capacity_linked" "$1" "$capacity_seeds"
  expect_status native 0
  expect_count native.out '^# plan ' "$capacity_seeds"
  preloaded shim GPUSHIM_REPORT_ON=oom "${@:2}" -- \
    "$apps/capacity_linked" "$1" "$capacity_seeds" native.out
  [[ $(<shim.status) == 0 ]] && return
  head -n 20 shim.out
  fail "the device holds less than without the library"
}
add_case "capacity" capacity_case 1
add_case "capacity, frees that do not wait" capacity_case 10001 GPUSHIM_FREE_SYNC=lazy
add_case "capacity, without caches" capacity_case 30001 GPUSHIM_POOL_CACHE=0
add_case "capacity, segments of 2 MiB" capacity_case 40001 GPUSHIM_POOL_SEGMENT=2M
