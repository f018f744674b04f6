# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# cost.sh - what the library costs, in instructions: they do not depend on the machine's
# load. Times are measured by scripts/bench.

# counted PREFIX [VAR=value...] -- COMMAND...: leaves PREFIX.count.
counted() {
  local prefix=$1 settings=()

  shift
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  run_in "$prefix" "${settings[@]}" -- valgrind --tool=callgrind \
    --callgrind-out-file=/dev/null "$@"
  expect_status "$prefix" 0
  sed -nE 's/.*Collected : ([0-9]+).*/\1/p' "$prefix.err" >"$prefix.count"
  [[ -s $prefix.count ]] || { cat "$prefix.err" && fail "no instruction count"; }
  echo "$prefix: $(<"$prefix.count") instructions"
}

# bound NAME: from the checked-in bounds.
bound() {
  awk -v name="$1" '$1 == name { print $2 }' "$here/cost.bounds"
}

# expect_within NAME VALUE
expect_within() {
  local limit

  limit=$(bound "$1")
  [[ -n $limit ]] || fail "cost.bounds has no row $1"
  echo "$1: $2, bound $limit"
  [[ $2 -le $limit ]] || fail "$1: $2 instructions, more than the bound of $limit"
}

unsanitized() {
  need valgrind
  need nm
  nm -D "$shim" | grep -qE '__(asan|tsan|ubsan|gcov)_' && skip "a build without sanitizers"
  [[ $(uname -m) == x86_64 ]] || skip "x86-64, which the bounds were recorded on"
  grep -qE '^CMAKE_BUILD_TYPE:[A-Z]+=(Release|RelWithDebInfo)$' "$build/CMakeCache.txt" ||
    skip "an optimized build"
}

# A program without CUDA, with the library and without it.
start_case() {
  unsanitized
  counted native -- "$apps/plain"
  counted shim LD_PRELOAD="$shim" -- "$apps/plain"
  expect_within start $(($(<shim.count) - $(<native.count)))
}
add_case "cost of starting without CUDA" start_case

# One pair that the cache serves: the difference of two runs.
# pair_case ROW WAY [VARIABLE...]
pair_case() {
  local row=$1 program=$apps/hitpair_$2 few=1000 many=5000

  shift 2
  unsanitized
  counted few LD_PRELOAD="$shim" "$@" -- "$program" "$few"
  counted many LD_PRELOAD="$shim" "$@" -- "$program" "$many"
  expect_within "$row" $((($(<many.count) - $(<few.count)) / (many - few)))
}
add_case "cost of a pair" pair_case pair linked
add_case "cost of a pair without stacks" pair_case pair_no_stack linked GPUSHIM_STACK=off
add_case "cost of a pair without tracking" pair_case pair_no_track linked GPUSHIM_TRACK=off
