# shellcheck shell=bash disable=SC2154,SC2034  # what gpu-check sets: build, simulated ...; and what it reads: watched
#
# real.sh - real programs, without and with the library: output, time and peak memory. The
# scripts of tests/real, each in its ways, and whatever lies prebuilt in .samples/.
#
# A script says what it needs in lines of its own:
#   # real: needs MODULE...        Python modules; without one of them it is not run
#   # real: nvidia                 brings NVIDIA's runtime: not for the simulated device
#   # real: cudart                 finds the runtime by LD_LIBRARY_PATH, as test programs do
#   # real: way NAME [VAR=value...]  one way to run it, with these variables
#   # real: trace NAME             the way that part traces records
# and prints `real: MILLISECONDS ms` to standard error: the time of its own work.
#
# Of each program the first run is not measured: it reads the program from the disk. It has the
# library with GPUSHIM_FREE_SYNC=verify: an idle proof violated there is a row. Then each
# way runs natively and with the library; when all have, each with the library and natively,
# as far as the time goes, so that neither is always the later one.

readonly REAL_SECONDS=60                       # one program
readonly REAL_WARM=${GPU_CHECK_REAL_WARM:-100} # its first run
# The most wanted first; scripts that do not stand here come behind them.
readonly REAL_ORDER="torch_train torch_infer cupy_arrays jax_steps torch_graph torch_workers
  arrays_ctypes"
real_scripts=$(realpath -m "${GPU_CHECK_REAL:-tests/real}")
real_samples=$(realpath -m "${GPU_CHECK_SAMPLES:-.samples}")
readonly real_scripts real_samples
# The interpreter itself, where the name is that of a script which finds it.
python=${GPU_CHECK_PYTHON:-python3}
python=$("$python" -c 'import sys; print(sys.executable)' 2>/dev/null || echo "$python")
readonly python

# Lines of a script's head: real_head FILE WORD
real_head() { sed -n "s/^# real: $2 *//p" "$1"; }
real_has() { grep -qx "# real: $2" "$1"; }

# Names of the scripts, in their order.
real_list() {
  local file name ordered=" ${REAL_ORDER//$'\n'/ } "

  {
    for name in $REAL_ORDER; do
      echo "$real_scripts/$name.py"
    done
    for file in "$real_scripts"/*.py; do
      name=${file##*/}
      [[ $ordered == *" ${name%.py} "* ]] || echo "$file"
    done
  } | while read -r file; do
    [[ -f $file ]] && grep -q '^# real: way ' "$file" && echo "${file##*/}"
  done
}

# Whether modules are missing, each asked for once.
declare -A module_missing

# find_missing FILE: sets missing to the first module that is not there, or to nothing.
find_missing() {
  local module

  for module in $(real_head "$1" needs); do
    missing=$module
    [[ -n ${module_missing[$module]-} ]] ||
      if "$python" -c 'import importlib.util, sys
sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$module" >/dev/null 2>&1; then
        module_missing[$module]=no
      else
        module_missing[$module]=yes
      fi
    [[ ${module_missing[$module]} == no ]] || return 0
  done
  missing=
}

# why_not_real FILE: sets reason to why a script is not run here, or to nothing.
why_not_real() {
  local missing

  reason=
  if ! "$python" -c 'import ctypes' >/dev/null 2>&1; then
    reason="there is no Python ($python)"
    return
  fi
  find_missing "$1"
  if [[ -n $missing ]]; then
    reason="no Python module $missing"
  elif [[ $simulated == true ]] && real_has "$1" nvidia; then
    reason="NVIDIA's runtime does not start over the simulated device"
  fi
}

# real_run native|shim AT [VAR=value...] -- COMMAND...: sets run_status, run_ms and, of
# what the program says of itself and of the GPU, work_ms and peak_bytes. At most real_limit
# seconds; where NVML does not answer, a few more.
real_limit=$REAL_SECONDS
real_watches=yes # whether NVML is asked meanwhile: not while the second pair is timed
real_run() {
  local at=$2 preload=() passed=() variable limit

  [[ $1 == native ]] || preload=(LD_PRELOAD="$shim")
  shift 2
  for variable in "${!PYTHONPATH@}" "${!VIRTUAL_ENV@}" "${!NVMLSIM_@}"; do
    passed+=("$variable=${!variable}")
  done
  limit=$(least "$real_limit" "$(part_left)")
  rm -f "$at.watch"
  watched=()
  [[ $real_watches == no || ! -x $build/gpu/gpu_watch ]] ||
    watched=(timeout -k 5 $((limit + 8)) env LD_LIBRARY_PATH="${GPU_CHECK_NVML:+$GPU_CHECK_NVML:}$library_path"
      "$build/gpu/gpu_watch" "$at.watch")
  run_command "$at" "$limit" PYTHONDONTWRITEBYTECODE=1 "${passed[@]}" "${preload[@]}" "$@"
  watched=()
  work_ms=$(sed -n 's/^real: \([0-9]*\)\(\.[0-9]*\)\{0,1\} ms$/\1/p' "$at.err" | tail -n 1)
  peak_bytes=
  [[ ! -f $at.watch ]] || peak_bytes=$(sed -n 's/.*"peak":\([0-9]*\),.*/\1/p' "$at.watch")
}

