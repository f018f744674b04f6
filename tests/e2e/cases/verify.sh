# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# verify.sh - GPUSHIM_FREE_SYNC=verify (docs/free.md, "Verify"): work that was given past
# the library is found and named where a free relied on the proof, and nothing is found
# where there is none.
#
# Time alone is no witness on a busy machine: but where it is what a case is about, an
# idle device may take a second to answer.

# verify_run NAME VARIABLE... -- COMMAND...
verify_run() {
  local name=$1

  shift
  preloaded "$name" GPUSHIM_FREE_SYNC=verify GPUSHIM_ERROR_EXITCODE=7 "$@"
}

# verify_found_case PROGRAM WORK MEMORY FUNCTION CALL US: two frees of one place.
verify_found_case() {
  local program=$apps/$1 work=$2 memory=$3 function=$4 call=$5

  need_file "$program"
  native native "$program" "$apps/past_part.so" "$work" "$memory"
  verify_run shim GPUSHIM_FREE_SYNC=us:"$6" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json -- \
    "$program" "$apps/past_part.so" "$work" "$memory"
  expect_status shim 7
  expect_equal "output" "$(cat native.out)" "$(cat shim.out)"
  expect_count shim.err '^gpushim: idle check failed: a free relied on GPU 0 being idle' 1
  expect_text shim.err "^==[0-9]+== ERROR 1: idle check failed \\($call, GPU 0\\): "
  expect_text shim.err "^==[0-9]+==     #0 $function +past\\.c:[0-9]+"
  expect_text shim.err '^==[0-9]+==   and 1 more time from there'
  expect_text shim.err '^==[0-9]+== Idle check: made 2 times, failed 2, longest wait [1-9]'
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: 2 errors, '
  if [[ $work == own ]]; then
    expect_text shim.err ': no stream showed work, but the device needed [0-9.]+ ms to be idle$'
  else
    expect_text shim.err ': stream 0x[0-9a-f]+ had work that no counted call submitted; it ran '
  fi
  # What the program looked up itself; linked ways look nothing up.
  [[ $program != *_proc && $program != *_dlsym ]] ||
    expect_text shim.err '^==[0-9]+==   last look-ups before the first failure: cu[A-Z][A-Za-z0-9_]+(, cu|$)'
  expect_equal "violated" 2 "$(report_member report.json idle_proof violated)"
  expect_equal "error" '"idle check failed"' "$(report_member report.json errors 0 error)"
  expect_equal "repeats" 1 "$(report_member report.json errors 0 repeats)"
}

# verify_schema_case COMMAND...: the report is as its schema says, which also names each member.
verify_schema_case() {
  local status=0

  need python3
  need_file "$1"
  verify_run shim GPUSHIM_FREE_SYNC=us:1000000 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json -- "$@"
  python3 -S "$sources/tests/e2e/report_json.py" validate "$sources/docs/schema/report-1.json" report.json \
    >validate.out 2>&1 || status=$?
  [[ $status -ne 77 ]] || skip "python3's jsonschema"
  [[ $status -eq 0 ]] || fail "$(cat validate.out)"
}

# report_member FILE NAME...
report_member() {
  python3 -S "$sources/tests/e2e/report_json.py" get "$@"
}

# By the driver's word; the free of each way of linking is named as the program made it.
for way in shared static; do
  add_case "verify $way finds a launch" verify_found_case "past_$way" known device free_device cudaFree 1000000
done
for way in linked dlsym proc; do
  add_case "verify $way finds a launch" verify_found_case "past_$way" known device free_device cuMemFree 1000000
done
add_case "verify finds a launch in the default stream" \
  verify_found_case past_linked legacy device free_device cuMemFree 1000000
add_case "verify finds it at a free of pinned memory" \
  verify_found_case past_linked known pinned free_pinned cuMemFreeHost 1000000
add_case "verify finds it at a free of managed memory" \
  verify_found_case past_linked known managed free_managed cuMemFree 1000000
# By the time that the synchronize takes.
add_case "verify finds a stream it does not know" \
  verify_found_case past_linked own device free_device cuMemFree 10000

add_case "verify's report, violated" \
  verify_schema_case "$apps/past_linked" "$apps/past_part.so" known device
add_case "verify's report, ended" verify_schema_case "$apps/unknown" table linked

# What gave the work was looked up: the report names it first of all that was. In a library that is
# broken so that the look-up does not end the proof.
# verify_culprit_case MUTANT PROGRAM NAME
verify_culprit_case() {
  local broken=$build/shim-mutants/libgpushim.so

  need_file "$broken"
  need_file "$build/order/order"
  run_in shim LD_PRELOAD="$broken" GPUSHIM_MUTANT="$1" GPUSHIM_FREE_SYNC=verify,us:1000000 \
    GPUSHIM_REPORT_ON=oom GPUSHIM_LOG_FILE=log \
    -- "$build/order/order" --seeds 16 "$2"
  expect_text log '^==[0-9]+== ERROR 1: idle check failed \(cuMemFree, GPU 0\): stream 0x'
  grep -E '^==[0-9]+==   last look-ups before the first failure: ' log >named ||
    fail "no line says what was looked up"
  expect_no_text log 'ended by'
  grep -vE "^==[0-9]+==   last look-ups before the first failure: $3(,|\$)" named >others || return 0
  fail "another name stands first: $(head -n 1 others)"
}
add_case "verify names the private table" verify_culprit_case tables_ignored private.table_linked \
  'table 63756461-7369-6d20-6265-68696e643031'
add_case "verify names the function behind the library" verify_culprit_case behind_ignored \
  private.graph_launch_behind cuGraphLaunch
add_case "verify names the look-up behind the library" verify_culprit_case behind_ignored \
  private.address_behind cuGetProcAddress_v2

