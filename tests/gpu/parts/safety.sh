# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# safety.sh - memory that gets a new owner while work runs, and calls made while the device
# waits for the host: tests/apps/reuse.c and stalls.c, and programs that keep many streams
# busy, in each mode of a free. A call that comes back natively and waits with the library
# is a program that hangs.

readonly SAFETY_SECONDS=40 # one program

# mode_settings MODE: what the library is told.
mode_settings() {
  case $1 in
    waiting) echo "GPUSHIM_FREE_SYNC=native" ;;
    lazy) echo "GPUSHIM_FREE_SYNC=lazy" ;;
    pool) echo "GPUSHIM_ASYNC=pool" ;;
    vmm) echo "GPUSHIM_POOL_VMM=on" ;;
    lazy+pool) echo "GPUSHIM_FREE_SYNC=lazy GPUSHIM_ASYNC=pool" ;;
  esac
}

# Lines "program mode...". The programs beside the first two lean on no wait of a free. Steps
# that wait take their time: over the simulated device not in each mode.
safety_list() {
  echo "reuse_shared waiting lazy pool lazy+pool vmm"
  echo "reuse_linked lazy+pool"
  echo "reuse_static waiting lazy+pool"
  if [[ ${simulated:-true} == true ]]; then
    echo "stalls_shared waiting lazy+pool"
    echo "stalls_linked lazy"
  else
    echo "stalls_shared waiting lazy pool lazy+pool vmm"
    echo "stalls_linked waiting lazy"
  fi
  echo "threads_shared lazy+pool vmm"
  echo "pipeline_shared lazy+pool vmm"
  echo "capture_shared lazy+pool"
  echo "async_shared pool lazy+pool"
}

# Where a program lies; one that contains the simulated runtime is for that alone.
safety_path() {
  if [[ $1 == *_static && $simulated != true ]]; then
    echo "$apps_gpu/$1"
  else
    echo "$apps/$1"
  fi
}

# stalled_steps NATIVE SHIM MODE: steps that wait and must not: natively they come back, or
# they are frees that were told not to wait.
stalled_steps() {
  awk -F': ' -v lazy="$([[ $3 == lazy* ]] && echo 1)" '
    FILENAME == ARGV[1] { native[$2] = $3; next }
    $3 == "waits" && (native[$2] != "waits" || (lazy && $2 ~ /^free/)) {
      printf "%s%s", comma, $2
      comma = "; "
    }' "$1" "$2"
}

# judge_safety PROGRAM MODE NATIVE_STATUS AT: sets found, found_why.
judge_safety() {
  local stalled

  compare_runs "$4.native" "$3" "$4.$2" "$run_status"
  [[ $1 == stalls_* && $3 -eq 0 && $run_status -eq 0 ]] || return 0
  # Which calls wait is compared by itself: fewer is right as well.
  if [[ $(wc -l <"$4.native.out") -ne $(wc -l <"$4.$2.out") ]]; then
    found=DIFFERENT found_why="not the same steps"
    return
  fi
  found=same found_why=
  stalled=$(stalled_steps "$4.native.out" "$4.$2.out" "$2")
  [[ -z $stalled ]] || found=STALLS found_why=$stalled
}

# safety_run PROGRAM MODE SETTING...: leaves PROGRAM.MODE.out; sets run_status, run_ms.
safety_run() {
  local program=$1 mode=$2
  shift 2

  run_command "$work/safety.run/$program.$mode" "$(least "$SAFETY_SECONDS" "$(part_left)")" \
    "$@" -- "$(safety_path "$program")"
}

# safety_program PROGRAM MODE...: rows and one line; adds to bad, runs and left_out.
safety_program() {
  local program=$1 mode native_ms native_status at=$work/safety.run/$1 line= values settings
  local waiting=
  shift

  note "running $program: native $*"
  safety_run "$program" native
  native_ms=$run_ms native_status=$run_status
  if [[ -f $at.native.cut ]]; then
    add_row safety "$program" native "not run" "" "" \
      "the time for this part was over $native_ms ms after it began"
    left_out+=("$program")
    return
  elif [[ $native_status -ne 0 ]]; then
    add_row safety "$program" native "not run" "" "" \
      "fails without the library, with status $native_status: $(tail -n 1 "$at.native.err")"
    table_line safety "$program" "fails natively, with status $native_status"
    bad=$((bad + 1))
    return
  fi
  [[ $program != stalls_* ]] || waiting=$(grep -c ': waits$' "$at.native.out")
  line="native $native_ms${waiting:+/$waiting}"
  for mode in "$@"; do
    read -ra settings <<<"$(mode_settings "$mode")"
    safety_run "$program" "$mode" LD_PRELOAD="$shim" "${settings[@]}"
    judge_safety "$program" "$mode" "$native_status" "$at"
    runs=$((runs + 1))
    [[ $found == same ]] || bad=$((bad + 1))
    [[ $program != stalls_* ]] || waiting=$(grep -c ': waits$' "$at.$mode.out")
    printf -v values '"verdict":"%s","native_status":%d,"shim_status":%d,"native":%d,"shim":%d' \
      "$found" "$native_status" "$run_status" "$native_ms" "$run_ms"
    [[ -z $waiting ]] || values+=",\"steps_that_wait\":$waiting"
    add_row safety "$program" "$mode" "$(status_of "$found")" ms "$values" "$found_why"
    if [[ $found == same ]]; then
      line+="  $mode $run_ms${waiting:+/$waiting}"
    else
      line+="  $mode $found"
      table_line safety "$program" "$mode $found: $found_why"
    fi
  done
  table_line safety "$program" "$line"
}

run_safety() {
  local program modes runs=0 bad=0 left_out=()

  begin_part safety
  if [[ ! -f $shim ]]; then
    add_row safety - - "not run" "" "" "libgpushim.so was not built in $build"
    table_line safety programs "not run: libgpushim.so was not built (see the build log)"
    end_part safety "not run"
    return 1
  fi
  rm -rf "$work/safety.run"
  mkdir -p "$work/safety.run"
  while read -r program modes; do
    if [[ ! -x $(safety_path "$program") ]]; then
      add_row safety "$program" - "not run" "" "" "it was not built"
      left_out+=("$program")
    elif [[ $(part_left) -lt 5 ]]; then
      add_row safety "$program" - "not run" "" "" "the time is over"
      left_out+=("$program")
    else
      # shellcheck disable=SC2086 # the modes are words
      safety_program "$program" $modes
    fi
  done < <(safety_list)
  [[ ${#left_out[@]} -eq 0 ]] || table_line safety "not run" "${left_out[*]}: not built, or no time"
  end_part safety "complete: $runs runs, $bad not as native,"
  [[ $bad -eq 0 && $runs -gt 0 ]]
}
