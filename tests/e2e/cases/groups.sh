# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# groups.sh - groups of buffers: C, and the Python module. docs/api.md

uses python owned

# Counters, reuse by size, a clear, wrong arguments: the same with the library and without it.
groups_case() {
  need_file "$apps/groups_$1"
  same_as_native -- "$apps/groups_$1" "${@:2}"
  expect_status native 0
  expect_quiet native
  expect_clean shim.err
}
for way in $(ways_of groups); do
  add_case "owned groups $way" groups_case "$way"
done

# Counters and memory of four threads: an update that is lost, or memory handed out twice, would be seen here alone.
add_case "owned groups threads" groups_case linked threads

add_case "owned groups sanitized" owned_sanitized_case groups
add_case "owned groups threads sanitized" owned_sanitized_case groups threads

groups_leak_case() {
  preloaded leak -- "$apps/groups_shared" leak
  expect_text leak.err 'LEAK 1: 12[.]1 KiB in 1 allocation'
  expect_text leak.err 'LEAK 2: 777 B in 1 allocation'
  expect_count leak.err '\[scope bfs_traversal\]$' 1
}
add_case "owned groups in the report" groups_leak_case

# A group that grows too slowly, frees too much or loses a buffer in Python.
for version in 3.8 3.11 3.13; do
  add_case "owned groups python $version" python_program_case "$version" groups
done
