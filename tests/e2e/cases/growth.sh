# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# growth.sh - GPUSHIM_INTERVAL=stats: how much is live, and what holds more and more.

# Of four places the one that leaks is named, while it does so and at the end.
growth_case() {
  same_as_native GPUSHIM_INTERVAL=stats:200ms -- "$apps/growing_$1" 20
  expect_only_report shim.err
  expect_text shim.err '^==[0-9]+== at [0-2][0-9]:[0-5][0-9]:[0-6][0-9][.][0-9]{3} UTC \([0-9.]+ m?s\): [0-9.]+ MiB live in [0-9]+ allocations, [+][0-9.]+ [KM]iB in the last [0-9.]+ ms \([0-9.]+ [KM]iB/s\), full in [0-9ms.hm ]+ at this rate$'
  expect_text shim.err '^==[0-9]+== GROWING [12]: [+][0-9.]+ [KM]iB in the last [0-9.]+ m?s \([0-9.]+ [KM]iB/s\), in [0-9]+ of [0-9]+ samples; now [0-9.]+ [KM]iB in [0-9]+ allocations$'
  awk '/ GROWING / { growing = 1 } growing && $2 == "#0" { print $3; growing = 0 }' shim.err |
    sort -u >places
  expect_text places '^keep_session$'
  expect_no_text places '^(load_model|refill_cache)$'
  awk '/ LEAK .*still growing$/ { growing = 1 } growing && $2 == "#0" { print $3; growing = 0 }' shim.err |
    grep -v '^pulse$' >at_end
  expect_equal "still growing" keep_session "$(<at_end)"
}
for way in shared static linked proc; do
  add_case "growth $way" growth_case "$way"
done

# A call site has its line each time that it is written, and is looked up once.
growth_lines_case() {
  need addr2line
  mkdir helpers
  printf '#!/bin/sh\necho >>%q/asked\nexec %q "$@"\n' "$PWD" "$(command -v addr2line)" >helpers/addr2line
  chmod 755 helpers/addr2line
  preloaded shim PATH="$PWD/helpers" GPUSHIM_INTERVAL=stats:150ms GPUSHIM_REPORT_ON=oom -- \
    "$apps/growing_shared" 20
  expect_status shim 0
  grep -A 2 ' GROWING ' shim.err | awk '$2 == "#0" { print $3, $4 }' >places
  expect_text places '^keep_session growing[.]c:[0-9]+$'
  expect_no_text places '[+]0x'
  [[ $(wc -l <places) -ge 5 ]] || fail "written $(wc -l <places) times"
  [[ $(wc -l <asked) -le $(sort -u places | wc -l) ]] || fail "$(wc -l <asked) look-ups"
}
add_case "growth lines" growth_lines_case

# A look-up that fails is tried three times, and the report says once why lines are missing.
growth_no_lines_case() {
  mkdir helpers
  printf '#!/bin/sh\necho >>%q/asked\nexit 1\n' "$PWD" >helpers/addr2line
  chmod 755 helpers/addr2line
  preloaded shim PATH="$PWD/helpers" GPUSHIM_INTERVAL=stats:150ms GPUSHIM_REPORT_ON=oom -- \
    "$apps/growing_shared" 20
  expect_status shim 0
  [[ $(grep -c ' GROWING ' shim.err) -ge 5 ]] || fail "written $(grep -c ' GROWING ' shim.err) times"
  expect_count asked '' 3
  expect_count shim.err '^==[0-9]+== Note: ' 1
}
add_case "growth without lines" growth_no_lines_case

# Nothing is written between looks, nor by a program that makes no CUDA call, nor by a child.
growth_quiet_case() {
  preloaded long GPUSHIM_INTERVAL=stats:60m -- "$apps/pipeline_shared"
  expect_clean long.err
  preloaded none GPUSHIM_INTERVAL=stats:1ms -- sleep 0.1
  expect_quiet none
  native native "$apps/fork_shared"
  preloaded fork GPUSHIM_INTERVAL=stats:60m -- "$apps/fork_shared"
  expect_same native fork
}
add_case "growth of nothing" growth_quiet_case

# As often as can be, in programs that end at any time.
growth_often_case() {
  same_as_native GPUSHIM_INTERVAL=stats:1ms -- "$apps/$1"
  expect_only_report shim.err
  expect_count shim.err ' SUMMARY: gpushim: ' "$2"
}
for program in leaky_shared threads_static threads_linked reset_shared pinned_linked; do
  add_case "growth often, $program" growth_often_case "$program" 1
done
add_case "growth often, in a child, too" growth_often_case fork_shared 2

growth_bad_case() {
  preloaded shim GPUSHIM_INTERVAL=stats:often -- "$apps/pipeline_shared"
  expect_count shim.err '^gpushim: GPUSHIM_INTERVAL=stats:often: ' 1
  preloaded off GPUSHIM_INTERVAL=stats:1ms GPUSHIM_TRACK=off -- "$apps/pipeline_shared"
  expect_equal "lines" 1 "$(wc -l <off.err)"
  expect_text off.err '^gpushim: GPUSHIM_INTERVAL=1ms: with GPUSHIM_TRACK=off there is nothing to sample$'
}
add_case "growth with a bad interval" growth_bad_case
