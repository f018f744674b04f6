# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# semantics.sh - calls that the driver refuses natively are refused with the library, with
# the same answers, and are errors of the report; right ones beside them are not.

# semantics_case WHAT REGEX [VAR=value...]: the answers are the native ones, and the SUMMARY
# line matches.
semantics_case() {
  local what=$1 summary=$2

  shift 2
  native native "$apps/wronguses_linked" "$what"
  expect_status native 0
  preloaded shim GPUSHIM_REPORT_ON=oom "$@" -- "$apps/wronguses_linked" "$what"
  expect_same native shim
  expect_text shim.err "SUMMARY: gpushim: $summary, "
}

# Alone sees: a use past a block of the pool, or of a freed one, that goes through, and
# overwrites a neighbour; a right use that is refused.
for mode in default GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait GPUSHIM_ASYNC=pool \
  GPUSHIM_POOL_VMM=on GPUSHIM_POOL_CARVE=on GPUSHIM_CHECK=redzone:256 \
  GPUSHIM_CHECK=quarantine:64M GPUSHIM_CHECK=args; do
  setting=GPUSHIM_LOG=warn
  [[ $mode != default ]] && setting=$mode
  add_case "wrong uses $mode" semantics_case memory '[1-9][0-9]* errors' "$setting"
  add_case "right uses $mode" semantics_case inside '0 errors' "$setting"
done
add_case "wrong uses no pool" semantics_case memory '0 errors' GPUSHIM_POOL=off
add_case "wrong uses not tracked" semantics_untracked_case memory

# Without a tracker there is no report, and the answers are the same.
semantics_untracked_case() {
  native native "$apps/wronguses_linked" "$1"
  expect_status native 0
  preloaded shim GPUSHIM_TRACK=off -- "$apps/wronguses_linked" "$1"
  expect_same native shim
}

# Alone sees: freed pinned memory that the driver still knows, to the calls for registered memory.
semantics_pinned_case() {
  native native "$apps/pinneduses_linked"
  expect_status native 0
  expect_text native.out '^pinneduses: unregister pinned +64  1$'
  expect_text native.out '^pinneduses: unregister freed +64  713$'
  preloaded shim "$@" -- "$apps/pinneduses_linked"
  expect_same native shim
}
for setting in GPUSHIM_VERBOSE=1 GPUSHIM_POOL=device,managed GPUSHIM_TRACK=off GPUSHIM_FREE_SYNC=lazy; do
  add_case "pinned memory unregistered $setting" semantics_pinned_case "$setting"
done

# Alone sees: a second destroy of an event, or another call with it, that reaches an event of
# the library's own.
add_case "stale events" semantics_case events '[1-9][0-9]* errors?'
add_case "stale events lazy" semantics_case events '[0-9]+ errors?' \
  GPUSHIM_FREE_SYNC=lazy
add_case "stale events async" semantics_case events '[1-9][0-9]* errors?' GPUSHIM_ASYNC=pool
add_case "stale events no pool" semantics_case events '0 errors' GPUSHIM_POOL=off

# Alone sees: a stream of the library's own with the handle of a stream that ended.
for setting in GPUSHIM_CHECK=fill:poison GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy; do
  add_case "stale streams $setting" semantics_case streams '0 errors' "$setting"
done
semantics_old_driver_case() {
  CUDASIM_DRIVER_VERSION=12040 semantics_case streams '0 errors' GPUSHIM_FREE_SYNC=lazy
}
add_case "stale streams before CUDA 12.5" semantics_old_driver_case

# Alone sees: a free in a host function that goes through while another stream captures.
add_case "free in a host function" semantics_case callback '0 errors'
add_case "free in a host function async" semantics_case callback '0 errors' GPUSHIM_ASYNC=pool

# Alone sees: a limit that is asked before the driver.
semantics_limit_case() {
  native native CUDASIM_MEMORY=512M "$apps/wronguses_linked" limit
  expect_status native 0
  preloaded shim CUDASIM_MEMORY=512M "$@" -- "$apps/wronguses_linked" limit
  expect_same native shim
}
add_case "limit behind the driver's answers" semantics_limit_case GPUSHIM_MEM_LIMIT=64M
