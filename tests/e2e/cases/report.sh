# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# report.sh - the pool's lines of the report: every level of the pool is used by a plain
# program and shown, the figures add up, and the calls are those that the driver's log has.

# report_number_after, report_number_before FILE LINE WORD: the number behind or before WORD in the
# report's line that begins with LINE; without commas.
report_number_after() {
  sed -nE "s/^==[0-9]+==   $2 .*\\b$3 ([0-9,]+).*/\\1/p" "$1" | tr -d ,
}
report_number_before() {
  sed -nE "s/^==[0-9]+==   $2 (.* )?([0-9,]+) $3.*/\\2/p" "$1" | tr -d ,
}

# report_driver_memory_calls FILE: calls for device memory in a log of the simulated driver.
report_driver_memory_calls() {
  grep -cE '^cudasim: cuMem(Alloc|Free)(_v[0-9])?$' "$1"
}

# report_levels_case WAY: a clean run whose levels were asked for.
report_levels_case() {
  local program=$apps/levels_$1 sum=0 count

  need_file "$program"
  native native "$program"
  preloaded quiet -- "$program"
  expect_same native quiet
  expect_clean quiet.err
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE=report CUDASIM_LOG=2 -- "$program"
  expect_same native shim
  expect_text report '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked'
  for level in thread stream global segments driver; do
    count=$(report_number_after report 'served by' "$level")
    [[ -n $count && $count -gt 0 ]] || fail "served by $level: '$count'"
    sum=$((sum + count))
  done
  expect_equal "requests" "$(report_number_before report traffic allocs)" "$sum"
  expect_equal "calls of the driver" "$(report_driver_memory_calls shim.err)" \
    "$(report_number_before report driver 'calls? took')"
  [[ $(report_number_before report driver saved) -gt 1000 ]] || fail "few calls were saved"
  expect_text report '^==[0-9]+== Pool of GPU 0: reserved .*, idle [1-9].*, hit rate 99\.'
}
for way in shared static linked proc; do
  add_case "report levels $way" report_levels_case "$way"
done

# Plain memory that is freed in a stream's order comes back once it is ready: 400 rounds of one
# block are served by a few calls of the driver, however the library is set.
# report_ordered_free_case WAY MODE [VARIABLE...]
report_ordered_free_case() {
  local program=$apps/orderedfree_$1

  need_file "$program"
  run_in native -- "$program" "$2"
  preloaded shim GPUSHIM_VERBOSE=2 CUDASIM_LOG=2 CUDASIM_MEMORY=8G "${@:3}" -- "$program" "$2"
  expect_same native shim
  [[ $(report_driver_memory_calls shim.err) -le 80 ]] ||
    fail "$(report_driver_memory_calls shim.err) calls of the driver"
}
for way in shared static ptds linked dlsym proc; do
  add_case "report ordered free $way" report_ordered_free_case "$way" alone
done
for setting in GPUSHIM_FREE_SYNC=lazy GPUSHIM_ASYNC=pool GPUSHIM_POOL_CARVE=on GPUSHIM_POOL_CACHE=0; do
  for mode in alone mixed; do
    add_case "report ordered free $mode $setting" report_ordered_free_case shared "$mode" "$setting"
  done
done

# served LOG LEVEL: requests that the level served.
served() {
  local number

  number=$(report_number_after "$1" 'served by' "$2")
  echo "${number:-0}"
}

