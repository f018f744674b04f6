# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# interim.sh - reports while the program goes on: where memory runs out, on a signal, and
# the last one on SIGTERM.

# interim_oom_case WAY HOW: once, with the call that was refused and who holds the memory.
interim_oom_case() {
  same_as_native -- "$apps/interim_$1" "$2"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: .*  out of memory$' 1
  expect_count shim.err ' of 32\.0 MiB on GPU 0 failed, [0-9.]+ MiB of 512 MiB free$' 1
  expect_text shim.err '#0 hoard_one '
  expect_count shim.err '^==[0-9]+== GPU 0 [^:]*: [0-9.]+ MiB live at [0-9]+ call sites, peak ' 1
  expect_count shim.err '^==[0-9]+== LIVE 1: 4[0-9]+ MiB in 1[0-9] allocations ' 1
  expect_count shim.err '^==[0-9]+== LIVE 2: 20\.0 MiB in 20 allocations ' 1
  expect_count shim.err "^==[0-9]+==   interim_$1 .* [0-9.]+ MiB +[0-9]+$" 1
  expect_count shim.err '; still running$' 1
  expect_no_text shim.err 'LEAK|live at exit'
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' 1
  preloaded off GPUSHIM_REPORT_ON=exit -- "$apps/interim_$1" "$2"
  expect_same native off
  expect_count off.err '^==' 2
}
for way in shared static linked; do
  add_case "interim out of memory $way" interim_oom_case "$way" oom
  add_case "interim out of memory on a small stack $way" interim_oom_case "$way" small
done

# GPUSHIM_LEAK_MAX, which the text names, counts there, too.
interim_sites_case() {
  local lines='^==[0-9]+== LIVE [0-9]+: '

  preloaded three -- "$apps/interim_linked" sites
  sed '/goes on/q' three.err >first
  expect_count first "$lines" 3
  expect_count first ' 2 more call sites: .*[(]GPUSHIM_LEAK_MAX=N lists more[)]' 1
  preloaded all GPUSHIM_LEAK_MAX=20 -- "$apps/interim_linked" sites
  sed '/goes on/q' all.err >first
  expect_count first "$lines" 5
  expect_no_text first ' more call site'
}
add_case "interim out of memory, all call sites" interim_sites_case

# Where it is the user's limit that is full, the device is not.
interim_limit_case() {
  preloaded shim GPUSHIM_MEM_LIMIT=100M -- "$apps/interim_linked" oom
  expect_status shim 0
  expect_count shim.err ' of 32\.0 MiB on GPU 0 failed at GPUSHIM_MEM_LIMIT=100M, [0-9.]+ MiB of 100 MiB free$' 1
  preloaded part GPUSHIM_MEM_LIMIT=25% -- "$apps/interim_linked" oom
  expect_count part.err ' failed at GPUSHIM_MEM_LIMIT=25%, [0-9.]+ MiB of 128 MiB free$' 1
  preloaded wide GPUSHIM_MEM_LIMIT=1T -- "$apps/interim_linked" oom
  expect_count wide.err ' failed, [0-9.]+ MiB of 512 MiB free$' 1
}
add_case "interim out of the memory that is allowed" interim_limit_case

# The program goes on, and may be asked again.
interim_signal_case() {
  preloaded shim GPUSHIM_REPORT_ON=exit,oom,"$2" GPUSHIM_LOG_FILE=asked -- \
    "$apps/interim_$1" usr1 asked
  expect_status shim 0
  expect_quiet shim
  expect_text shim.out '^interim: answered$'
  expect_text asked '^==[0-9]+== gpushim [0-9.]+: .*  on SIGUSR1$'
  expect_text asked '^==[0-9]+== LIVE 1: 1\.00 MiB in 1 allocation \(100 % of live\)$'
  expect_text asked '#0 cache_one +interim\.c:[0-9]+$'
  expect_count asked 'SUMMARY: gpushim: 0 errors, 0 B leaked' 1
}
for way in shared static linked; do
  add_case "interim on a signal $way" interim_signal_case "$way" USR1
done
add_case "interim on a signal by its long name" interim_signal_case shared SIGUSR1
add_case "interim on a signal by its number" interim_signal_case shared 10

# SIGTERM ends it as natively, after the report.
interim_term_case() {
  same_as_native GPUSHIM_REPORT_ON=exit,oom,term -- "$apps/interim_$1" term
  expect_text shim.err '^==[0-9]+== gpushim [0-9.]+: .*  SIGTERM$'
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 1\.00 MiB leaked in 1 ' 1
  preloaded off -- "$apps/interim_$1" term
  expect_same native off
  expect_quiet off
}
for way in shared static linked; do
  add_case "interim SIGTERM $way" interim_term_case "$way"
done

# Alone sees: a program that the handler wakes, and that ends with a status of its own before the report is written.
interim_woken_case() {
  native native "$apps/interim_linked" woken
  expect_status native 143
  for _ in 1 2 3 4 5; do
    preloaded shim GPUSHIM_REPORT_ON=exit,oom,term -- "$apps/interim_linked" woken
    expect_same native shim
    expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: .*  SIGTERM$' 1
  done
}
add_case "interim SIGTERM, of a program that it wakes" interim_woken_case

# What is about to be lost is written before it is.
interim_reset_case() {
  same_as_native GPUSHIM_REPORT_ON=reset,oom -- "$apps/reset_$1"
  expect_only_report shim.err
  expect_text shim.err '^==[0-9]+== a context of GPU 0 is about to end, and its memory with it$'
  expect_text shim.err '^==[0-9]+== LIVE 1: .* \(([0-9.]+) % of live\)$'
  expect_count shim.err '^==[0-9]+== SUMMARY: ' 1
  preloaded exit -- "$apps/reset_$1"
  expect_no_text exit.err 'is about to end'
  grep '^==[0-9]*== SUMMARY' shim.err | sed 's/^==[0-9]*//' >with
  grep '^==[0-9]*== SUMMARY' exit.err | sed 's/^==[0-9]*//' >without
  cmp with without || fail "the report at exit is another one"
  preloaded clean GPUSHIM_REPORT_ON=reset,oom -- "$apps/pipeline_$1"
  expect_clean clean.err
}
for way in shared static linked; do
  add_case "interim at a reset $way" interim_reset_case "$way"
done

# What the program does with a signal goes first.
interim_own_case() {
  same_as_native GPUSHIM_REPORT_ON=exit,oom,USR1 -- "$apps/interim_shared" own
  expect_text shim.err '^gpushim: GPUSHIM_REPORT_ON=USR1: the program handles or ignores'
  same_as_native GPUSHIM_REPORT_ON=exit,oom,USR1 -- "$apps/interim_shared" child
  expect_clean shim.err
}
add_case "interim leaves the program its signals" interim_own_case

# interim_bad_case VALUE: one line, and the program is as without it.
interim_bad_case() {
  same_as_native GPUSHIM_REPORT_ON=exit,oom,"$1" -- "$apps/interim_shared" child
  expect_count shim.err "^gpushim: GPUSHIM_REPORT_ON=${1/+/[+]}: not one of exit, reset, oom, term, a signal such as USR1; left out\$" 1
}
for value in KILL 9 11 1 SIGFOO RTMIN+99 USR1x; do
  add_case "interim bad signal $value" interim_bad_case "$value"
done
