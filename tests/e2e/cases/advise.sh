# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# advise.sh - gpushim replay and gpushim advise: what they say of a recorded trace is so when the
# program runs again, the same each time, and what is no trace gets one line.

gpushim=$build/gpushim

# record PROGRAM [ARGUMENT...]: its trace, in the file trace.
record() {
  need_file "$gpushim"
  need_file "$1"
  preloaded recorded GPUSHIM_TRACE_FILE=trace -- "$@"
  [[ -s trace ]] || fail "no trace of $1"
}

# figure NAME FILE: a number of the JSON, the first of this name.
figure() {
  grep -oE "\"$1\": [0-9.]+" "$2" | head -n 1 | grep -oE '[0-9.]+$'
}

# varied FILE: many sizes, in CSV: other settings need fewer driver calls.
varied() {
  need_file "$build/replay/generate"
  "$build/replay/generate" comb >"$1"
}

# ---- What they say is so -----------------------------------------------------------------

# The list of the first run serves the second, from the file that --warmup wrote, or as it stands.
second_run_case() {
  local line

  record "$apps/limits_linked" warm 2
  run_in list -- "$gpushim" advise --warmup trace
  expect_status list 0
  expect_quiet list
  line=$(<list.out)
  [[ $line =~ ^GPUSHIM_WARMUP=([0-9]+[KMG]?:[0-9]+,?)+$ ]] || fail "no list: $line"
  preloaded cold CUDASIM_LOG=2 -- "$apps/limits_linked" warm 2
  preloaded warm "$line" CUDASIM_LOG=2 -- "$apps/limits_linked" warm 2
  preloaded file GPUSHIM_WARMUP="@$case_dir/list.out" CUDASIM_LOG=2 -- "$apps/limits_linked" warm 2
  for name in cold warm file; do
    expect_same cold "$name"
    sed '1,/limits: begun/d' "$name.err" >"$name.after"
  done
  expect_equal "driver allocations, cold" 3 "$(driver_calls cold.after cuMemAlloc)"
  expect_equal "driver allocations, with the list" 0 "$(driver_calls warm.after cuMemAlloc)"
  expect_equal "driver allocations, with the file" 0 "$(driver_calls file.after cuMemAlloc)"
}
add_case "advise warm-up of the next run" second_run_case

# A file of the option that is none: one line, and the program runs as without.
# bad_list_case VALUE TEXT
bad_list_case() {
  printf '4K:5,nonsense\n' >mistakes
  same_as_native GPUSHIM_WARMUP="$1" -- "$apps/pipeline_shared"
  expect_count shim.err "^gpushim: GPUSHIM_WARMUP: .*$2.*; ignored$" 1
  grep -v '^gpushim: ' shim.err >rest
  expect_clean rest
}
add_case "advise warm-up, no file" bad_list_case @/nonexistent/list 'no such file'
add_case "advise warm-up, a folder" bad_list_case @/tmp 'not a regular file'
add_case "advise warm-up, mistakes in the file" bad_list_case @mistakes 'not SIZE:COUNT'

# What is advised has the figures that a replay with it has; the same text each time.
advised_case() {
  local line

  varied trace.csv
  need_file "$gpushim"
  for name in first second; do
    run_in "$name" -- "$gpushim" advise --json trace.csv
    expect_status "$name" 0
    expect_quiet "$name"
    sed -E 's/"ns_per_op": [0-9.]+/TIME/g' "$name.out" >"$name.text"
  done
  cmp first.text second.text || fail "another advice of the same trace"
  line=$(sed -nE 's/.*"better": \[\{"best_in": "[a-z_]*", "line": "([^"]*)".*/\1/p' first.out)
  [[ -n $line ]] || fail "no better settings: $(<first.out)"
  # shellcheck disable=SC2086  # one or two settings
  run_in replayed $line -- "$gpushim" replay --json --repeat 1 trace.csv
  expect_status replayed 0
  run_in plain -- "$gpushim" replay --json --repeat 1 trace.csv
  expect_equal "driver calls by default" "$(figure driver_calls plain.out)" "$(figure driver_calls first.out)"
  sed -E 's/.*"better": //' first.out >better
  expect_equal "driver calls with $line" "$(figure driver_calls replayed.out)" "$(figure driver_calls better)"
  expect_equal "memory with $line" "$(figure reserved_peak_bytes replayed.out)" \
    "$(figure reserved_peak_bytes better)"
  [[ $(figure driver_calls replayed.out) -lt $(figure driver_calls plain.out) ]] || fail "not better"
  run_in text -- "$gpushim" advise trace.csv
  expect_text text.out "^    $line$"
  expect_text text.out '^  default '
  expect_text text.out '^    GPUSHIM_WARMUP='
}
add_case "advise settings and their figures" advised_case

