# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# latency.sh - the time that calls of the simulated driver take (CUDASIM_LATENCY): it passes
# in the program, what the library hands out by itself does not take it, a file that is no
# table is said to be none; and the table that gpu-check makes of what it measured. Rows and
# lines of every kind: tests/sim/unit/sim_latency.c.

uses gpu_check

# pairs_program: ten pairs by ctypes, timed by the program's own clock.
pairs_program() {
  cat >pairs.py <<'END'
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
shortest = []
for _ in range(10):
    begun = time.monotonic_ns()
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1024)) == 0
    between = time.monotonic_ns()
    assert cuda.cuMemFree_v2(block) == 0
    shortest.append((between - begun, time.monotonic_ns() - between))
print("alloc", min(alloc for alloc, _ in shortest), "free", min(free for _, free in shortest))
END
}

latency_passes_case() {
  local alloc free

  need python3
  pairs_program
  printf '%s\n' 'origin: test' 'cuMemAlloc 512 20000000' 'cuMemAlloc 1M 90000000' \
    'cuMemFree 5000000' >table
  run_in native CUDASIM_LATENCY=table CUDASIM_LOG=2 -- python3 -S pairs.py
  expect_status native 0
  expect_text native.err '^cudasim: calls take what they took on test: 3 rows$'
  expect_count native.err '^cudasim: cuMemAlloc_v2: [0-9]+ ns longer by CUDASIM_LATENCY$' 10
  expect_count native.err '^cudasim: cuMemFree_v2: 5000000 ns longer ' 10
  read -r _ alloc _ free <native.out
  [[ $alloc -ge 20000000 ]] || fail "an allocation took $alloc ns"
  [[ $free -ge 5000000 ]] || fail "a free took $free ns"
}
add_case "latency passes in the call" latency_passes_case

# Only what the driver is asked for takes its time.
latency_library_case() {
  local asked

  need python3
  pairs_program
  printf '%s\n' 'origin: test' 'cuMemAlloc 100000' 'cuMemFree 100000' >table
  preloaded shim CUDASIM_LATENCY=table CUDASIM_LOG=2 -- python3 -S pairs.py
  expect_status shim 0
  asked=$(driver_calls shim.err cuMemAlloc)
  [[ $asked -ge 1 && $asked -le 2 ]] || fail "the driver was asked $asked times"
  expect_count shim.err '^cudasim: cuMemAlloc_v2: 100000 ns longer ' "$asked"
}
add_case "latency is not paid for a cached pair" latency_library_case

latency_refused_case() {
  native plain "$apps/hitpair_linked" 3
  printf 'cuMemAlloc 5\n' >nameless
  printf '%s\n' 'origin: test' 'cuMemAlloc 1M' 'cuNoSuch 5' 'cuMemFree 1' >partly
  for file in nowhere . nameless; do
    run_in "at" CUDASIM_LATENCY="$file" -- "$apps/hitpair_linked" 3
    expect_equal "status" "$(<plain.status)" "$(<at.status)"
    expect_count at.err . 1
    expect_text at.err "^cudasim: CUDASIM_LATENCY=$file .* ignored"
  done
  run_in part CUDASIM_LATENCY=partly -- "$apps/hitpair_linked" 3
  expect_equal "status" "$(<plain.status)" "$(<part.status)"
  expect_text part.err "^cudasim: CUDASIM_LATENCY=partly:2: 'cuMemAlloc 1M' is not a row, ignored$"
  expect_text part.err "^cudasim: CUDASIM_LATENCY=partly:3: 'cuNoSuch 5' names no function "
  expect_count part.err . 2
  run_in hostile CUDASIM_LATENCY=partly CUDASIM_SCHEDULE=hostile -- "$apps/hitpair_linked" 3
  expect_text hostile.err '^cudasim: CUDASIM_LATENCY=partly is ignored: the hostile '
  expect_no_text hostile.err 'not a row'
}
add_case "latency of a file that is no table" latency_refused_case

# An earlier run of gpu-check in work/, with what these questions answer here.
measured_here() {
  local stamp='"gpu":"Simulated CUDA device","driver":"simulated","date":"2026-11-23"'
  local question

  mkdir -p work scripts samples
  need_file "$build/gpu/gpu_probe"
  run_in machine -- "$build/gpu/gpu_probe" --machine
  cp machine.out work/machine
  for question in "$@"; do
    run_in answer -- "$build/gpu/gpu_probe" "$question"
    expect_status answer 0
    grep '^{' answer.out | sed "s/}\$/,$stamp}/" >>work/probe.rows
  done
  : >work/probe.table
  echo "complete: an earlier run" >work/probe.state
}

