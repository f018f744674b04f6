# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# checks_args.sh - GPUSHIM_CHECK=args: copies and sets of memory that is not theirs are
# errors of the report, told as they were made; programs that are right are not accused.

uses outputs state

# errors_of FILE: its errors alone, without what differs from run to run.
errors_of() {
  sed -nE '/^==[0-9]+== ERROR /,/^==[0-9]+==( $|$)/p' "$1" |
    sed -E 's/^==[0-9]+==( |$)//
      s/0x[0-9a-f]+/ADDRESS/g
      s/ at [0-9.]+ ?(us|ms|s)( by|,|$)/ at TIME\2/
      s/thread [0-9]+( "[^"]*")?/thread ID/
      s/badargs[.]c:[0-9]+/badargs.c/
      s/ +badargs[.]c/ badargs.c/'
}

# call_names WAY: a sed script that puts the way's own names in the place of {put}, {get},
# {malloc} ...
call_names() {
  local ending=

  [[ $1 == ptds ]] && ending=_ptds
  case $1 in
    linked | dlsym | proc)
      echo 's/[{]put[}]/cuMemcpyHtoD/; s/[{]get[}]/cuMemcpyDtoH/; s/[{]move[}]/cuMemcpy/
        s/[{]set[}]/cuMemsetD8/; s/[{]set_rows[}]/cuMemsetD2D8/; s/[{]malloc[}]/cuMemAlloc/
        s/[{]malloc_managed[}]/cuMemAllocManaged/; s/[{]malloc_host[}]/cuMemAllocHost/
        s/[{]malloc_async[}]/cuMemAllocAsync/'
      ;;
    *)
      echo "s/[{](put|get|move)[}]/cudaMemcpy$ending/; s/[{]set[}]/cudaMemset$ending/
        s/[{]set_rows[}]/cudaMemset2D$ending/; s/[{]malloc[}]/cudaMalloc/
        s/[{]malloc_managed[}]/cudaMallocManaged/; s/[{]malloc_host[}]/cudaMallocHost/
        s/[{]malloc_async[}]/cudaMallocAsync/"
      ;;
  esac
}

args_checks=(GPUSHIM_CHECK=args)

# args_case WAY WHAT TEXT [VAR=value...]: badargs WHAT has this one error. In TEXT {put} and
# the like are the way's own names, a line `@ FUNCTION` are the frames from there on, and
# `made FUNCTION` those of its allocation.
args_case() {
  local way=$1 what=$2 text=$3

  shift 3
  preloaded shim "${args_checks[@]}" GPUSHIM_REPORT_ON=oom "$@" -- "$apps/badargs_$way" \
    "$what"
  expect_status shim 0
  expect_only_report shim.err
  expect_equal "output" "badargs: $what" "$(<shim.out)"
  expect_text shim.err 'SUMMARY: gpushim: 1 error, '
  sed -E "$(call_names "$way")" <<<"$text" |
    sed -E 's/^@ (.*)/    #0 \1 badargs.c\n    #1 main badargs.c/
      s/^made (.*)/    #0 make badargs.c\n    #1 \1 badargs.c\n    #2 main badargs.c/' >wanted
  errors_of shim.err | sed '/^$/d' >found
  cmp -s wanted found && return
  diff -u wanted found
  fail "the report says something else"
}

# args_default_case WAY WHAT TEXT: likewise without an option.
args_default_case() {
  local args_checks=()

  args_case "$@"
}

args_freed='ERROR 1: use after free of ADDRESS (4.00 KiB, GPU 0, {get})
  to be read at TIME by thread ID
@ read_freed
  freed at TIME by thread ID
@ read_freed
  allocated at TIME by thread ID with {malloc}
made read_freed'
args_beyond='ERROR 1: overrun of ADDRESS by 512 B ({set} of 4.50 KiB at offset 0 of a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_beyond
  allocated at TIME by thread ID with {malloc}
made set_beyond'
for way in shared static ptds linked dlsym proc; do
  add_case "check args freed $way" args_case "$way" freed "$args_freed"
  add_case "check args overrun $way" args_case "$way" beyond "$args_beyond"
done
for setting in GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait \
  GPUSHIM_POOL_CACHE=0; do
  add_case "check args freed $setting" args_case static freed "$args_freed" "$setting"
  add_case "check args overrun $setting" args_case static beyond "$args_beyond" "$setting"
done
for way in static linked; do
  add_case "check args freed, held back $way" args_case "$way" freed "$args_freed" \
    GPUSHIM_CHECK=quarantine:8M
done
add_case "check args freed, held back and filled" args_case linked freed "$args_freed" \
  GPUSHIM_CHECK=quarantine:8M,fill:poison,redzone:256
