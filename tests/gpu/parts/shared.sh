# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# shared.sh - processes that share the device: what a paused process, and one that keeps memory
# idle, leave to the others; what a program gets on a device that others have filled. The rows
# fill the device, so nothing else runs beside them.

readonly SHARED_SECONDS=40 # one program
readonly SHARED_MIB=1024   # what a process keeps idle, or may spill
readonly SHARED_LITTLE=64  # a process's own segments, and what a driver rounds up
readonly SHARED_TRACE=tests/replay/traces/minimalloc-K.csv.gz

shared_others=() # the processes in the background
shared_cut=      # the time was over in the midst of the row
shared_lost=     # a process of the row that did not do its part
# What the driver says without the library to a pause, by kind of memory, and to a resume on a device that was full.
declare -A native_refusal=()

# shared_start NAME [VAR=value...] -- COMMAND...: in the background; sets shared_pid.
shared_start() {
  local name=$1 settings command
  shift

  clean_env "${HOME:-/}" "$library_path" "${!CUDASIM_@}" "${!CUDA_VISIBLE_DEVICES@}" \
    "${!TMPDIR@}" -- "${shared_device[@]}" "$@"
  env -i "${settings[@]}" "${command[@]}" >"$at/$name.out" 2>"$at/$name.err" </dev/null &
  shared_pid=$!
  shared_others+=("$shared_pid")
}

# shared_await NAME PATTERN: until the output of the one started last has it.
shared_await() {
  local i

  for ((i = 0; i < 20 * $(least "$SHARED_SECONDS" "$(part_left)"); i++)); do
    ! grep -qs "$2" "$at/$1.out" || return 0
    kill -0 "$shared_pid" 2>/dev/null || break
    sleep 0.05
  done
  [[ $(part_left) -gt 1 ]] || shared_cut=yes
  shared_lost="$1 says no $2: $(tail -n 1 "$at/$1.err")"
}

# shared_run NAME [VAR=value...] -- COMMAND...: leaves NAME.out, NAME.err; sets run_status, run_ms.
shared_run() {
  local name=$1
  shift

  run_command "$at/$name" "$(least "$SHARED_SECONDS" "$(part_left)")" "${shared_device[@]}" "$@"
  [[ ! -f $at/$name.cut ]] || shared_cut=yes
}

# shared_over: the others end by themselves, or are ended. Sets shared_status, of the last one.
shared_over() {
  local pid until=$((SECONDS + 15))

  : >"$at/over"
  for pid in "${shared_others[@]}"; do
    while kill -0 "$pid" 2>/dev/null && [[ $SECONDS -lt $until ]]; do sleep 0.02; done
    kill -9 "$pid" 2>/dev/null
    wait_for "$pid" 2>/dev/null
    shared_status=$?
  done
  shared_others=()
  rm -f "$at/over"
}

