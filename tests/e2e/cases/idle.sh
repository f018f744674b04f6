# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# idle.sh - how often the device is synchronized: a free waits where work may run, and
# nowhere else (docs/free.md). The simulated driver's log has every call.

idle_rounds=20

# synchronizes FILE: of tests/apps/idle.c's rounds, how often the context was synchronized.
synchronizes() {
  sed -n '/^rounds/,/^end of rounds/p' "$1" | grep -c '^cudasim: cuCtxSynchronize'
}

# idle_case PROGRAM MODE MORE [VARIABLE...]: under the library there are MORE calls of
# cuCtxSynchronize in the rounds than without it.
idle_case() {
  local program=$apps/$1 mode=$2 more=$3 alone with

  need_file "$program"
  run_in native CUDASIM_LOG=2 CUDASIM_DEVICES=2 -- "$program" "$mode" "$idle_rounds"
  expect_status native 0
  alone=$(synchronizes native.err)
  preloaded shim CUDASIM_LOG=2 CUDASIM_DEVICES=2 "${@:4}" -- "$program" "$mode" "$idle_rounds"
  expect_same native shim
  with=$(synchronizes shim.err)
  expect_equal "synchronizes more than without the library" "$more" $((with - alone))
}
for way in shared static ptds linked dlsym proc; do
  add_case "idle $way synchronized" idle_case "idle_$way" "done" 0
  add_case "idle $way busy" idle_case "idle_$way" busy "$idle_rounds"
  # The first pair finds a context that nobody has seen complete.
  add_case "idle $way pairs" idle_case "idle_$way" pairs 1
done
# The per-thread default stream is one of several: a copy there proves nothing.
for way in shared static linked dlsym proc; do
  add_case "idle $way legacy stream" idle_case "idle_$way" legacy 0
done
add_case "idle ptds copies" idle_case idle_ptds legacy "$idle_rounds"
# Owner and accessor, each time.
add_case "idle linked peer" idle_case idle_linked peer $((2 * idle_rounds))
add_case "idle wait" idle_case idle_linked "done" "$idle_rounds" GPUSHIM_FREE_SYNC=wait
add_case "idle private entry points" idle_case idle_shared "done" 0 CUDASIM_PRIVATE_ENTRIES=1

# Every function that is counted answers as the driver does.
counted_case() {
  need_file "$apps/counted"
  run_in native CUDASIM_ORACLE=0 -- "$apps/counted"
  expect_status native 0
  preloaded shim CUDASIM_ORACLE=0 -- "$apps/counted"
  expect_same native shim
}
add_case "idle counted functions" counted_case

# The line of the report, and what it counts.
idle_report_case() {
  preloaded shim -- "$apps/freewait_linked"
  expect_status shim 0
  expect_clean shim.err
  preloaded leaky -- "$apps/leaky_linked"
  expect_text leaky.err \
    '^==[0-9]+==   frees          [1-9][0-9,]* waited [0-9.]+ (us|ms) in all, [0-9.]+ % found the device idle( \(GPUSHIM_FREE_SYNC=lazy saves the waits\))?$'
}
add_case "idle report" idle_report_case

# A function that no table has, looked up by name: every free waits from then on, and a
# line says so if the user wants to know.
# unknown_case WAY NAME ENDS
unknown_case() {
  need_file "$apps/unknown"
  preloaded shim GPUSHIM_VERBOSE=2 CUDASIM_LOG=2 -- "$apps/unknown" "$1" "$2"
  expect_status shim 0
  expect_count shim.err '^gpushim: .*every free waits' "$3"
  expect_equal "synchronizes" $((1 + 10 * $3)) "$(grep -c '^cudasim: cuCtxSynchronize' shim.err)"
}
add_case "idle unknown by dlsym" unknown_case dlsym cuMemcpyTomorrowAsync 1
add_case "idle absent by dlsym" unknown_case dlsym cuMemcpyYesterdayAsync 0
add_case "idle absent by dlsym, next" unknown_case next cuMemcpyYesterdayAsync 0
add_case "idle unknown behind the library" unknown_case next cuLaunchKernel 1
add_case "idle known by dlsym" unknown_case dlsym cuLaunchKernel 0
add_case "idle harmless by dlsym" unknown_case dlsym cuDeviceGetCount 0
add_case "idle another library's name" unknown_case dlsym cublasCreate_v2 0
add_case "idle known by cuGetProcAddress" unknown_case proc cuMemcpyHtoDAsync 0
add_case "idle harmless by cuGetProcAddress" unknown_case proc cuCtxGetId 0
add_case "idle unknown by cuGetProcAddress" unknown_case proc cuMemcpyTomorrowAsync 0
