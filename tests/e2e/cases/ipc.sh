# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# ipc.sh - memory shared between two processes, each with and without the library: the
# importer finds the exporter's data by whatever arithmetic, or gets an error, never other
# data. docs/ipc.md

uses options

ipc_ways='direct inside asked base attribute attributes twice old'
ipc_file_ways='dmabuf pool vmm event'

# ipc_pair PREFIX EXPORTER IMPORTER [VAR=value...] -- COMMAND: each `with` or `without`.
ipc_pair() {
  local prefix=$1 exporter=$2 settings=(APP_PEER_PRELOAD=)

  [[ $3 == with ]] && settings=(APP_PEER_PRELOAD="$shim")
  shift 3
  if [[ $exporter == with ]]; then
    preloaded "$prefix" "${settings[@]}" "$@"
  else
    run_in "$prefix" "${settings[@]}" "$@"
  fi
}

# Nothing is lost, and nothing said but the line about sealed handles: $2 times.
expect_ipc_quiet() {
  expect_count "$1" '^gpushim: cuIpcGetMemHandle: a block of ' "$2"
  grep -v '^gpushim: cuIpcGetMemHandle: a block of ' "$1" >rest
  expect_only_report rest
  expect_only_late_closes rest
}

# The programs close once more than they have opened: that is all there may be of errors.
expect_only_late_closes() {
  grep -E '^==[0-9]+== ERROR [0-9]+: ' "$1" | grep -v 'cuIpcCloseMemHandle)$' >wrong || return 0
  cat wrong
  fail "$1: an error that is no late close"
}

# ipc_case PROGRAM WAY EXPORTER IMPORTER [VAR=value...]: as without the library.
ipc_case() {
  local program=$apps/$1 way=$2 exporter=$3 importer=$4

  shift 4
  need_file "$program"
  native native "$program" "$way"
  expect_status native 0
  ipc_pair pair "$exporter" "$importer" "$@" -- "$program" "$way"
  expect_same native pair
  expect_no_text pair.out 'wrong'
}

# Both with the library: everything works, and the way of export is said once at most. A
# program that is linked to the driver itself is known before its first allocation.
ipc_sealed_case() {
  ipc_case ipc_ways_shared "$1" with with "${@:2}"
  expect_ipc_quiet pair.err 1
  expect_count rest ', 0 B leaked in 0 allocations' 2
}
ipc_apart_case() {
  ipc_case ipc_ways_linked "$1" with "$2" "${@:3}"
  expect_ipc_quiet pair.err 0
}
for way in $ipc_ways; do
  for mode in native lazy; do
    add_case "ipc $way $mode" ipc_sealed_case "$way" GPUSHIM_FREE_SYNC=$mode
  done
  add_case "ipc $way importer alone" ipc_case ipc_ways_shared "$way" without with
  add_case "ipc $way linked" ipc_apart_case "$way" with
  add_case "ipc $way linked exporter alone" ipc_apart_case "$way" without
  add_case "ipc $way asked apart" ipc_case ipc_ways_shared "$way" with without GPUSHIM_IPC=native
done
for way in direct asked twice; do
  add_case "ipc $way proc" ipc_case ipc_ways_proc "$way" with with
  add_case "ipc $way carved" ipc_case ipc_ways_shared "$way" with with GPUSHIM_POOL_CARVE=on
  add_case "ipc $way carved apart" ipc_case ipc_ways_shared "$way" with without \
    GPUSHIM_POOL_CARVE=on GPUSHIM_IPC=native
  add_case "ipc $way warmed apart" ipc_case ipc_ways_shared "$way" with without \
    GPUSHIM_WARMUP=1000:20,64K:20 GPUSHIM_IPC=native
  add_case "ipc $way importer off" ipc_off_case "$way"
  add_case "ipc $way pool off" ipc_pool_off_case "$way"
done

# An importer whose library keeps no memory opens sealed handles all the same.
ipc_pool_off_case() {
  need_file "$apps/ipc_ways_shared"
  native native "$apps/ipc_ways_shared" "$1"
  ipc_pair pair with with APP_PEER_SETTING=GPUSHIM_POOL=off -- "$apps/ipc_ways_shared" "$1"
  expect_same native pair
}

# An importer whose library is off is one without the library: it gets the same errors, and no
# byte is another's.
ipc_off_case() {
  need_file "$apps/ipc_ways_shared"
  ipc_pair without with without -- "$apps/ipc_ways_shared" "$1"
  ipc_pair pair with with APP_PEER_SETTING=GPUSHIM_ENABLE=off -- "$apps/ipc_ways_shared" "$1"
  expect_same without pair
  expect_text pair.out '^4096 bytes: export 0, open [1-9][0-9]*, '
  expect_no_text pair.out 'wrong|written no'
  expect_ipc_quiet pair.err 1
}