# Settings that a program takes, too: with the line that is advised it needs no more driver calls.
taken_case() {
  record "$apps/leaky_static"
  run_in advice -- "$gpushim" advise trace
  expect_status advice 0
  expect_quiet advice
  expect_text advice.out '^trace: [0-9]+ allocations, at most '
  sed -nE 's/^    (GPUSHIM_.*)/\1/p' advice.out | tr ' ' '\n' >settings
  while read -r setting; do
    preloaded taken "$setting" GPUSHIM_LOG_FILE=log -- "$apps/leaky_static"
    ! grep -E '^gpushim: ' log || fail "$setting is not taken"
  done <settings
}
add_case "advise settings are taken" taken_case

# Steady pairs: nothing is better, and it says so.
nothing_case() {
  awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%d,a,%d,4096,0\n%d,f,%d,4096,0\n", i, i, i, i }' >pairs.csv
  need_file "$gpushim"
  run_in advice -- "$gpushim" advise pairs.csv
  expect_status advice 0
  expect_text advice.out '^Of [0-9]+ other settings none is better than the default ones[.]$'
  run_in tiny -- "$gpushim" advise --device 1M pairs.csv
  expect_status tiny 1
  expect_text tiny.out '^Of [0-9]+ other settings none fits, either[.]$'
}
add_case "advise nothing better" nothing_case

# The installed command says what the build's own program says.
same_replay_case() {
  local options=(--json --device 1.25x)

  need_file "$build/replay/replay"
  [[ $(sized short long) == short ]] || options+=(--smallest)
  varied trace.csv
  for name in pool blocks native-model; do
    run_in ours -- "$gpushim" replay "${options[@]}" --through "$name" trace.csv
    run_in theirs -- "$build/replay/replay" "${options[@]}" --through "$name" trace.csv
    for prefix in ours theirs; do
      expect_status "$prefix" 0
      sed -E 's/"(ns_per_op|metadata_bytes_per_live)": [^,}]+/TIME/g' "$prefix.out" >"$prefix.text"
    done
    cmp ours.text theirs.text || fail "another figure through $name"
  done
  run_in csv -- "$gpushim" replay --to-csv trace.csv
  run_in binary -- "$gpushim" replay --to-binary trace.csv
  run_in again -- "$gpushim" replay --to-csv binary.out
  cmp csv.out again.out || fail "lost on the way to CSV and back"
}
add_case "advise replay as the build's" same_replay_case

# expect_replay FIGURES ARGUMENT...: a replay of trace.csv has these members of its JSON.
expect_replay() {
  run_in replay -- "$gpushim" replay --json --repeat 1 "${@:2}" trace.csv
  expect_text replay.out "$1"
}

# Two blocks of 4 MiB are freed, then one of 8 MiB is needed, and one of 4 MiB. The driver makes a call for each
# operation and never has more than is live. The pool keeps the two, and on a small device returns them to get the
# third; pages that move make the third of the two. A figure that is another way's, a device of another size or a
# search that ends too early would be seen here alone.
replay_figures_case() {
  need_file "$gpushim"
  printf '%s\n' 0,a,1,4194304,0 1,a,2,4194304,0 2,f,1,4194304,0 3,f,2,4194304,0 4,a,3,8388608,0 5,f,3,8388608,0 \
    6,a,4,4194304,0 >trace.csv
  expect_replay '"reserved_peak_bytes": 8388608, "driver_calls": 7,.* "device_bytes": null,' --through native-model
  expect_replay '"reserved_peak_bytes": 16777216, "driver_calls": 3,.* "remap_calls": 0,.* "smallest_bytes": null,'
  expect_replay '"reserved_peak_bytes": 16777216, "driver_calls": 3,' --through blocks
  expect_replay '"reserved_peak_bytes": 20971520, "driver_calls": 4,' --ready after:9
  expect_replay '"device_fits": true, "device_driver_calls": 9, "device_waits": 0,' --device 9M
  expect_replay '"device_fits": true, "device_driver_calls": 10, "device_waits": 0,' --device 9M --through blocks
  expect_replay '"device_fits": true, "device_driver_calls": 9, "device_waits": 1,' --device 9M --ready after:9
  expect_status replay 0
  expect_replay '"device_bytes": 8388608, "device_fits": true,.* "smallest_bytes": 8388608, "native_smallest_bytes": 8388608,' \
    --smallest --device 1x
  expect_replay '"smallest_bytes": 8388608, "native_smallest_bytes": 8388608,' --smallest --through blocks
  expect_replay '"device_bytes": 4194304, "device_fits": false, "device_driver_calls": null,' --device 5M
  expect_status replay 1
  run_in moving GPUSHIM_POOL_VMM=on -- "$gpushim" replay --json --repeat 1 --device 8M trace.csv
  expect_text moving.out '"reserved_peak_bytes": 8388608, "driver_calls": 2, "remap_calls": [1-9][0-9]*,'
  expect_text moving.out '"device_fits": true, "device_driver_calls": 2,'
  run_in text -- "$gpushim" replay --repeat 1 --smallest --device 9M trace.csv
  expect_text text.out '^  reserved at most +16[.]0 MiB, 2[.]000 x live$'
  expect_text text.out '^  driver calls +2250[.]0 per 1,000 allocations, 0 waits, on 9M [(]8 MiB[)]$'
  expect_text text.out "^  smallest device +8 MiB, 1[.]0000 x the modelled driver's 8 MiB\$"
  run_in text -- "$gpushim" replay --repeat 1 --device 5M trace.csv
  expect_text text.out '^  out of memory +at operation 1, for 4194304 bytes, on 5M [(]4 MiB[)]$'
}
add_case "advise replay figures" replay_figures_case