# A program that prints times never prints the same: its words.
without_figures() { sed -E 's/[0-9]+([.,:][0-9]+)*([eE][-+]?[0-9]+)?/N/g; s/ +/ /g' "$1"; }

# What two runs show, and what a second native run says where they differ. Sets found.
judge_real() {
  local at=$1 native_status=$2 shim_status=$3
  shift 3

  compare_runs "$at.native" "$native_status" "$at.shim" "$shim_status"
  [[ $found == DIFFERENT && $native_status -eq $shim_status ]] || return 0
  real_run native "$at.again" "$@"
  cmp -s "$at.native.out" "$at.again.out" && [[ $run_status -eq $native_status ]] && return 0
  if cmp -s <(without_figures "$at.native.out") <(without_figures "$at.shim.out"); then
    found="same words"
    found_why="its figures differ between two native runs as well"
  else
    found=unsteady
    found_why="two native runs differ; $found_why"
  fi
}

# MiB of a number of bytes, or "-".
in_mib() { if [[ -n $1 ]]; then echo $(($1 >> 20)); else echo "-"; fi; }

# What the last pair of each program was, by "NAME WAY" and kind: milliseconds, of its own work
# too, whether NVML was asked meanwhile; the most bytes of the pair where it was; how it ended,
# what was found.
declare -A real_ms real_work real_watched real_peak real_ended real_found real_why

# real_pair FIRST SECOND KEY AT [VAR=value...] -- COMMAND...: a run of each kind, which are
# added to what is known of KEY. 1 where the program fails natively; 2 where a run was ended
# because the part's time is over: then nothing is added of it.
real_pair() {
  local kinds=("$1" "$2") key=$3 at=$4 kind
  shift 4

  for kind in "${kinds[@]}"; do
    real_run "$kind" "$at.$kind" "$@"
    [[ ! $run_status =~ ^(124|137)$ || $(part_left) -gt 1 ]] || return 2
    real_ended[$key,$kind]=$run_status
    if [[ $kind == native && $run_status -ne 0 ]]; then
      real_found[$key]="fails natively"
      real_why[$key]="with status $run_status: $(tail -n 1 "$at.native.err")"
      [[ $run_status -ne 124 ]] || real_why[$key]="it took more than $real_limit s"
      return 1
    fi
    real_ms[$key,$kind]=$run_ms
    real_work[$key,$kind]=$work_ms
    real_watched[$key,$kind]=$real_watches
    [[ -z $peak_bytes ]] || real_peak[$key,$kind]=$peak_bytes
  done
  judge_real "$at" "${real_ended[$key,native]}" "${real_ended[$key,shim]}" "$@"
  # What a later pair shows counts if an earlier one showed nothing wrong.
  if [[ ! ${real_found[$key]-same} =~ ^(DIFFERENT|unsteady|"timed out")$ ]]; then
    real_found[$key]=$found
    real_why[$key]=$found_why
  fi
}

# replace_line FILE KEY: the last line of FILE takes the place of the one that KEY had there.
declare -A real_placed
replace_line() {
  local file=$1 key=$1:$2 before=${real_placed[$1:$2]-} last line

  last=$(tail -n 1 "$file")
  if [[ -n $before ]]; then
    head -n -1 "$file" | while IFS= read -r line; do
      [[ $line != "$before" ]] || line=$last
      printf '%s\n' "$line"
    done >"$file.new" && mv "$file.new" "$file"
  fi
  real_placed[$key]=$last
}

