# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# trace.sh - GPUSHIM_TRACE_FILE: what a program allocates is in the file, however it ends
# and whatever becomes of the file; and a trace can be carried out again.

replay=$build/replay/replay

# read_trace FILE [STATUS]: as CSV in trace.csv; STATUS 1: something was lost, and said.
read_trace() {
  need_file "$replay"
  [[ -e $1 ]] || fail "no file $1"
  "$replay" --to-csv "$1" >trace.csv 2>trace.note
  expect_equal "$1: status of the reader: $(<trace.note)" "${2-0}" "$?"
}

# count_ops LETTER KIND-REGEX: operations of the trace last read.
count_ops() {
  awk -F, -v op="$1" -v kind="^($2)\$" '$2 == op && $7 ~ kind { n++ } END { print n + 0 }' \
    trace.csv
}

# expect_balanced: a free for every allocation, at least one.
expect_balanced() {
  expect_equal "frees" "$(count_ops a '.*')" "$(count_ops f '.*')"
  [[ $(count_ops a '.*') -gt 0 ]] || fail "nothing was recorded"
}

# The trace has as many allocations and frees as the report of the same run.
# totals_case WAY
totals_case() {
  local gpu pinned

  same_as_native GPUSHIM_TRACE_FILE=trace GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE=log -- "$apps/leaky_$1"
  read_trace trace
  gpu=$(sed -nE '/== GPU 0/,/traffic/s/.* ([0-9]+) allocs +([0-9]+) frees.*/\1 \2/p' log)
  pinned=$(sed -nE '/== Pinned/,/traffic/s/.* ([0-9]+) allocs +([0-9]+) frees.*/\1 \2/p' log)
  [[ -n $gpu && -n $pinned ]] || fail "no totals in the report"
  expect_equal "device memory" "$gpu" \
    "$(count_ops a 'device|async|managed') $(count_ops f 'device|async|managed')"
  expect_equal "pinned memory" "$pinned" "$(count_ops a pinned) $(count_ops f pinned)"
}
for way in $(ways_of leaky); do
  add_case "trace counts as the report $way" totals_case "$way"
done

# The same where the driver serves all memory, and where nothing is tracked.
# setting_case VARIABLE=value
setting_case() {
  preloaded plain GPUSHIM_TRACE_FILE=one -- "$apps/pipeline_shared"
  preloaded other GPUSHIM_TRACE_FILE=two "$1" -- "$apps/pipeline_shared"
  expect_same plain other
  read_trace one
  expect_balanced
  cut -d, -f2,4,7 trace.csv | grep -v '^s' >first
  read_trace two
  cut -d, -f2,4,7 trace.csv | grep -v '^s' | diff first - || fail "another trace with $1"
}
add_case "trace without the pool" setting_case GPUSHIM_POOL=off
add_case "trace without the tracker" setting_case GPUSHIM_TRACK=off

# program_case NAME WAY: everything is freed, the output stays.
program_case() {
  same_as_native GPUSHIM_TRACE_FILE=trace -- "$apps/$1_$2"
  expect_clean shim.err
  read_trace trace
  expect_balanced
}
for name in pipeline threads pinned managed async; do
  for way in shared static linked dlsym proc; do
    [[ -x $apps/${name}_$way ]] && add_case "trace $name $way" program_case "$name" "$way"
  done
done

# Eight threads hand 384 blocks around.
threads_case() {
  preloaded shim GPUSHIM_TRACE_FILE=trace -- "$apps/threads_linked"
  read_trace trace
  [[ $(count_ops a device) -ge 384 ]] || fail "$(count_ops a device) allocations"
  expect_equal "threads" 8 "$(awk -F, '$2 == "a" { t[$6] } END { print length(t) }' trace.csv)"
  awk -F, '$2 == "a" { by[$3] = $6 } $2 == "f" && by[$3] != $6 { n++ }
    END { exit n < 300 }' trace.csv || fail "frees of other threads' blocks are missing"
  "$replay" --threads --ready after:8 trace >replayed || fail "the trace does not run"
}
add_case "trace threads and their numbers" threads_case