interrupted_shared() {
  [[ ${#shared_others[@]} -eq 0 ]] || kill -9 "${shared_others[@]}" 2>/dev/null
}

# shared_free: sets free_mib, what a process finds free that has nothing but its context.
shared_free() {
  shared_run free -- "$apps/group_linked" take 0
  free_mib=$(sed -n 's/^before: \([0-9]*\) of .*/\1/p' "$at/free.out")
  free_mib=${free_mib:-0}
}

# took_mib NAME: what the run took, in its last line that says so.
took_mib() { sed -n 's/^took \([0-9]*\) MiB$/\1/p' "$at/$1.out" | tail -n 1 | grep . || echo 0; }

# shared_fill MIB: others take the device, but for this and the context of one more process.
shared_fill() {
  shared_start fill -- "$apps/group_linked" leave $(($1 + context_mib)) "$at/over"
  shared_await fill '^left'
}

# shared_row QUESTION ROW VERDICT VALUES TEXT [WHY]: a row and a line; adds to runs, bad, left_out.
shared_row() {
  local verdict=$3 why=${6:-}

  if [[ -n $shared_cut ]]; then
    add_row shared "$1" "$2" "not run" "" "" "the time for this part was over in the midst of it"
    left_out+=("$1 $2")
    return
  elif [[ -n $shared_lost ]]; then
    verdict=DIFFERENT why=$shared_lost
  fi
  runs=$((runs + 1))
  add_row shared "$1" "$2" measured MiB "\"verdict\":\"$verdict\"${4:+,$4}" "$why"
  table_line shared "$1" "$(printf '%-9s %s' "$2" "$5")${why:+: $why}"
  [[ $verdict != DIFFERENT ]] || { bad=$((bad + 1)) && table_line shared "$1" "$2 DIFFERENT"; }
}

# shared_pause ROW KIND [VAR=value...]: a working program is paused, and goes on with its data.
shared_pause() {
  local row=$1 kind=$2 before paused_ms freed why values verdict="as expected"
  shift 2

  [[ $row == native* ]] || set -- LD_PRELOAD="$shim" "$@"
  shared_start "paused.$row" "$@" -- "$apps/paused_linked" "$at/over" "$kind"
  shared_await "paused.$row" '[.][.][.]'
  shared_free
  before=$free_mib
  shared_run pause -- "$build/gpushim" pause "$shared_pid"
  if [[ $run_status -ne 0 ]]; then
    why=$(sed -n 's/^gpushim: process [0-9]*: //p' "$at/pause.err" | head -n 1)
    shared_over
    [[ $row != native* ]] || native_refusal[$kind]=$why
    verdict=DIFFERENT
    [[ $shared_status -ne 0 || $why != "${native_refusal[$kind]:-}" ]] || verdict=refused
    [[ $shared_status -eq 0 ]] || why+="; the program ended with $shared_status"
    shared_row pause "$row" "$verdict" "" refused "$why"
    return
  fi
  paused_ms=$run_ms
  shared_free
  freed=$((free_mib - before))
  [[ $row != *full ]] || shared_resume_late
  shared_run resume -- "$build/gpushim" resume "$shared_pid"
  values="\"pause_ms\":$paused_ms,\"resume_ms\":$run_ms,\"freed\":$freed"
  why=
  [[ $run_status -eq 0 ]] || why="resume: $(sed -n 's/^gpushim: process [0-9]*: //p' "$at/resume.err" | tail -n 1)"
  [[ $row != native-full ]] || native_refusal[full]=$why
  [[ $row != *full || -z $why || $why != "${native_refusal[full]:-}" ]] || verdict=refused
  shared_over
  [[ $shared_status -eq 0 && $(tail -n 1 "$at/paused.$row.out") == "0 wrong" ]] ||
    why+="${why:+; }status $shared_status, $(tail -n 1 "$at/paused.$row.out")"
  [[ $freed -gt 0 ]] || why+="${why:+; }its memory stayed on the device"
  [[ -z $why || $verdict == refused ]] || verdict=DIFFERENT
  shared_row pause "$row" "$verdict" "$values" \
    "paused in $paused_ms ms, resumed in $run_ms, $freed MiB left meanwhile" "$why"
}

# The device is full when the paused process is to resume: it stays paused, until there is room.
shared_resume_late() {
  local paused=$shared_pid fill

  shared_fill 0
  fill=$shared_pid
  shared_pid=$paused
  shared_run full -- "$build/gpushim" resume --wait=1 "$paused"
  grep -q 'its GPU is full: it stays paused$' "$at/full.err" ||
    shared_row pause "$row" DIFFERENT "" "on a full device" "status $run_status: $(tail -n 1 "$at/full.err")"
  kill -9 "$fill"
  wait_for "$fill" 2>/dev/null
  shared_others=("$paused")
}

# What the library keeps idle goes back to the others, once it is old.
shared_idle() {
  local whole began verdict="as expected" took_ms

  shared_free
  whole=$((free_mib - context_mib - SHARED_LITTLE))
  shared_start idle LD_PRELOAD="$shim" GPUSHIM_POOL_TRIM=200ms -- \
    "$apps/group_linked" idle "$SHARED_MIB" "$at/over"
  shared_await idle '^took'
  began=${EPOCHREALTIME/./}
  while shared_free && [[ $free_mib -lt $whole && ${EPOCHREALTIME/./} -lt $((began + 20000000)) ]]; do
    sleep 0.1
  done
  took_ms=$(((${EPOCHREALTIME/./} - began) / 1000))
  [[ $free_mib -ge $whole ]] || verdict=DIFFERENT
  shared_over
  shared_row idle "after 200 ms" "$verdict" "\"free\":$free_mib,\"expected\":$whole,\"after_ms\":$took_ms" \
    "$free_mib MiB free $took_ms ms after $SHARED_MIB became idle, without it $whole"
}

# What a member of a group keeps idle, another gets on a full device; without the group it does not.
shared_group() {
  local alone together group i verdict="as expected" settings

  # Without a reserve, which would give the memory to anybody.
  settings=(LD_PRELOAD="$shim" GPUSHIM_POOL_TRIM=60s GPUSHIM_POOL_RESERVE=0
    GPUSHIM_REPORT_ON=exit)
  for group in "" "$at/ledger"; do
    shared_start idle "${settings[@]}" GPUSHIM_MEM_GROUP="$group" -- \
      "$apps/group_linked" idle "$SHARED_MIB" "$at/over"
    shared_await idle '^took'
    shared_fill 128
    for ((i = 0; i < 5; i++)); do # on a busy machine the other may answer too late
      shared_run take "${settings[@]}" GPUSHIM_MEM_GROUP="$group" -- "$apps/group_linked" take
      [[ -n $group && $(took_mib take) -lt $SHARED_MIB ]] || break
    done
    alone=${alone:-$(took_mib take)}
    shared_over
  done
  together=$(took_mib take)
  [[ $together -ge $((alone + SHARED_MIB - SHARED_LITTLE)) ]] || verdict=DIFFERENT
  shared_row group idle "$verdict" "\"alone\":$alone,\"group\":$together,\"ms\":$run_ms,\"tries\":$((i + 1))" \
    "$alone MiB without a group, with it $together in $run_ms ms"
}

# shared_spill WORD: what does not fit is on the host, with its contents, twice.
shared_spill() {
  local word=$1 native most verdict="as expected" why=

  shared_fill 256
  shared_run "spill.native" -- "$apps/group_linked" "$word"
  native=$(took_mib spill.native)
  shared_run spill LD_PRELOAD="$shim" GPUSHIM_SPILL="${SHARED_MIB}M" GPUSHIM_REPORT_ON=exit -- \
    "$apps/group_linked" "$word"
  most=$(took_mib spill)
  shared_over
  [[ $run_status -eq 0 && $most -ge $((native + SHARED_MIB - SHARED_LITTLE)) ]] || {
    verdict=DIFFERENT
    why="status $run_status: $(tail -n 1 "$at/spill.err")"
  }
  shared_row spill "$word" "$verdict" "\"native\":$native,\"spill\":$most,\"ms\":$run_ms" \
    "$native MiB natively, with GPUSHIM_SPILL $most in $run_ms ms" "$why"
}

# shared_trace VALUE: a recorded program on a device that leaves it little more than it needs.
shared_trace() {
  local value=$1 verdict="as expected" why=

  shared_run "trace.$value" LD_PRELOAD="$shim" GPUSHIM_POOL_VMM="$value" GPUSHIM_REPORT_ON=exit -- \
    "$build/replay/replay" --through device "$SHARED_TRACE"
  [[ $run_status -eq 0 ]] || {
    verdict=DIFFERENT
    why="status $run_status: $(grep -v '^==' "$at/trace.$value.err" | tail -n 1)"
  }
  shared_row short "VMM=$value" "$verdict" "\"native_ms\":$trace_ms,\"ms\":$run_ms" \
    "$run_ms ms, natively $trace_ms" "$why"
}

# Fills the device so far that the trace just fits natively; sets trace_ms. False: nothing was enough.
shared_narrow() {
  local mib

  for mib in 1060 1100 1150; do
    shared_fill "$mib"
    shared_run trace -- "$build/replay/replay" --through device "$SHARED_TRACE"
    trace_ms=$run_ms
    [[ $run_status -ne 0 ]] || return 0
    shared_over
  done
  shared_row short native DIFFERENT "" "it needs more than $mib MiB" "$(tail -n 1 "$at/trace.err")"
  return 1
}

# The context of a process, by what a second one finds free. Sets context_mib.
shared_context() {
  local alone

  shared_free
  alone=$free_mib
  shared_start context -- "$apps/group_linked" hold 2 "$at/over"
  shared_await context '^took'
  shared_free
  context_mib=$((alone - free_mib - 2))
  [[ $context_mib -ge 0 ]] || context_mib=0
  shared_over
}

# shared_short VALUE...: the same with each value of GPUSHIM_POOL_VMM.
shared_short() {
  local value

  shared_narrow || return 0
  for value in "$@"; do shared_trace "$value"; done
  shared_over
}

# Lines "QUESTION WORD...", the quick ones first; behind `more` those that the short form leaves out.
shared_list() {
  echo "pause native device"
  echo "pause waiting device"
  echo "pause native-full device"
  echo "pause full device"
  echo "idle"
  echo "group"
  echo "spill again"
  echo "short off auto on"
  echo "more"
  echo "pause native-managed managed"
  echo "pause native-graphs capture"
  echo "pause managed managed"
  echo "pause graphs capture"
  echo "pause lazy device GPUSHIM_FREE_SYNC=lazy"
  echo "pause vmm device GPUSHIM_POOL_VMM=on"
  echo "pause pool device GPUSHIM_ASYNC=pool"
  echo "spill stream"
  echo "spill rows"
}

shared_rows() {
  local line lines words

  mapfile -t lines < <(shared_list)
  shared_context
  for line in "${lines[@]}"; do
    read -ra words <<<"$line"
    if [[ ${words[0]} == more ]]; then
      ! is_short || break
    elif [[ $(part_left) -lt 10 ]]; then
      add_row shared "${words[0]}" "${words[1]:--}" "not run" "" "" "the time is over"
      left_out+=("$line")
    else
      shared_cut='' shared_lost=''
      "shared_${words[0]}" "${words[@]:1}"
      [[ ${#shared_others[@]} -eq 0 ]] || shared_over
    fi
  done
  [[ ${#left_out[@]} -eq 0 ]] || table_line shared "not run" "${#left_out[@]} rows: no time"
}

run_shared() {
  local program runs=0 bad=0 at=$work/shared.run shared_device=() shared_pid shared_status free_mib
  local context_mib trace_ms left_out=() whole=complete

  begin_part shared
  for program in "$shim" "$build/gpushim" "$build/replay/replay" "$apps/"{group,paused}_linked; do
    [[ ! -x $program ]] || continue
    add_row shared - - "not run" "" "" "${program##*/} was not built in $build"
    table_line shared programs "not run: ${program##*/} was not built (see the build log)"
    end_part shared "not run"
    return 1
  done
  [[ $simulated != true ]] || shared_device=(CUDASIM_SHARED="$at/device" CUDASIM_MEMORY=6G CUDASIM_CHECKPOINT=1)
  rm -rf "$at"
  mkdir -p "$at"
  shared_rows
  [[ ${#left_out[@]} -eq 0 ]] || whole="not all"
  end_part shared "$whole: $runs rows, $bad not as expected,"
  [[ $bad -eq 0 && $runs -gt 0 ]]
}
