# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# checks.sh - GPUSHIM_CHECK=redzone, fill and quarantine: what is written by somebody who
# is not to is an error in the report, with whose memory it was; what cannot be looked at is
# counted; and no program that does nothing wrong notices anything.

uses outputs state

zone=GPUSHIM_CHECK=redzone:256
poison=GPUSHIM_CHECK=fill:poison
held=GPUSHIM_CHECK=quarantine:8M

# error_lines FILE: the report's errors, without what differs from run to run.
error_lines() {
  sed -E '/^==[0-9]+== ERROR/,/^==[0-9]+==$/!d;s/^==[0-9]+==//;s/0x[0-9a-f]+/ADDRESS/
    s/ at ([0-9hms]+|[0-9.]+ [mu]?s)( |$)/ at TIME\2/;s/ by thread [0-9]+( "[a-z_]*")?/ by thread N/
    s/ +[^ ]*(overruns)[.]c:[0-9]+/  \1.c/;s/ +$//' "$1"
}

# checks_damage_case WAY MODE "VARIABLE..." EXPECTED: the errors, to the letter, and nothing else; the
# program's own output is left alone.
checks_damage_case() {
  local way=$1 mode=$2 settings=()

  read -ra settings <<<"$3"
  need_file "$apps/overruns_$way"
  preloaded shim "${settings[@]}" CUDASIM_MEMORY=512M -- "$apps/overruns_$way" "$mode"
  expect_status shim 0
  expect_only_report shim.err
  printf '%b' "$4" >wanted
  error_lines shim.err >found
  cmp -s wanted found && return
  diff -u wanted found
  fail "the report's errors"
}

# calls_of WAY: how the calls are named there, in malloc and free.
calls_of() {
  case $1 in
    shared | static | ptds) malloc=cudaMalloc free=cudaFree ;;
    *) malloc=cuMemAlloc free=cuMemFree ;;
  esac
}

# frames FUNCTION...
frames() {
  local number=0 name

  for name; do
    printf '     #%d %s  overruns.c\\n' $((number++)) "$name"
  done
}

# overrun_text "FUNCTION..." SIZE BYTES FIRST
overrun_text() {
  printf ' ERROR 1: overrun of ADDRESS (%s, GPU 0, %s): %s changed past its end, first at +%s\\n' \
    "$2" "$malloc" "$3" "$4"
  printf '   found by %s at TIME by thread N\\n' "$free"
  # shellcheck disable=SC2086  # one or two words
  frames give_back $1 main
  printf '   allocated at TIME by thread N with %s\\n' "$malloc"
  # shellcheck disable=SC2086
  frames make $1 main
  printf '\\n'
}

checks_overrun_case() {
  local malloc free

  calls_of "$1"
  checks_damage_case "$1" "${2##* }" "$zone" "$(overrun_text "${@:2}")"
}
for way in shared static linked proc; do
  add_case "checks red zone of a small block $way" checks_overrun_case "$way" 'overrun small' '64.0 KiB' \
    '12 bytes' 65,536
  add_case "checks red zone of a large block $way" checks_overrun_case "$way" 'overrun large' '4.00 MiB' \
    '8 bytes' 4,194,304
done
add_case "checks red zone in what is rounded off" checks_overrun_case shared slack '1001 B' \
  '3 bytes' 1,001
add_case "checks red zone in front of a neighbour" checks_overrun_case linked underrun '1000 B' \
  '4 bytes' 1,532

