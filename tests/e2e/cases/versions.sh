# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# versions.sh - drivers of other versions, and the several ABIs of one function: programs
# work over each driver as without the library, look-ups end at the ABI that was asked for,
# and old ABIs are passed on.

# ---- Drivers of several versions -----------------------------------------------------

# driver_case VERSION PROGRAM EXPECT [ARGUMENT...]     EXPECT: clean, leaks or any
driver_case() {
  local version=$1 program=$2 expect=$3 settings

  shift 3
  settings=(CUDASIM_DRIVER_VERSION="$version" CUDASIM_MEMORY=512M CUDASIM_DEVICES=3)
  need_file "$apps/$program"
  run_in native "${settings[@]}" -- "$apps/$program" "$@"
  expect_quiet native
  [[ $(<native.status) =~ ^[12]$ ]] && fail "status $(<native.status) without the library"
  preloaded shim "${settings[@]}" -- "$apps/$program" "$@"
  expect_same native shim
  case $expect in
    clean) expect_clean shim.err ;;
    leaks) expect_leaks shim.err "$sources/tests/apps/${program%_*}.c" ;;
    any) expect_only_report shim.err ;;
  esac
}

# Programs that call nothing newer run over every driver. cuGetProcAddress_v2 came with 12.0; the runtime of the
# headers that the programs are built with needs 13.0.
for version in 11040 11080 12000 12030 12080 13000 13020; do
  ways=(linked dlsym)
  [[ $version -ge 12000 ]] && ways+=(proc)
  [[ $version -ge 13000 ]] && ways+=(shared static ptds)
  for way in "${ways[@]}"; do
    add_case "driver $version leaky $way" driver_case "$version" "leaky_$way" leaks
    add_case "driver $version async $way" driver_case "$version" "async_$way" clean
  done
  for name in capture sizes threads vmm; do
    add_case "driver $version $name" driver_case "$version" "${name}_linked" clean
  done
  add_case "driver $version ipc" driver_case "$version" ipc_linked any
  for corner in refused_destroy freed_in_order freed_elsewhere freed_in_capture; do
    add_case "driver $version edges $corner" \
      driver_case "$version" edges_linked clean "$corner"
  done
done
for version in 11040 12030 13020; do
  for name in freewait managed pinned pipeline; do
    add_case "driver $version $name" driver_case "$version" "${name}_linked" clean
  done
done

# ---- Which ABI a look-up ends at -----------------------------------------------------

# All look-ups there are, and odd ones, answer as without the library.
# look_up_case VERSION MODE
look_up_case() {
  need_file "$apps/abis"
  run_in native CUDASIM_DRIVER_VERSION="$1" -- "$apps/abis" "$2"
  expect_status native 0
  preloaded shim CUDASIM_DRIVER_VERSION="$1" -- "$apps/abis" "$2"
  expect_same native shim
  expect_clean shim.err
}
for version in 11040 12000 12030 13000; do
  add_case "abi look-ups of $version" look_up_case "$version" table
  add_case "abi odd look-ups of $version" look_up_case "$version" odd
  add_case "abi look-ups by a look-up of $version" look_up_case "$version" chain
done

# Of everything that is hooked the program gets our wrapper, of nothing else.
ours_case() {
  need_file "$apps/abis"
  preloaded shim GPUSHIM_LOOKUP_LOG=look-ups -- "$apps/abis" table
  expect_status shim 0
  "$sources/scripts/def-rows" "$sources"/shim/entries/{hooks,submit}.def | awk -F'|' '
    $1 != "GS_RUNTIME" && $4 <= 13000 { print $3, $4, $5 == "PER_THREAD" ? 2 : 0, "-> ours" }' |
    sort -u >wanted
  "$sources/scripts/def-rows" "$sources/shim/link/harmless.def" | awk -F'|' '
    $1 != "GS_REASON" && $3 <= 13000 {
      flags = sub(/_pt[ds][sz]$/, "", $2) ? 2 : 0
      sub(/_v[0-9]$/, "", $2)
      print $2, $3, flags, "-> driver" }' | sort -u >>wanted
  [[ $(wc -l <wanted) -gt 500 ]] || fail "the tables were not read"
  sort -u wanted -o wanted
  sort -u look-ups >found
  # The simulated driver lacks functions of graphics interfaces.
  sed -nE 's/^SIM_SYMBOL\([A-Za-z0-9_]+, ([A-Za-z0-9_]+),.*/\1/p' \
    "$sources/tests/sim/driver/symbols.def" | sort -u >there
  comm -23 wanted found | join - there >missing
  [[ -s missing ]] || return 0
  head -n 20 missing
  fail "answers are not those of the tables"
}
add_case "abi ours and the driver's" ours_case