# question, function, the driver's entry: the rows by size of the kinds of memory that
# programs seldom allocate.
kinds_measured='cost_managed cuMemAllocManaged cuMemAllocManaged
cost_register cuMemHostRegister cuMemHostRegister_v2
cost_register cuMemHostUnregister cuMemHostUnregister
cost_pitch cuMemAllocPitch cuMemAllocPitch_v2
cost_pool cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync
cost_array cuArrayCreate cuArrayCreate_v2
cost_array cuArrayDestroy cuArrayDestroy
cost_vmm cuMemCreate cuMemCreate
cost_vmm cuMemAddressReserve cuMemAddressReserve
cost_vmm cuMemMap cuMemMap
cost_vmm cuMemSetAccess cuMemSetAccess
cost_vmm cuMemUnmap cuMemUnmap
cost_vmm cuMemRelease cuMemRelease
cost_vmm cuMemAddressFree cuMemAddressFree'

# The rows a result has become a table that the simulated device takes without a word.
latency_table_case() {
  need python3
  measured_here cost_device cost_host cost_calls
  gpu_check check -- --part real
  expect_text out/latency.table '^origin: SIMULATED, Simulated CUDA device, driver simulated, '
  expect_text out/latency.table '^cuMemAlloc 512 [0-9]+$'
  expect_text out/latency.table '^cuMemFree 2M [0-9]+$'
  expect_text out/latency.table '^cuMemHostAlloc 128M [0-9]+$'
  expect_text out/latency.table '^cuStreamQuery [0-9]+$'
  expect_text out/latency.table '^# no row for cuMemAllocAsync: cost_async, alloc pair: not asked$'
  expect_no_text out/latency.table 'p99|_n '
  run_in used CUDASIM_LATENCY=out/latency.table CUDASIM_LOG=1 -- "$apps/hitpair_linked" 3
  expect_status used 0
  expect_text used.err 'took on SIMULATED, Simulated CUDA device, .*: [0-9]+ rows$'
  expect_count used.err CUDASIM_LATENCY 0
}
add_case "gpu-check makes a latency table" latency_table_case

# Their medians are in the table, and each call takes what its row says.
latency_kinds_case() {
  local question function entry size ns questions

  need python3
  mapfile -t questions < <(cut -d' ' -f1 <<<"$kinds_measured" | sort -u)
  measured_here "${questions[@]}"
  gpu_check check -- --part real
  for question in "${questions[@]}"; do
    run_in "$question" CUDASIM_LATENCY=out/latency.table CUDASIM_LOG=2 -- \
      "$build/gpu/gpu_probe" "$question"
    expect_status "$question" 0
    expect_count "$question.err" CUDASIM_LATENCY= 0
  done
  while read -r question function entry; do
    for size in 2M 16M 128M; do
      expect_text out/latency.table "^$function $size [1-9][0-9]*\$"
      ns=$(sed -n "s/^$function $size //p" out/latency.table)
      expect_text "$question.err" "^cudasim: $entry: $ns ns longer by CUDASIM_LATENCY\$"
    done
  done <<<"$kinds_measured"
}
add_case "latency of every kind of memory" latency_kinds_case

# convert PREFIX STATUS [ARGUMENT...]
convert() {
  local prefix=$1 status=$2

  shift 2
  run_in "$prefix" -- python3 -SB "$sources/tests/gpu/parts/latency_table.py" "$@"
  expect_status "$prefix" "$status"
}

# row_json QUESTION ROW STATUS VALUES [SIMULATED]
row_json() {
  printf '{"part":"probe","question":"%s","row":"%s","status":"%s","unit":"ns","values":{%s},' \
    "$1" "$2" "$3" "$4"
  printf '"note":"no room","simulated":%s,"gpu":"Card #1","driver":"580.65","date":"2026-11-23"}' \
    "${5:-false}"
}

# result_json FILE ROW...
result_json() {
  local file=$1 IFS=,

  shift
  printf '{"schema":1,"parts":{"probe":{"state":"complete","rows":[%s]}}}\n' "$*" >"$file"
}