# checks_last_look_case WAY MODE "VARIABLE..." TITLE
checks_last_look_case() {
  local settings=()

  read -ra settings <<<"$3"
  preloaded shim "${settings[@]}" -- "$apps/overruns_$1" "$2"
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== ERROR' 1
  expect_text shim.err "^==[0-9]+== ERROR 1: $4"
  expect_text shim.err '^==[0-9]+==   found at the last check, at [0-9.]+ m?s$'
  expect_no_text shim.err 'Not checked'
}
for way in shared static linked proc; do
  add_case "checks red zone of live memory at exit $way" checks_last_look_case "$way" live "$zone" \
    'overrun of 0x[0-9a-f]+ \(64[.]0 KiB, GPU 0, .*\): 4 bytes changed past its end, first at [+]65,536$'
  add_case "checks red zone of live memory at a reset $way" checks_last_look_case "$way" reset "$zone" \
    'overrun of 0x[0-9a-f]+ \(64[.]0 KiB, GPU 0, .*\): 4 bytes changed past its end, first at [+]65,536$'
  add_case "checks fill written after free, at exit $way" checks_last_look_case "$way" late "$poison" \
    'write after free to 0x[0-9a-f]+ \(64[.]0 KiB, GPU 0, .*\): 4 bytes changed, first at [+]128$'
done

# late_text MODE SIZE
late_text() {
  printf ' ERROR 1: write after free to ADDRESS (%s, GPU 0, %s): 4 bytes changed, first at +128\\n' \
    "$2" "$malloc"
  printf '   found by %s at TIME by thread N\\n' "$malloc"
  frames make reused_size "$1" main
  printf '   freed at TIME by thread N\\n'
  frames give_back reused_size "$1" main
  printf '   allocated at TIME by thread N with %s\\n' "$malloc"
  frames make reused_size "$1" main
  printf '\\n'
}

checks_late_case() {
  local malloc free

  calls_of "$1"
  checks_damage_case "$1" "$2" "$4" "$(late_text "$5" "$3")"
}
for way in shared static linked proc; do
  add_case "checks fill written after free, then used again $way" \
    checks_late_case "$way" reused '64.0 KiB' "$poison" reused
done
add_case "checks fill written after free, then used again, large" \
  checks_late_case shared large_reused '4.00 MiB' GPUSHIM_CHECK=fill:zero reused_large
# Held back it is looked at when it goes at last: at the end.
add_case "checks fill written after free, held back" checks_last_look_case shared reused \
  "$poison GPUSHIM_CHECK=quarantine:8M" 'write after free to 0x'

# What new memory has in it, in the first block and in one that was used before.
checks_fresh_case() {
  preloaded shim GPUSHIM_CHECK=fill:"$1" -- "$apps/overruns_shared" fresh
  expect_clean shim.err
  expect_equal "new memory" "$(printf 'overruns: new memory has %s\n' "$2" "$2")" \
    "$(<shim.out)"
}
add_case "checks fill zero" checks_fresh_case zero 0x00
add_case "checks fill poison" checks_fresh_case poison 0xff

# A second free: without a quarantine it frees the next owner's memory.
checks_twice_case() {
  native native "$apps/overruns_$1" twice
  preloaded shim "$held" -- "$apps/overruns_$1" twice
  expect_status shim 0
  expect_text shim.out '^overruns: second free refused$'
  expect_count shim.err '^==[0-9]+== ERROR' 1
  expect_text shim.err '^==[0-9]+== ERROR 1: double free of 0x'
  preloaded without -- "$apps/overruns_$1" twice
  expect_text without.out '^overruns: second free done$'
}
for way in shared linked; do
  add_case "checks quarantine of a block that is freed twice $way" checks_twice_case "$way"
done

# checks_skipped_case MODE COUNT WHY "VARIABLE...": no error, and a line that says how many were
# not looked at.
checks_skipped_case() {
  local settings=()

  read -ra settings <<<"$4"
  preloaded shim "${settings[@]}" -- "$apps/overruns_shared" "$1"
  expect_status shim 0
  expect_only_report shim.err
  expect_no_text shim.err ' ERROR '
  expect_text shim.err "^==[0-9]+== Not checked: $2 of [0-9,]+ \\($2 $3\\): docs/checks.md\$"
}
add_case "checks leave out what is freed during a capture" checks_skipped_case captured 1 \
  'while a stream captured' "$zone $held"
add_case "checks leave out what is freed in a stream's order" checks_skipped_case ordered 1 \
  "freed in a stream's order" "$zone $poison"
add_case "checks leave out what is live at _exit" checks_skipped_case _exit 1 \
  'when the process ended' "$zone"

