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
# Each program runs in each of its ways under GPUSHIM_FREE_SYNC=verify first, and no other run
# begins before: a wrong idle check is a row. The first way of each program comes first, then
# the second of each; a script names its uncached way first. These runs are not measured: they
# read the programs from the disk. Then each way runs natively and with the library; when all
# have, each with the library and natively, as far as the time goes, so that neither is always
# the later one.

readonly REAL_WARM=${GPU_CHECK_REAL_WARM:-100} # the first run of a program
REAL_SECONDS=$(least 60 "$REAL_WARM")          # each other
readonly REAL_SECONDS
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
# Whether NVML is asked meanwhile: not while the second pair is timed, and not under verify,
# where a driver that answers NVML would be late for the library, too.
real_watches=yes
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

# proofs_in FILE: "CHECKED VIOLATED" of the reports in it, all processes together; nothing
# where there is no report of verify.
proofs_in() {
  sed -n 's/^==[0-9]*== Idle check: made \([0-9,]*\) times\{0,1\}, failed \([0-9,]*\).*/\1 \2/p' "$1" |
    tr -d , | awk '{ checked += $1; violated += $2 } END { if (NR) print checked, violated }'
}

# real_verified NAME WAY FILE: the row of a run under verify, by its report; adds to runs_verified,
# proofs and bad.
real_verified() {
  local name=$1 way=$2 why checked violated values

  read -r checked violated < <(proofs_in "$3")
  values="\"status\":$run_status,\"checked\":${checked:-null},\"violated\":${violated:-null}"
  runs_verified=$((runs_verified + 1))
  proofs=$((proofs + ${checked:-0}))
  why=$(sed -n 's/^==[0-9]*== \(ERROR [0-9]*: idle check failed .*\)/\1/p' "$3" | head -n 1)
  if [[ -n $why ]]; then
    add_row real "$name" "verify $way" failed count \
      "\"verdict\":\"idle check failed\",$values" "$why"
    table_line real "${name:0:16}" "verify $way: $why"
    bad=$((bad + 1))
  elif [[ -z $checked ]]; then
    add_row real "$name" "verify $way" "not run" count "$values" \
      "no report of verify: the program used no CUDA, or did not come to its end"
  else
    add_row real "$name" "verify $way" measured count \
      "\"verdict\":\"no violation\",$values" ""
  fi
}

# real_verify NAME WAY: a run under verify, whose time is not measured. False, with a row that
# says so, where the run took too long, or longer than the part.
declare -A real_begun # the programs that ran once
real_verify() {
  local name=$1 way=$2 why us=100 settings=() command at="$work/real.run/$1.$2.verify"
  local real_watches=no

  [[ $simulated == false ]] || us=1000000 # a simulated device shares the processor
  real_command "$name" "$way"
  while [[ ${command[0]} != -- ]]; do
    settings+=("${command[0]}")
    command=("${command[@]:1}")
  done
  note "running $name $way under verify"
  [[ -n ${real_begun[$name]-} ]] || real_limit=$REAL_WARM
  real_begun[$name]=yes
  real_run shim "$at" "${settings[@]}" GPUSHIM_FREE_SYNC=verify,us:$us \
    "${command[@]}"
  real_limit=$REAL_SECONDS
  if [[ -f $at.cut ]]; then
    not_real "the time is over" "$name:$way"
    return 1
  fi
  if [[ ! $run_status =~ ^(124|137)$ ]]; then
    real_verified "$name" "$way" "$at.err"
    return 0
  fi
  why="its run under verify, not measured, was ended after $((run_ms / 1000)) s"
  add_row real "$name" "verify $way" "timed out" "" "\"verdict\":\"timed out\"" "$why"
  table_line real "${name:0:16}" "verify $way timed out: $why"
  bad=$((bad + 1))
  return 1
}

# real_program NAME WAY: the first pair, and what the second one will need to know.
real_program() {
  local name=$1 way=$2 key="$1 $2" pair command

  note "running $name $way"
  real_command "$name" "$way"
  real_pair native shim "$key" "$work/real.run/$name.$way" "${command[@]}"
  pair=$?
  if [[ $pair -eq 2 ]]; then
    not_real "the time is over" "$name:$way"
    return
  elif [[ $pair -eq 0 ]]; then
    runs=$((runs + 1))
    again+=("$name" "$way")
  fi
  real_row "$name" "$way"
}