latency_converter_case() {
  need python3
  result_json real "$(row_json cost_device 'alloc pair' measured \
    '"2M":90.6,"512B":7,"512B_p99":9,"512B_n":200,"1M":"CUDA_ERROR_UNKNOWN","64K":-1')" \
    "$(row_json cost_device 'alloc busy' measured '"512B":999')" \
    "$(row_json cost_device 'free pair' failed '"512B":5')" \
    "$(row_json cost_async - "timed out" '')" \
    "$(row_json cost_calls idle measured '"query":301,"ctx_id":"CUDA_ERROR_NOT_SUPPORTED"')"
  convert real 0 real
  expect_equal "the table" "origin: Card 1, driver 580.65, 2026-11-23
cuMemAlloc 512 7
cuMemAlloc 2M 91
cuStreamQuery 301" "$(grep -v '^#' real.out)"
  expect_text real.out '^# no row for cuMemFree: cost_device, free pair: failed: no room$'
  expect_text real.out '^# no row for cuMemAllocAsync: cost_async, alloc pair: timed out: no room$'
  expect_text real.err 'no row for cuCtxGetId: cost_calls, idle, ctx_id: CUDA_ERROR_NOT_SUPPORTED$'
  expect_text real.err 'no row for cuMemHostAlloc: cost_host, alloc pair: not asked$'
  expect_equal "lines" "$(grep -c '^#' real.out)" "$(wc -l <real.err)"
}
add_case "latency table of a result" latency_converter_case

# Which row of a result is which function's: no two durations are the same.
latency_converter_kinds_case() {
  local rows=() ns=10 question verb function

  need python3
  while read -r question verb function; do
    ns=$((ns + 1))
    rows+=("$(row_json "$question" "$verb pair" measured "\"2M\":$ns,\"2M_p99\":1")")
    rows+=("$(row_json "$question" "$verb busy" measured '"2M":1')")
    [[ $function == - ]] || printf '%s 2M %s\n' "$function" "$ns" >>wanted
  done <<'END'
cost_managed alloc cuMemAllocManaged
cost_managed free -
cost_register register cuMemHostRegister
cost_register unregister cuMemHostUnregister
cost_pitch alloc cuMemAllocPitch
cost_pitch free -
cost_pool alloc cuMemAllocFromPoolAsync
cost_pool free -
cost_array create cuArrayCreate
cost_array destroy cuArrayDestroy
cost_vmm create cuMemCreate
cost_vmm reserve cuMemAddressReserve
cost_vmm map cuMemMap
cost_vmm access cuMemSetAccess
cost_vmm unmap cuMemUnmap
cost_vmm release cuMemRelease
cost_vmm unreserve cuMemAddressFree
END
  result_json kinds "${rows[@]}"
  convert kinds 0 kinds
  expect_equal "the table" "$(<wanted)" "$(grep -v -e '^#' -e '^origin' kinds.out)"
}
add_case "latency table of every kind of memory" latency_converter_kinds_case

latency_converter_refuses_case() {
  need python3
  result_json simulated "$(row_json cost_device 'alloc pair' measured '"512B":7' true)"
  convert simulated 1 simulated
  expect_text simulated.err '^latency_table: simulated: measured on the simulated device: '
  expect_count simulated.out . 0
  convert allowed 0 --simulated simulated
  expect_text allowed.out '^origin: SIMULATED, Card 1, driver 580.65, 2026-11-23$'
  result_json two "$(row_json cost_device 'alloc pair' measured '"512B":7')" \
    "$(row_json cost_device 'free pair' measured '"512B":7' | sed 's/Card #1/Card #2/')"
  convert two 1 two
  expect_text two.err ': rows of more than one machine$'
  result_json none "$(row_json lookup '-' measured '"512B":7')"
  convert none 1 none
  expect_text none.err ': nothing of what calls cost was measured$'
  echo '{"parts":{"bench":{"rows":[]}}}' >other
  convert other 1 other
  expect_text other.err ': no result of gpu-check with the part probe$'
  echo '[1]' >list
  convert list 1 list
  expect_text list.err ': no result of gpu-check with the part probe$'
  echo '{"parts":' >torn
  convert torn 1 torn
  expect_text torn.err ': no JSON: '
  convert nowhere 1 nowhere
  expect_text nowhere.err ': No such file or directory$'
  convert usage 2
  convert usage 2 one two
  for name in simulated two none other list torn nowhere usage; do
    expect_count $name.err . 1
  done
}
add_case "latency table of what is none" latency_converter_refuses_case