# The driver refuses each call of the checks' own: nothing else is noticed.
checks_refused_case() {
  native native "$apps/overruns_shared"
  CUDASIM_FAIL="$1" preloaded shim "$zone" "$poison" "$held" -- "$apps/overruns_shared"
  expect_same native shim
  expect_no_text shim.err ' ERROR '
  expect_text shim.err "^==[0-9]+== Not checked: .*for a failed driver call"
}
for name in cuStreamCreate cuMemHostAlloc cuMemsetD8Async cuMemcpyDtoHAsync; do
  add_case "checks go on where $name fails" checks_refused_case "$name:*"
done
for name in cuMemsetD8Async cuMemcpyDtoHAsync cuStreamQuery; do
  add_case "checks go on where $name fails now and then" checks_refused_case "$name:*%3"
done

# checks_next_owner_case WAY WHICH "VARIABLE...": fills that nobody sees done in their time, and come
# when another owner has the memory: not into what is handed out. The simulated device's oracle judges.
checks_next_owner_case() {
  local seed settings=()

  read -ra settings <<<"$3"
  for seed in 0 1 2 4 6 7; do
    CUDASIM_SCHEDULE=hostile CUDASIM_SEED=$seed CUDASIM_FAIL="cuStreamQuery:$2" \
      preloaded shim "${settings[@]}" -- "$apps/overruns_$1" next
    expect_status shim 0
    expect_no_text shim.err ' ERROR |cudasim: .*race'
  done
}
for which in '*' 2+ '*%50'; do
  add_case "checks keep a late red zone from the next owner, $which" checks_next_owner_case linked \
    "$which" "$zone"
  add_case "checks keep late fills from the next owner, $which" checks_next_owner_case shared \
    "$which" "$zone $poison"
done

# checks_only_case WHICH: one block that a device has room for, whose fills nobody sees done in their
# time: it is served as natively, without a look.
checks_only_case() {
  export CUDASIM_MEMORY=64M CUDASIM_FAIL="cuStreamQuery:$1"
  same_as_native GPUSHIM_POOL_WAIT=2s "$poison" "${@:2}" -- "$apps/overruns_linked" only
  expect_no_text shim.err ' ERROR '
  expect_text shim.err '^==[0-9]+== Not checked: .*for a failed driver call'
}
add_case "checks of the only block, never seen done" checks_only_case '*'
add_case "checks of the only block and its zone, never seen done" checks_only_case '*' "$zone"
add_case "checks of the only block, seen done now and then" checks_only_case '*%30'

# Uses of a context that are taken back one by one: not all is looked at each time.
checks_uses_case() {
  CUDASIM_LOG=2 preloaded shim "$zone" -- "$apps/overruns_$1" uses
  expect_status shim 0
  expect_no_text shim.err ' ERROR |Not checked'
  # 8 of them at their frees, and 8 a second.
  looks=$(grep -c 'cudasim: cuMemcpyDtoHAsync' shim.err)
  [[ $looks -ge 16 && $looks -le 200 ]] || fail "$looks looks at 8 zones"
}
for way in shared linked; do
  add_case "checks at the end of a use among others $way" checks_uses_case "$way"
done
add_case "checks at the end of the last use" checks_last_look_case linked released "$zone" \
  'overrun of 0x[0-9a-f]+ \(64[.]0 KiB, GPU 0, .*\): 4 bytes changed past its end, first at [+]65,536$'

# An exec that fails: what is live then is looked at when it is freed, and nothing was left out.
checks_exec_case() {
  preloaded shim "$zone" -- "$apps/overruns_linked" not_run
  expect_status shim 0
  expect_text shim.out '^overruns: went on$'
  expect_count shim.err '^==[0-9]+== gpushim .*exec ' 1
  expect_count shim.err '^==[0-9]+== Not checked: 4 of 4 \(4 when the process ended\)' 1
  expect_count shim.err '^==[0-9]+== Not checked' 1
}
add_case "checks go on after an exec that fails" checks_exec_case