# ---- Which ABI is called -------------------------------------------------------------

# called PREFIX NAME: functions of that name that the driver was called with.
called() {
  sed -n '/^abis: now/,/^abis: done/p' "$1.err" |
    sed -nE "s/^cudasim: ($2(_v[0-9])?(_pt[ds][sz])?)( .*)?\$/\1/p"
}

# call_case NAME SYMBOL HOW...: the call ends at that symbol of the driver, once, and is
# answered as without the library.
call_case() {
  local name=$1 symbol=$2

  shift 2
  need_file "$apps/abis"
  run_in native CUDASIM_LOG=2 -- "$apps/abis" "$@"
  expect_status native 0
  expect_equal "called without the library" "$symbol" "$(called native "$name")"
  preloaded shim CUDASIM_LOG=2 -- "$apps/abis" "$@"
  expect_same native shim
  expect_equal "called with the library" "$symbol" "$(called shim "$name")"
}

# By look-up: name, version, flags, symbol.
while read -r name version flags symbol; do
  add_case "abi $name of $version, flags $flags" \
    call_case "$name" "$symbol" call "$name" "$version" "$flags"
done <<'LIST'
cuMemAlloc 2000 0 cuMemAlloc
cuMemFree 2000 0 cuMemFree
cuMemAllocPitch 2000 0 cuMemAllocPitch
cuMemAllocHost 2000 0 cuMemAllocHost
cuMemGetInfo 2000 0 cuMemGetInfo
cuMemGetAddressRange 2000 0 cuMemGetAddressRange
cuMemHostGetDevicePointer 2020 0 cuMemHostGetDevicePointer
cuMemHostRegister 4000 0 cuMemHostRegister
cuArrayCreate 2000 0 cuArrayCreate
cuArray3DCreate 2000 0 cuArray3DCreate
cuCtxCreate 2000 0 cuCtxCreate
cuCtxCreate 3020 0 cuCtxCreate_v2
cuCtxCreate 11040 0 cuCtxCreate_v3
cuCtxCreate 12050 0 cuCtxCreate_v4
cuCtxDestroy 2000 0 cuCtxDestroy
cuCtxDestroy 4000 0 cuCtxDestroy_v2
cuDevicePrimaryCtxRelease 7000 0 cuDevicePrimaryCtxRelease
cuDevicePrimaryCtxRelease 11000 0 cuDevicePrimaryCtxRelease_v2
cuIpcOpenMemHandle 4010 0 cuIpcOpenMemHandle
cuIpcOpenMemHandle 11000 0 cuIpcOpenMemHandle_v2
cuMemAdvise 8000 0 cuMemAdvise
cuMemAdvise 12020 0 cuMemAdvise_v2
cuMemPrefetchAsync 8000 0 cuMemPrefetchAsync
cuMemPrefetchAsync 8000 2 cuMemPrefetchAsync_ptsz
cuMemPrefetchAsync 12020 0 cuMemPrefetchAsync_v2
cuMemPrefetchAsync 12020 2 cuMemPrefetchAsync_v2_ptsz
cuGraphAddNode 12020 0 cuGraphAddNode
cuGraphAddNode 12030 0 cuGraphAddNode_v2
cuGraphInstantiate 10000 0 cuGraphInstantiate
cuGraphInstantiate 11000 0 cuGraphInstantiate_v2
cuGraphInstantiateWithFlags 11040 0 cuGraphInstantiateWithFlags
cuGraphInstantiateWithParams 12000 0 cuGraphInstantiateWithParams
cuGraphInstantiateWithParams 12000 2 cuGraphInstantiateWithParams_ptsz
cuStreamBeginCapture 10000 0 cuStreamBeginCapture
cuStreamBeginCapture 10000 2 cuStreamBeginCapture_ptsz
cuStreamBeginCapture 10010 0 cuStreamBeginCapture_v2
cuStreamBeginCapture 10010 2 cuStreamBeginCapture_v2_ptsz
cuStreamGetCaptureInfo 10010 2 cuStreamGetCaptureInfo_ptsz
cuStreamGetCaptureInfo 11030 0 cuStreamGetCaptureInfo_v2
cuStreamGetCaptureInfo 12030 2 cuStreamGetCaptureInfo_v3_ptsz
cuStreamDestroy 2000 0 cuStreamDestroy
cuStreamDestroy 4000 0 cuStreamDestroy_v2
cuStreamSynchronize 2000 0 cuStreamSynchronize
cuStreamSynchronize 7000 2 cuStreamSynchronize_ptsz
cuStreamSynchronize 6050 2 cuStreamSynchronize
cuMemcpyHtoD 2000 0 cuMemcpyHtoD
cuMemcpyHtoD 3020 0 cuMemcpyHtoD_v2
cuMemcpyHtoD 7000 2 cuMemcpyHtoD_v2_ptds
cuMemcpyDtoH 3020 0 cuMemcpyDtoH_v2
cuMemcpyDtoH 7000 2 cuMemcpyDtoH_v2_ptds
cuMemsetD8 2000 0 cuMemsetD8
cuMemsetD8 7000 2 cuMemsetD8_v2_ptds
cuMemcpyBatchAsync 12080 0 cuMemcpyBatchAsync
cuMemcpyBatchAsync 13000 2 cuMemcpyBatchAsync_v2_ptsz
cuStreamWaitValue32 8000 0 cuStreamWaitValue32
cuStreamWaitValue32 11070 2 cuStreamWaitValue32_v2_ptsz
cuLaunchKernel 4000 0 cuLaunchKernel
cuLaunchKernel 7000 2 cuLaunchKernel_ptsz
cuMemAllocAsync 11020 2 cuMemAllocAsync_ptsz
LIST

