# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# limits.sh - limits make a device smaller and nothing else; idle memory goes back when
# others may need it; what was warmed up is there. The driver's own calls are counted in
# the log of the simulated device.

# A program sees a device of 64 MiB that is limited as it sees one of the limit.
# smaller_case WAY WHAT MEMORY LIMIT [VARIABLE...]
smaller_case() {
  local program=$apps/limits_$1 what=$2 memory=$3 limit=$4

  shift 4
  need_file "$program"
  run_in native CUDASIM_MEMORY="$memory" CUDASIM_DEVICES=2 -- "$program" "$what"
  expect_status native 0
  run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=64M CUDASIM_DEVICES=2 \
    GPUSHIM_MEM_LIMIT="$limit" "$@" -- "$program" "$what"
  expect_same native shim
  [[ $what == info || $(wc -l <native.out) -ge 3 ]] || fail "the program printed little"
  expect_only_report shim.err
}

for way in shared static linked proc; do
  for what in device async pitch physical mixed info; do
    [[ $what == physical && $way == s* ]] && continue
    add_case "limits smaller $what $way" smaller_case "$way" "$what" 32M 32M
  done
done
add_case "limits smaller by percent" smaller_case linked device 32M 50%
add_case "limits smaller without the pool" \
  smaller_case linked device 32M 32M GPUSHIM_POOL=off
add_case "limits smaller without tracking" \
  smaller_case static mixed 32M 32M GPUSHIM_TRACK=off
add_case "limits smaller and a pool limit" \
  smaller_case linked mixed 32M 32M GPUSHIM_POOL_LIMIT=8M
add_case "limits larger than the device" smaller_case linked info 64M 100G
add_case "limits of all of it" smaller_case linked device 64M 100%

# Stream-ordered memory is charged to, and reported of, the device that it is on, whichever
# context is current.
# whose WAY MORE REPORTED [VARIABLE...]: MORE is what the second request is answered, and
# REPORTED the call and kind of the one leak.
whose() {
  run_in native CUDASIM_MEMORY=32M CUDASIM_DEVICES=2 -- "$apps/whose_linked" "$1"
  expect_text native.out "^whose: 24 MiB more: $2\$"
  run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=64M CUDASIM_DEVICES=2 \
    GPUSHIM_MEM_LIMIT=32M "${@:4}" -- "$apps/whose_linked" "$1"
  expect_same native shim
  expect_count shim.err "^==[0-9]+==   cuMemAlloc(FromPool)?Async, $3, .*live at exit" 1
  expect_count shim.err '^==[0-9]+== LEAK ' 1
}

# whose_case WAY [VARIABLE...]
whose_case() {
  whose "$1" 2 'GPU 1' "${@:2}"
  expect_text shim.err \
    ' of 24[.]0 MiB on GPU 1 failed at GPUSHIM_MEM_LIMIT=32M, 8[.]00 MiB of 32[.]0 MiB free$'
}
for way in stream unmet own default; do
  add_case "limits of another device, $way" whose_case "$way"
  add_case "limits of another device, $way, pooled" whose_case "$way" GPUSHIM_ASYNC=pool
done

# What is no device's is charged to none, and reported as what it is.
# whose_kind_case WAY KIND [VARIABLE...]
whose_kind_case() { whose "$1" 0 "$2" "${@:3}"; }
for options in GPUSHIM_POOL=on GPUSHIM_ASYNC=pool GPUSHIM_POOL=off; do
  add_case "limits of no device, host, $options" \
    whose_kind_case host 'pinned host memory' "$options"
  add_case "limits of no device, node, $options" \
    whose_kind_case node 'pinned host memory' "$options"
  add_case "limits of no device, managed, $options" \
    whose_kind_case managed 'managed memory, GPU [01]' "$options"
done

# Two processes have a limit each.
two_processes_case() {
  native native "$apps/limits_linked" device
  run_in alone LD_PRELOAD="$shim" CUDASIM_MEMORY=64M GPUSHIM_MEM_LIMIT=16M -- \
    "$apps/limits_linked" device
  run_in both LD_PRELOAD="$shim" CUDASIM_MEMORY=64M GPUSHIM_MEM_LIMIT=16M -- \
    bash -c '"$1" device & "$1" device; wait $!' bash "$apps/limits_linked"
  expect_text alone.out 'device 0 device takes 16 MiB'
  expect_equal "lines of both" $((2 * $(wc -l <alone.out))) "$(wc -l <both.out)"
  expect_equal "what both print" "$(sort -u alone.out)" "$(sort -u both.out)"
}
add_case "limits in two processes" two_processes_case

