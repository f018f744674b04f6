# shellcheck shell=bash disable=SC2154  # what gpu-check sets: build, simulated, work ...
#
# bench.sh - scripts/bench, scenario by scenario, the most wanted first. What is measured when
# the time is over is kept, of a scenario too that was not over. bench_rows.py makes rows and
# lines of its JSON.

readonly BENCH_SECONDS=80 # one scenario, one round of it

# Over the simulated device those that say something of the library's own cost.
bench_scenarios() {
  if [[ ${simulated:-true} == true ]]; then
    echo hitpair linking programs flight launch threads cupy
  else
    echo hitpair linking programs flight launch threads miss cupy dotcompute-1mb \
      dotcompute-10mb dotcompute-100mb genesis-variable genesis-large stream-ordered \
      pinned async remote sizes staging genesis-transformer holes
  fi
}

bench_json= # that of the scenario which runs now

# bench_is_here JSON: whether anything was measured, on the device that was meant.
bench_is_here() { grep -qs "^  \"simulated\": $simulated,\$" "$1"; }

# bench_rows JSON
bench_rows() { "$python" -SB tests/gpu/parts/bench_rows.py rows "$1" | stamped; }

# bench_lines JSON
bench_lines() {
  local question text

  "$python" -SB tests/gpu/parts/bench_rows.py table "$1" |
    while IFS=$'\t' read -r question text; do line_of "$question" "$text"; done
}

# Rows and lines of the scenario that runs now, for a result that is kept in its midst.
bench_rows_now() { [[ -z $bench_json ]] || ! bench_is_here "$bench_json" || bench_rows "$bench_json"; }
bench_table_now() { [[ -z $bench_json ]] || ! bench_is_here "$bench_json" || bench_lines "$bench_json"; }

# What the scenario that was interrupted has measured.
interrupted_bench() {
  [[ -n $bench_json ]] || return 0
  bench_rows_now >>"$work/bench.rows"
  bench_table_now >>"$work/bench.table"
  bench_json=
}

# bench_scenario NAME: rows and lines; false if something could not be measured.
bench_scenario() {
  local name=$1 json=$work/bench.run/$1.json err=$work/bench.run/$1.err simulate=() status
  local limit began=$SECONDS ended=failed

  rm -f "$json" "$json.new"
  bench_json=$json
  [[ $simulated != true ]] || simulate=(--simulated)
  limit=$(least "$BENCH_SECONDS" "$(part_left)")
  note "measuring $name"
  CUDA_HOME=${toolkit:-} LD_LIBRARY_PATH=$driver_path PYTHONDONTWRITEBYTECODE=1 \
    timeout -k 5 "$limit" "$python" scripts/bench --build "$build" --no-build "${simulate[@]}" \
    --rounds 1 --json "$json" "$name" >"$json.txt" 2>"$err" </dev/null &
  wait_for $!
  status=$?
  bench_json=
  if [[ $status =~ ^(124|137)$ ]]; then
    ended=$(late_status "$limit" "$BENCH_SECONDS")
    late_reason "$limit" "$BENCH_SECONDS" >>"$err"
  fi
  if [[ ! -s $json ]]; then
    add_row bench "$name" - "$ended" "" "" "$(tail -n 1 "$err")"
    table_line bench "${name:0:16}" "not measured: $(tail -n 1 "$err")"
    return 1
  fi
  if ! bench_is_here "$json"; then
    add_row bench "$name" - failed "" "" "scripts/bench has found another device"
    table_line bench "${name:0:16}" "not measured: scripts/bench has found another device"
    return 1
  fi
  (bench_rows "$json") >"$json.rows"
  cat "$json.rows" >>"$work/bench.rows"
  (bench_lines "$json") >>"$work/bench.table"
  if grep -qx '  "complete": false,' "$json"; then
    add_row bench "$name" - "$ended" "" "" \
      "ended with status $status: what was measured until then is kept"
    table_line bench "${name:0:16}" "not all was measured: ended after $((SECONDS - began)) s"
    return 1
  fi
  ! grep -q '"status":"failed"' "$json.rows"
}

run_bench() {
  local name failed=0 left_out=()

  begin_part bench
  if ! "$python" -Sc 'import json' >/dev/null 2>&1 || [[ ! -x $build/bench/bench_driver ]]; then
    add_row bench - - "not run" "" "" "needs Python 3, and bench_driver in $build"
    table_line bench benchmark "not run: there is no Python 3, or bench_driver was not built"
    end_part bench "not run"
    return 1
  fi
  rm -rf "$work/bench.run"
  mkdir -p "$work/bench.run"
  for name in $(bench_scenarios); do
    if [[ $(part_left) -lt 8 ]]; then
      add_row bench "$name" - "not run" "" "" "the time is over"
      left_out+=("$name")
      continue
    fi
    bench_scenario "$name" || failed=$((failed + 1))
  done
  [[ ${#left_out[@]} -eq 0 ]] || table_line bench "no time for" "${left_out[*]}"
  end_part bench "complete: $failed with something not measured,"
  [[ $failed -eq 0 ]]
}