# verify_clean_case PROGRAM ARGUMENT... (verify_line: what the report says)
verify_clean_case() {
  local program=$apps/$1

  need_file "$program"
  native native "$program" "${@:2}"
  verify_run shim GPUSHIM_FREE_SYNC=us:1000000 -- "$program" "${@:2}"
  expect_status shim 0
  expect_equal "output" "$(cat native.out)" "$(cat shim.out)"
  expect_text shim.err "$verify_line"
}
verify_clean_one() {
  local verify_line=$1

  verify_clean_case "${@:2}"
}
# Counted work is waited for, so that there is no proof to verify.
add_case "verify trusts what is counted" verify_clean_one \
  '^==[0-9]+== Idle check: made 0 times, failed 0, longest wait 0 s$' \
  past_linked "$apps/past_part.so" counted device
add_case "verify finds nothing where nothing runs" verify_clean_one \
  '^==[0-9]+== Idle check: made 2 times, failed 0, longest wait ' \
  past_linked "$apps/past_part.so" none device
# The program fails where its capture is broken.
add_case "verify asks nothing while a stream captures" verify_clean_one \
  '^==[0-9]+== Idle check: made 0 times, failed 0, not checked 2, ' \
  past_linked "$apps/past_part.so" known captured

# Real programs of each kind, under the library and the driver as they are: nothing is found, and
# the programs do what they do natively.
# verify_app_case PROGRAM ARGUMENT...
verify_app_case() {
  local program=$apps/$1 status

  need_file "$program"
  run_in native -- "$program" "${@:2}"
  status=$(cat native.status)
  preloaded shim GPUSHIM_FREE_SYNC=verify,us:1000000 -- "$program" "${@:2}"
  expect_status shim "$status"
  expect_equal "output" "$(cat native.out)" "$(cat shim.out)"
  expect_no_text shim.err 'idle check failed'
  expect_text shim.err '^==[0-9]+== Idle check: made [0-9,]+ times?, failed 0, '
}
for program in async_shared capture_linked churn_shared context_proc freewait_static \
  graphmem_ptds hostpools_shared leaky_dlsym managed_static orderedfree_linked pinned_linked \
  pipeline_shared reset_shared reuse_linked threads_shared threads_linked; do
  add_case "verify finds nothing in $program" verify_app_case "$program"
done
add_case "verify finds nothing in idle_shared done" verify_app_case idle_shared "done" 50
add_case "verify finds nothing in idle_linked busy" verify_app_case idle_linked busy 50

# A thread that launches beside frees, in hostile schedules: what another thread submits while
# the device is asked is no violation.
verify_order_case() {
  need_file "$build/order/order"
  preloaded shim GPUSHIM_FREE_SYNC=verify,us:1000000 GPUSHIM_REPORT_ON=oom \
    GPUSHIM_LOG_FILE=log -- "$build/order/order" --seeds 16 "$1"
  expect_status shim 0
  expect_no_text log 'idle check failed'
  expect_text log 'Idle check: made [1-9][0-9,]* times?, failed 0, '
}
add_case "verify finds nothing beside launches" verify_order_case idle.launched_while_freed

# What ended the proof: each free waits, nothing is checked, and the line says why.
# verify_ended_case NAME ARGUMENT...: of unknown's ARGUMENTs
verify_ended_case() {
  local name=$1

  shift
  need_file "$apps/unknown"
  [[ $1 != library ]] || need_file "$2"
  preloaded shim GPUSHIM_FREE_SYNC=verify -- "$apps/unknown" "$@"
  expect_status shim 0
  expect_text shim.err \
    "^==[0-9]+== Idle check: made 0 times, .*; ended by $name: each free waited from then on\$"
}
add_case "verify names what ended the proof" \
  verify_ended_case cuMemcpyTomorrowAsync dlsym cuMemcpyTomorrowAsync
add_case "verify names the table that ended the proof" \
  verify_ended_case 'private table 63756461-7369-6d20-6265-68696e643031' table linked
add_case "verify names the library that ended the proof" \
  verify_ended_case 'libnvcuvid\.so\.1' library "$build/order/launcher/libnvcuvid.so.1"
add_case "verify names what ended the proof behind the library" \
  verify_ended_case cuMemFreeAsync next cuMemFreeAsync

# What does nothing beside other settings, and without a tracker: a line each; the program goes on.
# verify_idle_case TEXT VARIABLE...
verify_idle_case() {
  need_file "$apps/past_linked"
  preloaded shim "${@:2}" -- "$apps/past_linked" "$apps/past_part.so" none device
  expect_status shim 0
  expect_text shim.err "^gpushim: $1"
  expect_no_text shim.err 'Idle check'
}
add_case "verify without the pool" verify_idle_case \
  "GPUSHIM_FREE_SYNC=verify: with GPUSHIM_POOL=off each free is the driver's" \
  GPUSHIM_FREE_SYNC=verify GPUSHIM_POOL=off
add_case "verify beside a red zone" verify_idle_case \
  'GPUSHIM_FREE_SYNC=verify: with redzone, fill or quarantine of GPUSHIM_CHECK, each free waits' \
  GPUSHIM_FREE_SYNC=verify GPUSHIM_CHECK=redzone:256
add_case "verify's time without verify" verify_idle_case \
  'GPUSHIM_FREE_SYNC=us:50: GPUSHIM_FREE_SYNC is not verify' GPUSHIM_FREE_SYNC=us:50
add_case "verify without a report" verify_idle_case \
  'GPUSHIM_FREE_SYNC=verify: with GPUSHIM_TRACK=off there is no report; what is found is a warning' \
  GPUSHIM_FREE_SYNC=verify GPUSHIM_TRACK=off