# Whatever the pool may hold, and whatever the driver refuses now and then, no more
# allocations fail than natively.
# never_worse_case FAIL VARIABLE...
never_worse_case() {
  local fail=$1 natively pooled

  shift
  run_in native CUDASIM_MEMORY=64M CUDASIM_FAIL="$fail" CUDASIM_SEED=3 -- \
    "$apps/limits_linked" churn 4000
  run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=64M CUDASIM_FAIL="$fail" CUDASIM_SEED=3 \
    "$@" -- "$apps/limits_linked" churn 4000
  expect_status shim 0
  expect_only_report shim.err
  natively=$(sed -nE 's/^limits: ([0-9]+) alloc.*/\1/p' native.out)
  pooled=$(sed -nE 's/^limits: ([0-9]+) alloc.*/\1/p' shim.out)
  echo "failed natively: $natively, pooled: $pooled"
  [[ -n $natively && -n $pooled && $pooled -le $natively ]] ||
    fail "$pooled allocations failed, $natively natively"
}
for limit in 0 2M 7M 50%; do
  add_case "limits pool at most $limit" never_worse_case "" GPUSHIM_POOL_LIMIT="$limit"
  add_case "limits pool at most $limit, failures" \
    never_worse_case 'cuMemAlloc:*%10' GPUSHIM_POOL_LIMIT="$limit"
done
add_case "limits nothing idle, failures" \
  never_worse_case 'cuMemAlloc:*%10' GPUSHIM_POOL_RELEASE=0
add_case "limits pool of 4M, the driver refuses all" \
  never_worse_case 'cuMemAlloc:3+' GPUSHIM_POOL_LIMIT=4M
add_case "limits reserve of everything" never_worse_case "" GPUSHIM_POOL_RESERVE=100% \
  GPUSHIM_POOL_TRIM=20ms

# returned_case RETURNED VARIABLE...: whether the 16 MiB block goes back before the end.
returned_case() {
  local returned=$1

  shift
  preloaded shim CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report "$@" -- \
    "$apps/limits_linked" idle 700
  expect_status shim 0
  sed -n '/limits: the end/q;p' shim.err >before
  if [[ $returned == yes ]]; then
    [[ $(driver_calls before cuMemFree) -ge 1 ]] || fail "nothing was given back"
  else
    expect_equal "frees of the driver" 0 "$(driver_calls before cuMemFree)"
  fi
}
add_case "limits idle for long goes back" returned_case yes GPUSHIM_POOL_TRIM=100ms
add_case "limits idle for a while stays" returned_case no
add_case "limits idle for ever stays" returned_case no GPUSHIM_POOL_TRIM=0
add_case "limits idle beyond what may be kept" returned_case yes GPUSHIM_POOL_RELEASE=8M
add_case "limits idle within what may be kept" returned_case no GPUSHIM_POOL_RELEASE=20M
add_case "limits idle and no reserve" \
  returned_case yes GPUSHIM_POOL_RESERVE=100% GPUSHIM_POOL_TRIM=1500ms

# The driver is not asked what is free on a path that repeats: some take milliseconds.
# info_calls_case PROGRAM VARIABLE...
info_calls_case() {
  local program
  read -r -a program <<<"$1"
  preloaded shim CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report "${@:2}" -- "$apps/${program[0]}" "${program[@]:1}"
  expect_status shim 0
  [[ $(driver_calls shim.err cuMemAlloc) -ge 300 ]] || fail "memory was kept"
  echo "cuMemGetInfo: $(driver_calls shim.err cuMemGetInfo)"
  [[ $(driver_calls shim.err cuMemGetInfo) -le 40 ]] || fail "the driver was asked too often"
}
for mode in native wait; do
  add_case "limits seldom asks what is free, $mode" info_calls_case "hitpair_linked 300 segment" \
    GPUSHIM_POOL_RELEASE=0 GPUSHIM_FREE_SYNC="$mode"
done
add_case "limits seldom asks what is free, a limit" info_calls_case "hitpair_linked 300 segment" \
  GPUSHIM_POOL_RELEASE=0 GPUSHIM_MEM_LIMIT=90%
add_case "limits seldom asks what is free, lazy" info_calls_case "limits_linked device" \
  GPUSHIM_FREE_SYNC=lazy

# Nor for each of many requests that are refused while a kernel runs.
info_refused_case() {
  run_in native CUDASIM_MEMORY=64M -- "$apps/limits_linked" refused 100
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report GPUSHIM_POOL_WAIT=10ms -- \
    "$apps/limits_linked" refused 100
  expect_same native shim
  expect_text native.out "^limits: refused 100 times\$"
  echo "cuMemGetInfo: $(driver_calls shim.err cuMemGetInfo)"
  [[ $(driver_calls shim.err cuMemGetInfo) -le 10 ]] || fail "the driver was asked too often"
}
add_case "limits seldom asks what is free, refused" info_refused_case

