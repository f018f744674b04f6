# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# scan.sh - GPUSHIM_LEAK_SCAN: for each place where a program may keep an address, what the
# report says of a leak whose address is kept there.

# scan_fates FILE: "function fate" for each leak.
scan_fates() {
  awk '
    $2 == "LEAK" { getline; fate = $0; sub(/.*(GPU [0-9]+|host memory), /, "", fate)
                     sub(/(age|oldest) [0-9a-z. ]+, (newest [0-9a-z. ]+, )?/, "", fate) }
    $2 == "#0" { print $3, fate }' "$1" | sort
}

# scan_case WAY
scan_case() {
  same_as_native GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- "$apps/referenced_$1"
  expect_only_report shim.err
  scan_fates shim.err >found
  cat >wanted <<'END'
hide_it lost (no host pointer found)
keep_in_data still referenced
keep_in_freed_chunk still referenced
keep_in_private_file still referenced
keep_in_shared_file lost (no host pointer found)
keep_inside_only still referenced (inside only)
keep_on_heap still referenced
keep_on_stack_of_main still referenced
keep_on_stack_of_thread still referenced
keep_one_of_two 1 lost, 1 still referenced
overwrite_it lost (no host pointer found)
END
  sort -o wanted wanted
  cmp -s wanted found && return
  diff -u wanted found
  fail "what is lost and what is referenced"
}
for way in shared static linked; do
  add_case "scan planted pointers $way" scan_case "$way"
done

# When main returns its variables are gone: what is said of them is left open, the rest is as
# before.
scan_return_case() {
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- "$apps/referenced_$1" return
  expect_count shim.err '^==[0-9]+== LEAK [0-9]+: ' 11
  scan_fates shim.err >found
  expect_text found '^keep_in_data still referenced$'
  expect_text found '^keep_on_stack_of_thread still referenced$'
  expect_text found '^overwrite_it lost '
  expect_text found '^hide_it lost '
}
for way in static linked; do
  add_case "scan after main returned $way" scan_return_case "$way"
done

# Not asked for: nothing is said.
scan_off_case() {
  preloaded shim GPUSHIM_LEAK_MAX=50 -- "$apps/referenced_linked"
  expect_count shim.err ', live at exit$' 11
  expect_no_text shim.err 'still referenced|no host pointer'
}
add_case "scan off" scan_off_case

# The library's own tables hold each address, in every setting that has more of them.
scan_own_tables_case() {
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 "$@" -- "$apps/referenced_linked"
  expect_count shim.err ', lost \(no host pointer found\)$' 3
  expect_count shim.err '1 lost, 1 still referenced$' 1
}
add_case "scan with a limit" scan_own_tables_case GPUSHIM_MEM_LIMIT=50%
add_case "scan with a trace" scan_own_tables_case GPUSHIM_TRACE_FILE=trace
# A file there is shared memory, which the scan reads.
scan_own_files_case() {
  local folder

  folder=$(mktemp -d /dev/shm/gpushim-scan.XXXXXX 2>/dev/null) || skip "a file in shared memory"
  # shellcheck disable=SC2064  # this folder
  trap "rm -rf '$folder'" EXIT
  scan_own_tables_case GPUSHIM_TRACE_FILE="$folder/trace" GPUSHIM_STATE_FILE="$folder/state"
}
add_case "scan with files in shared memory" scan_own_files_case
add_case "scan with lazy frees" scan_own_tables_case GPUSHIM_FREE_SYNC=lazy
add_case "scan with size classes" scan_own_tables_case GPUSHIM_POOL_SIZE_CLASSES=4K,64K

# Served by the driver, whose own copies cannot be told from the program's on the heap.
scan_driver_case() {
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 GPUSHIM_POOL=off -- \
    "$apps/referenced_linked"
  expect_text shim.err '(referenced, perhaps only by the driver|lost \(no host pointer found\))$'
  scan_fates shim.err >found
  expect_text found '^keep_in_data still referenced$'
  expect_text found '^keep_on_stack_of_main still referenced$'
  expect_no_text found '^(overwrite_it|hide_it) still referenced$'
}
add_case "scan without the pool" scan_driver_case

# Near the limit of its address space a program gets its report, with a scan or with a line that
# says why there is none.
scan_address_space_case() {
  local room

  for room in 0 64 256 1024; do
    preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- \
      "$apps/referenced_linked" room "$room"
    expect_status shim 0
    expect_text shim.err 'SUMMARY: gpushim: 0 errors, 48[.]0 KiB leaked in 12 allocations'
    expect_text shim.err '^==[0-9]+== Note: no scan for pointers: [a-z ]+$'
    expect_no_text shim.err 'no host pointer found|still referenced'
  done
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- \
    "$apps/referenced_linked" room 65536
  expect_status shim 0
  expect_count shim.err ', lost \(no host pointer found\)$' 3
}
add_case "scan with little address space" scan_address_space_case

# Without any capability: looking at its own memory needs none.
scan_unprivileged_case() {
  need setpriv
  setpriv --bounding-set -all --inh-caps -all true 2>/dev/null || skip "setpriv as root"
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- \
    setpriv --bounding-set -all --inh-caps -all --no-new-privs "$apps/referenced_linked"
  expect_count shim.err ', lost \(no host pointer found\)$' 3
}
add_case "scan without capabilities" scan_unprivileged_case

# A clean program has nothing to look for.
scan_clean_case() {
  preloaded shim GPUSHIM_LEAK_SCAN=on -- "$apps/levels_linked"
  expect_clean shim.err
}
add_case "scan clean" scan_clean_case
