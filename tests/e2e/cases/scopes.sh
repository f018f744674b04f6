# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# scopes.sh - what was allocated in each scope: gpushim_scope_statistics, the report and its files, against
# figures that are planned and against the program's own account.

# Would see: a free outside of its scope that is not counted, a scope around that misses what is in it.
scopes_planned_case() {
  need_file "$apps/scopestat_$1"
  preloaded shim "${@:2}" -- "$apps/scopestat_$1"
  expect_status shim 0
  diff - shim.out <<'WANTED' || fail "other figures"
early, -100: begun 1, 1 allocs of 1000 B, 0 frees of 0 B, 1 live of 1000 B, peak 1000 B, lost 0 of 0 B
step, -100: begun 4, 10 allocs of 33300 B, 8 frees of 28000 B, 2 live of 5300 B, peak 11000 B, lost 0 of 0 B
step, 0: begun 4, 7 allocs of 18300 B, 6 frees of 18000 B, 1 live of 300 B, peak 6000 B, lost 0 of 0 B
step, -1: begun 4, 3 allocs of 15000 B, 2 frees of 10000 B, 1 live of 5000 B, peak 5000 B, lost 0 of 0 B
step/forward, 0: begun 3, 3 allocs of 6000 B, 3 frees of 6000 B, 0 live of 0 B, peak 2000 B, lost 0 of 0 B
step/forward, 1: begun 3, 0 allocs of 0 B, 0 frees of 0 B, 0 live of 0 B, peak 0 B, lost 0 of 0 B
forward, -100: not found
, 0: an argument is not valid
NULL, 0: an argument is not valid
step, -7: an argument is not valid
WANTED
}
for way in shared linked; do
  add_case "scopes planned $way" scopes_planned_case "$way"
done
add_case "scopes planned without the pool" scopes_planned_case shared GPUSHIM_POOL=off
add_case "scopes planned in a trace" scopes_planned_case shared GPUSHIM_TRACE_FILE=trace.csv
add_case "scopes planned with red zones" scopes_planned_case linked GPUSHIM_CHECK=redzone

# Each line of an allocation has its scope, without call stacks, too; that of a free has none.
scopes_lines_case() {
  need_file "$apps/scopestat_shared"
  preloaded shim GPUSHIM_VERBOSE=3 "$@" -- "$apps/scopestat_shared"
  expect_count shim.err '^gpushim: alloc 0x[0-9a-f]+, 1.95 KiB, by [A-Za-z]+, GPU 0, thread [0-9]+, scope step/forward$' 3
  expect_count shim.err '^gpushim: alloc 0x[0-9a-f]+, 1000 B, by [A-Za-z]+, GPU 0, thread [0-9]+, scope early$' 1
  expect_no_text shim.err '^gpushim: free .*scope'
}
add_case "scopes in lines of allocations" scopes_lines_case
add_case "scopes in lines of allocations, without stacks" scopes_lines_case GPUSHIM_STACK=off

# Would see: sampled allocations without a scope, and threads that lose each other's counts.
scopes_random_case() {
  need_file "$apps/scopestat_$1"
  preloaded shim "${@:2}" -- "$apps/scopestat_$1" random "$(sized 4000 100000)"
  expect_status shim 0
  expect_text shim.out '^compared$'
}
add_case "scopes at random shared" scopes_random_case shared
add_case "scopes at random linked" scopes_random_case linked
add_case "scopes at random without the pool" scopes_random_case linked GPUSHIM_POOL=off
add_case "scopes at random sampled" scopes_random_case shared GPUSHIM_STACK=sample:65536
add_case "scopes at random small" scopes_random_case shared GPUSHIM_STACK=min:8192
add_case "scopes at random by frame pointers" scopes_random_case shared GPUSHIM_STACK=fp,free:all