add_case "check args overrun, neighbours held back" args_case linked beyond "$args_beyond" \
  GPUSHIM_CHECK=quarantine:8M

# Each kind of memory and of use, through one way of each API.
for way in static linked; do
  add_case "check args freed, large $way" args_case "$way" freed-large \
    'ERROR 1: use after free of ADDRESS (64.0 MiB, GPU 0, {put})
  to be written at TIME by thread ID
@ write_freed_large
  freed at TIME by thread ID
@ write_freed_large
  allocated at TIME by thread ID with {malloc}
made write_freed_large'
  add_case "check args freed, inside $way" args_case "$way" freed-inside \
    'ERROR 1: use after free of ADDRESS (64.0 KiB, GPU 0, {set})
  2,048 bytes into what was 64.0 KiB at ADDRESS
  to be written at TIME by thread ID
@ write_freed_inside
  freed at TIME by thread ID
@ write_freed_inside
  allocated at TIME by thread ID with {malloc}
made write_freed_inside'
  add_case "check args freed by another thread $way" args_case "$way" freed-elsewhere \
    'ERROR 1: use after free of ADDRESS (4.00 KiB, GPU 0, {move})
  to be read at TIME by thread ID
@ read_freed_elsewhere
  freed at TIME by thread ID
    #0 free_it badargs.c
  allocated at TIME by thread ID with {malloc}
made read_freed_elsewhere'
  add_case "check args freed managed memory $way" args_case "$way" freed-managed \
    'ERROR 1: use after free of ADDRESS (4.00 MiB, managed memory, GPU 0, {get})
  to be read at TIME by thread ID
@ read_freed_managed
  freed at TIME by thread ID
@ read_freed_managed
  allocated at TIME by thread ID with {malloc_managed}
@ read_freed_managed'
  add_case "check args freed pinned memory $way" args_case "$way" freed-pinned \
    'ERROR 1: use after free of ADDRESS (64.0 KiB, pinned host memory, {put})
  to be read at TIME by thread ID
@ read_freed_pinned
  freed at TIME by thread ID
@ read_freed_pinned
  allocated at TIME by thread ID with {malloc_host}
@ read_freed_pinned'
  add_case "check args lost with its context $way" args_case "$way" lost \
    'ERROR 1: use after free of ADDRESS (8.00 MiB, GPU 0, {get})
  to be read at TIME by thread ID
@ read_lost
  its context was destroyed or reset at TIME
  allocated at TIME by thread ID with {malloc}
made read_lost'
  add_case "check args overrun by a byte $way" args_case "$way" one-beyond \
    'ERROR 1: overrun of ADDRESS by 1 B ({set} of 1001 B at offset 0 of a live allocation of 1000 B, GPU 0)
  to be written at TIME by thread ID
@ set_one_beyond
  allocated at TIME by thread ID with {malloc}
made set_one_beyond'
  add_case "check args overrun from inside $way" args_case "$way" inside \
    'ERROR 1: overrun of ADDRESS by 1.00 KiB ({move} of 2.00 KiB at offset 3,072 of a live allocation of 4.00 KiB, GPU 0)
  to be read at TIME by thread ID
@ copy_from_inside
  allocated at TIME by thread ID with {malloc}
made copy_from_inside'
  add_case "check args overrun from the end $way" args_case "$way" behind \
    'ERROR 1: overrun of ADDRESS by 16 B ({set} of 16 B at offset 600 of a live allocation of 600 B, GPU 0)
  to be written at TIME by thread ID
@ set_behind
  allocated at TIME by thread ID with {malloc}
made set_behind'
  add_case "check args overrun across neighbours $way" args_case "$way" across \
    'ERROR 1: overrun of ADDRESS by 8.00 KiB ({set} of 12.0 KiB at offset 0 of a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_across
  allocated at TIME by thread ID with {malloc}
made set_across'
  add_case "check args underrun $way" args_case "$way" before \
    'ERROR 1: underrun of ADDRESS by 64 B ({set} of 128 B that begins before a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_before
  allocated at TIME by thread ID with {malloc}
made set_before'
  # Alone sees a look-up by the first byte alone: no allocation has it.
  add_case "check args underrun in front $way" args_case "$way" in-front \
    'ERROR 1: underrun of ADDRESS by 64 B ({set} of 128 B that begins before a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_in_front
  allocated at TIME by thread ID with {malloc}
made set_in_front'
  add_case "check args underrun in front, driver $way" args_case "$way" in-front \
    'ERROR 1: underrun of ADDRESS by 64 B ({set} of 128 B that begins before a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_in_front
  allocated at TIME by thread ID with {malloc}
made set_in_front' GPUSHIM_POOL=off
  add_case "check args underrun in front, default $way" args_default_case "$way" in-front \
    'ERROR 1: underrun of ADDRESS by 64 B ({set} of 128 B that begins before a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_in_front
  allocated at TIME by thread ID with {malloc}
