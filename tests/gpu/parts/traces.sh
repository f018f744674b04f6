# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# traces.sh - what real programs allocate, recorded, and carried out again through the pool:
# the scripts of tests/real that name a way to be traced. A recording is a gzip'd CSV with a
# file beside it that says where it comes from; both lie in traces/ of the archive under $OUT.

readonly TRACE_LIMIT=8M # of a recording: some 170,000 records
readonly TRACE_SECONDS=40

# figure_of NAME FILE: a number of replay's JSON, or nothing.
figure_of() { sed -n "s/.*\"$1\": \([0-9.e+]*\).*/\1/p" "$2"; }

# ratio A B
ratio() {
  [[ -n $1 && -n $2 ]] || { echo "-"; return; }
  awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.3f", a / b; else print "-" }'
}

# The versions of what a script needs, for its recording's origin.
module_versions() {
  # shellcheck disable=SC2046 # the modules are words
  "$python" -c 'import importlib.metadata as found, platform, sys
def version(name):
    try:
        return f"{name} {found.version(name)}"
    except found.PackageNotFoundError:
        return f"{name} of unknown version"
print(f"Python {platform.python_version()}", *map(version, sys.argv[1:]), sep=", ")' \
    $(real_head "$1" needs) 2>/dev/null
}

# trace_figures NAME FILE: a row and a line of what replay says; false if it says nothing.
trace_figures() {
  local name=$1 out=$work/traces/$1.json smallest reserved calls values made

  timeout "$(least "$TRACE_SECONDS" "$(part_left)")" "$build/replay/replay" --smallest \
    --device 1.25x --repeat 1 --json "$2" >"$out" 2>"$out.err"
  made=$(figure_of allocations "$out")
  if [[ -z $made || $made == 0 ]]; then
    add_row traces "$name" - failed "" "" "replay: $(tail -n 1 "$out.err")"
    table_line traces "${name:0:16}" "recorded, and not carried out: $(tail -n 1 "$out.err")"
    return 1
  fi
  smallest=$(ratio "$(figure_of smallest_bytes "$out")" "$(figure_of native_smallest_bytes "$out")")
  reserved=$(ratio "$(figure_of reserved_peak_bytes "$out")" "$(figure_of live_peak_bytes "$out")")
  calls=$(figure_of device_driver_calls "$out")
  calls=$(ratio "${calls:+${calls}000}" "$made")
  values="\"allocations\":$made,\"live_peak_bytes\":$(figure_of live_peak_bytes "$out")"
  values+=",\"smallest\":\"$smallest\",\"reserved\":\"$reserved\""
  values+=",\"calls_of_1000_at_1.25x\":\"$calls\",\"csv_gz_bytes\":$(stat -c %s "$2")"
  add_row traces "$name" - measured ratio "$values" ""
  table_line traces "${name:0:16}" "$(printf '%s allocations  live %s MiB  smallest %s  reserved %s  calls %s' \
    "$made" "$(in_mib "$(figure_of live_peak_bytes "$out")")" "$smallest" "$reserved" "${calls%.*}")"
}

# record_trace FILE NAME WAY [VAR=value...]
record_trace() {
  local file=$1 name=$2 way=$3 at=$work/traces/$2 recorded
  shift 3

  note "recording $name $way"
  real_run shim "$at" LD_LIBRARY_PATH="$(real_path "$file")" "$@" \
    GPUSHIM_TRACE_FILE="$at.%p.trace" GPUSHIM_TRACE_LIMIT="$TRACE_LIMIT" -- "$python" "$file"
  # A script may have children: the recording is that of the process with most to say.
  # shellcheck disable=SC2012 # names of our own
  recorded=$(ls -S "$at".*.trace 2>/dev/null | head -n 1)
  if [[ -f $at.cut ]]; then
    add_row traces "$name" "$way" "not run" "" "" \
      "the time for this part was over $run_ms ms after it began"
    not_real_names["the time is over"]+=" $name"
    return 1
  elif [[ $run_status -ne 0 || -z $recorded ]]; then
    add_row traces "$name" "$way" failed "" "" "status $run_status: $(tail -n 1 "$at.err")"
    table_line traces "${name:0:16}" "$way: not recorded, status $run_status: $(tail -n 1 "$at.err")"
    return 1
  fi
  "$build/replay/replay" --to-csv "$recorded" | gzip -9n >"$at.csv.gz"
  rm -f "$at".*.trace
  {
    echo "$name.csv.gz: allocations of tests/real/$name.py, way $way ($*),"
    echo "recorded by GPUSHIM_TRACE_FILE, at most $TRACE_LIMIT, on $date."
    echo "$gpu, driver $driver$([[ $simulated == true ]] && echo ' (simulated)'); $(module_versions "$file")"
  } >"$at.origin"
  trace_figures "$name" "$at.csv.gz"
}

run_traces() {
  local name file way settings reason runs=0 bad=0

  begin_part traces
  if [[ ! -f $shim || ! -x $build/replay/replay ]]; then
    add_row traces - - "not run" "" "" "libgpushim.so or replay was not built in $build"
    table_line traces traces "not run: libgpushim.so or replay was not built"
    end_part traces "not run"
    return 1
  fi
  rm -rf "$work/traces"
  mkdir -p "$work/traces"
  not_real_names=()
  while read -r name; do
    file=$real_scripts/$name name=${name%.py}
    way=$(real_head "$file" trace)
    [[ -n $way ]] || continue
    why_not_real "$file"
    [[ $(part_left) -ge 15 ]] || reason="the time is over"
    if [[ -n $reason ]]; then
      add_row traces "$name" "$way" "not run" "" "" "$reason"
      not_real_names[$reason]+=" $name"
      continue
    fi
    read -r way settings < <(real_head "$file" way | grep "^$way\( \|$\)")
    # shellcheck disable=SC2086 # the variables are words
    record_trace "$file" "$name" "$way" $settings || bad=$((bad + 1))
    runs=$((runs + 1))
  done < <(real_list)
  for reason in "${!not_real_names[@]}"; do
    table_line traces "not run" "$reason:${not_real_names[$reason]}"
  done
  end_part traces "complete: $runs recorded, $bad failed,"
  [[ $bad -eq 0 && $runs -gt 0 ]]
}