# Each process has a file of its own, and a child that made no allocation has none.
# fork_trace_case PATTERN
fork_trace_case() {
  local files

  same_as_native GPUSHIM_TRACE_FILE="$1" -- "$apps/fork_linked"
  files=$(find . -name 'trace*' ! -name '*.csv' ! -name '*.note' | sort)
  expect_equal "files" 2 "$(wc -l <<<"$files")"
  while read -r file; do
    read_trace "$file"
    expect_balanced
  done <<<"$files"
}
add_case "trace fork" fork_trace_case trace.%p
add_case "trace fork, one name" fork_trace_case trace

# exec: what came before stays, what comes after has a file of its own.
exec_trace_case() {
  preloaded shim GPUSHIM_TRACE_FILE=trace.%p -- "$apps/oddities_static" exec
  expect_count shim.err 'GPUSHIM_TRACE_FILE=.*: exists; recording to .*[.]1$' 1
  for file in trace.*; do
    [[ $file == *.csv || $file == *.note ]] && continue
    read_trace "$file"
    expect_equal "$file: allocations" 1 "$(count_ops a device)"
  done
}
add_case "trace exec" exec_trace_case

# ending_trace_case END
ending_trace_case() {
  same_as_native GPUSHIM_TRACE_FILE=trace -- "$apps/oddities_static" "$1"
  read_trace trace
  expect_equal "allocations" 1 "$(count_ops a device)"
}
for end in return thread quick_exit _exit pthread_exit abort sigkill sigterm; do
  add_case "trace $end" ending_trace_case "$end"
done

# Killed in the middle of many pairs: the file reads, and says nothing worse than that
# records were not finished.
killed_case() {
  local pid

  start_preloaded shim GPUSHIM_TRACE_FILE="$case_dir/trace" -- "$apps/hitpair_linked" 100000000
  pid=$!
  for _ in {1..100}; do
    sleep 0.1
    [[ -e trace.data && $(stat -c %s trace.data) -gt 1000000 ]] && break
  done
  kill -9 "$pid" || fail "the program has ended by itself"
  wait "$pid"
  "$replay" --to-csv trace >trace.csv 2>trace.note
  [[ ! -s trace.note ]] || expect_text trace.note 'never finished|cut short'
  [[ $(count_ops a device) -gt 5000 ]] || fail "$(count_ops a device) allocations"
  expect_equal "live at the end" true \
    "$([[ $(($(count_ops a device) - $(count_ops f device))) -le 1 ]] && echo true)"
}
add_case "trace SIGKILL in the middle" killed_case

# A disk that is full from the start, or soon. A file size limit is for the unit tests: the
# simulated device has files of its own.
no_room_case() {
  mkdir disk
  mount -t tmpfs -o size=256k gpushim-e2e disk 2>/dev/null || skip "the right to mount a tmpfs"
  native native "$apps/pipeline_shared"
  preloaded shim GPUSHIM_TRACE_FILE=disk/trace -- "$apps/pipeline_shared"
  [[ ! -e disk/trace ]] || touch left
  umount disk
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_TRACE_FILE=.*: cannot be created: no space left' 1
  [[ ! -e left ]] || fail "a piece of a file is left"
}
add_case "trace no room" no_room_case

full_disk_case() {
  mkdir disk
  mount -t tmpfs -o size=1m gpushim-e2e disk 2>/dev/null || skip "the right to mount a tmpfs"
  preloaded shim GPUSHIM_TRACE_FILE=disk/trace -- "$apps/hitpair_linked" 20000
  cp disk/trace . 2>/dev/null
  umount disk
  expect_status shim 0
  expect_count shim.err '^gpushim: GPUSHIM_TRACE_FILE=.*: cannot grow: no space left' 1
  read_trace trace
  # A chunk of 16,384 slots: the first 32 are the header's, and one has the pool's segment.
  expect_equal "operations" 16351 "$(grep -c , <(tail -n +2 trace.csv))"
}
add_case "trace full disk" full_disk_case