# Would see: a scope that a wrong name, a fork or the end of the program takes apart.
scopes_wrong_case() {
  need_file "$apps/scopestat_shared"
  preloaded shim -- "$apps/scopestat_shared" wrong
  expect_status shim 0
  grep -a -v '^a scope' shim.out >found
  diff -a - found <<'WANTED' || fail "other answers"
outer, 0: begun 1, 1 allocs of 7 B, 0 frees of 0 B, 1 live of 7 B, peak 7 B, lost 0 of 0 B
in another thread: not found
a long name: an argument is not valid
no name: an argument is not valid
not UTF-8: success
a slash: success
outer/in/it, 0: not found
outer/in:it, 0: begun 1, 1 allocs of 5 B, 0 frees of 0 B, 1 live of 5 B, peak 5 B, lost 0 of 0 B
outer, 0: begun 1, 3 allocs of 115 B, 0 frees of 0 B, 3 live of 115 B, peak 115 B, lost 0 of 0 B
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, 0: not found
path: success, "outer"; in 5 bytes: an argument is not valid, ""; nowhere: an argument is not valid
path: not found, ""; in 0 bytes: an argument is not valid, ""; nowhere: an argument is not valid
once more: not found
outer, 0: begun 1, 3 allocs of 115 B, 0 frees of 0 B, 3 live of 115 B, peak 115 B, lost 0 of 0 B
left open: success
WANTED
  expect_text shim.err 'outer +115 B +115 B +115 B +3 +1$'
  expect_text shim.err 'open +20 B +20 B +20 B +1 +1$'
}
add_case "scopes wrong" scopes_wrong_case

# Would see: memory that a reset has taken and that stays live in its scope.
scopes_reset_case() {
  need_file "$apps/scopestat_shared"
  preloaded shim -- "$apps/scopestat_shared" reset
  expect_equal "the scope" \
    'step, 0: begun 1, 3 allocs of 1530 B, 1 frees of 500 B, 1 live of 30 B, peak 1500 B, lost 1 of 1000 B' "$(<shim.out)"
}
add_case "scopes reset" scopes_reset_case

scopes_off_case() {
  need_file "$apps/scopestat_shared"
  preloaded shim "$1" -- "$apps/scopestat_shared"
  expect_status shim 0
  expect_text shim.out '^step, 0: switched off by an option$'
  expect_no_text shim.err 'by scope'
}
add_case "scopes without stacks" scopes_off_case GPUSHIM_STACK=off
add_case "scopes without tracking" scopes_off_case GPUSHIM_TRACK=off

# The same figures in the text, in JSON, in the metrics, and by the state file of the process.
scopes_files_case() {
  need python3
  need_file "$apps/scopestat_shared"
  preloaded shim GPUSHIM_OUTPUT=json,openmetrics,csv GPUSHIM_OUTPUT_FILE="$PWD/out" GPUSHIM_STATE_FILE="$PWD/state" -- \
    "$apps/scopestat_shared"
  expect_status shim 0
  run_in report -- "$build/gpushim" report "$PWD/state"
  for file in shim.err report.out; do
    sed 's/^==[0-9]*== *//' "$file" >text
    expect_text text '^step +5.18 KiB +10.7 KiB +32.5 KiB +10 +4$'
    expect_text text '^step/forward +4.88 KiB +6.84 KiB +20.5 KiB +6 +3$'
    expect_text text '^early +1000 B +1000 B +1000 B +1 +1$'
  done
  python3 -S - out.json out.openmetrics <<'PY' || fail 'the files differ'
import json, re, sys
step = json.load(open(sys.argv[1]))["scopes"][0]
assert step["path"] == "step" and step["begun"] == 4 and step["peak_bytes"] == 11000, step
assert [(one["memory"], one["live_bytes"], one["peak_bytes"]) for one in step["memory"]] == [
    ("device", 300, 6000), ("pinned_host", 5000, 5000)], step
assert sum(one["alloc_bytes"] for one in step["memory"]) == step["alloc_bytes"] == 33300
metrics = open(sys.argv[2]).read()
for name, labels, value in (("scope_peak_bytes", 'memory="device",scope="step"', 6000),
                            ("scope_live_bytes", 'memory="pinned",scope="step/forward"', 5000),
                            ("scope_allocated_bytes_total", 'memory="device",scope="early"', 1000),
                            ("scope_frees_total", 'memory="pinned",scope="step"', 2),
                            ("scope_missed_total", 'scope="step"', 0), ("scope_begun_total", 'scope="step"', 4)):
    assert re.search(r"^gpushim_%s\{.*%s\} %d$" % (name, re.escape(labels), value), metrics, re.M), name
PY
  python3 -S "$sources/tests/e2e/report_json.py" validate "$sources/docs/schema/report-1.json" out.json >problems ||
    [[ $? -eq 77 ]] || { cat problems && fail 'not as the schema has it'; }
}
add_case "scopes in files" scopes_files_case

