# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# shortage.sh - the report at an out of memory: one of each size class, with lines, the places of
# the memory and what to try. The program goes on as natively, also where it waits for children,
# handles signals, forks, or is refused in many threads at once.

uses outputs

oom_head='^==[0-9]+== gpushim [0-9.]+: .*  out of memory$'
left_out='^==[0-9]+== Note: file and line are left out: the program handles SIGCHLD'

# shortage_case WAY WHAT REPORTS [VARIABLE...]: as natively, with REPORTS reports of a refusal.
shortage_case() {
  local program=$apps/shortage_$1

  need_file "$program"
  same_as_native "${@:4}" -- "$program" "$2"
  expect_only_report shim.err
  expect_count shim.err "$oom_head" "$3"
}

# A program that asks for less and less is told of a refusal once a size class.
shortage_lines_case() {
  shortage_case "$1" halves 3
  expect_clean shim.err
  expect_text shim.err '^==[0-9]+== [a-zA-Z]+ of 32[.]0 MiB on GPU 0 failed, '
  expect_text shim.err '^==[0-9]+==     #0 take +shortage[.]c:[0-9]+$'
  expect_text shim.err '^==[0-9]+==     #1 take_all +shortage[.]c:[0-9]+( [(]inlined[)])?$'
  expect_count shim.err '^==[0-9]+== GPU 0 has 512 MiB: [0-9.]+ MiB live, .*0 B elsewhere$' 3
  expect_count shim.err '^==[0-9]+== Try: LIVE 1 [(]take[)] holds [0-9]+ MiB of [0-9]+ MiB live: ' 3
  expect_no_text shim.err 'Note: '
}
for way in shared static linked proc; do
  add_case "shortage once a size class $way" shortage_lines_case "$way"
  add_case "shortage of threads at once $way" shortage_case "$way" threads 1
done
add_case "shortage, no report wanted" shortage_case linked halves 0 GPUSHIM_REPORT_ON=exit
add_case "shortage without the pool" shortage_case linked halves 3 GPUSHIM_POOL=off
add_case "shortage of pages that move" shortage_case linked halves 3 GPUSHIM_POOL_VMM=on
add_case "shortage in a signal handler" shortage_case linked handler 0
add_case "shortage beyond the device" shortage_case linked beyond 0
add_case "shortage of a child and its parent" shortage_case shared child 2
add_case "shortage of a child and its parent, linked" shortage_case linked child 2

# What is free in the pool, and why it did not serve.
shortage_pieces_case() {
  shortage_case "$1" pieces 2
  expect_text shim.err '^==[0-9]+== GPU 0 has 512 MiB: .*, [0-9]+ MiB free but fragmented, '
  expect_text shim.err '^==[0-9]+== The pool.s largest free block \([0-9.]+ [KM]iB\) is too small$'
  expect_text shim.err '^==[0-9]+== Try: [0-9]+ MiB are free but fragmented: .*; or GPUSHIM_POOL_VMM=on$'
}
for way in shared linked; do
  add_case "shortage beside pieces $way" shortage_pieces_case "$way"
done

# A limit that refuses, while the device has memory.
shortage_limit_case() {
  shortage_case linked threads 1 GPUSHIM_MEM_LIMIT=100M
  expect_text shim.err '^==[0-9]+== Try: GPUSHIM_MEM_LIMIT=100M is reached, but GPU 0 has [0-9]+ MiB free: raise'
}
add_case "shortage by a limit" shortage_limit_case

# No helper process where the program would notice the end of one. Names stay.
shortage_heard_case() {
  shortage_case linked "$1" 1
  expect_count shim.err "$left_out" 1
  expect_text shim.err '^==[0-9]+==     #0 take +shortage_linked[+]0x[0-9a-f]+$'
  expect_text shim.err '^==[0-9]+== Try: '
}
add_case "shortage beside a handler of SIGCHLD" shortage_heard_case sigchld
add_case "shortage beside a blocked SIGCHLD" shortage_heard_case signalfd