# A call beside the pool needs 8 MiB of the 44 that are idle: the rest stays for the next
# requests.
steps_case() {
  run_in native CUDASIM_MEMORY=64M -- "$apps/limits_linked" steps
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report -- \
    "$apps/limits_linked" steps
  expect_same native shim
  sed '/^limits: pitched/,$d' shim.err >before
  sed '1,/^limits: pitched/d' shim.err >after
  echo "frees: $(driver_calls before cuMemFree)"
  [[ $(driver_calls before cuMemFree) -le 6 ]] || fail "more was given back than served the call"
  expect_equal "allocations after it" 0 "$(driver_calls after cuMemAlloc)"
}
add_case "limits idle memory goes back in steps" steps_case

# short_case RETURNED [VARIABLE...]: the device is short of memory, and the program makes no
# call. What is idle goes back long before its age.
short_case() {
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report \
    GPUSHIM_POOL_TRIM=20s "${@:2}" -- "$apps/limits_linked" short 3500
  expect_status shim 0
  sed -n '/^limits: asleep/,/^limits: awake/p' shim.err >asleep
  echo "frees: $(driver_calls asleep cuMemFree)"
  if [[ $1 == yes ]]; then
    [[ $(driver_calls asleep cuMemFree) -ge 1 ]] || fail "idle memory stays"
  else
    expect_equal "frees of the driver" 0 "$(driver_calls asleep cuMemFree)"
  fi
}
add_case "limits short of memory" short_case yes GPUSHIM_POOL_RESERVE=10%
add_case "limits short of memory, no reserve" short_case no GPUSHIM_POOL_RESERVE=0
add_case "limits short of memory, no thread" short_case no GPUSHIM_POOL_RESERVE=10% \
  GPUSHIM_POOL_TRIM=thread:off

# A program that makes no call: the library's thread gives what is idle back, while the
# device has nothing to do.
# silent_case WAY MODE RETURNED [VARIABLE...]: whether anything goes back while it sleeps
silent_case() {
  same_as_native CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report GPUSHIM_POOL_TRIM=60ms \
    "${@:4}" -- "$apps/silent_$1" "$2" 400
  sed -n '/^silent: asleep/,/^silent: awake/p' shim.err >asleep
  if [[ $3 == yes ]]; then
    # 16 MiB, the small ones, the managed range; the pinned block.
    [[ $(driver_calls asleep cuMemFree) -ge 3 ]] || fail "device memory stays"
    [[ $(driver_calls asleep cuMemFreeHost) -ge 1 ]] || fail "pinned memory stays"
  else
    expect_equal "frees of the driver" 0 "$(driver_calls asleep 'cuMemFree(Host)?')"
  fi
  sed -n '/^silent: the end/,$p' shim.err >ended
  expect_equal "calls after the end" 0 "$(grep -c '^cudasim: ' ended)"
}
for way in shared static ptds linked dlsym proc; do
  add_case "limits silent $way" silent_case "$way" plain yes
done
add_case "limits silent in lazy mode" silent_case linked plain yes GPUSHIM_FREE_SYNC=lazy
add_case "limits silent with children" silent_case shared fork yes
add_case "limits silent beside a kernel" silent_case linked held no
add_case "limits silent beside a kernel, another stream" silent_case linked waited no
add_case "limits silent beside a capture" silent_case shared capture no
add_case "limits silent without the thread" \
  silent_case linked plain no GPUSHIM_POOL_TRIM=thread:off
add_case "limits silent and nothing too old" \
  silent_case linked plain no GPUSHIM_POOL_TRIM=0
add_case "limits silent and the proof has ended" \
  silent_case linked plain no GPUSHIM_FREE_SYNC=wait

# The thread is there only where something was freed, and goes when nothing is left.
silent_thread_case() {
  preloaded shim GPUSHIM_LOG_FILE=report "${@:3}" -- "$apps/silent_linked" "$1" 300
  expect_status shim 0
  expect_text shim.err "^silent: $2 of the library\$"
}
add_case "limits silent thread runs" silent_thread_case plain 1
add_case "limits silent thread is not needed" silent_thread_case nothing 0
add_case "limits silent thread is off" silent_thread_case plain 0 GPUSHIM_POOL_TRIM=thread:off
add_case "limits silent thread without the pool" silent_thread_case plain 0 GPUSHIM_POOL=off