# Another thread may begin the first capture at any moment: no call of the checks' own is one that it
# would forbid.
checks_relaxed_case() {
  CUDASIM_LOG=2 preloaded shim "$zone" -- "$apps/overruns_linked" small
  expect_status shim 0
  sed -nE 's/^cudasim: (cu[A-Za-z]+).*/\1/p' shim.err >calls
  awk '/^cuThreadExchangeStreamCaptureMode$/ { inside = !inside; pairs++ }
    /^cuMem(set|cpy).*Async$|^cuMemHostAlloc$|^cuStream(Create|Query)$/ && !inside { bad = 1; print }
    END { exit bad || pairs < 4 }' calls || fail "calls outside of the relaxed mode"
}
add_case "checks in the relaxed mode from the first on" checks_relaxed_case

# Many threads, each of which goes too far once.
checks_threads_case() {
  local settings=()

  read -ra settings <<<"$2"
  preloaded shim "$zone" "${settings[@]}" -- "$apps/overruns_$1" threads
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: overrun of .*: 4 bytes changed past its end' 8
  expect_text shim.err 'SUMMARY: gpushim: 8 errors, 0 B leaked in 0 '
}
add_case "checks of many threads" checks_threads_case shared ''
add_case "checks of many threads, all on" checks_threads_case linked "$poison $held"

# On the second device, freed where the first is current.
checks_device_case() {
  preloaded shim "$zone" "$poison" "$held" CUDASIM_DEVICES=2 -- "$apps/overruns_$1" devices
  expect_status shim 0
  expect_count shim.err '^==[0-9]+== ERROR' 1
  expect_text shim.err 'ERROR 1: overrun of 0x[0-9a-f]+ \(64[.]0 KiB, GPU 1, '
}
for way in shared linked; do
  add_case "checks of another device $way" checks_device_case "$way"
done

# A kernel runs that waits for the thread that allocates.
checks_busy_case() {
  preloaded shim "$zone" "$poison" "$held" -- "$apps/overruns_$1" busy
  expect_status shim 0
  expect_no_text shim.err ' ERROR '
}
for way in shared linked; do
  add_case "checks beside a kernel that waits for the program $way" checks_busy_case "$way"
done

# checks_full_case "VARIABLE...": as many blocks as natively, in memory that was never used and in
# memory that is held back.
checks_full_case() {
  local settings=()

  read -ra settings <<<"$1"
  CUDASIM_MEMORY=64M same_as_native "$poison" "${settings[@]}" -- "$apps/overruns_shared" full
  expect_clean shim.err
}
add_case "checks on a full device" checks_full_case ''
add_case "checks on a full device, all of it held back" checks_full_case GPUSHIM_CHECK=quarantine:1G
add_case "checks on a full device, carved" checks_full_case \
  'GPUSHIM_CHECK=quarantine:1G GPUSHIM_POOL_CARVE=on'

# Under a limit, with what is held back: the same count as without the checks.
checks_limited_case() {
  preloaded plain GPUSHIM_MEM_LIMIT=32M -- "$apps/overruns_shared" full
  preloaded shim GPUSHIM_MEM_LIMIT=32M GPUSHIM_CHECK=quarantine:1G "$poison" -- \
    "$apps/overruns_shared" full
  expect_same plain shim
}
add_case "checks under a limit" checks_limited_case

