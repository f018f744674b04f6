# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# errors.sh - frees that are wrong: the program gets its native answer, and the report says
# what was wrong and where.

# badfree_case WAY WHAT TEXT FUNCTION COUNT
badfree_case() {
  local program=$apps/badfree_$1

  need_file "$program"
  same_as_native -- "$program" "$2"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: ' "$5"
  expect_count shim.err "^==[0-9]+== ERROR [0-9]+: $3" "$5"
  expect_text shim.err "#0 $4 .*badfree[.]c:"
  expect_text shim.err "SUMMARY: gpushim: $5 $(plural "$5" error), 0 B leaked"
}

for way in shared static linked proc; do
  add_case "errors double free $way" badfree_case "$way" double 'double free of 0x' free_twice 1
  add_case "errors interior pointer $way" \
    badfree_case "$way" interior 'invalid free of 0x' free_interior 1
  add_case "errors stack pointer $way" \
    badfree_case "$way" stack 'invalid free of 0x' free_stack 1
  add_case "errors never allocated $way" \
    badfree_case "$way" unknown 'invalid free of 0x' free_unknown 1
done

# Each kind of memory, freed by two functions: both are named, and the allocation.
# freedtwice_case WAY KIND HOW [VARIABLE...]
freedtwice_case() {
  need_file "$apps/freedtwice_$1"
  native native "$apps/freedtwice_$1" "$2" "$3"
  preloaded shim "${@:4}" -- "$apps/freedtwice_$1" "$2" "$3"
  expect_same native shim
  expect_count shim.err '^==[0-9]+== ERROR ' 1
  expect_count shim.err '^==[0-9]+== ERROR 1: double free of 0x' 1
  awk '$2 == "ERROR" { inside = 1 } inside && NF == 1 { exit }
    / (freed again|first freed|allocated) at / { print $2 } / #0 / { print $3 }' shim.err | paste -sd ' ' >places
  expect_equal "places" 'freed give_again first give_first allocated take' "$(<places)"
}
for way in shared static linked proc; do
  for kind in small large ordered managed pinned; do
    add_case "errors $kind freed twice $way" freedtwice_case "$way" $kind ''
  done
  add_case "errors freed twice by two threads $way" freedtwice_case "$way" small elsewhere
done
for setting in GPUSHIM_POOL=off GPUSHIM_POOL_CARVE=on GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy \
  GPUSHIM_STACK=sample:1 GPUSHIM_CHECK=args GPUSHIM_CHECK=quarantine:64M; do
  for kind in small large ordered managed pinned; do
    add_case "errors $kind freed twice $setting" freedtwice_case linked $kind elsewhere "$setting"
  done
done

# After a loop of frees that leaves the thread no budget: with a check the free has its stack
# nevertheless; one without a stack names the option.
# freedtwice_loop_case FREED [VARIABLE...]
freedtwice_loop_case() {
  native native "$apps/freedtwice_linked" small loop
  preloaded shim "${@:2}" -- "$apps/freedtwice_linked" small loop
  expect_same native shim
  expect_count shim.err '^==[0-9]+== ERROR 1: double free of 0x' 1
  grep -A1 ' first freed at ' shim.err | sed -E 's/^==[0-9]+== *//; s/ at .* by thread [0-9]+//; s/ +[a-z]+[.]c:.*//' |
    paste -sd ' ' >freed
  expect_text freed "^$1"
}
add_case "errors freed twice in a loop, with checks" freedtwice_loop_case 'first freed #0 give_first$' \
  GPUSHIM_CHECK=args
add_case "errors freed twice in a loop, stacks off" \
  freedtwice_loop_case 'first freed [(]no call stack recorded: GPUSHIM_STACK=free[)] allocated' \
  GPUSHIM_STACK=free:off

# So many frees in between that the first is forgotten: it is called no double free, and no
# other free is blamed for it.
freedtwice_late_case() {
  native native "$apps/freedtwice_linked" small late
  preloaded shim -- "$apps/freedtwice_linked" small late
  expect_same native shim
  expect_count shim.err '^==[0-9]+== ERROR ' 1
  expect_count shim.err '^==[0-9]+== ERROR 1: invalid free of 0x' 1
  expect_text shim.err 'not a live or recently freed allocation'
  expect_no_text shim.err 'first freed'
}
add_case "errors freed twice, long ago" freedtwice_late_case

# All of them in one run, with parts switched off; the program's answers stay the same.
# badfree_switched_case WAY VARIABLE
badfree_switched_case() {
  same_as_native "$2" -- "$apps/badfree_$1"
  expect_only_report shim.err
}
for setting in GPUSHIM_POOL=off GPUSHIM_TRACK=off GPUSHIM_STACK=off GPUSHIM_ENABLE=off; do
  add_case "errors all $setting" badfree_switched_case static "$setting"
done

# A pointer from before a reset.
# stale_case WAY
stale_case() {
  same_as_native -- "$apps/reset_$1" stale
  expect_only_report shim.err
}
for way in shared linked; do
  add_case "errors free after reset $way" stale_case "$way"
done

# No file can be opened at the end: functions are missing, and the report says why.
errors_files_case() {
  # shellcheck disable=SC2016  # for the inner shell
  preloaded shim -- bash -c 'ulimit -n 4 && exec "$0" interior' "$apps/badfree_shared"
  expect_text shim.err 'ERROR 1: invalid free of 0x'
  expect_text shim.err '^==[0-9]+== Note: functions are missing: [^ ]* cannot be read: too many open files$'
}
add_case "errors without files to open" errors_files_case
