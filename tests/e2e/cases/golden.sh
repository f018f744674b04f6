# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# golden.sh - tests/golden/run, which compares what programs show with the library before a change and after it:
# the same library shows the same, and another pool, report or trace does not. docs/testing.md

golden_same_case() {
  local time_limit=1600 # with --full beside others

  need python3
  run_in same -- python3 -S "$sources/tests/golden/run" "$build" --before "$shim" --every "$(sized 157 13)" --jobs 1
  cat same.out
  expect_status same 0
  expect_text same.out "^[0-9]+ passed, 0 failed, $(sized '[0-2]' '1?[0-9]') varied\$" # six in a hundred
  [[ ! $(<same.out) =~ (^|$'\n')0\ passed ]] || fail "nothing was compared"
}
add_case "golden of one library" golden_same_case

# golden_other_case PART NAME=VALUE: only a comparison of this part sees what the variable changes.
golden_other_case() {
  need python3
  run_in other -- python3 -S "$sources/tests/golden/run" "$build" --before "$shim" --only 'leaky linked state' --set "$2"
  cat other.out
  expect_status other 1
  expect_text other.out "^not ok leaky linked state - $1 differs\$"
}
add_case "golden of another pool" golden_other_case trace GPUSHIM_POOL=off
add_case "golden of another report" golden_other_case err GPUSHIM_LEAK_MAX=1
add_case "golden of other files" golden_other_case json GPUSHIM_STACK=off

golden_bad_case() {
  local words

  need python3
  for words in "--before /nothing" "--before $shim --only x*" "--before $shim --every 0" "--before $shim --set A" --before ''; do
    # shellcheck disable=SC2086 # words
    run_in bad -- python3 -S "$sources/tests/golden/run" "$build" $words
    expect_status bad 2
    expect_text bad.err '^(run|usage): '
  done
}
add_case "golden of wrong arguments" golden_bad_case
