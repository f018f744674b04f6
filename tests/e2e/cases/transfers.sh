# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# transfers.sh - GPUSHIM_CHECK=transfers: each habit of copying that costs time is reported
# with the line of the call, exact numbers and what to do; copies that are right are not.

uses checks_args outputs

transfers_on=GPUSHIM_CHECK=transfers

# slow_of FILE: the lines on slow copies, without what differs from run to run.
slow_of() {
  sed -nE '/^==[0-9]+== SLOW COPIES /,/^==[0-9]+==$/p' "$1" |
    sed -E 's/^==[0-9]+==( |$)//; /^$/d
      s/main +transfers[.]c:[0-9]+/main transfers.c/
      s/ +(transfers[.]c)/ \1/'
}

# slow_case WAY WHAT TEXT [VAR=value...]: transfers WHAT has these slow copies. In TEXT {put}
# and the like are the way's own names (checks_args.sh); `@ FUNCTION` is the stack of the call
# that the source marks as SLOW.
slow_case() {
  local way=$1 what=$2 text=$3 line function wanted_async=cudaMemcpyAsync

  shift 3
  # shellcheck disable=SC2086  # some cases
  preloaded shim "$transfers_on" GPUSHIM_ERROR_EXITCODE=9 "$@" -- "$apps/transfers_$way" $what
  expect_status shim 0
  expect_only_report shim.err
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  case $way in
    linked | dlsym | proc) wanted_async=cuMemcpyHtoDAsync ;;
  esac
  while read -r line; do
    [[ $line == '@ '* ]] || { echo "$line" && continue; }
    function=${line#@ }
    line=$(grep -n "SLOW: $function \*/" "$sources/tests/apps/transfers.c")
    echo "#0 $function transfers.c:${line%%:*}"
    [[ $function == put_in_thread ]] || echo "#1 main transfers.c"
  done <<<"$text" | sed -E "$(call_names "$way"); s/[{]put_async[}]/$wanted_async/
    s/[{]get_async[}]/${wanted_async/HtoD/DtoH}/" >wanted
  slow_of shim.err | sed -E 's/^ +//' >found
  cmp -s wanted found && return
  diff -u wanted found
  fail "the report says something else"
}

slow_pin='pinned memory (cudaHostAlloc, cudaHostRegister) copies faster'
slow_gather='one copy of all, or cudaMemcpyBatchAsync, costs less'
slow_pageable="SLOW COPIES 1: 12 from host to GPU by {put}, 1.50 MiB in all, 128 KiB each
12 from pageable memory, 1.50 MiB: $slow_pin
@ put_pageable"
slow_small="SLOW COPIES 1: 200 from host to GPU by {put}, 800 KiB in all, 4.00 KiB each
200 of at most 64 KiB, 199 of them right after another: $slow_gather
@ put_small"
slow_waited="SLOW COPIES 1: 120 from host to GPU by {put_async}, 15.0 MiB in all, 128 KiB each
119 followed at once by a synchronize, with no other work before the next: synchronize once, after several
@ put_and_wait"
for way in shared static ptds linked dlsym proc; do
  add_case "transfers pageable $way" slow_case "$way" pageable "$slow_pageable"
  add_case "transfers small $way" slow_case "$way" small "$slow_small"
  add_case "transfers waited $way" slow_case "$way" waited "$slow_waited"
done
for way in static linked; do
  add_case "transfers pageable, to the host $way" slow_case "$way" back \
    "SLOW COPIES 1: 10 from GPU to host by {get}, 1.25 MiB in all, 128 KiB each
10 to pageable memory, 1.25 MiB: $slow_pin
@ get_pageable"
  add_case "transfers pageable, unified addresses $way" slow_case "$way" unified \
    "SLOW COPIES 1: 11 from host to GPU by {move}, 1.38 MiB in all, 128 KiB each
11 from pageable memory, 1.38 MiB: $slow_pin
@ move_pageable"
  add_case "transfers pageable, asynchronous $way" slow_case "$way" async \
    "SLOW COPIES 1: 12 from host to GPU by {put_async}, 1.50 MiB in all, 128 KiB each
