# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# free_classes.sh - devices whose free does not wait for everything (CUDASIM_FREE_WAITS),
# and the library is told so (GPUSHIM_FREE_WAITS): what is right natively on such a device
# has no order lost and no wait too many here, in both schedules.
#
# Programs of tests/order are the judges. Which of them are right on the device is found
# out without the library. E2E_FREE_CLASSES=all takes more devices and programs.

free_classes_values=(none blocking)
free_classes_topics=(idle. peers. memory.free memory.pinned events. host. rules.)
[[ ${E2E_FREE_CLASSES:-} != all ]] || {
  free_classes_values+=(device device.tiny=none device=none,device.large=context
    pinned=none,managed=none pinned=blocking)
  free_classes_topics+=(streams. legacy. per_thread. copies. host_function. words.
    threads. ordered. graphs. programmatic. deadlock.)
}

# The first three have a CUDASIM_FREE_WAITS of their own. The last: a free from a host
# function, which the driver refuses, is accepted where a free does not wait, as in the lazy
# mode (docs/free.md).
free_classes_left_out=(memory.free_that_waits_for_nothing memory.free_that_waits_for_blocking
  memory.free_that_waits_for_blocking_streams deadlock.host_function_allocates)

# right_on_device VALUE OPTION...: names of programs that are right there, sorted.
right_on_device() {
  env CUDASIM_FREE_WAITS="$1" LD_LIBRARY_PATH="$build/sim" "$build/order/order" "${@:2}" --verbose \
    "${free_classes_topics[@]}" 2>/dev/null |
    awk '$1 == "ok" && $3 == "right" { print $2 }' | sort
}

# free_classes_case VALUE OPTION...: a finding of the oracle (status 66) or a hang (128 and
# more) under the library is a fault; a program that misses an address which is used again
# natively says so with status 1, and is none.
free_classes_case() {
  local value=$1 bad

  need_file "$build/order/order"
  comm -12 <(right_on_device "$value" --seeds 6) <(right_on_device "$value" --threads --seeds 3) |
    grep -vxF "$(printf '%s\n' "${free_classes_left_out[@]}")" >right
  [[ $(wc -l <right) -ge 15 ]] || fail "few programs are right on such a device: $(wc -l <right)"
  preloaded order CUDASIM_FREE_WAITS="$value" GPUSHIM_FREE_WAITS="$value" GPUSHIM_LEAK_REPORT=off \
    GPUSHIM_POOL_WAIT=100ms -- "$build/order/order" "${@:2}" "${free_classes_topics[@]}"
  bad=$(sed -nE 's/^FAILED ([a-z_.0-9]+) \(seed [0-9]+, status (66|1[2-9][0-9])\).*/\1/p' order.out |
    sort -u | comm -12 - right)
  [[ -z $bad ]] && return
  grep -v '^cudasim: ' order.out | grep -A 3 -F "$bad" | head -n 40
  fail "right on the device, and not under the library: ${bad//$'\n'/ }"
}
for value in "${free_classes_values[@]}"; do
  add_case "free classes $value hostile" free_classes_case "$value" --seeds 2
  add_case "free classes $value threads" free_classes_case "$value" --threads --seeds 2
done

# free_classes_value_case VALUE [WRONG]: the item of it that is wrong is named, once.
free_classes_value_case() {
  preloaded shim GPUSHIM_FREE_WAITS="$1" -- "$apps/freewait_linked"
  expect_status shim 0
  if [[ $# == 2 ]]; then
    expect_count shim.err '^gpushim: ' 1
    expect_text shim.err "^gpushim: GPUSHIM_FREE_WAITS: '$2' is not .*: not used, each free waits"
  else
    expect_no_text shim.err 'GPUSHIM_FREE_WAITS'
  fi
}
add_case "free classes named" free_classes_value_case device.tiny=none,pinned=blocking,managed.large=device
add_case "free classes with a word unknown" free_classes_value_case device=none,pinned=some pinned=some
add_case "free classes with a class unknown" free_classes_value_case host=none host=none
add_case "free classes with an empty item" free_classes_value_case none, ""
