# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# programs.sh - the programs of tests/apps in each way they were built, without and with the
# library: the same status, the same bytes, and how long.

readonly WAYS="shared static ptds linked dlsym proc"

declare -A run_path run_args native_times shim_times native_status shim_status verdict why

# Arguments for the programs that need some.
arguments_of() {
  case $1 in
    hitpair) echo 1000 ;;
    plugin) echo "$apps/plugin_shared.so" ;;
  esac
}

# not_for_here NAME WAY: why a program is not run, or nothing.
not_for_here() {
  case $1/$2 in
    weak/* | children/*) echo "its output says whether a library is preloaded" ;;
    ctor/static) [[ $simulated == true ]] || echo "contains the simulated runtime" ;;
    */static)
      [[ $simulated == true || -x $apps_gpu/$1_static ]] ||
        echo "configure with -DGPUSHIM_APPS_STATIC_CUDART=ON" ;;
  esac
}

# Whether a program is run in that way. Among all parts over the simulated device two ways are
# enough: the tests there are have it in each.
is_wanted() {
  [[ ${simulated:-false} != true || $chosen != "$PARTS" || $1 =~ ^(shared|linked|-)$ ]]
}

# Lines "name way" for each program that was built.
programs_built() {
  local file name way

  for file in "$apps"/*; do
    [[ -f $file && -x $file && $file != *.so ]] || continue
    name=${file##*/}
    [[ $name != reuse_* && $name != stalls_* ]] || continue # the safety part's
    way=${name##*_}
    if [[ $name == *_* && " $WAYS " == *" $way "* ]]; then
      ! is_wanted "$way" || echo "${name%_*} $way"
    else
      echo "$name -"
    fi
  done
}

# run_once ID native|shim PREFIX: leaves PREFIX.out, .err; sets run_status, run_ms.
run_once() {
  local id=$1 preload=()

  [[ $2 == native ]] || preload=(LD_PRELOAD="$shim")
  # shellcheck disable=SC2086 # the arguments are words
  run_command "$3" "$(least "$PROGRAM_SECONDS" "$(part_left)")" "${preload[@]}" -- \
    "${run_path[$id]}" ${run_args[$id]}
}

# What the two runs show; natives that differ among themselves prove nothing.
judge() {
  local id=$1 at=$work/run/$1

  compare_runs "$at.native" "${native_status[$id]}" "$at.shim" "${shim_status[$id]}"
  verdict[$id]=$found
  why[$id]=$found_why
  [[ $found == DIFFERENT ]] || return 0
  run_once "$id" native "$at.again"
  [[ $run_status -eq ${native_status[$id]} ]] && cmp -s "$at.native.out" "$at.again.out" &&
    return 0
  verdict[$id]=unsteady
  why[$id]="two native runs differ; ${why[$id]}"
}

first_run() {
  local id=$1 at=$work/run/$1

  run_once "$id" native "$at.native"
  native_status[$id]=$run_status
  native_times[$id]=$run_ms
  run_once "$id" shim "$at.shim"
  shim_status[$id]=$run_status
  shim_times[$id]=$run_ms
  judge "$id"
}

