# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# free_classes.sh - devices whose free does not wait for everything (CUDASIM_FREE_WAITS),
# and the library is told so (GPUSHIM_FREE_WAITS): what is right natively on such a device
# has no order lost and no wait too many here, in both schedules.
#
# Programs of tests/order are the judges. Which of them are right on the device is found
# out without the library. E2E_FREE_CLASSES=all takes more devices and programs.

free_classes_values=(none blocking)
free_classes_others=(device "pinned=none,managed=none" device.tiny=none
  "device=none,device.large=context" pinned=blocking)
# One seed each, unless all is asked for.
free_classes_rare=("${free_classes_others[@]:0:$(sized 2 5)}")
free_classes_topics=(idle. peers. pools. memory.free memory.pinned events. host. rules.)
[[ ${E2E_FREE_CLASSES:-} != all ]] || {
  free_classes_values+=("${free_classes_others[@]}")
  free_classes_rare=()
  free_classes_topics+=(streams. legacy. per_thread. copies. host_function. words.
    threads. ordered. graphs. programmatic. deadlock.)
}

# The first three have a CUDASIM_FREE_WAITS of their own. The fourth: a free from a host
# function, which the driver refuses, is accepted where a free does not wait, as in the lazy
# mode. The others: memory that is held back while a kernel runs serves no request (docs/free.md,
# "What a native free waits for", Limits).
free_classes_left_out=(memory.free_that_waits_for_nothing memory.free_that_waits_for_blocking
  memory.free_that_waits_for_blocking_streams deadlock.host_function_allocates
  peers.freed_memory_is_there_beside_a_peer deadlock.asked_again_after_a_refusal
  deadlock.asked_again_long_after_a_refusal deadlock.asked_again_after_smaller_ones)

# right_on_device VALUE OPTION... NAME...: those of the programs that are right there,
# sorted.
right_on_device() {
  env CUDASIM_FREE_WAITS="$1" LD_LIBRARY_PATH="$build/sim" "$build/order/order" --jobs 4 --verbose "${@:2}" 2>/dev/null |
    awk '$1 == "ok" && $3 == "right" { print $2 }' | sort
}

# free_classes_right VALUE: the same in both schedules. A program that hangs there does so
# for 20 s by threads, so those are asked second.
free_classes_right() {
  local names

  readarray -t names < <(right_on_device "$1" --seeds 6 "${free_classes_topics[@]}")
  [[ ${#names[@]} -gt 0 ]] || return
  right_on_device "$1" --threads --seeds 3 "${names[@]}" |
    comm -12 <(printf '%s\n' "${names[@]}") - |
    grep -vxF "$(printf '%s\n' "${free_classes_left_out[@]}")"
}

# free_classes_right_once VALUE: the same; the cases of one device ask once.
free_classes_right_once() {
  (
    flock 9
    [[ -s $scratch/right.$1 ]] || free_classes_right "$1" >"$scratch/right.$1"
    cat "$scratch/right.$1"
  ) 9>>"$scratch/right.$1.lock"
}

# free_classes_ran NUMBER: order has judged so many programs, and ended of its own accord.
free_classes_ran() {
  local ran
  ran=$(sed -nE 's/^order: ([0-9]+) planted, [0-9]+ found; ([0-9]+) right, .* runs$/\1 + \2/p' order.out)
  [[ -n $ran && $(<order.status) -le 1 ]] || fail "order ended with $(<order.status), and without figures"
  expect_no_text order.err '^order: '
  [[ $((ran)) -ge $1 ]] || fail "order has judged $((ran)) programs, $1 were to be"
}

# free_classes_bad: names of programs that are faulted, sorted. order says the worst status
# of each. A program that misses an address which is used again natively says so with
# status 1, and is none.
free_classes_bad() {
  awk '/^FAILED .* status [0-9]+\): /{ name = $2; status = $6 + 0; said = 0; next }
    name && /address (is used again )?at once/ { said = 1 }
    name && (/^FAILED / || /^order: /) {
      if (status != 1 || !said) print name
      name = ""
    }' order.out | sort -u
}

# free_classes_case VALUE OPTION...
free_classes_case() {
  local value=$1 bad

  need_file "$build/order/order"
  free_classes_right_once "$value" >right
  [[ $(wc -l <right) -ge 15 ]] || fail "few programs are right on such a device: $(wc -l <right)"
  preloaded order CUDASIM_FREE_WAITS="$value" GPUSHIM_FREE_WAITS="$value" "${verdict_alone[@]}" \
    GPUSHIM_POOL_WAIT=100ms -- "$build/order/order" "${@:2}" --jobs 4 "${free_classes_topics[@]}"
  free_classes_ran "$(wc -l <right)"
  bad=$(free_classes_bad | comm -12 - right)
  [[ -z $bad ]] && return
  grep -v '^cudasim: ' order.out | grep -A 3 -F "$bad" | head -n 40
  fail "right on the device, and not under the library: ${bad//$'\n'/ }"
}
for value in "${free_classes_values[@]}"; do
  add_case "free classes $value hostile" free_classes_case "$value" --seeds "$(sized 1 2)"
  add_case "free classes $value threads" free_classes_case "$value" --threads --seeds "$(sized 1 2)"
done
for value in "${free_classes_rare[@]}"; do
  add_case "free classes $value once" free_classes_case "$value" --seeds 1
done

# Devices with words of their own, and what is shipped in the other schedule.
free_classes_shipped_case() {
  need_file "$build/order/order"
  preloaded order "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=100ms -- \
    "$build/order/order" --threads --seeds "$(sized 1 2)" --jobs 4 peers. pools. classes.
  free_classes_ran 30
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed under the library"
}
add_case "free classes as shipped, threads" free_classes_shipped_case

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