# A consumer that is out of memory once is asked again, for idle memory was given back;
# without any it gets the driver's answer.
# consumer_case CALL
consumer_case() {
  run_in native CUDASIM_FAIL="$1:1" -- "$apps/limits_linked" stretch
  expect_status native 2
  preloaded shim CUDASIM_LOG=2 GPUSHIM_LOG_FILE=report CUDASIM_FAIL="$1:1" -- \
    "$apps/limits_linked" stretch
  expect_status shim 0
  expect_equal "calls" 2 "$(driver_calls shim.err "$1")"
  preloaded bare GPUSHIM_POOL=off CUDASIM_FAIL="$1:1" -- "$apps/limits_linked" stretch
  expect_status bare 2
}
for call in cuStreamCreate cuModuleLoadData cuCtxSetLimit; do
  add_case "limits $call tried again" consumer_case "$call"
done

# Once the list is allocated, which the program's first call does, the driver is asked for
# nothing more.
warm_hits_case() {
  preloaded cold CUDASIM_LOG=2 -- "$apps/limits_linked" warm 2
  preloaded warm GPUSHIM_WARMUP=4K:50,4M:3 CUDASIM_LOG=2 -- "$apps/limits_linked" warm 2
  expect_same cold warm
  sed '1,/limits: begun/d' cold.err >cold.after
  sed '1,/limits: begun/d' warm.err >warm.after
  expect_equal "driver allocations, cold" 3 "$(driver_calls cold.after cuMemAlloc)"
  expect_equal "driver allocations, warm" 0 "$(driver_calls warm.after cuMemAlloc)"
}
add_case "limits warm blocks are there" warm_hits_case

warm_bad_case() {
  preloaded shim GPUSHIM_WARMUP='4K:5,x,8K,1M:0, 64K:2 ,3Q:1' -- \
    "$apps/limits_linked" warm 1
  expect_status shim 0
  expect_count shim.err '^gpushim: GPUSHIM_WARMUP: ' 4
  expect_text shim.err "'x': not SIZE:COUNT"
  expect_text shim.err "'8K': not SIZE:COUNT"
  expect_text shim.err "'1M:0': does not end with a count"
  expect_text shim.err "'3Q:1': does not begin with a size"
}
add_case "limits warm list with mistakes" warm_bad_case

warm_short_case() {
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 GPUSHIM_WARMUP=10M:50,4K:5 -- \
    "$apps/limits_linked" device
  run_in native CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 -- "$apps/limits_linked" device
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_WARMUP: only 6 of 50 blocks of' 1
}
add_case "limits warm beyond the device" warm_short_case

# Managed memory is counted if that is wished, and freed memory is not: ranges of the driver, and cached ones.
managed_limit_case() {
  preloaded all GPUSHIM_MEM_LIMIT=64M -- "$apps/limits_$1" managed
  expect_count all.out '^limits: managed memory takes 200 MiB, then 0$' 2
  preloaded some GPUSHIM_MEM_LIMIT=64M GPUSHIM_MEM_LIMIT_MANAGED=on -- "$apps/limits_$1" managed
  expect_count some.out '^limits: managed memory takes 64 MiB, then 2$' 2
  expect_no_text some.out 'and a page'
  expect_count some.out '^limits: full +0 of 64 MiB free$' 2
  expect_count some.out '^limits: empty +64 of 64 MiB free$' 2
  expect_text some.err 'cu.*Managed of 2.00 MiB on GPU 0 failed at GPUSHIM_MEM_LIMIT=64M,'
  preloaded idle GPUSHIM_MEM_LIMIT_MANAGED=on -- "$apps/limits_$1" managed
  expect_count idle.out '^limits: managed memory takes 200 MiB, then 0$' 2
  expect_count idle.err '^gpushim: GPUSHIM_MEM_LIMIT_MANAGED=on: .*there is no GPUSHIM_MEM_LIMIT$' 1
}
for way in $(ways_of limits); do
  add_case "limits over managed memory $way" managed_limit_case "$way"
done

bad_values_case() {
  preloaded shim GPUSHIM_POOL_LIMIT=101% GPUSHIM_MEM_LIMIT=lots GPUSHIM_POOL_RELEASE=-1 \
    GPUSHIM_POOL_TRIM=10h GPUSHIM_POOL_RESERVE=5%% -- "$apps/limits_linked" info
  native native "$apps/limits_linked" info
  expect_same native shim
  for name in POOL_LIMIT MEM_LIMIT POOL_RELEASE POOL_TRIM POOL_RESERVE; do
    expect_count shim.err "^gpushim: GPUSHIM_$name=.*: (not|more|less|too) .*; (using|left out)" 1
  done
}
add_case "limits with mistakes" bad_values_case