12 from pageable memory, 1.50 MiB: $slow_pin, and the call need not wait
@ put_pageable_async"
  add_case "transfers pageable, rows $way" slow_case "$way" rows \
    "SLOW COPIES 1: 10 from host to GPU by cuMemcpy2D, 1.25 MiB in all, 128 KiB each
10 from pageable memory, 1.25 MiB: $slow_pin
@ put_rows"
  add_case "transfers small, asynchronous $way" slow_case "$way" small-async \
    "SLOW COPIES 1: 150 from host to GPU by {put_async}, 76.2 KiB in all, 16 B to 1.00 KiB each
150 of at most 64 KiB, 149 of them right after another: $slow_gather
@ put_small_async"
  add_case "transfers small, in threads $way" slow_case "$way" threads \
    "SLOW COPIES 1: 200 from host to GPU by {put}, 800 KiB in all, 4.00 KiB each
200 of at most 64 KiB, 196 of them right after another: $slow_gather
@ put_in_thread"
  add_case "transfers waited, for the context $way" slow_case "$way" waited-all \
    "SLOW COPIES 1: 120 from GPU to host by {get_async}, 15.0 MiB in all, 128 KiB each
108 followed at once by a synchronize, with no other work before the next: synchronize once, after several
@ get_and_wait_for_all"
  # The costliest first: a small copy counts as 64 KiB.
  add_case "transfers in their order $way" slow_case "$way" "pageable small waited" \
    "$slow_waited
${slow_small/COPIES 1/COPIES 2}
${slow_pageable/COPIES 1/COPIES 3}"
  for setting in GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=wait GPUSHIM_CHECK=args \
    GPUSHIM_STACK=unwind; do
    add_case "transfers $setting $way" slow_case "$way" "waited small pageable" \
      "$slow_waited
${slow_small/COPIES 1/COPIES 2}
${slow_pageable/COPIES 1/COPIES 3}" "$setting"
  done
done

# The figure of a rate is the machine's; each copy takes 5 ms at least.
slow_rate_case() {
  local name

  name=$(sed -E "$(call_names "$1")" <<<'{get}')
  preloaded shim "$transfers_on" CUDASIM_FAIL='cuMemcpyDtoH:*=slow:5' -- \
    "$apps/transfers_$1" rate
  expect_text shim.err \
    "SLOW COPIES 1: 5 from GPU to host by $name, 5[.]00 MiB in all, 1[.]00 MiB each\$"
  expect_text shim.err \
    '==   0[.][012][0-9] GB/s at best, in 5 of 1 MiB and more that found the GPU idle: pin '
  expect_text shim.err "#0 get_slowly +transfers.c:$(grep -n 'SLOW: get_slowly' \
    "$sources/tests/apps/transfers.c" | cut -d: -f1)\$"
  # Behind other work, and without knowing that there is none, the time is not the copy's.
  preloaded busy "$transfers_on" CUDASIM_FAIL='cuMemcpyDtoH:*=slow:5' -- \
    "$apps/transfers_$1" busy
  expect_clean busy.err
  preloaded off "$transfers_on" GPUSHIM_POOL=off CUDASIM_FAIL='cuMemcpyDtoH:*=slow:5' -- \
    "$apps/transfers_$1" rate
  expect_clean off.err
}
# Ends off a multiple of 64 are counted, not those of pageable memory.
slow_unaligned_case() {
  preloaded shim "$transfers_on" CUDASIM_FAIL='cuMemcpyDtoH:*=slow:5' -- \
    "$apps/transfers_$1" unaligned
  expect_text shim.err \
    ' GB/s at best, in 7 of 1 MiB and more that found the GPU idle: align the ends to 64 bytes, which 4 did not; pin '
  preloaded heap "$transfers_on" CUDASIM_FAIL='cuMemcpyDtoH:*=slow:5' -- \
    "$apps/transfers_$1" unaligned-heap
  expect_text heap.err \
    ' GB/s at best, in 5 of 1 MiB and more that found the GPU idle: pin '
}
add_case "transfers unaligned static" slow_unaligned_case static
add_case "transfers unaligned linked" slow_unaligned_case linked
add_case "transfers rate static" slow_rate_case static
add_case "transfers rate linked" slow_rate_case linked