# real_row NAME WAY: one row and one line of what is known, in the place of the last ones.
real_row() {
  local name=$1 way=$2 key="$1 $2" at=$work/real.run/$1.$2 found values of=()

  found=${real_found[$key]}
  mapfile -t of < <(real_figures "$key")
  if [[ $found == "fails natively" ]]; then
    add_row real "$name" "$way" "not run" "" "\"verdict\":\"$found\"" "${real_why[$key]}"
    table_line real "${name:0:16}" "$way $found: ${real_why[$key]}"
  else
    printf -v values '"verdict":"%s","native_status":%d,"shim_status":%d,"native":%d,"shim":%d' \
      "$found" "${real_ended[$key,native]}" "${real_ended[$key,shim]}" "${of[0]}" "${of[1]}"
    values+=",\"native_work\":${of[2]:-null},\"shim_work\":${of[3]:-null}"
    values+=",\"native_peak_bytes\":${of[4]:-null},\"shim_peak_bytes\":${of[5]:-null}"
    values+=",\"watched\":$([[ ${real_watched[$key,shim]} == yes ]] && echo true || echo false)"
    values+=",\"summary\":\"$(plain "$(summary_of "$at.shim.err")")\""
    add_row real "$name" "$way" "$(status_of "$found")" ms "$values" "${real_why[$key]}"
    if [[ $found == same || $found == "same words" ]]; then
      table_line real "${name:0:16}" "$(printf '%-11s %-10s whole %s/%s  work %s/%s  peak %s/%s' \
        "$way" "$found" "${of[0]}" "${of[1]}" "${of[2]:--}" "${of[3]:--}" \
        "$(in_mib "${of[4]}")" "$(in_mib "${of[5]}")")"
    else
      table_line real "${name:0:16}" "$way $found: ${real_why[$key]}"
    fi
  fi
  replace_line "$work/real.rows" "$key"
  replace_line "$work/real.table" "$key"
}

# Six lines, native's and the library's in turn: ms, the work's ms, and the most bytes; empty
# where there is none.
real_figures() {
  local kind

  for kind in native shim; do echo "${real_ms[$1,$kind]-}"; done
  for kind in native shim; do echo "${real_work[$1,$kind]-}"; done
  for kind in native shim; do echo "${real_peak[$1,$kind]-}"; done
}

# real_verified NAME FILE: a row, where the report of the first run has an idle proof violated.
real_verified() {
  local why

  why=$(sed -n 's/^==[0-9]*== \(ERROR [0-9]*: idle proof violated .*\)/\1/p' "$2" | head -n 1)
  [[ -n $why ]] || return 0
  add_row real "$1" verify failed "" "\"verdict\":\"idle proof violated\"" "$(plain "$why")"
  table_line real "${1:0:16}" "verify: $why"
  bad=$((bad + 1))
}

# real_warm NAME [VAR=value...] -- COMMAND...: the first run of a program, which nothing is
# said of unless it takes too long, or longer than the part: then false, and a row that says
# so.
real_warm() {
  local name=$1 why us=20
  shift

  [[ $simulated == false ]] || us=1000000 # a simulated device shares the processor
  note "running $name for the first time"
  real_limit=$REAL_WARM
  real_run shim "$work/real.run/$name.warm" GPUSHIM_FREE_SYNC=verify GPUSHIM_VERIFY_US=$us "$@"
  real_limit=$REAL_SECONDS
  real_verified "$name" "$work/real.run/$name.warm.err"
  [[ $run_status =~ ^(124|137)$ ]] || return 0
  if [[ -f $work/real.run/$name.warm.cut ]]; then
    not_real "the time is over" "$name"
    return 1
  fi
  why="its first run, not measured, was ended after $((run_ms / 1000)) s"
  add_row real "$name" warm "timed out" "" "\"verdict\":\"timed out\"" "$why"
  table_line real "${name:0:16}" "warm timed out: $why"
  bad=$((bad + 1))
  return 1
}

# real_program NAME WAY [VAR=value...] -- COMMAND...: the first pair, and what the second one
# will need to know.
real_program() {
  local name=$1 way=$2 key="$1 $2" shown=$1 pair
  shift 2

  [[ $way == - ]] || shown+=" $way"
  note "running $shown"
  real_pair native shim "$key" "$work/real.run/$name.$way" "$@"
  pair=$?
  if [[ $pair -eq 2 ]]; then
    not_real "the time is over" "$name:$way"
    return
  elif [[ $pair -eq 0 ]]; then
    runs=$((runs + 1))
    again+=("$name" "$way" "$#" "$@")
  fi
  real_row "$name" "$way"
}