shortage_waits_case() {
  shortage_case linked waits 1
  expect_text shim.err '^==[0-9]+== Note: file and line are missing: a thread of the program waits for any child'
}
add_case "shortage beside a wait for any child" shortage_waits_case

# The report is there before the program, refused, ends itself.
shortage_abort_case() {
  preloaded shim -- "$apps/shortage_linked" aborts
  expect_status shim 134
  expect_count shim.err "$oom_head" 1
  expect_text shim.err '; still running$'
}
add_case "shortage that ends the program" shortage_abort_case

# Both helpers hang or fail: the time is limited, the report is there, a line says why.
shortage_helper_case() {
  local began=$SECONDS

  mkdir bin
  printf '#!/bin/sh\n%s\n' "$1" | tee bin/llvm-symbolizer >bin/addr2line
  chmod +x bin/*
  shortage_case linked threads 1 PATH="$PWD/bin:$PATH" GPUSHIM_SYMBOLIZE=timeout:60s
  expect_count shim.err "^==[0-9]+== Note: $2" 1
  [[ $((SECONDS - began)) -lt 20 ]] || fail "the program waited for $((SECONDS - began)) s"
}
add_case "shortage with a helper that hangs" shortage_helper_case 'exec sleep 60' \
  'file and line are incomplete: the time limit was reached'
add_case "shortage with a helper that fails" shortage_helper_case 'exit 1' \
  'file and line are incomplete: the helper gave no full answer'

# The time is that of all reports together: a program that asks for less and less waits once.
shortage_spent_case() {
  mkdir bin
  printf '#!/bin/sh\nexec sleep 60\n' >bin/llvm-symbolizer
  chmod +x bin/llvm-symbolizer
  shortage_case linked halves 3 PATH="$PWD/bin:$PATH" GPUSHIM_SYMBOLIZE=timeout:60s
  expect_count shim.err '^==[0-9]+== Note: file and line are incomplete: the time limit was reached' 1
  expect_count shim.err '^==[0-9]+== Note: file and line are left out: earlier look-ups took too long' 2
}
add_case "shortage with a helper that hangs, again and again" shortage_spent_case

shortage_unlined_case() {
  shortage_case linked threads 1 GPUSHIM_SYMBOLIZE=off
  expect_no_text shim.err 'Note: |shortage[.]c:'
  shortage_case linked threads 1 PATH=/nonexistent
  expect_text shim.err '^==[0-9]+== Note: no file and line: neither llvm-symbolizer nor addr2line'
}
add_case "shortage without a helper" shortage_unlined_case

# The files of an out of memory have names of their own; the last one has the refusals, too.
shortage_files_case() {
  shortage_case "$1" threads 1 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json
  expect_count shim.err '^==[0-9]+== files written: .*/run[.]oom[.]json$' 1
  expect_count shim.err '^==[0-9]+== files written: .*/run[.]json$' 1
  for file in run.json run.oom.json; do
    expect_valid $file
    expect_equal "$file: bytes" 33554432 "$(json_get $file out_of_memory 0 bytes)"
    expect_equal "$file: device" 536870912 "$(json_get $file out_of_memory 0 device_bytes)"
    expect_equal "$file: limit" null "$(json_get $file out_of_memory 0 limit)"
    expect_equal "$file: try" '"largest"' "$(json_get $file out_of_memory 0 tries 0 try)"
    [[ $(json_get $file out_of_memory 0 live_bytes) -gt 400000000 ]] || fail "$file: live"
  done
  expect_equal "running" true "$(json_get run.oom.json process running)"
  expect_equal "ended" false "$(json_get run.json process running)"
  python3 -S "$sources/tests/e2e/report_json.py" leaks run.oom.json >places
  expect_text places '^take shortage[.]c:[0-9]+ [0-9]+ [0-9]+ cu(da|Mem)[A-Za-z]+ device$'
}
for way in shared linked; do
  add_case "shortage in files $way" shortage_files_case "$way"