# Without stacks a call is one call site.
slow_stacks_case() {
  preloaded shim "$transfers_on" GPUSHIM_STACK=off -- "$apps/transfers_$1" pageable small
  slow_of shim.err | sed -E 's/^ +//' >found
  cat >wanted <<END
SLOW COPIES 1: 212 from host to GPU by cuMemcpyHtoD, 2.28 MiB in all, 4.00 KiB to 128 KiB each
12 from pageable memory, 1.50 MiB: $slow_pin
200 of at most 64 KiB, 199 of them right after another: $slow_gather
no call stack was recorded
END
  cmp -s wanted found && return
  diff -u wanted found
  fail "the report says something else"
}
add_case "transfers without stacks static" slow_stacks_case static
add_case "transfers without stacks linked" slow_stacks_case linked

# Copies that are right, also where the driver is asked what memory is.
transfers_good=(pinned registered managed few between in-turn needed elsewhere device
  graph)
slow_none_case() {
  preloaded shim "$transfers_on" "${@:2}" -- "$apps/transfers_$1" "${transfers_good[@]}"
  expect_status shim 0
  expect_clean shim.err
}
for way in shared static ptds linked dlsym proc; do
  add_case "transfers good $way" slow_none_case "$way"
done
for setting in GPUSHIM_POOL=off GPUSHIM_POOL=device,managed GPUSHIM_POOL=device,pinned \
  GPUSHIM_STACK=off; do
  add_case "transfers good $setting" slow_none_case static "$setting"
done
# A device that reads pageable memory itself.
slow_reads_case() {
  preloaded shim "$transfers_on" CUDASIM_ATTRIBUTES="$1=1" -- "$apps/transfers_linked" pageable \
    back unified async rows
  expect_clean shim.err
}
for attribute in INTEGRATED PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES; do
  add_case "transfers good $attribute" slow_reads_case "$attribute"
done

# Off, nothing is seen; a bad value is off; without a report a line says so.
slow_off_case() {
  preloaded shim -- "$apps/transfers_static"
  expect_status shim 0
  expect_clean shim.err
  preloaded bad GPUSHIM_CHECK=transfers:maybe -- "$apps/transfers_static" small
  expect_text bad.err '^gpushim: GPUSHIM_CHECK=transfers:maybe: not a switch'
  expect_no_text bad.err 'SLOW'
  preloaded track "$transfers_on" GPUSHIM_TRACK=off -- "$apps/transfers_static" small
  expect_equal "what is said" \
    "gpushim: GPUSHIM_CHECK=transfers: with GPUSHIM_TRACK=off there is no report" \
    "$(<track.err)"
  preloaded stopped "$transfers_on" GPUSHIM_TRACK=later,USR2 -- \
    "$apps/transfers_static" small
  expect_no_text stopped.err 'SLOW'
}
add_case "transfers off" slow_off_case

# What the program prints is the same; of many call sites some are listed.
slow_all_case() {
  same_as_native "$transfers_on" GPUSHIM_LEAK_MAX=3 -- "$apps/transfers_$1"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== SLOW COPIES [123]: ' 3
  expect_count shim.err '^==[0-9]+== SLOW COPIES ' 3
  expect_text shim.err '^==[0-9]+== 7 more call sites with slow copies \(GPUSHIM_LEAK_MAX=N lists more\)$'
}
add_case "transfers all static" slow_all_case static
add_case "transfers all proc" slow_all_case proc

# A forked child has its own.
slow_fork_case() {
  preloaded shim "$transfers_on" -- "$apps/transfers_$1" fork small
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked' 2
  expect_count shim.err 'SLOW COPIES 1: 200 from host to GPU by .*, 800 KiB in all' 2
  expect_count shim.err '200 of at most 64 KiB, 199 of them right after another' 2
}
add_case "transfers in a forked child static" slow_fork_case static
add_case "transfers in a forked child linked" slow_fork_case linked