# By name: what is exported is what is called.
for symbol in cuMemAlloc cuMemFree cuCtxCreate cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 \
  cuMemAdvise cuMemAdvise_v2 cuGraphInstantiate cuGraphInstantiate_v2 cuStreamBeginCapture \
  cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2_ptsz cuMemcpyHtoD cuMemcpyHtoD_v2_ptds \
  cuStreamDestroy cuGraphAddNode cuGraphAddNode_v2; do
  name=${symbol%_pt[ds][sz]}
  add_case "abi symbol $symbol" call_case "${name%_v[0-9]}" "$symbol" symbol "$symbol"
done

# A program from before CUDA 3.2, linked with the driver: 32-bit addresses.
linked_case() {
  need gcc
  cat >old.c <<'PROGRAM'
#include <stdio.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc(unsigned *, unsigned), cuMemFree(unsigned);
int cuMemGetInfo(unsigned *, unsigned *), cuCtxCreate(void **, unsigned, int);
int main(void)
{
    unsigned address[2] = {7, 7}, room[2] = {7, 7};
    void *context = NULL;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 3;
    fprintf(stderr, "abis: now\n");
    printf("%d %d %d\n", cuMemAlloc(address, 1000), cuMemFree(0), cuMemGetInfo(room, room + 1));
    context = NULL;
    printf("%d %s\n", cuCtxCreate(&context, 0, 0), context ? "a context" : "none");
    fprintf(stderr, "abis: done\n");
    printf("%u %u\n", address[1], room[0]); /* behind a 32-bit answer nothing is written */
    return 0;
}
PROGRAM
  gcc -o old old.c "$build/sim/libcuda.so.1" || fail "gcc cannot build the program"
  run_in native CUDASIM_LOG=2 -- ./old
  expect_status native 0
  preloaded shim CUDASIM_LOG=2 -- ./old
  expect_same native shim
  for name in cuMemAlloc cuMemFree cuMemGetInfo cuCtxCreate; do
    expect_equal "called without the library" "$name" "$(called native "$name")"
    expect_equal "called with the library" "$name" "$(called shim "$name")"
  done
}
add_case "abi linked before CUDA 3.2" linked_case

# ---- Exports of an older driver ------------------------------------------------------

# older_exports_case VERSION FIRST LAST: dlsym finds what came with FIRST, and not what came with LAST, with the library
# and without it.
older_exports_case() {
  need python3
  cat >exports.py <<'PYTHON'
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
print(cuda.cuInit(0), [hasattr(cuda, name) for name in sys.argv[1:]])
PYTHON
  run_in native CUDASIM_DRIVER_VERSION="$1" -- python3 -S exports.py "$2" "$3"
  preloaded shim CUDASIM_DRIVER_VERSION="$1" -- python3 -S exports.py "$2" "$3"
  expect_equal "exports of $1" "0 [True, False]" "$(<native.out)"
  expect_same native shim
}
add_case "driver 11.2, exports" older_exports_case 11020 cuMemAllocAsync cuGetProcAddress
add_case "driver 11.8, exports" older_exports_case 11080 cuLaunchKernelEx cuLibraryLoadData
add_case "driver 12.4, exports" older_exports_case 12040 cuGreenCtxCreate cuMemBatchDecompressAsync