# The levels hold as many blocks as GPUSHIM_POOL_CACHE says; what is wrong is said once.
report_bounded_levels_case() {
  local value

  preloaded shipped GPUSHIM_VERBOSE=2 -- "$apps/levels_linked"
  preloaded few GPUSHIM_VERBOSE=2 GPUSHIM_POOL_CACHE=stream:8,global:16 -- "$apps/levels_linked"
  preloaded none GPUSHIM_VERBOSE=2 GPUSHIM_POOL_CACHE=stream:0,global:0 -- "$apps/levels_linked"
  expect_same shipped few
  expect_same shipped none
  [[ $(served few.err stream) -lt $(served shipped.err stream) ]] || fail "8 blocks, as many hits"
  [[ $(served few.err stream) -gt 0 ]] || fail "8 blocks, no hit"
  [[ $(served few.err global) -lt $(served shipped.err global) ]] || fail "16 blocks, as many hits"
  expect_equal "by streams" 0 "$(served none.err stream)"
  expect_equal "by all" 0 "$(served none.err global)"
  [[ $(served none.err thread) -gt 0 ]] || fail "threads have no blocks"
  for value in 2G stream:x 1M,2M all; do
    preloaded wrong GPUSHIM_POOL_CACHE="$value" -- "$apps/levels_linked"
    expect_same shipped wrong
    expect_count wrong.err "^gpushim: GPUSHIM_POOL_CACHE=$value: .*; using 32M\$" 1
    expect_count wrong.err '^gpushim:' 1
  done
}
add_case "report levels bounded" report_bounded_levels_case

# The same figures in the text and in JSON, size by size and all in all.
report_sizes_case() {
  need python3
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json -- \
    "$apps/levels_linked"
  expect_status shim 0
  python3 -S - <<'PYTHON' || fail "sizes do not add up"
import json, re
gpu = json.load(open("report.json"))["devices"][0]
pool, sizes, holes = gpu["pool"], gpu["pool_sizes"], gpu["pool_holes"]
total = lambda name: sum(size[name] for size in sizes)
assert total("hits") == pool["hits"] > 0 and total("misses") == pool["misses"] > 0, sizes
assert total("live_bytes") == pool["used_bytes"], sizes
assert (total("live_bytes") + total("cached_bytes") + total("pending_bytes")
        + holes["bytes"]) == pool["reserved_bytes"], (sizes, holes)
assert [size["bytes"] for size in sizes] == sorted(size["bytes"] for size in sizes)
rows = re.findall(r"^==\d+==     \S.* in ([\d,]+) .* ([\d,]+) +([\d,]+)$",
                  open("shim.err").read(), re.M)
number = lambda text: int(text.replace(",", ""))
assert sum(number(row[1]) for row in rows) == pool["hits"], rows
assert sum(number(row[2]) for row in rows) == pool["misses"], rows
PYTHON
  expect_text shim.err '^==[0-9]+==   free space     .* in [0-9]+, the largest .* fragmentation'
}
add_case "report by size" report_sizes_case

# What went back, and why; and a call of the program that was made again for it.
report_aged_case() {
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_POOL_TRIM=100ms -- \
    "$apps/limits_linked" idle 700
  expect_status shim 0
  expect_text shim.err '^==[0-9]+==   returned       [1-9].* by age$'
}
add_case "report returned by age" report_aged_case

report_pressed_case() {
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_POOL_RELEASE=8M -- "$apps/limits_linked" idle 700
  expect_status shim 0
  expect_text shim.err '^==[0-9]+==   returned       [1-9][0-9.]* [KMG]iB under pressure$'
}
add_case "report returned under pressure" report_pressed_case

report_again_case() {
  preloaded shim GPUSHIM_VERBOSE=2 CUDASIM_FAIL=cuStreamCreate:1 -- \
    "$apps/limits_linked" stretch
  expect_status shim 0
  expect_text shim.err '^==[0-9]+==   returned  .* under pressure  1 call repeated$'
}
add_case "report a call made again" report_again_case