# Leaks and slow copies in one report; and as JSON.
slow_json_case() {
  preloaded shim "$transfers_on" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r GPUSHIM_LEAK_MAX=0 \
    -- "$apps/transfers_$1" waited small pageable pinned
  expect_valid r
  expect_equal "the waited ones" \
    '["device", ["waited"], 120, 15728640, 131072, 131072, 0, 0, 0, 0, 119, 0, 0, 0]' \
    "$(slow_json r 0)"
  expect_equal "the small ones" \
    '["device", ["small"], 200, 819200, 4096, 4096, 0, 0, 200, 199, 0, 0, 0, 0]' "$(slow_json r 1)"
  expect_equal "the pageable ones" \
    '["device", ["pageable"], 12, 1572864, 131072, 131072, 12, 1572864, 0, 0, 0, 0, 0, 0]' \
    "$(slow_json r 2)"
  expect_equal "all of the device's" '[["pageable", false, 12, 1572864], ["at most 64 KiB", false, 200, 819200], ["at most 64 KiB", false, 1, 4096]]' \
    "$(json_get r copies | python3 -c 'import json, sys
print(json.dumps([[way["memory"], way["asynchronous"], way["count"], way["bytes"]]
                  for way in json.load(sys.stdin) if not way["asynchronous"] and way["memory"] != "pinned"]))')"
  expect_equal "others" '{"count": 0, "bytes": 0}' "$(json_get r other_copies)"
  expect_equal "call" '"cudaMemcpyAsync"' "$(json_get r slow_copies 0 call)"
  expect_equal "function" '"put_and_wait"' \
    "$(json_get r frames "$(json_get r slow_copies 0 stack 0)" function)"
  [[ $(json_get r slow_copies | grep -o '"call"' | wc -l) -eq 3 ]] || fail "not three"
}

# All copies by the way they are made (those to the host are the program's checks): where some are slow, or asked for. Alone sees copies summed under another way,
# or not at all because none of them is slow.
slow_ways_case() {
  slow_ways "$1" pageable small waited pinned back
  cat >wanted <<'END'
Copies between host and GPU                     copies        bytes      fastest
  host to GPU, pinned, synchronous                 122     15.3 MiB
  host to GPU, pinned, asynchronous                120     15.0 MiB
  host to GPU, pageable, synchronous                12     1.50 MiB
  GPU to host, pageable, synchronous                10     1.25 MiB
  host to GPU, at most 64 KiB, synchronous         200      800 KiB
  GPU to host, pinned, synchronous                   3      384 KiB
  GPU to host, at most 64 KiB, synchronous           1     4.00 KiB
END
  diff -u wanted found || fail "another table"
  slow_ways "$1" pinned
  diff -u /dev/null found || fail "a table where nothing is slow"
  slow_ways "$1" GPUSHIM_VERBOSE=2 pinned
  cat >wanted <<'END'
Copies between host and GPU                     copies        bytes      fastest
  host to GPU, pinned, synchronous                 121     15.1 MiB
  GPU to host, pinned, synchronous                   1      128 KiB
END
  diff -u wanted found || fail "another table"
}
slow_ways() {
  local settings=() way=$1

  shift
  [[ $1 != *=* ]] || { settings=("$1") && shift; }
  preloaded shim "$transfers_on" "${settings[@]}" -- "$apps/transfers_$way" "$@"
  sed -nE 's/^==[0-9]+== (Copies between|  (host|GPU) to )/\1/p' shim.err >found
}
add_case "transfers by the way they are made shared" slow_ways_case shared
add_case "transfers by the way they are made linked" slow_ways_case linked

# slow_json FILE NUMBER: the members of a call site.
slow_json() {
  python3 -S - "$@" <<'END'
import json, sys
site = json.load(open(sys.argv[1]))["slow_copies"][int(sys.argv[2])]
print(json.dumps([site[name] for name in (
    "to", "hints", "count", "bytes", "least_bytes", "most_bytes", "pageable_count",
    "pageable_bytes", "small_count", "in_a_row_count", "waited_count", "timed_count",
    "fastest_bytes_per_s", "unaligned_count")]))
END
}
add_case "transfers json" slow_json_case static

# While a stream captures the driver is asked for the current context alone.
slow_capture_case() {
  preloaded off CUDASIM_LOG=2 -- "$apps/capture_linked"
  preloaded shim CUDASIM_LOG=2 "$transfers_on" -- "$apps/capture_linked"
  expect_same off shim
  expect_same_while_capturing off shim cuCtxGetCurrent
}
add_case "transfers calls in a capture" slow_capture_case
