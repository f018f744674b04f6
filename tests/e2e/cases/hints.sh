# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# hints.sh - the report's hints: what a run had too much of, with what to do. Programs that have not
# get none: the cases of other subjects, which take a clean report for two lines, see to that.

uses views

# expect_hint FILE TEXT: this hint alone.
expect_hint() {
  expect_count "$1" '^==[0-9]+== Hint: ' 1
  expect_text "$1" "^==[0-9]+== Hint: $2"
}

# json_hints FILE: name, device and text of each hint in a JSON report.
json_hints() {
  need python3
  python3 -S -c '
import json, sys
for hint in json.load(open(sys.argv[1]))["hints"]:
    print(hint["hint"], hint["device"], hint["text"], sep="|")' "$1"
}

# hint_case NAME DEVICE TEXT [SETTING...] -- COMMAND...: text and JSON have it, GPUSHIM_VERBOSE=0 has it in JSON.
hint_case() {
  local name=$1 device=$2 text=$3 settings command

  split_settings "${@:4}"
  same_as_native "${settings[@]}" -- "${command[@]}"
  expect_hint shim.err "$text"
  preloaded files "${settings[@]}" GPUSHIM_VERBOSE=0 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- "${command[@]}"
  expect_no_text files.err ' Hint: '
  expect_equal "hints in JSON" "$name|$device|$(sed -nE 's/^==[0-9]+== Hint: //p' shim.err)" "$(json_hints run.json)"
}
add_case "hints not freed" hint_case "not freed" None '4,000 allocations were not freed: GPUSHIM_INTERVAL=stats:1m ' \
  -- "$apps/churn_linked" 4000 1 keep 4096
add_case "hints few hits" hint_case "few hits" 0 'GPU 0: the driver served [0-9,]+ of [0-9,]+ requests: gpushim advise ' \
  GPUSHIM_POOL_RELEASE=0 GPUSHIM_POOL_CACHE=0 -- "$apps/hitpair_linked" 3000
add_case "hints fragmented" hint_case "fragmented" 0 \
  "GPU 0: [0-9.]+ MiB of the pool's [0-9.]+ MiB are free but fragmented, in [0-9]+ blocks: " \
  -- "$apps/limits_linked" comb 32

# The page shows them among its notes.
page_case() {
  preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- "$apps/churn_linked" 4000 1 keep 4096
  make_page run.json
  take_page run.html run.json
  show_page found
  expect_text found.out '^note: 4,000 allocations were not freed: '
}
add_case "hints in the page" page_case

# The advice of the hint: fewer driver calls with the setting that the trace finds.
followed_case() {
  preloaded cold GPUSHIM_POOL_RELEASE=0 GPUSHIM_POOL_CACHE=0 GPUSHIM_TRACE_FILE=trace GPUSHIM_VERBOSE=2 -- \
    "$apps/hitpair_linked" 3000
  expect_hint cold.err 'GPU 0: the driver served '
  need_file "$build/gpushim"
  run_in advice -- "$build/gpushim" advise trace
  expect_status advice 0
  expect_text advice.out 'none is better than the default ones'
  preloaded plain GPUSHIM_VERBOSE=2 -- "$apps/hitpair_linked" 3000
  expect_no_text plain.err ' Hint: '
}
add_case "hints are followed" followed_case

# Nothing stays, or little, or the program is small.
# none_case COMMAND...
none_case() {
  preloaded shim -- "$@"
  expect_no_text shim.err ' Hint: '
}
add_case "hints none, all freed" none_case "$apps/limits_linked" comb 100000
add_case "hints none, little is beside blocks" none_case "$apps/limits_linked" comb 200
add_case "hints none, a few leaks" none_case "$apps/leaky_shared"
add_case "hints none, a thousand leaks" none_case "$apps/churn_linked" 1000 1 keep 4096
add_case "hints none, many sizes" none_case "$apps/churn_linked" 20000