# An importer without the library: small blocks that were exported sealed are refused, all
# else is as ever, and no byte is another's.
ipc_refused_case() {
  local way=$1

  need_file "$apps/ipc_ways_shared"
  native native "$apps/ipc_ways_shared" "$way"
  ipc_pair pair with without -- "$apps/ipc_ways_shared" "$way"
  expect_status pair 0
  expect_no_text pair.out 'wrong|written no'
  expect_ipc_quiet pair.err 1
  expect_text pair.out '^4096 bytes: export 0, open [1-9][0-9]*, '
  expect_equal "large blocks" "$(grep -c '^3145728 ' native.out)" \
    "$(grep -cE '^3145728 bytes: export 0, open 0, .*data right' pair.out)"
  # The first block of all that follows an export, and all of the second round.
  expect_equal "later blocks" "$(tail -n 14 native.out)" "$(tail -n 14 pair.out)"
}
for way in direct inside asked base attribute; do
  add_case "ipc $way exporter alone" ipc_refused_case "$way"
done

# What ends while it is shared, in either process.
ipc_ends_case() {
  ipc_case "$@"
  expect_only_late_closes pair.err
}
for way in bad dead reset reopen; do
  add_case "ipc $way" ipc_ends_case ipc_ends_shared "$way" with with
  add_case "ipc $way lazy" ipc_ends_case ipc_ends_shared "$way" with with GPUSHIM_FREE_SYNC=lazy
  add_case "ipc $way other alone" ipc_ends_case ipc_ends_shared "$way" without with
  add_case "ipc $way linked" ipc_ends_case ipc_ends_linked "$way" with with
  add_case "ipc $way apart" ipc_ends_case ipc_ends_shared "$way" with without GPUSHIM_IPC=native
done

# An import that is out of memory is made again, with idle memory given back.
for way in linked shared; do
  add_case "ipc reset full $way" ipc_ends_case "ipc_ends_$way" reset with with \
    CUDASIM_FAIL=cuIpcOpenMemHandle:1
  add_case "ipc reopen full $way" ipc_ends_case "ipc_ends_$way" reopen with with \
    CUDASIM_FAIL=cuIpcOpenMemHandle:1
done

# Freed while another process has it open: it has no new allocation.
ipc_kept_case() {
  need_file "$apps/ipc_ends_shared"
  ipc_pair pair with with "$@" -- "$apps/ipc_ends_shared" kept
  expect_status pair 0
  expect_equal "what the importer reads" $'open: right\nafter its free: right' "$(<pair.out)"
}
add_case "ipc kept native" ipc_kept_case GPUSHIM_FREE_SYNC=native
add_case "ipc kept lazy" ipc_kept_case GPUSHIM_FREE_SYNC=lazy
# Memory that another process has is not filled when it is freed.
add_case "ipc kept filled" ipc_kept_case GPUSHIM_CHECK=fill:poison
add_case "ipc kept filled with zeros" ipc_kept_case GPUSHIM_CHECK=fill:zero,redzone:256

ipc_files_case() {
  ipc_case "$@"
  expect_only_report pair.err
}
for way in $ipc_file_ways; do
  for pair in 'with with' 'with without' 'without with'; do
    # shellcheck disable=SC2086  # two words
    add_case "ipc $way $pair" ipc_files_case ipc_files_shared "$way" $pair
  done
  add_case "ipc $way lazy" ipc_files_case ipc_files_shared "$way" with with \
    GPUSHIM_FREE_SYNC=lazy
  add_case "ipc $way async" ipc_files_case ipc_files_shared "$way" with with GPUSHIM_ASYNC=pool
  add_case "ipc $way linked" ipc_files_case ipc_files_linked "$way" with with
done

# Always shared, because it was asked for: sealed, round after round, by a linked program
# too; said to who asks only.
ipc_pool_case() {
  ipc_case ipc_ways_linked "$1" with with GPUSHIM_IPC=pool
  expect_ipc_quiet pair.err 0
  preloaded shared GPUSHIM_IPC=pool GPUSHIM_VERBOSE=2 APP_PEER_PRELOAD= -- \
    "$apps/ipc_ways_linked" "$1"
  expect_count shared.err '^gpushim: cuIpcGetMemHandle: a block of ' 1
  expect_no_text shared.err 'from now on'
  expect_no_text shared.out 'wrong|written no'
  [[ $(grep -cE '^4096 .* open [1-9]' shared.out) -ge 3 ]] || fail "not all rounds are sealed"
}
for way in direct asked; do
  add_case "ipc $way pooled" ipc_pool_case "$way"
done

# How a program is recognised is said to who asks.
ipc_known_case() {
  need_file "$apps/ipc_ends_linked"
  preloaded shim GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE="$PWD/log" APP_PEER_PRELOAD= -- \
    "$apps/ipc_ends_linked" bad
  expect_count log 'the program calls cuIpcGetMemHandle: the driver serves small requests' 1
  preloaded plain GPUSHIM_VERBOSE=2 GPUSHIM_LOG_FILE="$PWD/other" -- "$apps/pipeline_linked"
  expect_no_text other 'the program calls'
}
add_case "ipc known" ipc_known_case
add_case "ipc unknown choice" bad_option_case GPUSHIM_IPC=perhaps 'GPUSHIM_IPC=perhaps: not one of '
