# shellcheck shell=bash disable=SC2154,SC2034  # what gpu-check sets; what the parts use
#
# compare.sh - one program, run without and with the library: for the parts that compare.

watched=() # a command that every program is run by

# run_command PREFIX SECONDS [VAR=value...] -- COMMAND...: in an environment of its own.
# Leaves PREFIX.out, .err, and PREFIX.cut if it was ended because the time for the part was
# over; sets run_status, run_ms.
run_command() {
  local prefix=$1 limit=$2 settings command began left
  shift 2

  [[ ! -e $prefix.cut ]] || rm -f "$prefix.cut"
  left=$(part_left)
  clean_env "${HOME:-/}" "$library_path" "${!CUDASIM_@}" "${!CUDA_VISIBLE_DEVICES@}" \
    "${!TMPDIR@}" "${!CUDA_PATH@}" "${!CUDA_HOME@}" "${!XLA_FLAGS@}" -- "$@"
  began=${EPOCHREALTIME/./}
  "${watched[@]}" timeout -k 5 "$limit" env -i "${settings[@]}" "${command[@]}" \
    >"$prefix.out" 2>"$prefix.err" </dev/null &
  wait_for $!
  run_status=$?
  run_ms=$(((${EPOCHREALTIME/./} - began + 500) / 1000))
  if [[ $run_status =~ ^(124|137)$ && $limit -ge $left &&
    $run_ms -ge $((limit * 1000 - 100)) ]]; then
    echo "$run_ms" >"$prefix.cut"
  fi
}

# compare_runs A STATUS B STATUS: what the runs that left A.out and B.out show, A's without
# the library. Sets found (same, DIFFERENT, timed out, no time, cannot run) and found_why.
compare_runs() {
  local cut not_there

  found=same found_why=
  for cut in "$1.cut" "$3.cut"; do
    [[ -f $cut ]] || continue
    found="no time"
    found_why="the time for this part was over $(<"$cut") ms after it began"
    return
  done
  if [[ $2 =~ ^(124|137)$ || $4 =~ ^(124|137)$ ]]; then
    found="timed out"
    found_why="status $2 native, $4 with the library"
  elif [[ $2 =~ ^(126|127)$ ]]; then
    found="cannot run"
    found_why=$(tail -n 1 "$1.err")
  elif not_there=$(grep -m 1 'from LD_PRELOAD cannot be preloaded' "$3.err"); then
    # ld.so only complains, and the program runs natively once more.
    found="cannot run"
    found_why="without the library: ${not_there#*: }"
  elif [[ $2 -ne $4 ]]; then
    found=DIFFERENT
    found_why="status $2 native, $4 with the library: $(grep -v '^==' "$3.err" | tail -n 1)"
  elif ! cmp -s "$1.out" "$3.out"; then
    found=DIFFERENT
    found_why="stdout: $(diff "$1.out" "$3.out" | grep '^[<>]' | head -n 2 | tr '\n' ' ')"
  elif [[ $2 -ne 0 ]]; then
    found_why="both end with $2: $(tail -n 1 "$1.err")"
  fi
}

# late_status LIMIT OWN: what a run is that was ended after LIMIT seconds and may take OWN by
# itself: where LIMIT is less, the part's end came first, and nothing is said of the run.
late_status() { if [[ $1 -lt $2 ]]; then echo "not run"; else echo "timed out"; fi; }

# late_reason LIMIT OWN
late_reason() {
  if [[ $1 -lt $2 ]]; then
    echo "the time for this part was over $1 s after it began"
  else
    echo "it was not over after $1 s"
  fi
}

summary_of() { sed -n 's/^==[0-9]*== SUMMARY: gpushim: //p' "$1" | tail -n 1; }

# median "VALUE..."
median() {
  tr ' ' '\n' <<<"$1" | grep . | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# status_of VERDICT: that of a row.
status_of() {
  case $1 in
    "timed out") echo "timed out" ;;
    "no time" | "cannot run" | "fails natively") echo "not run" ;;
    *) echo measured ;;
  esac
}
