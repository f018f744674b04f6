# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# live.sh - live allocations by gpushim.h and the Python module: by address, visited, and compared by
# snapshots, while threads allocate, in forked children, and of a process that was attached to. docs/api.md

uses python attach

# What the functions return; a mistake in bounds of an allocation, in the number of a reused address, in the row of a
# kind of memory, or in the sums of a call site would be seen here alone.
live_case() {
  need_file "$apps/live_$1"
  preloaded shim -- "$apps/live_$1"
  expect_status shim 0
  sed -E 's/live[.]c:[0-9]+( [(]inlined[)])?/live.c/' shim.out >found
  diff -u "$sources/tests/apps/live/found.txt" found || fail 'what the functions return'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for way in $(ways_of live); do
  add_case "live $way" live_case "$way"
done

# Without stacks: which memory is found is exact, and why it has no stack is said.
live_sampled_case() {
  preloaded sampled GPUSHIM_STACK=sample:1G -- "$apps/live_shared"
  expect_status sampled 0
  expect_text sampled.out '^its last byte: success; 5000 bytes at [+]4999 on 0, device, no owner, scope "", no call stack: not sampled$'
  expect_text sampled.out '^one past its end: not found$'
  preloaded small GPUSHIM_STACK=min:6000 -- "$apps/live_shared"
  expect_text small.out '^its start: success; 5000 bytes .* no call stack: smaller than GPUSHIM_STACK=min$'
  expect_text small.out '^inside a large one: success; .*, a stack$'
  preloaded off GPUSHIM_TRACK=off -- "$apps/live_shared"
  expect_status off 0
  expect_text off.out '^(its start|inside a large one): switched off by an option$'
  expect_text off.out '^a snapshot: switched off by an option$'
  preloaded pool GPUSHIM_POOL=off -- "$apps/live_shared"
  sed -E 's/live[.]c:[0-9]+( [(]inlined[)])?/live.c/' pool.out >found
  diff -u "$sources/tests/apps/live/found.txt" found || fail 'what the functions return without the pool'
}
add_case "live sampled, off" live_sampled_case

# Without the library all is INACTIVE.
live_inactive_case() {
  native native "$apps/live_shared"
  expect_status native 0
  [[ $(grep -c ": gpushim is not active in this process" native.out) -ge 28 ]] || fail "too few calls are INACTIVE"
  expect_no_text native.out ': success'
}
add_case "live inactive" live_inactive_case

# What is live throughout is visited once while four threads allocate and free; a lost or doubled record, or one
# visited by parts of two, would be seen here alone.
live_threads_case() {
  preloaded shim "${@:2}" -- "$apps/live_$1" threads
  expect_status shim 0
  expect_text shim.out '^threads: ok$'
}
add_case "live threads" live_threads_case shared
add_case "live threads without pool" live_threads_case linked GPUSHIM_POOL=off

live_forks_case() {
  preloaded shim -- "$apps/live_$1" forks
  expect_status shim 0
  expect_text shim.out '^the visit of the parent: success, 2 calls; wrong in the child: 0$'
}
add_case "live forks" live_forks_case shared
add_case "live forks linked" live_forks_case linked

# A program that called before gpushim attach finds the library afterwards; memory of before is not known. After gpushim detach
# nothing is: frees are no longer recorded.
live_attach_case() {
  attach_start "$apps/live_$1" attach
  run_in attach -- "$build/gpushim" attach "$pid"
  expect_status attach 0
  attach_step begin 'done'
  run_in detach -- "$build/gpushim" detach "$pid"
  attach_step end ''
  wait "$pid" || fail 'the program failed'
  expect_equal 'what it found' 'without a library: gpushim is not active in this process
ready
from before: not found
since: success; 2000 bytes at +1999 on 0, device, its owner, scope "", a stack
all: success, 1 allocations, 2000 bytes
done
detached: gpushim is not active in this process
all: gpushim is not active in this process, 0 allocations, 0 bytes' "$(<program.out)"
}
for way in shared linked; do
  add_case "live attached $way" live_attach_case "$way"
done

# The Python module finds the same, with typed results; a struct that differs from the header's would be seen here.
live_python_case() {
  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/live.py"
  expect_status shim 0
  diff -u "$python_sources/live.txt" shim.out || fail "what Python $1 found is not what it should be"
  run_in native PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/live.py"
  expect_status native 0
  expect_quiet native
  expect_text native.out '^early: None \[\] [(][)]$'
  expect_text native.out '^all: \[\] \[\]$'
}
for version in 3.8 3.11 3.13; do
  add_case "live python $version" live_python_case "$version"
done
