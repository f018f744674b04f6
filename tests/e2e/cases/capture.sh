# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# capture.sh - stream capture: each step of the program alone, twice, and many in an order
# drawn at random; standard output and status are those of the program without the library.

capture_steps=(replay free allocate async thread destroyed ended)

# capture_case WAY STEP...
capture_case() {
  local program=$apps/capture_$1

  shift
  need_file "$program"
  same_as_native -- "$program" "$@"
  expect_status native 0
  expect_clean shim.err
}
for way in $(ways_of capture); do
  for step in "${capture_steps[@]}"; do
    add_case "capture $way $step" capture_case "$way" "$step" "$step"
  done
done

# Forty steps drawn by a seed, which the case's name tells.
# capture_fuzz_case WAY SEED
capture_fuzz_case() {
  local steps=() i

  RANDOM=$2
  for ((i = 0; i < 40; i++)); do
    steps+=("${capture_steps[RANDOM % ${#capture_steps[@]}]}")
  done
  capture_case "$1" "${steps[@]}"
}
for seed in 1 2 3 4 5 6 7 8; do
  add_case "capture fuzz shared $seed" capture_fuzz_case shared "$seed"
  add_case "capture fuzz linked $seed" capture_fuzz_case linked "$seed"
done

# What a capture forbids is refused, with the pool and without it.
capture_forbidden_case() {
  same_as_native "GPUSHIM_POOL=$1" -- "$apps/capture_linked" forbidden replay
  expect_clean shim.err
}
add_case "capture forbidden free" capture_forbidden_case on
add_case "capture forbidden free without a pool" capture_forbidden_case off
