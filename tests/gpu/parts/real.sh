# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
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

readonly REAL_SECONDS=60 # one program
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
  local file

  for file in "$real_scripts"/*.py; do
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
# what the program says of itself and of the GPU, work_ms and peak_bytes.
real_run() {
  local at=$2 preload=() passed=() variable limit

  [[ $1 == native ]] || preload=(LD_PRELOAD="$shim")
  shift 2
  for variable in "${!PYTHONPATH@}" "${!VIRTUAL_ENV@}" "${!NVMLSIM_@}"; do
    passed+=("$variable=${!variable}")
  done
  limit=$(least "$REAL_SECONDS" "$(part_left)")
  rm -f "$at.watch"
  watched=()
  [[ ! -x $build/gpu/gpu_watch ]] ||
    watched=(env LD_LIBRARY_PATH="${GPU_CHECK_NVML:+$GPU_CHECK_NVML:}$library_path"
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

# real_program NAME WAY [VAR=value...] -- COMMAND...: one row and one line; adds to bad, runs.
real_program() {
  local name=$1 way=$2 at=$work/real.run/$1.$2 native_status values shown=$1
  local native_ms native_work native_peak shim_ms shim_work shim_peak
  shift 2

  [[ $way == - ]] || shown+=" $way"
  note "running $shown"
  real_run native "$at.native" "$@"
  native_status=$run_status native_ms=$run_ms native_work=$work_ms native_peak=$peak_bytes
  if [[ $native_status -ne 0 ]]; then
    found="fails natively" found_why="with status $native_status: $(tail -n 1 "$at.native.err")"
    [[ $native_status -ne 124 ]] || found_why="it took more than the time there was"
    add_row real "$name" "$way" "not run" "" "\"verdict\":\"$found\"" "$found_why"
    table_line real "${name:0:16}" "$way $found: $found_why"
    bad=$((bad + 1))
    return
  fi
  real_run shim "$at.shim" "$@"
  shim_ms=$run_ms shim_work=$work_ms shim_peak=$peak_bytes
  judge_real "$at" "$native_status" "$run_status" "$@"
  runs=$((runs + 1))
  printf -v values '"verdict":"%s","native_status":%d,"shim_status":%d,"native":%d,"shim":%d' \
    "$found" "$native_status" "$run_status" "$native_ms" "$shim_ms"
  values+=",\"native_work\":${native_work:-null},\"shim_work\":${shim_work:-null}"
  values+=",\"native_peak_bytes\":${native_peak:-null},\"shim_peak_bytes\":${shim_peak:-null}"
  values+=",\"summary\":\"$(plain "$(summary_of "$at.shim.err")")\""
  add_row real "$name" "$way" "$(status_of "$found")" ms "$values" "$found_why"
  case $found in
    same | "same words") ;;
    *)
      bad=$((bad + 1))
      table_line real "${name:0:16}" "$way $found: $found_why"
      return
      ;;
  esac
  table_line real "${name:0:16}" "$(printf '%-11s %-10s whole %s/%s  work %s/%s  peak %s/%s' \
    "$way" "$found" "$native_ms" "$shim_ms" "${native_work:--}" "${shim_work:--}" \
    "$(in_mib "$native_peak")" "$(in_mib "$shim_peak")")"
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
  local file=$1 name=$2 way settings reason

  why_not_real "$file"
  if [[ -n $reason ]]; then
    not_real "$reason" "$name"
    return
  fi
  while read -r way settings; do
    if [[ $(part_left) -lt 10 ]]; then
      not_real "the time is over" "$name:$way"
      continue
    fi
    # shellcheck disable=SC2086 # the variables are words
    real_program "$name" "$way" LD_LIBRARY_PATH="$(real_path "$file")" $settings -- \
      "$python" "$file"
  done < <(real_head "$file" way)
}

# Programs of others, as they were built, each in the folder where it lies. What stands in
# PROGRAM.args are its arguments.
real_sample() {
  local file=$1 name arguments=()

  name=$(plain "${file##*/}")
  if [[ $(part_left) -lt 10 ]]; then
    not_real "the time is over" "$name"
    return
  fi
  [[ ! -f $file.args ]] || read -ra arguments <"$file.args"
  real_program "$name" sample -- env -C "${file%/*}" "$file" "${arguments[@]}"
}

run_real() {
  local name file reason runs=0 bad=0 samples=0

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
  while read -r name; do
    real_script "$real_scripts/$name" "${name%.py}"
  done < <(real_list)
  while read -r file; do
    samples=$((samples + 1))
    real_sample "$file"
  done < <(find "$real_samples" -mindepth 1 -maxdepth 2 -type f -perm -u+x \
    ! -name '*.so*' 2>/dev/null | sort)
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