# ---- What is no trace, and no use of the commands ------------------------------------------

# refused STATUS TEXT ARGUMENT...: one line on stderr, nothing on stdout.
refused() {
  run_in refused -- "$gpushim" "${@:3}"
  expect_status refused "$1"
  expect_count refused.err '' 1
  expect_text refused.err "^gpushim: .*$2"
  [[ ! -s refused.out ]] || fail "${*:3} printed $(head -n 3 refused.out)"
}

bad_trace_case() {
  local verb

  record "$apps/pipeline_shared"
  : >empty
  printf 'no trace at all\n' >text
  printf '1,a,1,4096,0,0,managed\n2,f,1,4096,0,0,managed\n' >managed
  printf '1,s,0,0,0\n' >waits
  head -c 100 trace >short
  head -c 2000 trace | tr '\0' '\7' >other
  head -c 300 /bin/sh >program
  for verb in replay advise; do
    refused 1 'empty: no trace: nothing in it' "$verb" empty
    refused 1 'text: no trace: ' "$verb" text
    refused 1 'managed: no allocation of this kind of memory; the trace has 1 managed' "$verb" managed
    refused 1 'waits: no allocation' "$verb" waits
    refused 1 'short: no trace: shorter than its header' "$verb" short
    refused 1 'other: no trace' "$verb" other
    refused 1 'program: no trace' "$verb" program
    refused 1 'No such file or directory' "$verb" none
    refused 1 'Is a directory' "$verb" .
    refused 1 'cannot be read' "$verb" /proc/self/mem
  done
}
add_case "advise what is no trace" bad_trace_case

# A trace that is cut short: a line says so, status 1, and what was read is replayed.
damaged_case() {
  record "$apps/pipeline_shared"
  head -c $(($(stat -c %s trace) / 2 + 100)) trace >half
  for verb in replay advise; do
    run_in cut -- "$gpushim" "$verb" half
    expect_status cut 1
    expect_count cut.err '^gpushim: half: cut short; [0-9]+ operations were read$' 1
    expect_text cut.out '[0-9]+ allocations, '
  done
}
add_case "advise damaged trace" damaged_case

bad_usage_case() {
  need_file "$gpushim"
  printf '1,a,1,4096,0\n' >good
  refused 2 'unknown option --devise: did you mean --device[?]' advise --devise 1G good
  refused 2 'unknown option --smalest: did you mean --smallest[?]' replay --smalest good
  refused 2 'unknown option --xyzzy ' replay --xyzzy good
  refused 2 '--device: needs a value' advise good --device
  refused 2 '--warmup: takes no value' advise --warmup=yes good
  refused 2 '--ready=late: not at-once, after:N or sync' advise --ready late good
  refused 2 '--ready=after:x: not at-once, after:N or sync' advise --ready after:x good
  refused 2 '--kinds=pined: not device, async, managed, pinned, .*, or all' replay --kinds device,pined good
  refused 2 '--through=device: not pool, native-model or blocks' replay --through device good
  refused 2 '--repeat=0: not a number from 1 ' replay --repeat 0 good
  refused 2 '--window=0: not a number from 1 ' replay --threads --window 0 good
  refused 2 '--window: has no effect without --threads' replay --window 5 good
  refused 2 '--touch: only a real device ' replay --touch good
  for verb in replay advise; do
    refused 2 "unknown option --bogus [(]see gpushim $verb --help[)]" "$verb" --bogus
  done
  for size in 0 -1G 1Q 1GG x 1e30 0x nan; do
    refused 2 "--device=$size: not a size " advise --device "$size" good
  done
  for verb in replay advise; do
    run_in usage -- "$gpushim" "$verb"
    expect_status usage 2
    expect_text usage.err "^usage: gpushim .*$verb"
    run_in help -- "$gpushim" "$verb" --help
    expect_status help 0
    expect_text help.out "^usage: gpushim .*$verb"
  done
  refused 2 'second: a second TRACE: advise replays one' advise good second
  run_in one -- "$gpushim" replay good
  expect_text one.out '^  trace +1 allocation, 1 operation, 1 stream, 1 thread$'
  expect_text one.out ' MiB in 1 allocation at most$'
  for words in 'replay good' 'advise good' 'replay --to-csv good' 'replay --help' --help --version 'trace --help'; do
    run_in full -- bash -c "'$gpushim' $words >/dev/full"
    expect_status full 1
    expect_count full.err '^gpushim: standard output cannot be written' 1
  done
}
add_case "advise bad usage" bad_usage_case
