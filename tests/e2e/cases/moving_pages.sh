# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# moving_pages.sh - GPUSHIM_POOL_VMM: what a program sees is the same, it fits where it
# fits natively, no order is lost, and a program that needs what only cuMemAlloc's memory
# has gets it, or a line.

vmm=GPUSHIM_POOL_VMM=on

# moving_case PROGRAM EXPECT [VARIABLE...]     EXPECT: clean, or any
moving_case() {
  need_file "$apps/$1"
  native native "$apps/$1"
  preloaded shim "$vmm" CUDASIM_LOG=2 "${@:3}" -- "$apps/$1"
  grep '^cudasim: ' shim.err >calls
  sed -i '/^cudasim: /d' shim.err
  expect_same native shim
  if [[ $2 == clean ]]; then
    expect_clean shim.err
  else
    expect_only_report shim.err
  fi
}
for program in pipeline_shared threads_linked threads_static pinned_linked async_shared \
  freewait_linked sizes_shared sizes_linked capture_linked capture_static devices_shared \
  vmm_linked churn_linked goodargs_dlsym managed_shared largeblocks_linked; do
  add_case "moving pages $program" moving_case "$program" clean
done
for program in leaky_shared leaky_linked badfree_linked referenced_linked reset_linked \
  reset_static context_linked fork_shared vfork_linked oddities_linked windows_shared \
  reuse_linked; do
  add_case "moving pages $program" moving_case "$program" any
done
for setting in GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait GPUSHIM_POOL_CACHE=0 \
  GPUSHIM_TRACK=off GPUSHIM_ASYNC=pool \
  GPUSHIM_CHECK=redzone:256; do
  add_case "moving pages threads_linked $setting" moving_case threads_linked any "$setting"
done

add_case "moving pages threads_linked GPUSHIM_POOL_CARVE=on" \
  moving_case threads_linked any GPUSHIM_POOL_CARVE=on GPUSHIM_VERBOSE=0

# What fits natively fits.
moving_full_case() {
  local what

  for what in device mixed churn; do
    run_in native CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 -- "$apps/limits_linked" "$what" 300
    run_in shim LD_PRELOAD="$shim" CUDASIM_MEMORY=64M CUDASIM_DEVICES=1 "$vmm" "$@" -- \
      "$apps/limits_linked" "$what" 300
    expect_same native shim
    expect_only_report shim.err
  done
}
add_case "moving pages on a full device" moving_full_case
add_case "moving pages on a full device, limited" moving_full_case GPUSHIM_MEM_LIMIT=64M
add_case "moving pages on a full device, late work" \
  moving_full_case CUDASIM_SCHEDULE=hostile CUDASIM_SEED=3

# A cache of registrations keeps them by address and BUFFER_ID: other pages at an address have another id.
moving_ids_case() {
  need python3
  cat >ids.py <<'PYTHON'
import ctypes

MIB = 1 << 20
cuda, context, pointer, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)


def allocated(mib):
    """Its address and its id: asked for alone, and in a list for its last byte."""
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
    address = pointer.value
    call("cuPointerGetAttribute", ctypes.byref(number), 7, ctypes.c_uint64(address))
    found = number.value
    call("cuPointerGetAttributes", 1, (ctypes.c_int * 1)(7), (ctypes.c_void_p * 1)(ctypes.addressof(number)),
         ctypes.c_uint64(address + mib * MIB - 1))
    assert number.value == found
    return address, found


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxPushCurrent_v2", context)
stale, seen = 0, {}  # size by address and id
for mib in (10, 14, 10, 6, 64, 4, 64, 12):
    key = allocated(mib)
    stale += seen.setdefault(key, mib) != mib
    call("cuMemFree_v2", ctypes.c_uint64(key[0]))
print("stale:", stale)
PYTHON
  native native python3 -SB ids.py
  expect_text native.out '^stale: 0$'
  preloaded shim "$vmm" CUDASIM_LOG=2 -- python3 -SB ids.py
  expect_text shim.out '^stale: 0$'
  [[ $(driver_calls shim.err cuMemMap) -gt 2 ]] || fail "no pages were mapped"
}
add_case "moving pages ids" moving_ids_case

