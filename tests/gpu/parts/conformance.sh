# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# conformance.sh - the suite of documented behaviour; a case that ends it or ruins its context
# is a row, and the suite goes on behind it.

# The list needs some driver to start, and asks it nothing.
conformance_cases() {
  LD_LIBRARY_PATH=$sim "$conformance" --list 2>/dev/null | awk '{ print $1 }'
}

readonly FRUITLESS_MOST=5 # runs from the start on that end before their first case does

# conformance_rows JSON TEXT: a row for each case; what a failed one said is its note.
conformance_rows() {
  SIMULATED=$simulated awk '
    FILENAME == ARGV[1] {
      if ($1 == "FAILED") {
        text = $0
        sub(/^FAILED [^ ]* */, "", text)
        gsub(/["\\]/, "", text)
        name = $2
        sub(/:$/, "", name)
        said[name] = said[name] (said[name] ? "; " : "") text
      }
      next
    }
    match($0, /^ *\{"case": "[^"]*", "outcome": "[^"]*", /) {
      split($0, part, "\"")
      name = part[4]
      outcome = part[8]
      rest = substr($0, RLENGTH + 1)
      sub(/\},?$/, "", rest)
      topic = name
      sub(/\..*/, "", topic)
      sub(/^[^.]*\./, "", name)
      status = outcome == "skipped" ? "not run" : outcome == "failed" ? "failed" : "measured"
      printf "{\"part\":\"conformance\",\"question\":\"%s\",\"row\":\"%s\",", topic, name
      printf "\"status\":\"%s\",\"unit\":\"\",", status
      printf "\"values\":{\"outcome\":\"%s\",%s},", outcome, rest
      printf "\"note\":\"%s\",", substr(said[part[4]], 1, 400)
      printf "\"simulated\":%s}\n", ENVIRON["SIMULATED"]
    }' "$2" "$1"
}

# case_after NAME: the next one; the first for no name.
case_after() {
  conformance_cases | awk -v last="$1" '
    last == "" || seen { print; exit }
    $1 == last { seen = 1 }'
}

# What a case, and a call in it that must come back, are given: one that hangs must cost the
# others little. The simulated device may be on a slow machine.
case_limits() {
  if [[ $simulated == true ]]; then
    echo --case-seconds 60 --returns-ms 30000
  else
    echo --case-seconds 12 --returns-ms 3000
  fi
}

cases_run=no

# What the run has written so far becomes rows.
take_cases() {
  local at=$work/conformance

  cases_run=no
  conformance_rows "$at.json" "$at.out" | stamped >>"$at.rows"
}

# Rows of the run that is under way, for a result that is kept in its midst.
cases_so_far() {
  [[ $cases_run == no ]] || conformance_rows "$work/conformance.json" "$work/conformance.out" | stamped
}

# run_cases AFTER SECONDS: the cases from behind one on, until one does not come back. Sets
# conformance_status and conformance_last, the last case that has a row.
run_cases() {
  local limit=$2 at=$work/conformance

  : >"$at.json"
  cases_run=yes
  # shellcheck disable=SC2046 # the options are words
  env -u LD_PRELOAD LD_LIBRARY_PATH="$library_path" timeout -k 5 "$limit" \
    "$conformance" --json "$at.json" --after "$1" $(case_limits) \
    >"$at.out" 2>"$at.err" </dev/null &
  wait_for $!
  conformance_status=$?
  take_cases
  conformance_last=$(sed -n 's/^ *{"case": "\([^"]*\)".*/\1/p' "$at.json" | tail -n 1)
}

# conformance_lost CASE STATUS WHY: a case that ended the run.
conformance_lost() {
  add_row conformance "${1%%.*}" "${1#*.}" "$2" "" "\"outcome\":\"failed\"" "$3"
}

# conformance_no_start NAME: nothing is known of the cases from here on, nor will be.
conformance_no_start() {
  local why

  why="the first $FRUITLESS_MOST runs ended in their first case, the last with status"
  why+=" $conformance_status: $(tail -n 1 "$work/conformance.err")"
  add_row conformance "${1%%.*}" "${1#*.}" failed "" "\"outcome\":\"not run\"" "$why"
  table_line conformance cases "not all: given up at $1"
  conformance_whole=no
}

# conformance_no_time NAME WHY: from here on the time for the part was over.
conformance_no_time() {
  add_row conformance "${1%%.*}" "${1#*.}" "not run" "" "\"outcome\":\"not run\"" "$2"
  table_line conformance cases "not all: the time was over, at $1"
  conformance_whole=no
}

# count_of OUTCOME
count_of() { grep -c "\"values\":{\"outcome\":\"$1\"" "$work/conformance.rows"; }

# The names of the failed cases, as many lines as they take.
conformance_table() {
  local passed failed skipped name

  passed=$(count_of passed) failed=$(count_of failed) skipped=$(count_of skipped)
  table_line conformance cases "$passed passed, $failed failed, $skipped skipped"
  grep '"values":{"outcome":"failed"' "$work/conformance.rows" |
    sed 's/.*"question":"\([^"]*\)","row":"\([^"]*\)".*/\1.\2/' | tr '\n' ' ' |
    fold -s -w 70 | while read -r name || [[ -n $name ]]; do
    table_line conformance failed "$name"
  done
}

# Runs the suite again and again, each time behind the case that ended it. Sets
# conformance_whole to "no" if the time did not allow all, or it does not run at all.
run_all_cases() {
  local limit last='' next comes=no fruitless=0

  conformance_whole=yes conformance_status=0
  while :; do
    next=$(case_after "$last")
    [[ -n $next || -z $last ]] || return
    limit=$(part_left)
    if [[ $limit -lt 3 ]]; then
      conformance_no_time "${next:-all}" "the time for this part is over"
      return
    fi
    run_cases "$last" "$limit"
    last=${conformance_last:-$last}
    [[ -z $conformance_last ]] || comes=yes
    fruitless=$((fruitless + 1))
    case $conformance_status in
      0 | 1 | 2 | 3) return ;;
      5) continue ;; # the last case that has a row has ruined the context
    esac
    next=$(case_after "$last")
    [[ -n $next ]] || return
    if [[ $conformance_status -eq 124 || $(part_left) -le 1 ]]; then
      conformance_no_time "$next" "the time for this part was over while it ran"
      return
    elif [[ $conformance_status -eq 4 ]]; then
      conformance_lost "$next" "timed out" "it did not come back"
    else
      conformance_lost "$next" failed \
        "ended with status $conformance_status: $(tail -n 1 "$work/conformance.err")"
    fi
    last=$next
    if [[ $comes == no && $fruitless -ge $FRUITLESS_MOST ]]; then
      next=$(case_after "$last")
      [[ -z $next ]] || conformance_no_start "$next"
      return
    fi
  done
}

run_conformance() {
  local state=complete

  begin_part conformance
  if [[ ! -x $conformance ]]; then
    add_row conformance - - "not run" "" "" "the suite was not built in $build"
    table_line conformance cases "not run: the suite was not built (see the build log, or --fresh)"
    end_part conformance "not run"
    return 1
  fi
  note "running the conformance suite"
  run_all_cases
  if [[ $conformance_status -eq 2 || $conformance_status -eq 3 ]]; then
    add_row conformance - - failed "" "" "$(tail -n 1 "$work/conformance.err")"
    table_line conformance cases "failed: $(tail -n 1 "$work/conformance.out")"
    conformance_whole=no
  fi
  conformance_table
  [[ $conformance_whole == yes ]] || state="not all"
  end_part conformance "$state: $(count_of failed) failed,"
  [[ $conformance_whole == yes && $(count_of failed) -eq 0 && $(count_of passed) -gt 0 ]]
}

# What the run that was interrupted has found.
interrupted_conformance() {
  [[ $cases_run == yes ]] || return 0
  take_cases
  conformance_table
}
