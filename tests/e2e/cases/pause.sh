# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# pause.sh - gpushim pause and gpushim resume: what the memory of a running program goes through.

# pause_start WAY [VAR=value...] -- ARGUMENT...: paused_WAY in the background, working; its number is in `runner`, what
# it writes in the file `dots`.
pause_start() {
  local way=$1 settings command

  split_settings "${@:2}"
  need_file "$apps/paused_$way"
  dots+=.out
  LD_LIBRARY_PATH=$cuda_path CUDASIM_CHECKPOINT=1 CUDASIM_MEMORY=512M GPUSHIM_LOG_FILE=$PWD/log LD_PRELOAD=${preload-$shim} \
    env "${settings[@]}" "$apps/paused_$way" "$PWD/over" "${command[@]}" >"$dots" 2>shim.err &
  runner=$!
  runners+=("$runner")
  trap 'kill -9 "${runners[@]}" 2>/dev/null' EXIT # of a case that fails
  pause_await 3
}

# pause_beyond COUNT: the program has written more than so many bytes.
pause_beyond() {
  [[ $(stat -c %s "$dots") -gt $1 ]]
}

# pause_await COUNT: until it has.
pause_await() {
  await 20 pause_beyond "$1" && return
  cat "$dots" shim.err
  fail "it does not work"
}

# pause_call NAME WORD...: gpushim WORD..., beside the simulated device.
pause_call() {
  run_in "$1" LD_LIBRARY_PATH="$cuda_path" -- "$build/gpushim" "${@:2}"
}

