# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# programs.sh - the programs of tests/apps, as programs.list names them, without and with the
# library: the same status, which is the one the list expects, the same bytes, and how long.
#
# First everything once, several at a time: what each program does. Then, on a GPU, the same
# alone, as far as the time goes: how long that takes. An id is NAME:WAY:MODE, where the mode
# is the arguments.

readonly WAYS="shared linked - static proc dlsym ptds" # in which order they are run
readonly BESIDE_MOST=8                                 # programs at a time
readonly RUN_SECONDS=15                                # one program on a GPU
readonly TIMED_MS=6000                                 # longer ones are not timed
readonly TABLE_SECONDS=10                              # for the table and the rows
programs_list=${GPU_CHECK_PROGRAMS:-tests/gpu/parts/programs.list}

declare -A run_path run_mode run_words run_settings expected_status
declare -A native_status shim_status beside_native beside_shim alone_native alone_shim
declare -A verdict why

# ---- which programs ----------------------------------------------------------------------

# Among all parts over the simulated device one way is enough: the tests there are have it in
# each.
is_short() { [[ ${simulated:-false} == true && $chosen == "$PARTS" ]]; }

# built_path NAME WAY: sets `path`, where that program lies, over the simulated runtime if it has any.
built_path() { if [[ $2 == - ]]; then path=$apps/$1; else path=$apps/$1_$2; fi; }