# Programs that do nothing wrong: the same results, and no error.
# checks_clean_case PROGRAM EXPECT
checks_clean_case() {
  export CUDASIM_MEMORY=512M CUDASIM_DEVICES=2
  [[ $1 != sizes_* ]] || CUDASIM_MEMORY=192M # all of it is filled, again and again
  need_file "$apps/$1"
  same_as_native GPUSHIM_CHECK=redzone:512 "$poison" "$held" -- "$apps/$1"
  [[ -s native.err ]] || expect_only_report shim.err
  expect_no_text shim.err ' ERROR .*(overrun|write after)'
  [[ $2 == any ]] || expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for name in overruns pipeline threads freewait devices sizes capture async crowd; do
  for way in $(ways_of "$name"); do
    add_case "checks of a right program, $name $way" checks_clean_case "${name}_$way" clean
  done
done
for name in leaky badfree context fork graphmem ipc reset survivors; do
  way=linked
  [[ -x $apps/${name}_linked ]] || way=shared
  add_case "checks of a right program, $name" checks_clean_case "${name}_$way" any
done

# Judged by the oracle of the simulated device: nothing is read, filled or handed out before
# the work that used it has ended.
checks_judged_case() {
  need_file "$build/order/order"
  preloaded shim "${verdict_alone[@]}" GPUSHIM_VERBOSE=0 GPUSHIM_POOL_WAIT=100ms "$zone" \
    "$poison" -- "$build/order/order" --seeds "$(sized 1 4)" "$@"
  expect_status shim 0
}
add_case "checks in the order of the device" checks_judged_case idle. memory.freed odd.

# ---- bad and odd settings ------------------------------------------------------------

# checks_told_case LINE "VARIABLE...": a line, and the program as ever.
checks_told_case() {
  local settings=()

  read -ra settings <<<"$2"
  same_as_native "${settings[@]}" -- "$apps/overruns_shared"
  expect_equal "what is said" "gpushim: $1" "$(grep -v '^==' shim.err)"
}
needs='GPUSHIM_CHECK: redzone, fill and quarantine need the pool and the tracker: with'
add_case "checks need the pool" checks_told_case "$needs GPUSHIM_POOL=off they are off, too" \
  "$zone GPUSHIM_POOL=off"
add_case "checks need the tracker" checks_told_case "$needs GPUSHIM_TRACK=off they are off, too" \
  "$held GPUSHIM_TRACK=off"
add_case "checks wait where frees are lazy" checks_told_case \
  'GPUSHIM_FREE_SYNC=lazy: with redzone, fill or quarantine of GPUSHIM_CHECK, frees wait as they do natively' \
  "$poison GPUSHIM_FREE_SYNC=lazy"

checks_bad_values_case() {
  preloaded shim GPUSHIM_CHECK=redzone:some,fill:red,quarantine:-1 \
    -- "$apps/overruns_shared"
  expect_status shim 0
  expect_text shim.err '^gpushim: GPUSHIM_CHECK=redzone:some: not a size .*; using 0$'
  expect_text shim.err '^gpushim: GPUSHIM_CHECK=fill:red: '
  expect_text shim.err '^gpushim: GPUSHIM_CHECK=quarantine:-1: '
  expect_count shim.err '^gpushim: ' 3
}
add_case "checks of bad values" checks_bad_values_case

# ---- what else tells of it -------------------------------------------------------------

# The JSON report, the state file, the exit code, a rule.
checks_elsewhere_case() {
  local text

  preloaded shim "$zone" GPUSHIM_ERROR_EXITCODE=7 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json \
    GPUSHIM_STATE_FILE=state -- "$apps/overruns_shared" small
  expect_status shim 7
  expect_valid r.json
  text=$(json_get r.json errors 0 error)
  expect_equal "the error" '"overrun"' "$text"
  expect_equal "bytes" 12 "$(json_get r.json errors 0 changed_bytes)"
  expect_equal "first" 65536 "$(json_get r.json errors 0 first_changed)"
  expect_equal "looks" 1 "$(json_get r.json checks looked_at)"
  state_report found state
  expect_text found.out 'ERROR 1: overrun of 0x[0-9a-f]+ \(64[.]0 KiB, GPU 0, cudaMalloc\)'
  preloaded skipped "$zone" GPUSHIM_STATE_FILE=state2 -- "$apps/overruns_shared" ordered
  state_report found state2
  expect_text found.out "Not checked: 1 of 1 \\(1 freed in a stream's order\\)"
}
add_case "checks in other forms of the report" checks_elsewhere_case

checks_ruled_case() {
  echo 'overrun:^small$' >rules
  preloaded shim "$zone" GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=7 -- \
    "$apps/overruns_shared" small
  expect_status shim 0
  expect_text shim.err '^==[0-9]+== Suppressed: 1 error by 1 rule$'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors'
}
add_case "checks and a rule for what is known" checks_ruled_case