made set_in_front'
  add_case "check args overrun by a row $way" args_case "$way" rows \
    'ERROR 1: overrun of ADDRESS by 1 B ({set_rows} of 7.60 KiB at offset 0 of a live allocation of 7.60 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_rows
  allocated at TIME by thread ID with {malloc}
made set_rows'
  add_case "check args nowhere $way" args_case "$way" nowhere \
    "ERROR 1: use of memory that is nobody's at ADDRESS (GPU 0, {set} of 512 B)
  the pool holds this memory: it was never allocated, or freed too long ago to be remembered
  to be written at TIME by thread ID
@ set_nowhere"
  add_case "check args overrun of managed memory $way" args_case "$way" managed \
    'ERROR 1: overrun of ADDRESS by 1 B ({set} of 3.00 MiB at offset 0 of a live allocation of 3.00 MiB, managed memory, GPU 0)
  to be written at TIME by thread ID
@ set_managed
  allocated at TIME by thread ID with {malloc_managed}
@ set_managed'
  args_pinned='ERROR 1: overrun of ADDRESS by 1 B ({put} of 8.00 KiB at offset 0 of a live allocation of 8.00 KiB, pinned host memory)
  to be read at TIME by thread ID
@ put_pinned
  allocated at TIME by thread ID with {malloc_host}
@ put_pinned'
  add_case "check args overrun of pinned memory $way" args_case "$way" pinned "$args_pinned"
  add_case "check args overrun of pinned memory, no pool $way" args_case "$way" pinned \
    "$args_pinned" GPUSHIM_POOL=device,managed
  args_ordered='ERROR 1: overrun of ADDRESS by 1 B ({set} of 4.00 KiB at offset 0 of a live allocation of 4.00 KiB, GPU 0)
  to be written at TIME by thread ID
@ set_ordered
  allocated at TIME by thread ID with {malloc_async}
@ set_ordered'
  for mode in driver pool; do
    add_case "check args overrun of stream-ordered memory, $mode $way" args_case "$way" ordered \
      "$args_ordered" "GPUSHIM_ASYNC=$mode"
  done
done

# One place is written out once, and counted each time; of many the first 32 are written out.
# args_many_case WAY WHAT ERRORS LINE PLACES
args_many_case() {
  preloaded shim GPUSHIM_CHECK=args GPUSHIM_ERROR_EXITCODE=9 -- "$apps/badargs_$1" "$2" 500
  expect_status shim 9
  expect_only_report shim.err
  expect_text shim.err "SUMMARY: gpushim: $3, 0 B leaked in 0 allocations, 0 call sites\$"
  expect_count shim.err '^==[0-9]+== ERROR ' "$(($5 > 32 ? 32 : $5))"
  expect_text shim.err "$4"
}
for way in static linked; do
  add_case "check args often $way" args_many_case "$way" often '500 errors' \
    '^==[0-9]+==   and 499 more times from there$' 1
  add_case "check args everywhere $way" args_many_case "$way" everywhere '40 errors' \
    '^==[0-9]+== 8 more errors, only counted$' 40
  add_case "check args of threads $way" args_many_case "$way" threads '2,000 errors' \
    '^==[0-9]+==   and 1,999 more times from there$' 1
done

# What was freed in a stream's order may still be used by work in front of that.
args_behind_case() {
  preloaded shim GPUSHIM_CHECK=args -- "$apps/badargs_$1" freed-behind
  expect_status shim 0
  expect_clean shim.err
}
for way in static linked; do
  add_case "check args freed behind work $way" args_behind_case "$way"
done

# Off, nothing is seen and nothing is asked; without records it is told that it is idle.
args_off_case() {
  preloaded shim GPUSHIM_POOL=off -- "$apps/badargs_static" beyond
  expect_status shim 0
  expect_clean shim.err
  preloaded track GPUSHIM_CHECK=args GPUSHIM_TRACK=off -- "$apps/badargs_static" beyond
  expect_status track 0
  expect_equal "what is said" "gpushim: GPUSHIM_CHECK=args: with GPUSHIM_TRACK=off no memory \
is known; nothing is checked" "$(<track.err)"
  preloaded bad GPUSHIM_POOL=off GPUSHIM_CHECK=args:maybe -- "$apps/badargs_static" beyond
  expect_status bad 0
  expect_text bad.err '^gpushim: GPUSHIM_CHECK=args:maybe: '
  expect_text bad.err 'SUMMARY: gpushim: 0 errors'
}
add_case "check args off" args_off_case