# The second pair of each program, the library's run first, where the time allows: the one
# that counts for the times, as nothing else runs beside it.
real_again() {
  local name way key count command took real_watches=no

  while [[ $# -gt 0 ]]; do
    name=$1 way=$2 count=$3 key="$1 $2"
    command=("${@:4:count}")
    shift $((3 + count))
    took=$((${real_ms[$key,native]} + ${real_ms[$key,shim]}))
    [[ $((took * 3 / 2 + 1000)) -lt $(($(part_left) * 1000)) ]] || continue
    note "running $name $way again"
    real_pair shim native "$key" "$work/real.run/$name.$way" "${command[@]}"
    [[ $? -eq 2 ]] || real_row "$name" "$way"
  done
}

# How many launches each script makes, and how many of them with attributes, in a run by itself
# as far as the time goes: the library trusts less in a stream that had one of these
# (docs/free.md).
real_launches() {
  local name count key counts command kernels with graphs real_watches=no
  local -A seen=()

  while [[ $# -gt 0 ]]; do
    name=$1 key="$1 $2" count=$3 counts=$work/real.run/$1.launches
    command=("${@:4:count}")
    shift $((3 + count))
    [[ -z ${seen[$name]-} && -e $build/gpu/libgpu_count.so &&
      $((${real_ms[$key,native]} * 3 / 2 + 1000)) -lt $(($(part_left) * 1000)) ]] || continue
    seen[$name]=yes
    rm -f "$counts"
    real_run native "$counts" LD_PRELOAD="$build/gpu/libgpu_count.so" GPU_COUNT_FILE="$counts" \
      "${command[@]}"
    counts=$(awk '{ all += $1; with += $2; graphs += $3 }
      END { if (NR) print all + 0, with + 0, graphs + 0 }' "$counts" 2>/dev/null)
    [[ -n $counts ]] || continue
    read -r kernels with graphs <<<"$counts"
    add_row real "$name" launches measured count \
      "\"kernels\":$kernels,\"with_attributes\":$with,\"graphs\":$graphs" ""
    table_line real "${name:0:16}" "launches: kernels=$kernels with_attributes=$with graphs=$graphs"
  done
}

# not_real REASON NAME: a row, and a name for the table's line of that reason.
declare -A not_real_names
not_real() {
  add_row real "$2" - "not run" "" "" "$1"
  not_real_names[$1]+=" $2"
}

# The libraries a script is run with: the driver's alone for those that bring the others.
real_path() { if real_has "$1" cudart; then echo "$library_path"; else echo "$driver_path"; fi; }

real_script() {
  local file=$1 name=$2 way settings reason warm=no command

  why_not_real "$file"
  if [[ -n $reason ]]; then
    not_real "$reason" "$name"
    return
  fi
  while read -r way settings; do
    # shellcheck disable=SC2206 # the variables are words
    command=(LD_LIBRARY_PATH="$(real_path "$file")" $settings -- "$python" "$file")
    if [[ $(part_left) -lt 10 ]]; then
      not_real "the time is over" "$name:$way"
    elif [[ $warm == yes ]] || real_warm "$name" "${command[@]}"; then
      warm=yes
      real_program "$name" "$way" "${command[@]}"
    else
      return
    fi
  done < <(real_head "$file" way)
}

# Programs of others, as they were built, each in the folder where it lies. What stands in
# PROGRAM.args are its arguments.
real_sample() {
  local file=$1 name arguments=() command

  name=$(plain "${file##*/}")
  if [[ $(part_left) -lt 10 ]]; then
    not_real "the time is over" "$name"
    return
  fi
  [[ ! -f $file.args ]] || read -ra arguments <"$file.args"
  command=(-- env -C "${file%/*}" "$file" "${arguments[@]}")
  real_warm "$name" "${command[@]}" && real_program "$name" sample "${command[@]}"
}

# How many programs were found to be other than native.
real_bad() {
  local key count=0

  for key in "${!real_found[@]}"; do
    [[ ${real_found[$key]} == same || ${real_found[$key]} == "same words" ]] ||
      count=$((count + 1))
  done
  echo "$count"
}

run_real() {
  local name file reason runs=0 bad=0 samples=0 again=()

  begin_part real
  if [[ ! -f $shim ]]; then
    add_row real - - "not run" "" "" "libgpushim.so was not built in $build"
    table_line real programs "not run: libgpushim.so was not built (see the build log)"
    end_part real "not run"
    return 1
  fi
  rm -rf "$work/real.run"
  mkdir -p "$work/real.run"
  not_real_names=()
  real_ms=() real_work=() real_watched=() real_peak=() real_ended=() real_found=() real_why=() real_placed=()
  while read -r name; do
    real_script "$real_scripts/$name" "${name%.py}"
  done < <(real_list)
  while read -r file; do
    samples=$((samples + 1))
    real_sample "$file"
  done < <(find "$real_samples" -mindepth 1 -maxdepth 2 -type f -perm -u+x \
    ! -name '*.so*' 2>/dev/null | sort)
  real_again "${again[@]}"
  real_launches "${again[@]}"
  bad=$((bad + $(real_bad)))
  if [[ $samples -eq 0 ]]; then
    add_row real samples - "not run" "" "" "no program in ${real_samples#"$PWD/"}"
    table_line real samples "not run: no program in ${real_samples#"$PWD/"}"
  fi
  for reason in "${!not_real_names[@]}"; do
    table_line real "not run" "$reason:${not_real_names[$reason]}"
  done
  end_part real "complete: $runs runs, $bad not as native,"
  [[ $bad -eq 0 && $runs -gt 0 ]]
}