# The smallest device on which a real trace fits natively: sizes that fit no freed block.
moving_smallest_case() {
  local trace=$sources/tests/replay/traces/minimalloc-K.csv.gz

  need_file "$build/replay/replay"
  preloaded shim CUDASIM_MEMORY=1040M CUDASIM_DEVICES=1 CUDASIM_LOG=2 "$vmm" -- \
    "$build/replay/replay" --through device "$trace"
  expect_status shim 0
  [[ $(driver_calls shim.err cuMemAlloc) -lt 5 ]] || fail "large blocks were cuMemAlloc's"
  [[ $(driver_calls shim.err cuMemMap) -gt 100 ]] || fail "no pages were mapped"
}
add_case "moving pages on the smallest device" moving_smallest_case

# With auto none is mapped while there is memory to spare, and many are on a short device; every program sees the same.
moving_auto_case() {
  local trace=$sources/tests/replay/traces/minimalloc-K.csv.gz

  need_file "$build/replay/replay"
  preloaded spare CUDASIM_MEMORY=16G CUDASIM_LOG=2 GPUSHIM_POOL_VMM=auto -- \
    "$build/replay/replay" --through device "$trace"
  expect_status spare 0
  expect_equal "pages with memory to spare" 0 "$(driver_calls spare.err cuMemMap)"
  preloaded shim CUDASIM_MEMORY=1060M CUDASIM_DEVICES=1 CUDASIM_LOG=2 GPUSHIM_POOL_VMM=auto -- \
    "$build/replay/replay" --through device "$trace"
  expect_status shim 0
  [[ $(driver_calls shim.err cuMemMap) -gt 100 ]] || fail "no pages were mapped"
}
add_case "moving pages once memory is short" moving_auto_case
moving_auto_full_case() {
  local vmm=GPUSHIM_POOL_VMM=auto

  moving_full_case "$@"
}
add_case "moving pages once memory is short, on a full device" moving_auto_full_case
add_case "moving pages once memory is short, late work" moving_auto_full_case CUDASIM_SCHEDULE=hostile CUDASIM_SEED=3

# A program's limit counts the pages once: 96 MiB are served of a limit of 100, not 200. Without
# carving no memory is a hole that the free memory leaves out, in either run.
moving_limit_case() {
  local settings=(LD_PRELOAD="$shim" GPUSHIM_MEM_LIMIT=100M GPUSHIM_POOL_CARVE=off)

  run_in plain "${settings[@]}" -- "$apps/limits_linked" device 300
  run_in shim "${settings[@]}" "$vmm" -- "$apps/limits_linked" device 300
  expect_same plain shim
}
add_case "moving pages under a limit" moving_limit_case

# The program gets the driver's error and a line with the variable, then cuMemAlloc's memory.
moving_export_case() {
  need_file "$apps/$1"
  preloaded shim "$vmm" GPUSHIM_VERBOSE=2 -- "$apps/$1"
  expect_text shim.out 'export answers 1,'
  expect_count shim.err 'cuIpcGetMemHandle: a block of 2097152 bytes .*GPUSHIM_POOL_VMM=on' 1
  expect_count shim.err \
    'GPUSHIM_POOL_VMM: cuIpcGetMemHandle: new device memory comes from cuMemAlloc from now on' 1
}
for program in ipc_shared ipc_proc; do
  add_case "moving pages are not exported: $program" moving_export_case "$program"
done

# A program whose own symbol says that it exports has cuMemAlloc's memory from the start.
moving_exporter_case() {
  same_as_native "$vmm" GPUSHIM_VERBOSE=2 -- "$apps/ipc_linked"
  expect_text shim.err 'GPUSHIM_POOL_VMM: blocks are exported .*cuMemAlloc'
}
add_case "moving pages are none for an exporter" moving_exporter_case

