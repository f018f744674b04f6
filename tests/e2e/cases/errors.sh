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