done

shortage_names_case() {
  preloaded all GPUSHIM_OUTPUT=json,collapsed GPUSHIM_OUTPUT_FILE=run -- "$apps/shortage_linked" threads
  expect_status all 0
  for file in run.json run.oom.json run.collapsed run.oom.collapsed; do
    [[ -s $file ]] || [[ $file == run.collapsed ]] || fail "no $file"
  done
  preloaded device GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=/dev/null -- "$apps/shortage_linked" threads
  expect_status device 0
  expect_only_report device.err
  [[ ! -e /dev/null.oom ]] || fail "a file beside a device"
  expect_no_text device.err 'null[.]oom'
  preloaded missing GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=missing/run.json -- \
    "$apps/shortage_linked" threads
  expect_status missing 0
  expect_count missing.err '^gpushim: GPUSHIM_OUTPUT=json: cannot write .*/missing/run([.]oom)?[.]json: ' 2
}
add_case "shortage in files: their names" shortage_names_case

# A host that runs ahead of the GPU: an allocation waits, in the lazy mode, for work that natively the free has waited
# for, however long that takes; each copy takes longer than an allocation waits for other work (0.4 s).
# shortage_ahead_case MODE STEPS
shortage_ahead_case() {
  local copies=(CUDASIM_MEMORY=64M CUDASIM_COPY_RATE=28M)

  need_file "$apps/runahead_linked"
  same_as_native "${copies[@]}" GPUSHIM_FREE_SYNC="$1" -- "$apps/runahead_linked" 16 "$2"
  expect_clean shim.err
}
add_case "shortage of a host that runs ahead" shortage_ahead_case lazy 6

# What an allocation waits for has a limit; the advice names the mode.
shortage_ahead_limit_case() {
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_COPY_RATE=16M GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL_WAIT=50ms -- \
    "$apps/runahead_linked" 16 5
  expect_status shim 0
  expect_text shim.out '^runahead: 1 of 5 refused$'
  expect_text shim.err '^==[0-9]+== Try: 64[.]0 MiB are freed, .*: synchronize .*, or GPUSHIM_FREE_SYNC=native, whose frees wait$'
}
add_case "shortage of a host that runs ahead, for too long" shortage_ahead_limit_case

# What cuMemGetInfo says is free can be had in one allocation: no hole beside a block counts, and no idle memory behind
# work that an allocation has waited for in vain.
# shortage_info_case WHERE [VAR=value...]
shortage_info_case() {
  need_file "$apps/infofree_linked"
  same_as_native CUDASIM_MEMORY=64M GPUSHIM_REPORT_ON=off GPUSHIM_LOG_FILE="$PWD/log" "${@:2}" -- \
    "$apps/infofree_linked" "$1"
  expect_text native.out 'as much as it says'
}
add_case "shortage, what is free beside holes" shortage_info_case holes GPUSHIM_POOL_CARVE=on
add_case "shortage, what is free behind work" shortage_info_case busy GPUSHIM_POOL_WAIT=100ms
# Alone see: idle memory that counts although the driver cannot have it back; or that does not, although it can.
add_case "shortage, what is free behind new work" shortage_info_case fresh GPUSHIM_POOL_WAIT=100ms
add_case "shortage, what is free behind complete work" shortage_info_case "done"
# Alone sees: a training loop that is told less than natively while its work runs.
add_case "shortage, what is free behind steady work" shortage_info_case steady

# A live block of 2 MiB keeps the segment that it shares: the advice names the setting.
shortage_carved_case() {
  preloaded shim CUDASIM_MEMORY=64M GPUSHIM_POOL_CARVE=on -- "$apps/infofree_linked" pinned
  expect_status shim 0
  expect_text shim.out '^infofree: 2$'
  expect_text shim.err '^==[0-9]+== Try: [0-9.]+ MiB are free but fragmented: .*; or GPUSHIM_POOL_CARVE=auto$'
}
add_case "shortage beside a block that shares a large segment" shortage_carved_case