# The page has the same table; CSV and the page's table of call sites name the scope of each.
scopes_page_case() {
  need python3
  need node
  need_file "$apps/scopestat_shared"
  preloaded shim GPUSHIM_OUTPUT=json,csv GPUSHIM_OUTPUT_FILE="$PWD/out" -- "$apps/scopestat_shared"
  expect_text out.csv ',step/forward$'
  expect_text out.csv ',scope$'
  run_in html -- "$build/gpushim" html -o "$PWD/page.html" "$PWD/out.json"
  expect_status html 0
  python3 -S "$here/page.py" page.html out.json . || fail 'the page'
  node "$here/page.js" . >said || fail 'the script of the page'
  expect_text said '^scope: step/forward.*4.88 KiB.*6.84 KiB.*20.5 KiB'
  expect_text said '^heading: scope'
  expect_text said '^frame: .* frame top [|] \[scope step/forward\]$'
  expect_text said '^legend: program, library, scope, ' # and no Python, whose colour scopes had
  expect_text said '^row: .*[|] step/forward$'
}
add_case "scopes on the page" scopes_page_case

# A full table of call stacks, and names without end. Would see: figures that lack allocations and do not say so, and
# metrics that grow with the names.
scopes_many_case() {
  need python3
  need_file "$apps/scopestat_$1"
  preloaded shim GPUSHIM_STACK=table:1M GPUSHIM_OUTPUT=json,openmetrics GPUSHIM_OUTPUT_FILE="$PWD/out" \
    GPUSHIM_STATE_FILE="$PWD/state" -- "$apps/scopestat_$1" many 20000
  expect_status shim 0
  expect_equal 'the figures' 'request-0: 1 allocs of 100 B, 0 missed
last: 0 allocs of 0 B, 1 missed
last/within: 0 allocs of 0 B, 1 missed' "$(<shim.out)"
  run_in report -- "$build/gpushim" report "$PWD/state"
  for file in shim.err report.out; do
    expect_count "$file" '^==[0-9]+==   incomplete: without [1-9][0-9,]+ allocations for which the table of call stacks had no room [(]GPUSHIM_STACK=table[)]$' 1
  done
  python3 -S - out.json out.openmetrics <<'PY' || fail 'the files differ'
import json, re, sys
scopes = {one["path"]: one for one in json.load(open(sys.argv[1]))["scopes"]}
assert len(scopes) == 20002, len(scopes)
assert all(one["allocs"] + one.get("missed", 0) == 1 for one in scopes.values())
assert scopes["last/within"]["missed"] == 1 and "missed" not in scopes["request-0"]
metrics = open(sys.argv[2]).read()
names = set(re.findall(r'scope="([^"]*)"', metrics))
assert len(names) == 1000, len(names)
assert re.search(r"^gpushim_scopes_left_out\{[^}]*\} 19002$", metrics, re.M)
missed = sum(one.get("missed", 0) for path, one in scopes.items() if "/" not in path)
assert missed > 1 and re.search(r"^gpushim_scopes_missed_total\{[^}]*\} %d$" % missed, metrics, re.M), missed
PY
  python3 -S "$sources/tests/e2e/report_json.py" validate "$sources/docs/schema/report-1.json" out.json >problems ||
    [[ $? -eq 77 ]] || { cat problems && fail 'not as the schema has it'; }
}
for way in shared linked; do
  add_case "scopes of many names $way" scopes_many_case "$way"
done
