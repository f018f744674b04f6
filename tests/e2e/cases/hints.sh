# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# hints.sh - the report's hints: what a run had too much of, with what to do. Programs that have not
# get none: the cases of other subjects, which take a clean report for two lines, see to that.

uses views outputs

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

# Takes away what differs from run to run.
untimed() {
  sed -E 's/[(][^()]* on average[)]/(on average)/'
}

# hint_case NAME DEVICE TEXT [SETTING...] -- COMMAND...: text and JSON have it, GPUSHIM_VERBOSE=0 has it in JSON.
hint_case() {
  local name=$1 device=$2 text=$3 settings command

  split_settings "${@:4}"
  same_as_native "${settings[@]}" -- "${command[@]}"
  expect_hint shim.err "$text"
  preloaded files "${settings[@]}" GPUSHIM_VERBOSE=0 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- "${command[@]}"
  expect_no_text files.err ' Hint: '
  expect_equal "hints in JSON" "$name|$device|$(sed -nE 's/^==[0-9]+== Hint: //p' shim.err | untimed)" \
    "$(json_hints run.json | untimed)"
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

# ---- GPUSHIM_CHECK=churn ---------------------------------------------------------------------
# Each alone would see: lifetimes that a way of freeing does not end, a call site that is not the
# program's own, a hint for memory that is used as it should be.

# habit_at FUNCTION: the place of the call that the source marks.
habit_at() {
  echo "$1 habits.c:$(grep -n "HINT: $1 \*/" "$sources/tests/apps/habits.c" | cut -d: -f1)"
}

# churn_case NAME WAY CALL HABIT FUNCTION BYTES END [SETTING...]
churn_case() {
  local text

  text="GPU 0: 3,000 allocations by $3 at $(habit_at "$5"), $6 in all, 99.9 % of the run's, "
  text+="freed within 10 ms [(](less than 1 us|[0-9.]+ [mu]s) on average[)], $7\$"
  hint_case "$1" 0 "$text" GPUSHIM_CHECK=churn "${@:8}" -- "$apps/habits_$2" "$4"
}
churn_one='never two at once: one buffer of %s, allocated before the loop, serves them all'
for way in shared static linked; do
  call=cudaMalloc
  [[ $way != linked ]] || call=cuMemAlloc
  # shellcheck disable=SC2059  # the text is a format
  add_case "hints churn, a loop $way" churn_case loop "$way" "$call" loop allocate_in_a_loop '17.6 MiB' \
    "$(printf "$churn_one" '8.00 KiB')"
  add_case "hints churn, four in turn $way" churn_case churn "$way" "$call" turn allocate_in_turn '11.7 MiB' \
    'at most 4 at once: keep as many buffers, of up to 4.00 KiB, and reuse them'
done
# shellcheck disable=SC2059
{
  add_case "hints churn, by the driver" churn_case loop linked cuMemAlloc loop allocate_in_a_loop '17.6 MiB' \
    "$(printf "$churn_one" '8.00 KiB')" GPUSHIM_POOL=off
  add_case "hints churn, large" churn_case loop linked cuMemAlloc large allocate_large '11.7 GiB' \
    "$(printf "$churn_one" '4.00 MiB')"
  add_case "hints churn, with a trace" churn_case loop linked cuMemAlloc loop allocate_in_a_loop '17.6 MiB' \
    "$(printf "$churn_one" '8.00 KiB')" GPUSHIM_TRACE_FILE=trace
}

# quiet_case SETTING COMMAND...: no hint, and the status of a program without errors.
quiet_case() {
  preloaded shim "$1" GPUSHIM_ERROR_EXITCODE=9 -- "${@:2}"
  expect_status shim 0
  expect_no_text shim.err ' Hint: '
  expect_no_text shim.err 'SLOW COPIES'
}
for habit in ring model long seldom; do
  add_case "hints churn, none, $habit" quiet_case GPUSHIM_CHECK=churn "$apps/habits_linked" "$habit"
done
for async in driver pool; do
  add_case "hints churn, none, in stream order by $async" quiet_case GPUSHIM_CHECK=churn env "GPUSHIM_ASYNC=$async" \
    "$apps/habits_linked" order
done
add_case "hints churn, none without the check" quiet_case GPUSHIM_CHECK=off "$apps/habits_linked" loop turn
for app in pipeline ringkernel; do
  add_case "hints churn, none, $app" quiet_case GPUSHIM_CHECK=churn "$apps/${app}_linked"
done

# A hint never changes the status; and it goes to the page with the others.
churn_page_case() {
  preloaded run GPUSHIM_CHECK=churn GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- \
    "$apps/habits_linked" loop
  expect_status run 0
  expect_valid run.json
  expect_equal "function" '"allocate_in_a_loop"' \
    "$(json_get run.json frames "$(json_get run.json hints 0 stack 0)" function)"
  make_page run.json
  take_page run.html run.json
  show_page found
  expect_text found.out "^note: GPU 0: 3,000 allocations by cuMemAlloc at $(habit_at allocate_in_a_loop), "
}
add_case "hints churn, in the page" churn_page_case

# lifetimes_case WAY CALL [SETTING...]: the table has a row for each call site, with a hint or without. Would alone see:
# a kind of memory or a way of freeing that is left out, a share or a mean of the wrong ones.
lifetimes_case() {
  local row='==[0-9]+== +' way=$1 call=$2

  preloaded shim GPUSHIM_CHECK=churn GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json "${@:3}" -- \
    "$apps/habits_$way" loop long order
  expect_status shim 0
  expect_count shim.err '^==[0-9]+== Lifetimes by call site$' 1
  expect_text shim.err "^${row}3,000 +17.6 MiB +1 +100 % +[0-9<].* GPU 0, $call at $(habit_at allocate_in_a_loop) < main "
  expect_text shim.err "^${row}20 +80.0 KiB +1 +0.0 % +[0-9.]+ ms +[0-9.]+ ms  GPU 0, $call at allocate_for_long habits.c:"
  expect_text shim.err "^${row}3,000 +11.7 MiB +[0-9]+ +[0-9.]+ % +[0-9<].* GPU 0, ${call}Async at allocate_in_order habits.c:"
  preloaded plain GPUSHIM_CHECK=churn -- "$apps/habits_$way" loop long order
  expect_no_text plain.err 'Lifetimes by call site'
  make_page run.json
  take_page run.html run.json
  show_page found
  expect_text found.out "^life: $call at allocate_for_long habits.c:.* 0.0 % .*20 .*80.0 KiB"
}
for way in shared static linked; do
  call=cudaMalloc
  [[ $way != linked ]] || call=cuMemAlloc
  add_case "hints lifetimes $way" lifetimes_case "$way" "$call"
done
add_case "hints lifetimes, by the driver" lifetimes_case linked cuMemAlloc GPUSHIM_POOL=off
add_case "hints lifetimes, in stream order by the pool" lifetimes_case linked cuMemAlloc GPUSHIM_ASYNC=pool

# Wrong values of the list get a line each, and so does a check that has no effect.
churn_bad_case() {
  preloaded shim GPUSHIM_CHECK=churn:5,curn -- "$apps/habits_linked" loop
  expect_status shim 0
  expect_text shim.err 'GPUSHIM_CHECK=churn:5: '
  expect_text shim.err 'GPUSHIM_CHECK=curn: not one of args, transfers, churn, '
  preloaded off GPUSHIM_CHECK=churn GPUSHIM_TRACK=off -- "$apps/habits_linked" loop
  expect_text off.err 'GPUSHIM_CHECK=churn: with GPUSHIM_TRACK=off there is no report'
}
add_case "hints churn, bad values" churn_bad_case

# ---- GPUSHIM_CHECK=transfers: round trips ----------------------------------------------------
# Each alone would see: a copy to the host whose end is not known, changed bytes that are taken for
# the same.

# trips_case WAY HABIT CALL FUNCTION
trips_case() {
  same_as_native GPUSHIM_CHECK=transfers -- "$apps/habits_$1" "$2"
  expect_count shim.err 'SLOW COPIES' 1
  expect_text shim.err "SLOW COPIES 1: 300 from host to GPU by $3, 300 MiB in all, 1.00 MiB each"
  expect_text shim.err '  300 with bytes that a copy from the GPU had brought, unchanged, 300 MiB: if the GPU has room keep them '
  expect_text shim.err ' keep them there, or copy from GPU to GPU$'
  expect_text shim.err "#0 $4 +$(habit_at "$4" | sed "s/.* //")\$"
}
for way in shared static linked; do
  call=cudaMemcpy
  [[ $way != linked ]] || call=cuMemcpyHtoD
  add_case "hints round trips $way" trips_case "$way" trips "$call" go_and_return
  add_case "hints round trips, asynchronous $way" trips_case "$way" trips-async "${call}Async" go_and_return_in_order
done
add_case "hints round trips, none" quiet_case GPUSHIM_CHECK=transfers "$apps/habits_linked" \
  changed results reused few event other uniform pattern anew
add_case "hints round trips, none without the check" quiet_case GPUSHIM_CHECK=churn "$apps/habits_linked" trips
for app in pipeline ringkernel genesis; do
  add_case "hints round trips, none, $app" quiet_case GPUSHIM_CHECK=transfers "$apps/${app}_linked"
done

trips_page_case() {
  preloaded run GPUSHIM_CHECK=transfers GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- \
    "$apps/habits_linked" trips
  expect_status run 0
  expect_valid run.json
  expect_equal "hints" '["returned"]' "$(json_get run.json slow_copies 0 hints)"
  expect_equal "how many" 300 "$(json_get run.json slow_copies 0 returned_count)"
  expect_equal "their bytes" 314572800 "$(json_get run.json slow_copies 0 returned_bytes)"
  make_page run.json
  take_page run.html run.json
  show_page found
  expect_text found.out "^note: 300 copies from host to GPU by cuMemcpyHtoD at $(habit_at go_and_return), 300 MiB "
  expect_text found.out ' in all: 300 with bytes that a copy from the GPU had brought: if the GPU has room keep them there$'
}
add_case "hints round trips, in the page" trips_page_case

# ---- GPUSHIM_CHECK=transfers: pinned memory without a use -------------------------------------
# Each alone would see: a way of using the memory that is not known, memory that only the host uses, and memory
# whose address kernels find where no call names it.

# unused_case WAY CALL
unused_case() {
  local text

  text="pinned host memory: 1 allocation by $2 at $(habit_at use_pinned), 16.0 MiB in all, 94.1 % of the run's, "
  text+="in no copy and no kernel's parameters: pageable memory costs less\$"
  hint_case "unused pinned" None "$text" GPUSHIM_CHECK=transfers "${@:3}" -- "$apps/habits_$1" unused
}
for way in shared static; do
  add_case "hints unused pinned memory $way" unused_case "$way" cudaMallocHost
done
add_case "hints unused pinned memory linked" unused_case linked cuMemAllocHost
add_case "hints unused pinned memory, by the driver" unused_case linked cuMemAllocHost GPUSHIM_POOL=off
quiet_driver_case() {
  preloaded shim GPUSHIM_CHECK=transfers GPUSHIM_POOL=off -- "$apps/habits_linked" "$1"
  expect_status shim 0
  expect_no_text shim.err ' Hint: '
}
for habit in little copied captured kernel captured-kernel view table large-table managed registered viewed-queue queue \
  host-function attributes set graph; do
  add_case "hints unused pinned memory, none, $habit" quiet_case GPUSHIM_CHECK=transfers "$apps/habits_linked" "$habit"
  add_case "hints unused pinned memory, none, $habit, by the driver" quiet_driver_case "$habit"
done
add_case "hints unused pinned memory, none without the check" quiet_case GPUSHIM_CHECK=churn "$apps/habits_linked" unused

# In a report that is asked for while the program runs, but for memory that a later copy may use yet; once more at its
# end.
asked_hints_case() {
  find_python 3.11
  cat >program.py <<'PROGRAM'
import ctypes, cuda, gpushim
def turn():
    cuda.free(cuda.malloc(4096))
for _ in range(2000):
    turn()
staging = ctypes.c_void_p()
cuda.check(cuda.released.cudaMallocHost(ctypes.byref(staging), ctypes.c_size_t(20 << 20)))
gpushim.report()
cuda.check(cuda.released.cudaFreeHost(staging))
PROGRAM
  preloaded shim "$@" PYTHONPATH="$sources/include/python:$sources/tests/apps/python" -- "$python" -SB program.py
  expect_status shim 0
  sed '/; still running$/q' shim.err >asked
  expect_count asked '^==[0-9]+== Hint: ' 1
  expect_count asked '^==[0-9]+== Hint: GPU 0: 2,000 allocations by cudaMalloc at malloc cuda[.]py:[0-9]+, ' 1
  expect_count shim.err '^==[0-9]+== Hint: GPU 0: 2,000 allocations by cudaMalloc at malloc ' 2
  expect_count shim.err '^==[0-9]+== Hint: pinned host memory: 1 allocation by cudaMallocHost ' 1
}
add_case "hints in a report that is asked for" asked_hints_case GPUSHIM_CHECK=churn,transfers
