# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# probe.sh - the questions of gpu_probe, each in a process and with a limit of its own. Those
# about calls that the library answers itself are asked once more with it preloaded.
readonly PROBE_PAIRED="free_idle queries"

probe_questions() { "$probe" --list; }

# no_answer QUESTION STATUS WHY
no_answer() {
  add_row probe "$1" - "$2" "" "" "$3"
  table_line probe "$1" "$2: $3"
}

# ask QUESTION LIMIT OWN [with]: in a process of its own, which has OWN seconds unless the part
# ends before; whatever it wrote before it ended is kept. `with`: the library is preloaded, and
# the names of the rows say so.
ask() {
  local question=$1 limit=$2 own=$3 way=${4:-} out=$work/question.out err=$work/question.err status

  env -u LD_PRELOAD LD_LIBRARY_PATH="$library_path" timeout -k 5 "$limit" \
    env ${way:+LD_PRELOAD="$shim"} "$probe" "$question" ${way:+"$way "} \
    >"$out" 2>"$err" </dev/null &
  wait_for $!
  status=$?
  grep '^{.*}$' "$out" | stamped >>"$work/probe.rows"
  grep -v '^{' "$out" >>"$work/probe.table"
  case $status in
    0 | 1 | 4) ;; # answered; or a row says what failed, or that it took too long
    124 | 137) no_answer "$question" "$(late_status "$limit" "$own")" \
      "$(late_reason "$limit" "$own")" ;;
    *) no_answer "$question" failed "ended with status $status: $(tail -n 1 "$err")" ;;
  esac
  [[ $status -eq 0 ]]
}

run_probe() {
  local question seconds failed=0 limit own

  begin_part probe
  while read -r question seconds _; do
    own=$((seconds + 10))
    limit=$(least "$own" "$(part_left)")
    if [[ $limit -lt 3 ]]; then
      no_answer "$question" "not run" "the time for this part is over"
      failed=$((failed + 1))
      continue
    fi
    note "asking $question"
    ask "$question" "$limit" "$own" || failed=$((failed + 1))
    [[ " $PROBE_PAIRED " != *" $question "* || ! -e $shim ]] ||
      ask "$question" "$limit" "$own" with || failed=$((failed + 1))
  done < <(probe_questions)
  end_part probe "complete: $failed without an answer,"
  [[ $failed -eq 0 ]]
}