moving_peers_case() {
  run_in native CUDASIM_DEVICES="$1" "${@:2}" -- "$apps/peers_linked"
  preloaded shim CUDASIM_DEVICES="$1" "$vmm" "${@:2}" -- "$apps/peers_linked"
  expect_same native shim
}
for devices in 4 1; do
  add_case "moving pages, peers on $devices" moving_peers_case "$devices"
done
add_case "moving pages, peers on 4, late work" moving_peers_case 4 CUDASIM_SCHEDULE=hostile

# A device without it: one line at GPUSHIM_VERBOSE=2, and cuMemAlloc's memory.
moving_none_case() {
  preloaded shim "$vmm" GPUSHIM_VERBOSE=2 CUDASIM_LOG=2 "$1" -- "$apps/sizes_linked"
  expect_status shim 0
  expect_count shim.err "GPUSHIM_POOL_VMM: .*$2.*cuMemAlloc" 1
  expect_equal "pages created" 0 "$(driver_calls shim.err cuMemCreate)"
}
add_case "moving pages without the device's help" moving_none_case \
  CUDASIM_ATTRIBUTES=VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED=0 'the device has no virtual'

# Each call of the driver fails once: nothing is lost, and the program goes on.
moving_fail_case() {
  local call

  native native "$apps/threads_linked"
  for call in cuMemCreate cuMemMap cuMemSetAccess cuMemAddressReserve cuMemUnmap; do
    preloaded shim "$vmm" CUDASIM_FAIL="$call@2" -- "$apps/threads_linked"
    expect_same native shim
  done
}
add_case "moving pages whose calls fail" moving_fail_case

moving_bad_case() {
  preloaded shim GPUSHIM_POOL_VMM=soon -- "$apps/sizes_linked"
  expect_count shim.err 'GPUSHIM_POOL_VMM=soon' 1
  expect_status shim 0
}
add_case "moving pages, a value that is none" moving_bad_case

# The oracle judges under schedules that are as unlucky as CUDA allows.
moving_seeds=$(sized 1 4)
moving_hostile_case() {
  local seed

  for ((seed = 1; seed <= moving_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1"
    preloaded shim "$vmm" CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" \
      GPUSHIM_REPORT_ON=oom "${@:2}" -- "$apps/$1"
    expect_same native shim
    expect_no_text shim.err 'cudasim-finding'
  done
}
for program in pipeline_linked threads_linked capture_linked freewait_shared async_shared; do
  add_case "moving pages hostile $program" moving_hostile_case "$program"
done
for program in pipeline_linked threads_linked; do
  add_case "moving pages hostile $program lazy" moving_hostile_case "$program" \
    GPUSHIM_FREE_SYNC=lazy
done
moving_order_case() {
  need_file "$build/order/order"
  preloaded order "$vmm" "${verdict_alone[@]}" GPUSHIM_POOL_WAIT=100ms -- \
    "$build/order/order" --seeds "$moving_seeds" "$@"
  [[ $(<order.status) == 0 ]] && return
  grep -v '^cudasim: ' order.out | tail -n 40
  fail "the oracle's verdict changed"
}
for topic in streams. events. graphs. idle. rules. order. deadlock. ordered.; do
  add_case "moving pages order $topic" moving_order_case "$topic"
done

# What NVIDIA documents, and random lists of calls beside the driver alone.
moving_conformance_case() {
  need_file "$build/gpu/conformance"
  preloaded shim "$vmm" GPUSHIM_REPORT_ON=oom -- "$build/gpu/conformance"
  expect_status shim 0
  expect_text shim.out '^conformance: [0-9]+ passed, 0 failed'
}
add_case "moving pages, conformance" moving_conformance_case
moving_diff_case() {
  need_file "$build/diff/diff"
  run_in diff -- "$build/diff/diff" fuzz --modes vmm --jobs 1 --calls "$(sized 10000 300000)"
  expect_status diff 0
  expect_text diff.out '^0 differences'
}
add_case "moving pages, random calls" moving_diff_case