# pause_pages: how many bytes the device of the running program holds.
pause_pages() {
  local file bytes=0

  for file in /proc/"$runner"/fd/*; do
    [[ $(readlink "$file") != '/memfd:cudasim-device'* ]] || bytes=$((bytes + 512 * $(stat -L -c %b "$file")))
  done
  echo "$bytes"
}

# pause_works: the program goes on.
pause_works() {
  pause_await "$(stat -c %s "$dots")"
}

pause_end() {
  : >over
  wait "$runner"
  expect_equal "its status" 0 "$?"
  expect_equal "what was wrong" "0 wrong" "$(tail -n 1 "$dots")"
}

# In the midst of everything, three times; while it is paused its device holds nothing and it does nothing.
pause_case() {
  local way=$1 runner runners=() dots=dots before

  pause_start "$way" "${@:2}"
  for round in 1 2 3; do
    before=$(pause_pages)
    [[ $before -gt 1000000 ]] || fail "the device holds $before bytes"
    pause_call pause pause "$runner"
    expect_equal "pause" "paused $runner: its GPU memory is on the host" "$(<pause.out)"
    expect_status pause 0
    if [[ ${preload-$shim} ]]; then
      pause_call stats stats "$runner"
      expect_text stats.out "^$runner: \\(paused\\) "
    fi
    expect_equal "what the device holds" 0 "$(pause_pages)"
    sleep 0.1 # a round may have made its last call
    before=$(stat -c %s "$dots")
    sleep 0.1
    expect_equal "what it does" "$before" "$(stat -c %s "$dots")"
    pause_call resume resume "$runner"
    expect_equal "resume $round" "resumed $runner" "$(<resume.out)"
    expect_status resume 0
    pause_works
  done
  pause_end
  [[ ${preload-$shim} == "" ]] || expect_text log 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for way in $(ways_of paused); do
  add_case "pause $way" pause_case "$way" --
done
for setting in GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL_VMM=on GPUSHIM_POOL=off GPUSHIM_ASYNC=pool GPUSHIM_POOL_TRIM=20 \
  GPUSHIM_CHECK=fill:poison GPUSHIM_STATE_FILE=state; do
  add_case "pause $setting" pause_case linked "$setting" --
done
add_case "pause between the nodes of a capture" pause_case linked -- capture
pause_native_case() {
  local preload=

  pause_case linked --
}
add_case "pause without the library" pause_native_case

# Work that does not end in time: it runs on, also where the one that waits is interrupted.
pause_busy_case() {
  local runner runners=() dots=dots before=0

  pause_start linked CUDASIM_FAIL='cuMemcpyHtoDAsync:600=never' --
  while [[ $before -ne $(stat -c %s "$dots") ]]; do
    before=$(stat -c %s "$dots")
    sleep 0.5
  done
  pause_call pause pause --wait=1 "$runner"
  expect_status pause 1
  expect_equal "a busy one" "gpushim: process $runner: its work on the GPU took longer than 1 s (--wait)
gpushim: nothing is paused" "$(<pause.err)"
  LD_LIBRARY_PATH=$cuda_path "$build/gpushim" pause --wait=100 "$runner" 2>interrupted.err &
  sleep 0.5
  kill -INT $!
  kill -TERM $!
  wait $!
  expect_equal "interrupted" "gpushim: nothing is paused" "$(<interrupted.err)"
  pause_call none resume "$runner"
  expect_equal "it runs on" "gpushim: process $runner: not paused" "$(<none.err)"
  kill -9 "$runner"
}
add_case "pause of a busy process" pause_busy_case

# What a driver refuses: what runs goes on, what is paused stays so.
pause_refused_case() {
  local runner runners=() dots=dots

  pause_start linked --
  run_in lock LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL='cuCheckpointProcessLock:1=801' -- "$build/gpushim" pause "$runner"
  expect_status lock 1
  expect_text lock.err "process $runner: locking it: CUDA_ERROR_NOT_SUPPORTED: this driver, or this process, cannot be checkpointed"
  run_in save LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL='cuCheckpointProcessCheckpoint:1=999' -- "$build/gpushim" pause "$runner"
  expect_status save 1
  expect_text save.err "process $runner: copying its memory to the host: CUDA_ERROR_UNKNOWN\$"
  expect_text save.err "process $runner: it runs on"
  pause_works
  # Left locked: it can be resumed, or paused all the same.
  for word in resume pause; do
    run_in locked LD_LIBRARY_PATH="$cuda_path" \
      CUDASIM_FAIL='cuCheckpointProcessCheckpoint:1=999,cuCheckpointProcessUnlock:1=999' -- "$build/gpushim" pause "$runner"
    expect_status locked 1
    expect_text locked.err "process $runner: it stays locked: gpushim resume it\$"
    pause_call again "$word" "$runner"
    expect_status again 0
    pause_call resume resume "$runner"
    pause_works
  done
  pause_call none resume "$runner"
  expect_equal "no pause" "gpushim: process $runner: not paused" "$(<none.err)"
  pause_call pause pause "$runner"
  pause_call twice pause "$runner"
  expect_equal "twice" "gpushim: process $runner: already paused" "$(<twice.err)"
  run_in full LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL='cuCheckpointProcessRestore:*' -- \
    "$build/gpushim" resume --wait=1 "$runner"
  expect_status full 1
  expect_equal "no memory" "gpushim: process $runner: its GPU is full: it stays paused" "$(<full.err)"
  expect_equal "what the device holds" 0 "$(pause_pages)"
  run_in later LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL='cuCheckpointProcessRestore:1,cuCheckpointProcessRestore:2' -- \
    "$build/gpushim" resume "$runner"
  expect_equal "memory a little later" "resumed $runner" "$(<later.out)"
  pause_works
  pause_end
}
add_case "pause that the driver refuses" pause_refused_case

# While it is paused another process has its memory, and it resumes once that one has ended.
pause_shared_case() {
  local runner runners=() dots=dots free taker

  pause_start linked CUDASIM_SHARED="$PWD/device" --
  pause_call pause pause "$runner"
  LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=512M CUDASIM_SHARED=$PWD/device "$apps/group_linked" hold 512 "$PWD/over" >took 2>&1 &
  taker=$!
  runners+=("$taker")
  await 20 grep -q '^took' took
  expect_equal "beside a paused one" "took 512 MiB" "$(<took)"
  pause_call full resume --wait=1 "$runner"
  expect_status full 1
  expect_equal "no memory" "gpushim: process $runner: its GPU is full: it stays paused" "$(<full.err)"
  LD_LIBRARY_PATH=$cuda_path "$build/gpushim" resume --wait=20 "$runner" >later.out 2>&1 &
  free=$!
  sleep 0.5
  kill -9 "$taker"
  wait "$free"
  expect_equal "memory a little later" "resumed $runner" "$(<later.out)"
  pause_works
  pause_end
}
add_case "pause leaves its memory to others" pause_shared_case

# Several at once, and what is no such process; a paused one is killed.
pause_words_case() {
  local runner runners=() first dots=dots

  pause_start linked --
  first=$runner
  pause_start linked --
  pause_call none pause "$first" 999999999 "$$" "$runner"
  expect_status none 1
  expect_equal "all or none" "gpushim: process 999999999: no such process
gpushim: process $$: it does not use CUDA
gpushim: nothing is paused" "$(<none.err)"
  run_in second LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL='cuCheckpointProcessLock:2=999' -- "$build/gpushim" pause "$first" "$runner"
  expect_equal "the second refuses" "gpushim: process $runner: locking it: CUDA_ERROR_UNKNOWN
gpushim: nothing is paused" "$(<second.err)"
  pause_works
  pause_call both pause "$first" "$runner"
  expect_status both 0
  expect_equal "both" "paused $first: its GPU memory is on the host
paused $runner: its GPU memory is on the host" "$(<both.out)"
  kill -9 "$first"
  wait "$first" || :
  pause_call resume resume "$first" "$runner"
  expect_status resume 1
  expect_equal "the one that is left" "resumed $runner" "$(<resume.out)"
  pause_end
  pause_call word pause one
  expect_equal "a word" "gpushim: a process is a number from 1 to 2147483647, not one" "$(<word.err)"
  expect_status word 2
  pause_call nobody resume
  expect_equal "nobody" "gpushim: resume: no PID is given" "$(head -n 1 nobody.err)"
  pause_call wait pause --wait=0 1
  expect_equal "no wait" "gpushim: --wait is a number from 1 to 86400, not 0" "$(<wait.err)"
  pause_call help resume --help
  expect_text help.out '^usage: gpushim resume '
  expect_text help.out '^resume PID undoes pause: copies the GPU memory of a process back from the host[.]$'
  run_in none LD_LIBRARY_PATH=/nowhere -- "$build/gpushim" pause 1
  expect_status none 1
  expect_text none.err '^gpushim: no CUDA driver: '
  run_in old LD_LIBRARY_PATH="$cuda_path" CUDASIM_DRIVER_VERSION=12040 -- "$build/gpushim" pause "$$"
  expect_status old 1
  expect_equal "an older driver" "gpushim: the CUDA driver has no cuCheckpointProcessGetState: pausing needs that of CUDA 12.8 (570) or later" \
    "$(<old.err)"
  run_in never LD_LIBRARY_PATH="$cuda_path" CUDASIM_FAIL=cuCheckpointProcessGetState:1=801 -- "$build/gpushim" pause "$$"
  expect_status never 1
  expect_text never.err "^gpushim: process $$: its state: CUDA_ERROR_NOT_SUPPORTED: this driver, or this process, cannot be checkpointed\$"
}
add_case "pause words" pause_words_case
