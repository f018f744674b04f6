# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# seeds.sh - the examples of four earlier projects: the same output natively, preloaded and
# linked with the library, also with the options that each document asks for; no leak;
# asynchronous work under hostile schedules; a clean end without a device. docs/api.md

seeds_programs=(ringkernel dotcompute genesis consolidated)
seeds_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 12)}

# seeds_clean PROGRAM FILE: genesis asks for the statistics of a report, by gpushim_set_option.
seeds_clean() {
  expect_no_text "$2" 'cudasim-finding'
  if [[ $1 == genesis ]]; then
    expect_text "$2" '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked'
    expect_text "$2" '^==[0-9]+== Pool of GPU 0: .* hit '
  else
    expect_clean "$2"
  fi
}

# seeds_case PROGRAM WAY [VARIABLE...]
seeds_case() {
  need_file "$apps/$1_$2"
  same_as_native "${@:3}" -- "$apps/$1_$2"
  expect_quiet native
  [[ -s native.out ]] || fail "the program printed nothing"
  seeds_clean "$1" shim.err
}

# Linked, the library serves the program without LD_PRELOAD.
seeds_linked_case() {
  local seed

  need_file "$build/apps-linked/$1"
  native native "$apps/$1_linked"
  run_in with LD_LIBRARY_PATH="$cuda_path:$build" -- "$build/apps-linked/$1"
  expect_same native with
  seeds_clean "$1" with.err
  for ((seed = 1; seed <= seeds_seeds; seed++)); do
    run_in with LD_LIBRARY_PATH="$cuda_path:$build" CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- \
      "$build/apps-linked/$1"
    expect_same native with
    seeds_clean "$1" with.err
  done
}

seeds_off_case() {
  same_as_native GPUSHIM_ENABLE=off -- "$apps/$1_linked"
  expect_quiet shim
}

# What the schedule may reorder is not seen; nor does anything rest on a free that waits.
seeds_hostile_case() {
  local seed

  need_file "$apps/$1_$2"
  for ((seed = 1; seed <= seeds_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1_$2"
    expect_status native 0
    expect_no_text native.err 'cudasim'
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/$1_$2"
    expect_same native shim
    seeds_clean "$1" shim.err
    run_in unwaited CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" CUDASIM_FREE_WAITS=none -- "$apps/$1_$2"
    expect_same native unwaited
    expect_no_text unwaited.err 'cudasim'
  done
}

# The first CUDA call fails, and a line says so.
seeds_none_case() {
  run_in native CUDASIM_DEVICES=0 -- "$apps/$1"
  expect_status native 2
  expect_count native.err ': error 100 from ' 1
  preloaded shim CUDASIM_DEVICES=0 -- "$apps/$1"
  expect_same native shim
  expect_count shim.err ': error 100 from ' 1
}

for name in "${seeds_programs[@]}"; do
  for way in shared linked; do
    add_case "seeds $name $way" seeds_case "$name" "$way"
    add_case "seeds $name hostile $way" seeds_hostile_case "$name" "$way"
  done
  add_case "seeds $name with the library" seeds_linked_case "$name"
  add_case "seeds $name switched off" seeds_off_case "$name"
  add_case "seeds $name without a device" seeds_none_case "${name}_shared"
done
add_case "seeds without a device linked" seeds_none_case genesis_linked

# The options that each document asks for, in this library's words (docs/migration.md).
add_case "seeds ringkernel, its options" seeds_case ringkernel shared GPUSHIM_POOL_SIZE_CLASSES=stratified
add_case "seeds dotcompute, its options" seeds_case dotcompute shared GPUSHIM_POOL_SIZE_CLASSES=dotcompute \
  GPUSHIM_POOL_LIMIT=16G GPUSHIM_POOL_TRIM=5m GPUSHIM_HOST_RELEASE=2G
add_case "seeds genesis, its options" seeds_case genesis linked GPUSHIM_POOL_SEGMENT=512M \
  GPUSHIM_POOL_CACHE=stream:100,global:500 GPUSHIM_WARMUP=4K:50,64K:20,1M:10
add_case "seeds consolidated, its options" seeds_case consolidated linked CUDASIM_MEMORY=8G GPUSHIM_MEM_LIMIT=6G