# real_again NAME WAY...: the second pair of each program, the library's run first, where the
# time allows: the one that counts for the times, as nothing else runs beside it.
real_again() {
  local name way key command took real_watches=no

  while [[ $# -gt 0 ]]; do
    name=$1 way=$2 key="$1 $2"
    shift 2
    took=$((${real_ms[$key,native]} + ${real_ms[$key,shim]}))
    [[ $((took * 3 / 2 + 1000)) -lt $(($(part_left) * 1000)) ]] || continue
    note "running $name $way again"
    real_command "$name" "$way"
    real_pair shim native "$key" "$work/real.run/$name.$way" "${command[@]}"
    [[ $? -eq 2 ]] || real_row "$name" "$way"
  done
}

# real_launches NAME WAY...: how many launches each script makes, and how many of them with
# attributes, in a run by itself as far as the time goes: the library trusts less in a stream
# that had one of these (docs/free.md).
real_launches() {
  local name way key counts command kernels with graphs real_watches=no
  local -A seen=()

  while [[ $# -gt 0 ]]; do
    name=$1 way=$2 key="$1 $2" counts=$work/real.run/$1.launches
    shift 2
    [[ -z ${seen[$name]-} && -e $build/gpu/libgpu_count.so &&
      $((${real_ms[$key,native]} * 3 / 2 + 1000)) -lt $(($(part_left) * 1000)) ]] || continue
    seen[$name]=yes
    rm -f "$counts"
    real_command "$name" "$way"
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

# What is run, by "NAME WAY": the script or sample, and a script's variables.
declare -A real_file real_settings

# real_command NAME WAY: sets command, [VAR=value...] -- COMMAND... A sample runs in the folder
# where it lies, with the arguments that stand in PROGRAM.args.
real_command() {
  local file=${real_file["$1 $2"]} settings=() arguments=()

  if [[ $2 == sample ]]; then
    [[ ! -f $file.args ]] || read -ra arguments <"$file.args"
    command=(-- env -C "${file%/*}" "$file" "${arguments[@]}")
  else
    read -ra settings <<<"${real_settings["$1 $2"]}"
    command=(LD_LIBRARY_PATH="$(real_path "$file")" "${settings[@]}" -- "$python" "$file")
  fi
}

# plan_script FILE NAME: its ways, each with its turn; or a row that says why it is not run.
plan_script() {
  local file=$1 name=$2 way settings reason turn=0

  why_not_real "$file"
  if [[ -n $reason ]]; then
    not_real "$reason" "$name"
    return
  fi
  while read -r way settings; do
    turn=$((turn + 1))
    plan_way "$turn" "$name" "$way" "$file" "$settings"
  done < <(real_head "$file" way)
}

# plan_way TURN NAME WAY FILE SETTINGS
plan_way() {
  real_file["$2 $3"]=$4
  real_settings["$2 $3"]=$5
  turn_of+=("$1")
  name_of+=("$2")
  way_of+=("$3")
}

# real_plan: sets planned, NAME WAY of all that is run, the first turn of each before the second
# of any; adds to samples. Samples, which have one way, come behind the scripts' first ways.
real_plan() {
  local name file turn at left turn_of=() name_of=() way_of=()

  while read -r name; do
    plan_script "$real_scripts/$name" "${name%.py}"
  done < <(real_list)
  while read -r file; do
    samples=$((samples + 1))
    plan_way 1 "$(plain "${file##*/}")" sample "$file" ""
  done < <(find "$real_samples" -mindepth 1 -maxdepth 2 -type f -perm -u+x \
    ! -name '*.so*' 2>/dev/null | sort)
  planned=()
  for ((turn = 1, left = ${#turn_of[@]}; left > 0; turn++)); do
    for at in "${!turn_of[@]}"; do
      [[ ${turn_of[at]} -eq $turn ]] || continue
      planned+=("${name_of[at]}" "${way_of[at]}")
      left=$((left - 1))
    done
  done
}

# verify_all NAME WAY...: sets verified, what else is run of it. A program whose first run took
# too long is left out in all its ways.
verify_all() {
  local name way before
  local -A too_slow=()

  verified=()
  while [[ $# -gt 0 ]]; do
    name=$1 way=$2 before=${real_begun[$1]-}
    shift 2
    if [[ $(part_left) -lt 10 ]]; then
      not_real "the time is over" "$name:$way"
    elif [[ -z ${too_slow[$name]-} ]]; then
      if real_verify "$name" "$way"; then
        verified+=("$name" "$way")
      elif [[ -z $before ]]; then
        too_slow[$name]=yes
      fi
    fi
  done
}

# compare_all NAME WAY...: the first pair of each.
compare_all() {
  while [[ $# -gt 0 ]]; do
    if [[ $(part_left) -lt 10 ]]; then
      not_real "the time is over" "$1:$2"
    else
      real_program "$1" "$2"
    fi
    shift 2
  done
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
  local reason runs=0 bad=0 samples=0 runs_verified=0 proofs=0 planned=() verified=() again=()

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
  real_ms=() real_work=() real_watched=() real_peak=() real_ended=() real_found=() real_why=()
  real_placed=() real_begun=() real_file=() real_settings=()
  real_plan
  verify_all "${planned[@]}"
  [[ $runs_verified -eq 0 ]] ||
    table_line real verify "$runs_verified runs, $proofs idle checks, $bad not as they should be"
  compare_all "${verified[@]}"
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
