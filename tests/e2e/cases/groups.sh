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
  [[ ${2-} ]] || diff -u "$sources/tests/apps/groups/found.txt" native.out || fail 'what the functions return'
}
for way in $(ways_of groups); do
  add_case "owned groups $way" groups_case "$way"
done

# Counters and memory of four threads: an update that is lost, or memory handed out twice, would be seen here alone.
groups_threads_case() {
  groups_case "$1" threads
  expect_text native.out '^  "": 20480000 bytes now, 20480000 at most, 80000 allocations, 80000 typed, 20 reused, 80000 live$'
}
add_case "owned groups threads" groups_threads_case linked

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
groups_python_case() {
  find_python "$1"
  run_in native PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/groups.py"
  expect_status native 0
  expect_quiet native
  diff -u "$python_sources/groups.txt" native.out || fail "groups of Python $1 are not what they should be"
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/groups.py"
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for version in 3.8 3.11 3.13; do
  add_case "owned groups python $version" groups_python_case "$version"
done