# Without stacks an address is a place.
args_stacks_case() {
  preloaded shim GPUSHIM_CHECK=args GPUSHIM_STACK=off -- "$apps/badargs_linked" often 50
  expect_text shim.err 'SUMMARY: gpushim: 50 errors, '
  expect_text shim.err '^==[0-9]+==   and 49 more times from there$'
  expect_text shim.err 'ERROR 1: overrun of 0x[0-9a-f]+ by 1 B \(cuMemsetD8 of 4[.]00 KiB'
}
add_case "check args without stacks" args_stacks_case

# Rules take them, as they do frees.
args_rules_case() {
  printf 'free:set_beyond\nleak:set_beyond\n' >rules
  preloaded other GPUSHIM_CHECK=args GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- \
    "$apps/badargs_static" beyond
  expect_status other 9
  echo 'arg:^set_beyond$' >>rules
  preloaded shim GPUSHIM_CHECK=args GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- \
    "$apps/badargs_static" beyond
  expect_status shim 0
  expect_text shim.err '^==[0-9]+== Suppressed: 1 error by 1 rule$'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, '
  expect_no_text shim.err 'ERROR'
  echo 'arg:set_deep max_count=3' >rules
  preloaded cap GPUSHIM_CHECK=args GPUSHIM_SUPPRESSIONS=rules -- "$apps/badargs_static" \
    everywhere
  expect_count cap.err \
    'not suppressed: 32 errors in all, more than arg:set_deep max_count=3 \(rules:1\) allows$' 32
}
add_case "check args suppressed" args_rules_case

# args_json_case WAY WHAT [PATH VALUE...]: the error has these values.
args_json_case() {
  preloaded shim GPUSHIM_CHECK=args GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r -- \
    "$apps/badargs_$1" "$2"
  expect_valid r
  expect_equal "errors" 1 "$(json_get r summary errors)"
  shift 2
  while [[ $# -gt 0 ]]; do
    # shellcheck disable=SC2086  # a path of words
    expect_equal "$1" "$2" "$(json_get r errors 0 $1)"
    shift 2
  done
}
add_case "check args json of an overrun" args_json_case static inside error '"overrun"' \
  call '"cudaMemcpy"' 'use writes' false 'use bytes' 2048 'use repeats' 0 offset_bytes 3072 \
  'allocation bytes' 4096 first_freed null
add_case "check args json of a use after free" args_json_case linked freed-inside \
  error '"use after free"' call '"cuMemsetD8"' 'use writes' true 'use bytes' 512 \
  offset_bytes 2048 'first_freed call' '"cuMemFree"' 'allocation call' '"cuMemAlloc"'

# The state file has them.
args_state_case() {
  preloaded shim GPUSHIM_CHECK=args GPUSHIM_STATE_FILE=state -- "$apps/badargs_static" all 20
  state_report found state
  expect_status found 0
  errors_of shim.err >wanted
  errors_of found.out >found
  [[ $(grep -c '^ERROR' wanted) -eq 32 ]] || fail "not 32 errors"
  cmp -s wanted found && return
  diff -u wanted found | head -n 40
  fail "the state file has other errors"
}
add_case "check args in a state file" args_state_case

# ---- programs that are right ----------------------------------------------------------

# good_case PROGRAM [VAR=value...]
good_case() {
  local program=$apps/$1

  need_file "$program"
  shift
  same_as_native GPUSHIM_CHECK=args "$@" -- "$program"
  expect_text shim.err '^==[0-9]+== SUMMARY: '
  expect_no_text shim.err 'ERROR [0-9]+: (use |overrun|underrun)'
}
for way in shared static ptds linked dlsym proc; do
  add_case "check args good $way" good_case "goodargs_$way"
done
for setting in GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=lazy GPUSHIM_ASYNC=pool GPUSHIM_POOL=device,pinned \
  GPUSHIM_POOL=device,managed GPUSHIM_POOL_CARVE=on GPUSHIM_POOL_RELEASE=0; do
  add_case "check args good $setting" good_case goodargs_shared "$setting"
done
for name in pipeline threads pinned managed async capture devices hostpools; do
  add_case "check args none in $name" good_case "${name}_shared"
  add_case "check args none in $name, no pool" good_case "${name}_linked" GPUSHIM_POOL=off
done
for name in graphmem vmm virtual rare survivors; do
  add_case "check args none in $name" good_case "${name}_linked"
done
for name in ipc ipc_ways reset levels sizes badfree arrays; do
  add_case "check args none in $name" good_case "${name}_shared"
done

# While a stream captures the driver is not asked after addresses.
args_capture_case() {
  preloaded off CUDASIM_LOG=2 -- "$apps/capture_linked"
  preloaded shim CUDASIM_LOG=2 GPUSHIM_CHECK=args -- "$apps/capture_linked"
  expect_same off shim
  expect_same_while_capturing off shim
}
add_case "check args calls in a capture" args_capture_case