# Lines of the list without comments.
list_lines() { sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' "$programs_list"; }

# ways_in_turn NAME WAYS: sets `ways_in_turn` to those of a line of the list. `all`: those it was built in.
ways_in_turn() {
  local way path

  ways_in_turn=
  for way in $WAYS; do
    if [[ $2 == all ]]; then
      built_path "$1" "$way"
      [[ $way != - && -x $path ]] || continue
    else
      [[ ,$2, == *",$way,"* ]] || continue
    fi
    ways_in_turn+=" $way"
  done
}

# Lines "TURN NAME WAY STATUS WHERE WORD...": the first way of each line of the list, then the
# second of each, so that every program runs at least once where the time is short.
programs_planned() {
  local verb name ways status where words way turn ways_in_turn

  while read -r verb name ways status where words; do
    [[ $verb == run ]] || continue
    turn=0
    ways_in_turn "$name" "$ways"
    for way in $ways_in_turn; do
      [[ $turn -eq 0 ]] || ! is_short || break
      turn=$((turn + 1))
      echo "$turn $name $way $status $where $words"
    done
  done < <(list_lines) | sort -s -n -k1,1
}

# Lines "NAME WAY" of what lies in the folder of programs; libraries are none.
programs_there() {
  local file name way

  for file in "$apps"/*; do
    [[ -f $file && -x $file && $file != *.so && $file != *.so.* ]] || continue
    name=${file##*/}
    way=${name##*_}
    if [[ $name == *_* && " $WAYS " == *" $way "* ]]; then
      echo "${name%_*} $way"
    else
      echo "$name -"
    fi
  done
}

# Lines "NAME WAY" that the list runs, or leaves out with the reason.
programs_listed() {
  local verb name ways rest way

  while read -r verb name ways rest; do
    [[ $verb =~ ^(run|leave)$ && -n $rest ]] || continue
    [[ $ways != all ]] || ways=${WAYS// /,}
    for way in ${ways//,/ }; do
      echo "$name $way"
    done
  done < <(list_lines)
}

# Programs that were built and that the list does not know.
programs_forgotten() {
  comm -23 <(programs_there | sort -u) <(programs_listed | sort -u)
}

# What `gpu-check --list` shows: lines "NAME WAY" of what is run.
programs_built() { programs_planned | awk '!seen[$2, $3]++ { print $2, $3 }'; }

# not_for_here NAME WAY WHERE: why a program is not run, or nothing.
not_for_here() {
  local path

  built_path "$1" "$2"
  if [[ ! -x $path ]]; then
    echo "it was not built"
  elif [[ $simulated == true ]]; then
    return
  elif [[ $3 == simulated* ]]; then
    echo "for the simulated device alone: programs.list says why"
  elif [[ $2 == static && ! -d $apps_gpu ]]; then
    echo "contains the simulated runtime: configure with -DGPUSHIM_APPS_STATIC_CUDART=ON"
  elif [[ $2 == static && ! -x $apps_gpu/$1_static ]]; then
    echo "contains the simulated runtime; not built over libcudart_static.a: see the build log"
  fi
}

# take_words ID WORD...: the settings and arguments of a line of the list.
take_words() {
  local id=$1 word
  shift

  run_settings[$id]='' run_words[$id]=''
  for word in "$@"; do
    if [[ -z ${run_words[$id]} && $word =~ ^[A-Z_]+= ]]; then
      run_settings[$id]+=" $word"
    else
      run_words[$id]+=" $word"
    fi
  done
}

# mode_of WORD...: the arguments as they stand in a row.
mode_of() {
  local word mode=

  for word in "$@"; do
    [[ $word =~ ^([A-Z_]+=|\{file\}$) ]] || mode+=" ${word#\{*\}/}"
  done
  echo "${mode# }"
}

# plan_program TURN NAME WAY STATUS WHERE WORD...: adds its id to those that are run, or a
# row that says why it is not.
plan_program() {
  local turn=$1 name=$2 way=$3 status=$4 where=$5 mode id reason path
  shift 5

  mode=$(mode_of "$@")
  id=${mode//\//-}
  id=$name:$way:${id// /_}
  run_mode[$id]=$mode
  reason=$(not_for_here "$name" "$way" "$where")
  if [[ -n $reason ]]; then
    row_not_run "$id" "$reason"
    skipped+=("$id")
    return
  fi
  built_path "$name" "$way"
  run_path[$id]=$path
  [[ $way != static || $simulated == true ]] || run_path[$id]=$apps_gpu/${name}_static
  expected_status[$id]=$status
  take_words "$id" "$@"
  [[ $where == *,alone ]] || beside_of[turn]+=" $id"
  [[ $where != *,alone ]] || alone_of[turn]+=" $id"
  turns=$turn
}

# ---- running -----------------------------------------------------------------------------

# run_once ID native|shim PREFIX: leaves PREFIX.out, .err; sets run_status, run_ms. What the
# program wrote to {file} belongs to its output.
run_once() {
  local id=$1 words=${run_words[$1]} settings limit=$RUN_SECONDS

  [[ $simulated != true ]] || limit=$PROGRAM_SECONDS
  words=${words//\{apps\}/$apps}
  words=${words//\{build\}/$build}
  words=${words//\{file\}/$3.data}
  read -ra settings <<<"${run_settings[$id]}"
  [[ $2 == native ]] || settings+=(LD_PRELOAD="$shim")
  [[ ! -e $3.data ]] || rm -f "$3.data"
  # Bash has a word on stderr for each that a signal ended.
  # shellcheck disable=SC2086 # the arguments are words
  run_command "$3" "$(least "$limit" "$(part_left)")" "${settings[@]}" -- \
    "${run_path[$id]}" $words 2>/dev/null
  [[ ! -f $3.data ]] || cat "$3.data" >>"$3.out"
}

# both_runs ID: in a process of its own; leaves ID.row, a row of what the two runs show, and
# ID.found, which read_found reads.
both_runs() {
  local id=$1 at=$work/run/$1

  trap '[[ -z $child ]] || kill "$child" 2>/dev/null; exit 143' TERM
  run_once "$id" native "$at.native"
  native_status[$id]=$run_status beside_native[$id]=$run_ms
  run_once "$id" shim "$at.shim"
  shim_status[$id]=$run_status beside_shim[$id]=$run_ms
  judge "$id"
  program_row "$id" >"$at.new"
  mv "$at.new" "$at.row"
  printf '%s\n' "${native_status[$id]} ${beside_native[$id]} ${shim_status[$id]} ${beside_shim[$id]}" \
    "${verdict[$id]}" "${why[$id]}" >"$at.new"
  mv "$at.new" "$at.found"
}

# batch MOST ID...: MOST programs at a time, none begun that cannot end in time.
batch() {
  local most=$1 id running=0
  shift

  trap 'jobs -p | xargs -r kill 2>/dev/null; exit 143' TERM
  for id in "$@"; do
    if [[ $running -ge $most ]]; then
      wait -n
      running=$((running - 1))
    fi
    [[ $(part_left) -ge 5 ]] || break
    both_runs "$id" &
    running=$((running + 1))
  done
  wait
}

# run_batch MOST ID...: a signal to us ends all of it.
run_batch() {
  batch "$@" &
  wait_for $!
}

# How many programs run at a time.
beside_most() { least "$BESIDE_MOST" "$(nproc 2>/dev/null || echo 1)"; }

# ---- judging -----------------------------------------------------------------------------

# judge ID: what its runs show. Equal ends that the list does not expect show nothing.
judge() {
  local id=$1 at=$work/run/$1

  compare_runs "$at.native" "${native_status[$id]}" "$at.shim" "${shim_status[$id]}"
  if [[ $found == same ]]; then
    if [[ ${native_status[$id]} -ne ${expected_status[$id]} ]]; then
      found="wrong status"
      found_why="both end with ${native_status[$id]}, not ${expected_status[$id]}: "
      found_why+=$(tail -n 1 "$at.native.err")
    else
      found_why=
    fi
  fi
  verdict[$id]=$found
  why[$id]=$found_why
}

# read_found ID: takes over what both_runs left. False where it was not run.
read_found() {
  local id=$1 figures found_verdict found_reason

  [[ -f $work/run/$id.found ]] || return
  { IFS= read -r figures && IFS= read -r found_verdict && IFS= read -r found_reason; } \
    <"$work/run/$id.found" || return
  read -r "native_status[$id]" "beside_native[$id]" "shim_status[$id]" "beside_shim[$id]" \
    <<<"$figures"
  verdict[$id]=$found_verdict
  why[$id]=$found_reason
}

# Natives that differ among themselves prove nothing.
look_for_unsteady() {
  local id=$1 at=$work/run/$1

  run_once "$id" native "$at.again"
  [[ $run_status -eq ${native_status[$id]} ]] && cmp -s "$at.native.out" "$at.again.out" &&
    return
  verdict[$id]=unsteady
  why[$id]="two native runs differ; ${why[$id]}"
}

# settle ID: what runs show that differ beside others, or end otherwise than the list expects, is
# what they show alone.
settle() {
  local id=$1

  [[ ${verdict[$id]} =~ ^(DIFFERENT|"wrong status")$ && $(part_left) -ge 5 ]] || return 0
  run_batch 1 "$id"
  read_found "$id"
  [[ ${verdict[$id]} != DIFFERENT || $(part_left) -lt 5 ]] || look_for_unsteady "$id"
}

# ---- rows --------------------------------------------------------------------------------

# row_name ID: its way and mode.
row_name() {
  local way=${1#*:}

  echo "${way%%:*}${run_mode[$1]:+ ${run_mode[$1]}}"
}

row_not_run() { add_row programs "${1%%:*}" "$(row_name "$1")" "not run" "" "" "$2"; }

# times_of ID native|shim: alone, where that was measured.
times_of() {
  local -n alone=alone_$2 beside=beside_$2

  echo "${alone[$1]:-${beside[$1]}}"
}

# middle "VALUE...": the median; most are one value.
middle() { if [[ $1 == *" "* ]]; then median "$1"; else echo "$1"; fi; }

# times_json ID: the middle of its times, and of how many runs alone; 0: it ran beside others.
times_json() {
  local alone

  read -ra alone <<<"${alone_native[$1]:-}"
  printf '"native":%d,"shim":%d,"runs":%d' "$(middle "$(times_of "$1" native)")" \
    "$(middle "$(times_of "$1" shim)")" "${#alone[@]}"
}

# program_row ID: one JSON row for a program in one way and mode.
program_row() {
  local id=$1 values

  printf -v values '"verdict":"%s","native_status":%d,"shim_status":%d,%s,"summary":"%s"' \
    "${verdict[$id]}" "${native_status[$id]}" "${shim_status[$id]}" "$(times_json "$id")" \
    "$(plain "$(summary_of "$work/run/$id.shim.err")")"
  row_of programs "${id%%:*}" "$(row_name "$id")" "$(status_of "${verdict[$id]}")" ms \
    "$values" "${why[$id]:-}" | stamped
}

# add_program_row ID: the row that both_runs left, unless its verdict was changed since.
add_program_row() {
  if [[ ${verdict[$1]} == unsteady ]]; then
    (program_row "$1") >>"$work/programs.rows"
  else
    cat "$work/run/$1.row" >>"$work/programs.rows"
  fi
}

# Lines "KEY TAB TIMES" of what was measured alone so far.
times_alone() {
  local id

  for id in "${ids[@]}"; do
    [[ -z ${alone_native[$id]:-} || -z ${alone_shim[$id]:-} ]] ||
      printf '"question":"%s","row":"%s",\t%s\n' "${id%%:*}" "$(row_name "$id")" \
        "$(times_json "$id")"
  done
}

# retimed ROWS: these rows, with the times that were measured alone so far.
retimed() {
  awk -F'\t' '
    FILENAME == ARGV[1] { times[$1] = $2; next } # which may be empty
    match($0, /"question":"[^"]*","row":"[^"]*",/) {
      key = substr($0, RSTART, RLENGTH)
      if (key in times) sub(/"native":[0-9]+,"shim":[0-9]+,"runs":[0-9]+/, times[key])
    }
    { print }' <(times_alone) "$1"
}

# Rows that are there get the times that were measured alone, all in one step.
retime_rows() {
  (retimed "$work/programs.rows") >"$work/run/rows" && mv "$work/run/rows" "$work/programs.rows"
}

# ---- the table ---------------------------------------------------------------------------

# The cell of one program: how many runs are the same, and native/shim, the median of all;
# ~ where none was alone; the status where all end with the same one that is not 0.
program_cell() {
  local name=$1 id natives='' shims='' about='~' statuses
  shift

  for id in "$@"; do
    [[ -z ${alone_native[$id]:-} ]] || about=
  done
  for id in "$@"; do
    [[ -n $about || -n ${alone_native[$id]:-} ]] || continue
    natives+=" $(middle "$(times_of "$id" native)")"
    shims+=" $(middle "$(times_of "$id" shim)")"
  done
  statuses=$(for id in "$@"; do echo "${native_status[$id]}"; done | sort -u)
  [[ $statuses =~ ^[1-9][0-9]*$ ]] && statuses="($statuses)" || statuses=
  echo "$name $# $about$(median "$natives")/$(median "$shims")$statuses"
}

# Cells in columns, four a line at most, where other parts have the question as well.
program_lines() {
  awk -v mark="$mark" '
    function flush() { if (line) printf "%-10s%s\n", mark, line; line = "" }
    length(line) + length($0) > 88 { flush() }
    { line = line $0 " "; while (length(line) % 22) line = line " " }
    END { flush() }'
}

# The lines of all programs: what is the same in cells, what is not in a line of its own.
programs_table() {
  local name id of_name cells=

  for name in $(printf '%s\n' "${ids[@]%%:*}" | sort -u); do
    of_name=()
    for id in "${ids[@]}"; do
      [[ ${id%%:*} != "$name" || ${verdict[$id]} != same ]] || of_name+=("$id")
    done
    [[ ${#of_name[@]} -eq 0 ]] || cells+=$(program_cell "$name" "${of_name[@]}")$'\n'
  done
  [[ -z $cells ]] || program_lines <<<"${cells%$'\n'}"
  for id in "${ids[@]}"; do
    [[ ${verdict[$id]} == same ]] ||
      line_of "${id%%:*} $(row_name "$id")" " ${verdict[$id]}: ${why[$id]}"
  done
}

# ---- what was found so far ---------------------------------------------------------------

programs_run=no # whether programs run now

# All rows, for a result that is kept in the midst: with the times so far, and with those of runs
# that are not settled.
programs_rows_now() {
  local left=("$work"/run/*.row)

  if [[ $programs_run == no ]]; then
    cat "$work/programs.rows"
    return
  fi
  retimed "$work/programs.rows"
  [[ ! -f ${left[0]} ]] || awk '
    match($0, /"question":"[^"]*","row":"[^"]*",/) {
      key = substr($0, RSTART, RLENGTH)
      if (FILENAME == ARGV[1]) there[key] = 1
      else if (!(key in there)) {
        if (/"verdict":"(DIFFERENT|wrong status)"/) sub(/"note":"/, "&not settled yet: ")
        print
      }
    }' "$work/programs.rows" "${left[@]}"
}

# The lines of all programs, from the same. Called in a process of its own: what is not settled yet
# must not take the place of what settle is about to find.
programs_table_now() {
  [[ $programs_run == yes ]] || return 0
  local id turn ids=("${ids[@]}")
  local -A there=()

  for id in "${ids[@]}"; do
    there[$id]=yes
  done
  for ((turn = 1; turn <= turns; turn++)); do
    for id in ${beside_of[turn]:-} ${alone_of[turn]:-}; do
      [[ -n ${there[$id]:-} ]] || ! read_found "$id" || ids+=("$id")
    done
  done
  [[ ${#ids[@]} -eq 0 ]] || programs_table
}

# What the part that was interrupted has found.
interrupted_programs() {
  [[ $programs_run == yes ]] || return 0
  (programs_table_now) >>"$work/programs.table"
  programs_rows_now >"$work/run/rows" && mv "$work/run/rows" "$work/programs.rows"
  programs_run=no
}

# ---- the part ----------------------------------------------------------------------------

# Programs that the list does not know have a row, and fail the part.
tell_forgotten() {
  local name way

  while read -r name way; do
    run_mode[$name:$way:]=
    row_not_run "$name:$way:" "neither run nor left out by programs.list"
    forgotten+=("$name $way")
  done < <(programs_forgotten)
}

plan_all() {
  local words

  while read -ra words; do
    plan_program "${words[@]}"
  done < <(programs_planned)
}

# run_turn TURN: those that go beside others, then those that want the device for themselves.
run_turn() {
  local id beside alone

  read -ra beside <<<"${beside_of[$1]:-}"
  read -ra alone <<<"${alone_of[$1]:-}"
  note "running ${#beside[@]} programs, $(beside_most) at a time, and ${#alone[@]} alone"
  run_batch "$(beside_most)" "${beside[@]}"
  run_batch 1 "${alone[@]}"
  for id in "${beside[@]}" "${alone[@]}"; do
    if read_found "$id"; then
      settle "$id"
      add_program_row "$id"
      ids+=("$id")
      [[ ${verdict[$id]} == same ]] || bad=$((bad + 1))
    else
      row_not_run "$id" "the time is over"
      left_out+=("$id")
    fi
  done
}

# worth_timing ID: whether it is run for its times: a long one is not, and none is begun that
# may not end in time.
worth_timing() {
  local both=$((${beside_native[$1]} + ${beside_shim[$1]}))

  [[ ${verdict[$1]} == same && $both -lt $TIMED_MS &&
    $((($(part_left) - TABLE_SECONDS) * 1000)) -gt $((2 * both)) ]]
}

# The ids, the first one of each program before all others; nothing where nothing ran.
ids_to_time() {
  [[ ${#ids[@]} -gt 0 ]] || return 0
  printf '%s\n' "${ids[@]}" |
    awk -F: '!seen[$1]++ { print; next } { rest = rest $0 "\n" } END { printf "%s", rest }'
}

# Three rounds alone for the times, as far as the time goes.
time_alone() {
  local id round native_ms in_turn

  mapfile -t in_turn < <(ids_to_time)
  for round in 1 2 3; do
    for id in "${in_turn[@]}"; do
      worth_timing "$id" || continue
      run_once "$id" native "$work/run/more"
      native_ms=$run_ms
      run_once "$id" shim "$work/run/more"
      alone_native[$id]+="${alone_native[$id]:+ }$native_ms"
      alone_shim[$id]+="${alone_shim[$id]:+ }$run_ms"
    done
    note "round $round of the programs' times is over"
  done
  retime_rows
}

run_programs() {
  local turn turns=0 bad=0 ids=() skipped=() left_out=() forgotten=() beside_of=() alone_of=()

  begin_part programs
  if [[ ! -f $shim ]]; then
    add_row programs - - "not run" "" "" "libgpushim.so was not built in $build"
    table_line programs programs "not run: libgpushim.so was not built (see the build log)"
    end_part programs "not run"
    return 1
  fi
  # A simulated device's memory is this machine's: who fills it need not fill more.
  [[ $simulated != true ]] || export CUDASIM_MEMORY=${CUDASIM_MEMORY:-512M}
  rm -rf "$work/run"
  mkdir -p "$work/run"
  tell_forgotten
  plan_all
  programs_run=yes
  for ((turn = 1; turn <= turns; turn++)); do
    run_turn "$turn"
  done
  # A simulated device's times are worth none.
  [[ $simulated == true ]] || time_alone
  (programs_table) >"$work/run/table"
  programs_run=no
  cat "$work/run/table" >>"$work/programs.table"
  [[ ${#skipped[@]} -eq 0 ]] ||
    table_line programs "not run" "${#skipped[@]}, the JSON says why: ${skipped[*]}"
  [[ ${#left_out[@]} -eq 0 ]] || table_line programs "no time for" "${left_out[*]}"
  [[ ${#forgotten[@]} -eq 0 ]] || table_line programs "in no list" "${forgotten[*]}"
  end_part programs "complete: ${#ids[@]} runs, $bad not the same,"
  [[ $bad -eq 0 && ${#left_out[@]} -eq 0 && ${#forgotten[@]} -eq 0 && ${#ids[@]} -gt 0 ]]
}
