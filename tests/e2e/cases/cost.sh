# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# cost.sh - what the library costs, in instructions: they do not depend on the machine's
# load. Times are measured by scripts/bench. The bounds stand in cost.bounds.

# counted PREFIX [VAR=value...] -- COMMAND...
#   Leaves PREFIX.total, all instructions of the run, and PREFIX.ours, those in the code of
#   libgpushim.so itself: the simulated driver's own are no cost of ours.
counted() {
  local prefix=$1 settings command file

  if readelf -p .comment "$shim" | grep -q clang; then
    skip "a build by gcc, with which the bounds were recorded"
  fi
  split_settings "${@:2}"
  run_in "$prefix" "${settings[@]}" -- valgrind --tool=callgrind \
    --callgrind-out-file="$prefix.callgrind" "${command[@]}"
  expect_status "$prefix" 0
  file=$prefix.callgrind
  [[ ! -e $file.1 ]] || file+=.1 # what it was told to dump
  sed -n 's/^totals: //p' "$file" >"$prefix.total"
  [[ -s $prefix.total ]] || { cat "$prefix.err" && fail "no instruction count"; }
  # In the file, names stand where they are first used; a line after `calls=` is the cost
  # of the function called.
  awk '
    match($0, /^c?ob=\([0-9]+\)/) {
      split($0, part, /[()]/)
      if (part[3] ~ /libgpushim/) ours = part[2]
      if ($0 ~ /^ob=/) object = part[2]
    }
    /^calls=/ { inner = 1; next }
    /^[-+*0-9]/ { if (!inner) cost[object] += $2; inner = 0 }
    END { print cost[ours] + 0 }' "$file" >"$prefix.ours"
  echo "$prefix: $(<"$prefix.total") instructions, $(<"$prefix.ours") in libgpushim.so"
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
  [[ $2 -gt 0 ]] || fail "$1: nothing was counted"
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

# A program without CUDA, with the library and without it. The library's own path is read and
# kept, so it has one that is as long everywhere.
start_case() {
  local place

  unsanitized
  place=$(mktemp -d /tmp/gs.XXXXXX)
  # shellcheck disable=SC2064  # the name is the function's own
  trap "rm -rf '$place'" EXIT
  cp "$shim" "$place/"
  counted native -- "$apps/plain"
  counted shim LD_PRELOAD="$place/libgpushim.so" -- "$apps/plain"
  expect_within start $(($(<shim.total) - $(<native.total)))
}
add_case "cost of starting without CUDA" start_case

# The trim thread looks at a context from time to time, more often in a run that takes longer:
# no part of a call. Nor are stacks of frees, which have a budget of time: a free without one
# takes the same path whether the budget is spent or empty (off).
alone=(GPUSHIM_POOL_TRIM=thread:off GPUSHIM_STACK=free:off)

# A run of 5,000 rounds of a program that calls app_round: counted are the last 4,000.
rounds=5000
warm=(--zero-before=app_count_begins --dump-before=app_count_ends)

# One pair that the cache serves. The program is linked with the driver, or as $linked_as says.
# pair_case ROW KIND [VARIABLE...]
pair_case() {
  unsanitized
  counted warm LD_PRELOAD="$shim" "${alone[@]}" "${@:3}" -- \
    "${warm[@]}" "$apps/hitpair_${linked_as:-linked}" $rounds "$2"
  expect_within "$1" $(($(<warm.ours) / 4000))
}
add_case "cost of a pair" pair_case pair device

shared_pair_case() {
  linked_as=shared pair_case pair_shared device GPUSHIM_TRACK=off
}
add_case "cost of a pair by a shared runtime, without tracking" shared_pair_case

# What a kernel launch passes through.
launch_case() {
  unsanitized
  counted warm LD_PRELOAD="$shim" "${alone[@]}" -- "${warm[@]}" "$apps/launches_$1" $rounds
  expect_within launch $(($(<warm.ours) / 4000))
}
add_case "cost of a launch" launch_case linked
add_case "cost of a launch found by cuGetProcAddress" launch_case proc

# A set or a copy, and what it costs to have its arguments looked at.
# arguments_case ROW WHAT [VARIABLE...]
arguments_case() {
  unsanitized
  counted warm LD_PRELOAD="$shim" "${alone[@]}" "${@:3}" -- "${warm[@]}" "$apps/launches_linked" $rounds "$2"
  expect_within "$1" $(($(<warm.ours) / 4000))
}
add_case "cost of a set" arguments_case set sets
add_case "cost of a copy" arguments_case copy copies
add_case "cost of a checked set" arguments_case set_checked sets GPUSHIM_CHECK=args
add_case "cost of a checked copy" arguments_case copy_checked copies GPUSHIM_CHECK=args

# What an error of a copy or a set is looked for in, once for its place: all of the history
# of frees, and each live record. Counted while those functions run, with what they call.
error_cost_case() {
  local program=$apps/badargs_linked few=1000 many=6000

  unsanitized
  nm "$shim" | grep -q ' gs_tracker_former$' || skip "a build with its symbols"
  for count in $few $many; do
    counted "records$count" LD_PRELOAD="$shim" GPUSHIM_CHECK=args GPUSHIM_REPORT_ON=oom -- \
      --toggle-collect=gs_tracker_error_use "$program" among "$count"
    expect_text "records$count.err" 'SUMMARY: gpushim: 2 errors, 0 B leaked'
  done
  counted history LD_PRELOAD="$shim" GPUSHIM_CHECK=args -- \
    --toggle-collect=gs_tracker_former "$program" among "$few"
  expect_within error_history "$(<history.total)"
  expect_within error_record $((($(<records$many.total) - $(<records$few.total)) / (many - few)))
}
add_case "cost of an error of arguments" error_cost_case

# A large request made of the pages of small idle segments: it must not visit all of them.
idle_pages_case() {
  unsanitized
  need_file "$build/bench/pool_bench"
  counted idle -- --toggle-collect=gs_heap_remap "$build/bench/pool_bench" idle 4000
  expect_within idle_pages $(($(<idle.total) / 20))
}
add_case "cost of idle pages" idle_pages_case

# What the launch of a graph passes through.
# graph_launch_case ROW KIND
graph_launch_case() {
  unsanitized
  counted warm LD_PRELOAD="$shim" "${alone[@]}" -- "${warm[@]}" "$apps/graphlaunch_linked" $rounds "$2"
  expect_within "$1" $(($(<warm.ours) / 4000))
}
add_case "cost of a graph's launch" graph_launch_case graph_launch plain
add_case "cost of a graph's launch with memory" graph_launch_case graph_memory inside
add_case "cost of a pair with frame pointers" pair_case pair_fp device GPUSHIM_STACK=fp
add_case "cost of a pair with a state file" pair_case pair device GPUSHIM_STATE_FILE=state.%p
add_case "cost of a pair without stacks" pair_case pair_no_stack device GPUSHIM_STACK=off
add_case "cost of a pair without tracking" pair_case pair_no_track device GPUSHIM_TRACK=off
add_case "cost of a pair, stacks sampled" pair_case pair_sampled device \
  GPUSHIM_STACK=sample:512K
add_case "cost of a pair of small ones" pair_case pair_small device GPUSHIM_STACK=min:4K
add_case "cost of a pair with the stack of the free" pair_case pair_stack_free device \
  GPUSHIM_STACK=free
add_case "cost of a pair while nothing is recorded" pair_case pair_stopped device \
  GPUSHIM_TRACK=later,USR2 GPUSHIM_VERBOSE=0
add_case "cost of a pair beyond the caches" pair_case pair_holes holes
add_case "cost of a pair beyond the caches, without tracking" pair_case holes_no_track holes \
  GPUSHIM_TRACK=off
add_case "cost of a pair of large blocks" pair_case pair_large large CUDASIM_MEMORY=4G
add_case "cost of a pair of large blocks, without tracking" pair_case large_no_track large CUDASIM_MEMORY=4G \
  GPUSHIM_TRACK=off
add_case "cost of a pair of one large size, without tracking" pair_case whole_no_track segment GPUSHIM_TRACK=off
add_case "cost of a pair with a red zone" pair_case pair_redzone device GPUSHIM_CHECK=redzone:256 \
  GPUSHIM_STACK=free:auto
add_case "cost of a pair with fills" pair_case pair_fill device GPUSHIM_CHECK=fill:poison \
  GPUSHIM_STACK=free:auto
add_case "cost of a pair with a quarantine" pair_case pair_quarantine device \
  GPUSHIM_CHECK=quarantine:1M GPUSHIM_STACK=free:auto
add_case "cost of a pair with lifetimes" pair_case pair_churn device GPUSHIM_CHECK=churn
add_case "cost of a miss" pair_case miss segment GPUSHIM_POOL_RELEASE=0
add_case "cost of a miss without tracking" pair_case miss_no_track segment \
  GPUSHIM_POOL_RELEASE=0 GPUSHIM_TRACK=off
add_case "cost of a pair of pinned memory" pair_case pair_pinned pinned
add_case "cost of a pair of managed memory" pair_case pair_managed managed

# A scope of gpushim.h by itself, one around each pair, and one in a program without the
# library, where all instructions of the run count.
add_case "cost of a scope" pair_case scope scope
add_case "cost of a scope without tracking" pair_case scope scope GPUSHIM_TRACK=off
add_case "cost of a pair in a scope" pair_case pair_scoped scoped
add_case "cost of a pair in a scope that stays open" pair_case pair_within within
add_case "cost of a pair in a scope without tracking" pair_case scoped_no_track scoped GPUSHIM_TRACK=off
scope_inactive_case() {
  unsanitized
  counted warm -- "${warm[@]}" "$apps/hitpair_linked" $rounds scope
  expect_within scope_inactive $(($(<warm.total) / 4000))
}
add_case "cost of a scope without the library" scope_inactive_case

# The report of 100,000 live allocations in 5,000 places, without file and line: all that
# runs while it is made, in the C library, too.
report_cost_case() {
  unsanitized
  nm "$shim" | grep -q ' gs_report_write$' || skip "a build with its symbols"
  counted shim LD_PRELOAD="$shim" GPUSHIM_SYMBOLIZE=off -- --toggle-collect=gs_report_write \
    "$apps/churn_shared" 100000 5000 keep 256
  expect_text shim.err 'leaked in 100,000 allocations, 5,000 call sites$'
  expect_within report $(($(<shim.total) / 1000))
}
add_case "cost of a report" report_cost_case

# A free and an allocation while work runs, lazily. The simulated driver's own part, as in
# all of these, is not counted; that of a launch and a synchronize is, where it rolls.
# lazy_case ROW KIND STREAMS THREADS
lazy_case() {
  unsanitized
  counted warm LD_PRELOAD="$shim" "${alone[@]}" GPUSHIM_FREE_SYNC=lazy GPUSHIM_TRACK=off -- \
    "${warm[@]}" "$apps/inflight_linked" "${@:2}" $rounds
  expect_within "$1" $(($(<warm.ours) / 4000))
}
add_case "cost of a lazy pair, one order" lazy_case lazy_ordered held 0 1
add_case "cost of a lazy pair, the legacy stream waited for" lazy_case lazy_legacy rolling 0 1
add_case "cost of a lazy pair, nothing comes back" lazy_case lazy_held held 2 1

# How often the driver is called for it: once for 64 frees, four calls ahead of them, and
# the one that those allow. Kernels that come and go may make an epoch be asked for twice:
# how often, the machine's load says.
lazy_calls_case() {
  local pairs=4096 calls most

  most=$((pairs / 64 + 5))
  [[ $1 == held ]] || most=$((most + pairs / 128))

  preloaded shim "${alone[@]}" GPUSHIM_FREE_SYNC=lazy GPUSHIM_REPORT_ON=oom CUDASIM_LOG=2 -- \
    "$apps/inflight_linked" "$@" "$pairs"
  expect_status shim 0
  calls=$(sed -n '/^pairs/,/^end of pairs/p' shim.err |
    grep -cE '^cudasim: cu(CtxRecordEvent|EventQuery|EventRecord|CtxSynchronize)')
  echo "$calls calls for $pairs pairs"
  ((calls > 0)) || fail "no epoch was marked"
  ((calls <= most)) || fail "$calls calls of the driver for $pairs pairs"
}
for kind in "held 0 1" "held 0 2" "held 2 1" "rolling 2 1" "rolling 2 2"; do
  # shellcheck disable=SC2086  # three words
  add_case "calls of lazy pairs, $kind" lazy_calls_case $kind
done