limit_case() {
  preloaded shim GPUSHIM_TRACE_FILE=trace GPUSHIM_TRACE_LIMIT=1M -- \
    "$apps/hitpair_linked" 20000
  expect_status shim 0
  expect_count shim.err '^gpushim: GPUSHIM_TRACE_LIMIT=1M: reached' 1
  [[ $(stat -c %s trace) -le 1048576 ]] || fail "larger than its limit"
  read_trace trace
}
add_case "trace limit" limit_case

# A file that has its size keeps the end, and the blocks that were live before: killed or not, it can be read,
# replayed and shown. Before, it kept its beginning.
ring_case() {
  local allocs reader

  "$@" trace GPUSHIM_TRACE_LIMIT=6M
  [[ $(stat -c %s "$file") -le $((6291456 + 65536)) ]] || fail "larger than its limit"
  read_trace trace
  allocs=$(count_ops a device)
  [[ $allocs -gt 40000 && $allocs -lt 66000 ]] || fail "$allocs allocations"
  [[ $((allocs - $(count_ops f device))) -le 1 ]] || fail "$allocs allocations, $(count_ops f device) frees"
  # A record that the process was writing when it was killed is left out, with a note and status 1.
  for reader in replay "timeline -o timeline"; do
    # shellcheck disable=SC2086 # the words of a command line
    "$build/gpushim" $reader trace >read.out 2>read.note || grep -q 'never finished' read.note ||
      { cat read.note && fail "not read by gpushim $reader"; }
  done
}
ring_whole() {
  preloaded shim GPUSHIM_TRACE_FILE="$1" "$2" -- "$apps/hitpair_linked" 300000
  expect_status shim 0
  expect_clean shim.err
  file=$1
}
ring_killed() {
  local pid

  file=$1.data
  start_preloaded shim GPUSHIM_TRACE_FILE="$case_dir/$1" "$2" -- "$apps/hitpair_linked" 100000000
  pid=$!
  await 20 test -s "$file"
  sleep 1
  kill -9 "$pid" || fail "the program has ended by itself"
  wait "$pid"
}
add_case "trace of the end" ring_case ring_whole
add_case "trace of the end, killed" ring_case ring_killed

# unwritable_case VALUE TEXT
unwritable_case() {
  same_as_native GPUSHIM_TRACE_FILE="$1" -- "$apps/pipeline_shared"
  expect_count shim.err "^gpushim: GPUSHIM_TRACE_FILE=.*$2" 1
  grep -v '^gpushim: ' shim.err >rest
  expect_clean rest
}
add_case "trace no such folder" unwritable_case /nonexistent/trace 'nothing is recorded'
add_case "trace is a folder" unwritable_case / 'is a directory; nothing is recorded'
add_case "trace malformed pattern" unwritable_case trace.%z 'ignored'

# A program that allocates nothing, or makes no CUDA call, leaves no file.
no_file_case() {
  preloaded shim GPUSHIM_TRACE_FILE=trace -- "$apps/plain" exit
  preloaded shim GPUSHIM_TRACE_FILE=trace -- "$apps/lookup"
  [[ ! -e trace ]] || read_trace trace
  preloaded off GPUSHIM_TRACE_FILE=other GPUSHIM_ENABLE=off -- "$apps/pipeline_shared"
  [[ ! -e other ]] || fail "a file though the library is off"
}
add_case "trace without CUDA" no_file_case

# A recorded trace through the driver again, bare and under the library, which records
# the same once more.
again_case() {
  preloaded shim GPUSHIM_TRACE_FILE=trace -- "$apps/$1"
  read_trace trace
  cut -d, -f2,4,7 trace.csv | grep -v '^s' >first
  native bare "$replay" --through device --touch --json trace
  preloaded again GPUSHIM_TRACE_FILE=second -- "$replay" --through device --json trace
  expect_status again 0
  expect_clean again.err
  read_trace second
  cut -d, -f2,4,7 trace.csv | grep -v '^s' | diff first - || fail "not the same trace"
}
for name in pipeline_linked async_linked managed_linked pinned_linked; do
  add_case "trace carried out again $name" again_case "$name"
done