# A program without the pool has no such lines; one with it has one, and the others if they are
# asked for, but for what did not happen.
report_without_case() {
  preloaded shim GPUSHIM_POOL=off GPUSHIM_VERBOSE=2 -- "$apps/leaky_linked"
  expect_no_text shim.err '^==[0-9]+== (Pool of|  (served by|driver|returned)) '
  preloaded leaky -- "$apps/leaky_linked"
  expect_count leaky.err '^==[0-9]+== Pool of GPU 0: reserved ' 1
  expect_no_text leaky.err '^==[0-9]+==   (traffic|served by|driver|frees) |lazy| 0 failed'
  preloaded asked GPUSHIM_VERBOSE=2 -- "$apps/leaky_linked"
  expect_text asked.err '^==[0-9]+==   served by '
  expect_no_text asked.err '^==[0-9]+==   returned '
}

# report_sections FILE: the sections of a report, in their order.
report_sections() {
  sed -nE 's/^==[0-9]+== (gpushim [0-9]|GPU 0 |LEAK [0-9]+: |Memory by owner|Peak of|PEAK [0-9]|Pool of|To suppress|largest|SUMMARY:).*/\1/p' \
    "$1"
}

# The end of a report is what a terminal still shows: figures come first, then the call sites, the largest leak
# as the last; no stacks of a peak and no rules behind them, unless they are asked for.
report_order_case() {
  preloaded shim -- "$apps/peaks_linked" leak
  report_sections shim.err >found
  printf '%s\n' 'gpushim 0' 'GPU 0 ' 'Peak of' 'Pool of' 'Memory by owner' 'LEAK 1: ' 'To suppress' largest SUMMARY: |
    diff -u - found || fail "another order"
  expect_count shim.err '^==[0-9]+== GPU 0 [^:]*: 4[.]00 MiB leaked at 1 call site, peak 54[.]0 MiB at ' 1
  preloaded asked GPUSHIM_VERBOSE=2 -- "$apps/peaks_linked" leak
  report_sections asked.err >found
  printf '%s\n' 'gpushim 0' 'GPU 0 ' 'Pool of' 'Memory by owner' 'Peak of' 'PEAK 3' 'PEAK 2' 'PEAK 1' 'LEAK 1: ' \
    'To suppress' largest SUMMARY: | diff -u - found || fail "another order of what is asked for"
  expect_count asked.err 'PEAK 2 = LEAK 1: 4[.]00 MiB in 1 allocation \(7[.]4 % of the peak\), all still live$' 1
  expect_count asked.err '#0 weights ' 1
  expect_count asked.err '^==[0-9]+==   1:  leak:' 1
}

# The last two lines, and what a grep for them finds: scripts depend on their form.
report_last_case() {
  preloaded shim -- "$apps/leaky_$1"
  report_sections shim.err | grep LEAK >found
  printf 'LEAK %d: \n' 5 4 3 2 1 | diff -u - found || fail "the largest leak is not the last"
  tail -n 2 shim.err | sed -E 's/^==[0-9]+== //' >found
  printf '%s\n' "largest: 24.0 MiB leaked at load_weights leaky.c:$(sed -n "/LEAK: load_weights/=" "$sources/tests/apps/leaky.c")" \
    'SUMMARY: gpushim: 0 errors, 28.5 MiB leaked in 7 allocations, 5 call sites' | diff -u - found || fail "other lines"
  expect_count shim.err '^==[0-9]+== To suppress known leaks: GPUSHIM_WRITE_SUPPRESSIONS=FILE ' 1
  expect_no_text shim.err 'leak:'
  preloaded known GPUSHIM_SUPPRESSIONS=/dev/null GPUSHIM_LEAK_MAX=1 -- "$apps/leaky_$1"
  expect_count known.err '^==[0-9]+== largest: 24[.]0 MiB leaked at load_weights leaky[.]c:[0-9]+$' 1
  expect_text known.err '^==[0-9]+== 4 more call sites: '
  preloaded clean -- "$apps/pipeline_$1"
  expect_no_text clean.err '^==[0-9]+== largest'
}
for linkage in shared static; do
  add_case "report ends with the largest leak $linkage" report_last_case "$linkage"
done
add_case "report order" report_order_case
add_case "report without the pool" report_without_case