# One JSON row for a program in one way.
program_row() {
  local id=$1 name=${1%:*} way=${1#*:} values

  printf -v values '"verdict":"%s","native_status":%d,"shim_status":%d,' \
    "${verdict[$id]}" "${native_status[$id]}" "${shim_status[$id]}"
  printf -v values '%s"native":%d,"shim":%d,"runs":%d,"summary":"%s"' "$values" \
    "$(median "${native_times[$id]}")" "$(median "${shim_times[$id]}")" \
    "$(wc -w <<<"${native_times[$id]}")" "$(plain "$(summary_of "$work/run/$id.shim.err")")"
  add_row programs "$name" "$way" "$(status_of "${verdict[$id]}")" ms "$values" "${why[$id]:-}"
}

# The table's cell of one program that is the same in every way: how many ways those are, and
# native/shim, the median of all.
program_cell() {
  local name=$1 id natives= shims= status=
  shift

  for id in "$@"; do
    natives+=" $(median "${native_times[$id]}")"
    shims+=" $(median "${shim_times[$id]}")"
    [[ ${native_status[$id]} -eq 0 ]] || status="(${native_status[$id]})"
  done
  echo "$name $# $(median "$natives")/$(median "$shims")$status"
}

# Cells in columns, four a line, where other parts have the question as well.
program_lines() {
  awk -v mark="$mark" '
    { line = line sprintf("%-22s", $0) }
    NR % 4 == 0 { printf "%-10s%s\n", mark, line; line = "" }
    END { if (line) printf "%-10s%s\n", mark, line }' >>"$work/programs.table"
}

# Whether a program is run again for its times: a long one is measured by one run, and none
# is begun that may not end in time.
worth_again() {
  local both=$((${native_times[$1]%% *} + ${shim_times[$1]%% *}))

  [[ ${verdict[$1]} == same && $both -lt 6000 &&
    $(($(part_left) * 1000)) -gt $((2 * both + 3000)) ]]
}

run_programs() {
  local name way id reason round ids=() names=() of_name cells= bad=0 left_out=() skipped=()

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
  while read -r name way; do
    id=$name:$way
    reason=$(not_for_here "$name" "$way")
    if [[ -n $reason ]]; then
      add_row programs "$name" "$way" "not run" "" "" "$reason"
      skipped+=("$id")
      continue
    fi
    run_path[$id]=$apps/$name
    [[ $way == - ]] || run_path[$id]+=_$way
    [[ $way == static && $simulated != true ]] && run_path[$id]=$apps_gpu/${name}_static
    run_args[$id]=$(arguments_of "$name")
    if [[ $(part_left) -lt 5 ]]; then
      add_row programs "$name" "$way" "not run" "" "" "the time is over"
      left_out+=("$id")
      continue
    fi
    note "running $name${way:+ ${way#-}}"
    first_run "$id"
    ids+=("$id")
    [[ " ${names[*]-} " == *" $name "* ]] || names+=("$name")
  done < <(programs_built)
  # Two more rounds for the times, as far as the time goes: everything once comes first. A
  # simulated device's times are worth none.
  for round in 2 3; do
    [[ $simulated != true ]] || break
    for id in "${ids[@]}"; do
      worth_again "$id" || continue
      run_once "$id" native "$work/run/more"
      native_times[$id]+=" $run_ms"
      run_once "$id" shim "$work/run/more"
      shim_times[$id]+=" $run_ms"
    done
    note "round $round of the programs is over"
  done
  for name in "${names[@]}"; do
    of_name=()
    for id in "${ids[@]}"; do
      [[ ${id%:*} == "$name" ]] || continue
      program_row "$id"
      if [[ ${verdict[$id]} == same ]]; then of_name+=("$id"); else bad=$((bad + 1)); fi
    done
    [[ ${#of_name[@]} -eq 0 ]] || cells+=$(program_cell "$name" "${of_name[@]}")$'\n'
  done
  program_lines <<<"${cells%$'\n'}"
  for id in "${ids[@]}"; do
    [[ ${verdict[$id]} == same ]] || table_line programs "${id/:/ }" "${verdict[$id]}: ${why[$id]}"
  done
  [[ ${#skipped[@]} -eq 0 ]] ||
    table_line programs "not run" "${#skipped[@]}, the JSON says why: ${skipped[*]}"
  [[ ${#left_out[@]} -eq 0 ]] || table_line programs "no time for" "${left_out[*]}"
  end_part programs "complete: ${#ids[@]} runs, $bad not the same,"
  [[ $bad -eq 0 && ${#left_out[@]} -eq 0 && ${#ids[@]} -gt 0 ]]
}
