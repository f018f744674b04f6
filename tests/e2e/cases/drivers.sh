# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# drivers.sh - a driver that is no use, or old, or finds no GPU, and calls that it refuses: to
# the program all is as without the library, which says one line at most.

driver_ways=(linked dlsym proc)

# ---- no driver behind the name ---------------------------------------------------------

# broken_driver_case MAKE PROGRAM: `driver` is the file that MAKE puts in the driver's place.
broken_driver_case() {
  # shellcheck disable=SC2034 # MAKE uses driver
  local program=$apps/$2 driver=$PWD/bad/libcuda.so.1 cuda_path=$PWD/bad:$cuda_path

  need_file "$program"
  mkdir bad
  eval "$1"
  run_in native -- "$program"
  [[ $(<native.status) -ne 0 ]] || fail "the driver is of use"
  preloaded shim -- "$program"
  expect_same native shim
  expect_count shim.err '^gpushim: ' 0
  grep -vE '^==[0-9]+==( |$)' shim.err >others
  diff native.err others || fail "another text on standard error"
  expect_no_text shim.err ' ERROR '
}
for way in shared static ptds "${driver_ways[@]}"; do
  program=pipeline_$way
  # shellcheck disable=SC2016
  {
    add_case "driver cut off: empty, $way" broken_driver_case ': >"$driver"' "$program"
    add_case "driver cut off: in its header, $way" broken_driver_case \
      'head -c 40 "$build/sim/libcuda.so.1" >"$driver"' "$program"
    add_case "driver cut off: behind its header, $way" broken_driver_case \
      'head -c 1000 "$build/sim/libcuda.so.1" >"$driver"' "$program"
    # A program that is linked with the driver natively does not start (below).
    [[ $way == linked ]] || add_case "driver: another library, $way" broken_driver_case \
      'cp "$apps/libnext.so" "$driver"' "$program"
    add_case "driver: no library, $way" broken_driver_case 'echo nothing >"$driver"' "$program"
  }
done

# A program that opens a library of the driver's name, one without the driver's functions or the toolkit's
# stub: no driver was used. Alone sees: the line of a driver whose calls went by unseen, and its status.
# useless_case FILE
useless_case() {
  local cuda_path=$PWD/bad:$cuda_path

  need python3
  need_file "$1"
  mkdir bad
  cp "$1" bad/libcuda.so.1
  preloaded shim GPUSHIM_ERROR_EXITCODE=9 -- python3 -S -c 'import ctypes
ctypes.CDLL("libcuda.so.1")'
  expect_status shim 0
  expect_equal "lines of the library" "" "$(<shim.err)"
}
add_case "driver: another library, opened" useless_case "$apps/libnext.so"
add_case "driver: the stub, opened" useless_case "$apps/stub-driver/libcuda.so.1"

# The preloaded library has the functions that the program is linked with, so that it starts:
# its cuInit returns 303 (shared object init failed), and one line says so.
linked_with_another_case() {
  local cuda_path=$PWD/bad:$cuda_path

  mkdir bad
  cp "$apps/libnext.so" bad/libcuda.so.1
  run_in native -- "$apps/pipeline_linked"
  expect_status native 127
  preloaded shim -- "$apps/pipeline_linked"
  expect_status shim 2
  expect_equal "bytes of output" 0 "$(wc -c <shim.out)"
  expect_count shim.err '^gpushim: ' 1
  expect_text shim.err '^gpushim: no CUDA driver is loaded: cuInit returns 303$'
  expect_no_text shim.err ' ERROR '
}
add_case "driver: another library, linked" linked_with_another_case

# ---- an old one, one without a GPU -----------------------------------------------------

# Version 11.3. Who does not get as far as cuInit, as NVIDIA's runtime and who asks for functions
# by the version that they have in new headers, gets no further with the library either.
# old_driver_case WAY LINES
old_driver_case() {
  export CUDASIM_DRIVER_VERSION=11030

  run_in native -- "$apps/pipeline_$1"
  preloaded shim -- "$apps/pipeline_$1"
  expect_same native shim
  expect_count shim.err '^gpushim: ' "$2"
  expect_count shim.err \
    '^gpushim: the CUDA driver is of CUDA 11[.]3; the library is tested with 11[.]4 and ' "$2"
}
add_case "driver older than 11.4, linked" old_driver_case linked 1
add_case "driver older than 11.4, dlsym" old_driver_case dlsym 1
for way in shared static proc; do
  add_case "driver older than 11.4, $way" old_driver_case "$way" 0
done

# no_gpu_case WAY
no_gpu_case() {
  export CUDASIM_DEVICES=0

  same_as_native -- "$apps/absent_$1"
  expect_text native.out 'cuInit +100$'
  expect_text native.out 'cuArrayDestroy +400$' # as NVIDIA's drivers
  expect_only_report shim.err
  expect_no_text shim.err ' ERROR '
  expect_text shim.err 'SUMMARY: gpushim: nothing recorded: CUDA did not start'
}
for way in "${driver_ways[@]}"; do
  add_case "driver without a GPU, frees of nothing, $way" no_gpu_case "$way"
done

# ---- what it judges without a look -----------------------------------------------------

# wild_case WAY FAIL ARGUMENT [VAR=value...]
wild_case() {
  export CUDASIM_FAIL=$2

  same_as_native GPUSHIM_SYMBOLIZE=off "${@:4}" -- "$apps/wild_$1" "$3" # no line is judged
  expect_only_report shim.err
}
full='cuMemCreate:*,cuArrayCreate:*,cuArray3DCreate:*,cuMipmappedArrayCreate:*,cuGraphAddNode:*'
full+=',cuGraphAddMemAllocNode:*,cuGraphInstantiateWithParams:*'
for way in "${driver_ways[@]}"; do
  add_case "driver refuses wild descriptions, $way" wild_case "$way" '' ''
  add_case "driver refuses wild descriptions, no cuInit, $way" wild_case "$way" '' early
  add_case "driver refuses wild descriptions, a limit, $way" \
    wild_case "$way" '' '' GPUSHIM_MEM_LIMIT=256M
  # A full device is no reason for a look either.
  add_case "driver refuses wild descriptions, full, $way" wild_case "$way" "$full" ''
  add_case "driver refuses wild descriptions, full, a limit, $way" \
    wild_case "$way" "$full" '' GPUSHIM_MEM_LIMIT=256M
done
add_case "driver refuses wild descriptions, pools" wild_case linked '' '' GPUSHIM_ASYNC=pool
