# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# platforms.sh - devices and systems on which the pools keep less: told by attributes and
# variables, as the simulated device answers them.

# Without concurrent access managed memory is the driver's, call by call.
not_concurrent_case() {
  local attributes=CUDASIM_ATTRIBUTES=CONCURRENT_MANAGED_ACCESS=0

  run_in native CUDASIM_LOG=2 "$attributes" -- "$apps/managed_$1"
  preloaded usual CUDASIM_LOG=2 -- "$apps/managed_$1"
  preloaded shim CUDASIM_LOG=2 "$attributes" -- "$apps/managed_$1"
  expect_same native shim
  expect_equal "allocations" "$(driver_calls native.err cuMemAllocManaged)" \
    "$(driver_calls shim.err cuMemAllocManaged)"
  [[ $(driver_calls usual.err cuMemAllocManaged) -lt $(driver_calls native.err cuMemAllocManaged) ]] ||
    fail "nothing is kept on an ordinary device, so the case shows nothing"
}
for way in shared static linked; do
  add_case "platforms without concurrent access $way" not_concurrent_case "$way"
done

# Where the device's memory is the machine's, a quarter of it may be idle, unless the user
# says more.
integrated_case() {
  local attributes=CUDASIM_ATTRIBUTES=INTEGRATED=1,CONCURRENT_MANAGED_ACCESS=0
  local settings=(CUDASIM_MEMORY=64M CUDASIM_LOG=2 GPUSHIM_VERBOSE=2 LD_PRELOAD="$shim")

  run_in native CUDASIM_MEMORY=64M "$attributes" -- "$apps/limits_linked" churn 3000
  run_in usual "${settings[@]}" -- "$apps/limits_linked" churn 3000
  run_in shim "${settings[@]}" "$attributes" -- "$apps/limits_linked" churn 3000
  run_in asked "${settings[@]}" "$attributes" GPUSHIM_POOL_RELEASE=100% -- \
    "$apps/limits_linked" churn 3000
  expect_same native shim
  expect_same native asked
  expect_text shim.err '^gpushim: GPU 0: integrated, no concurrent managed access$'
  expect_no_text usual.err '^gpushim: GPU 0: '
  [[ $(driver_calls shim.err cuMemFree) -gt $(driver_calls usual.err cuMemFree) ]] ||
    fail "no more went back than on an ordinary device"
  # Which segments go back where the device is short depends on where they lie.
  [[ $(($(driver_calls asked.err cuMemFree) * 2)) -lt $(driver_calls shim.err cuMemFree) ]] ||
    fail "no less went back where the user says 100 %"
}
add_case "platforms integrated" integrated_case

# A service's client says so, and works as before.
service_case() {
  mkdir pipes
  : >pipes/control
  same_as_native GPUSHIM_VERBOSE=2 CUDA_MPS_PIPE_DIRECTORY="$case_dir/pipes" -- "$apps/pipeline_shared"
  expect_text shim.err '^gpushim: GPU 0: MPS client$'
}
add_case "platforms service" service_case

# The driver calls a slice of a device so.
slice_case() {
  local name=CUDASIM_NAME="$1"

  same_as_native GPUSHIM_VERBOSE=2 "$name" -- "$apps/pipeline_shared"
  if [[ $2 == slice ]]; then
    expect_text shim.err '^gpushim: GPU 0: MIG slice$'
  else
    expect_no_text shim.err '^gpushim: GPU 0: '
  fi
}
add_case "platforms slice" slice_case 'NVIDIA A100-SXM4-40GB MIG 1g.5gb' slice
add_case "platforms no slice" slice_case 'NVIDIA MIGHTY 40GB' whole

# WSL2, by the kernel's name, which a mount shows to these processes alone: it is said, and
# managed memory goes by the attributes.
# wsl_case PROGRAM RELEASE yes|no
wsl_case() {
  local settings=(CUDASIM_LOG=2 CUDASIM_ATTRIBUTES=CONCURRENT_MANAGED_ACCESS=0)

  echo "$2" >release
  # shellcheck disable=SC2016 # for the shell within
  local mounted=(unshare -rm sh -c 'mount --bind release /proc/sys/kernel/osrelease && exec "$@"' sh)
  "${mounted[@]}" true 2>mount.err || skip "a mount of our own: $(<mount.err)"
  run_in native "${settings[@]}" -- "$apps/$1"
  run_in shim "${settings[@]}" GPUSHIM_VERBOSE=2 -- "${mounted[@]}" env LD_PRELOAD="$shim" "$apps/$1"
  expect_same native shim
  if [[ $3 == yes ]]; then
    expect_text shim.err '^gpushim: GPU 0: no concurrent managed access, WSL2$'
  else
    expect_text shim.err '^gpushim: GPU 0: no concurrent managed access$'
  fi
  expect_equal "managed allocations" "$(driver_calls native.err cuMemAllocManaged)" \
    "$(driver_calls shim.err cuMemAllocManaged)"
}
for way in shared static linked dlsym; do
  add_case "platforms WSL2 $way" wsl_case "managed_$way" 5.15.153.1-microsoft-standard-WSL2 yes
done
add_case "platforms no WSL2" wsl_case managed_linked 6.1.0-18-amd64 no

# A misspelt attribute is said, and nothing else happens.
attribute_case() {
  preloaded bad CUDASIM_ATTRIBUTES=INTEGRATE=1,WARP_SIZE=x,,WARP_SIZE=32 -- "$apps/pipeline_linked"
  native native "$apps/pipeline_linked"
  expect_same native bad
  expect_count bad.err 'CUDASIM_ATTRIBUTES: .* is not NAME=number' 3
}
add_case "platforms misspelt attribute" attribute_case
