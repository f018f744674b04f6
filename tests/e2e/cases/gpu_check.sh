# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# gpu_check.sh - scripts/gpu-check itself, over the simulated device: what it says of real
# programs that are right, differ, fail or need what is not there; that it resumes, is
# interrupted, has no time, loses a case of its suite and not those behind it, and refuses bad
# input in a line. What it finds out about a device is the business of its parts.

# gpu_check PREFIX [VAR=value...] -- ARGUMENT...: with a work folder of the case's own.
gpu_check() {
  local prefix=$1 settings command

  for needed in gpu/gpu_probe gpu/gpu_watch; do
    need_file "$build/$needed"
  done
  need python3
  split_settings "${@:2}"
  run_in "$prefix" GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" \
    GPU_CHECK_REAL="$case_dir/scripts" GPU_CHECK_SAMPLES="$case_dir/samples" "${settings[@]}" -- \
    "$sources/scripts/gpu-check" --build "$build" --simulated "${command[@]}"
}

# interrupt_check FILE [VAR=value...] -- ARGUMENT...: gpu-check, told to end when there is
# something in FILE; leaves check.out.
interrupt_check() {
  local file=$1 pid settings command

  split_settings "${@:2}"
  env GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" "${settings[@]}" \
    "$sources/scripts/gpu-check" --simulated "${command[@]}" >check.out 2>check.err &
  pid=$!
  await 60 test -s "$file" || fail "it did not come to the slow one"
  kill -TERM "$pid"
  wait "$pid"
  expect_equal "status" 143 $?
}

# link_build FOLDER...: a build in stand-in with everything that the build has; what lies in
# these folders can be replaced one by one.
link_build() {
  local folder

  mkdir -p stand-in scripts samples
  ln -s "$build"/* -t stand-in
  for folder in "$@"; do
    rm "stand-in/$folder"
    mkdir "stand-in/$folder"
    ln -s "$build/$folder"/* -t "stand-in/$folder"
  done
}

# plant NAME LINE...: a script for the part `real`.
plant() {
  local name=$1

  mkdir -p scripts
  shift
  printf '%s\n' "$@" >"scripts/$name.py"
}

# expect_row NAME WAY STATUS WORDS: a row of the JSON result, which must be valid.
expect_row() {
  python3 -S - "$@" <<'END' || fail "the row of $1 $2 is not as it should be"
import json, sys
name, way, status, words = sys.argv[1:]
result = json.load(open("out/gpu-check.json"))
found = [row for part in result["parts"].values() for row in part["rows"]
         if (row["question"], row["row"]) == (name, way)]
print(json.dumps(found, indent=1))
assert len(found) == 1 and found[0]["simulated"] is True
text = found[0]["note"] + " " + str(found[0]["values"].get("verdict"))
assert found[0]["status"] == status and words in text
END
}

real_programs_case() {
  plant right '# real: way plain' '# real: way told REAL_WORD=yes' 'import os, sys' \
    'print("right", os.environ.get("REAL_WORD"))' 'print("real: 12.5 ms", file=sys.stderr)'
  plant differs '# real: way plain' 'import os' 'print(len(os.environ.get("LD_PRELOAD", "")))'
  plant ends '# real: way plain' 'import os, sys' 'sys.exit(3 * ("LD_PRELOAD" in os.environ))'
  plant clock '# real: way plain' 'import time' 'print("it is", time.time_ns())'
  plant broken '# real: way plain' 'import sys' 'sys.exit("no such thing here")'
  plant absent '# real: needs gpushim_no_such_module' '# real: way plain' 'print("absent")'
  plant fake '# real: needs gpushim_fake' '# real: way plain' 'import gpushim_fake' \
    'print(gpushim_fake.WORD)'
  plant nvidia '# real: nvidia' '# real: way plain' 'print("nvidia")'
  mkdir -p modules samples
  echo 'WORD = "fake"' >modules/gpushim_fake.py
  gpu_check check PYTHONPATH="$case_dir/modules" -- --part real
  expect_status check 1
  expect_row right plain measured same
  expect_row right told measured same
  expect_text check.out '^simulated right +launches: kernels=0 with_attributes=0 graphs=0$'
  expect_row fake plain measured same
  expect_row clock plain measured "same words"
  expect_row differs plain measured DIFFERENT
  expect_row ends plain measured "status 0 native, 3 with the library"
  expect_row broken plain "not run" "with status 1: no such thing here"
  expect_row absent - "not run" "no Python module gpushim_no_such_module"
  expect_row nvidia - "not run" "over the simulated device"
  expect_text check.out '^simulated right .* told +same +whole [0-9]+/[0-9]+ +work 12/12 '
  expect_text check.out '^simulated differs +plain DIFFERENT: '
  expect_text check.out '^simulated broken +plain fails natively: .*no such thing here$'
  expect_text check.out '^simulated not run +no Python module .*: absent$'
  expect_text check.out '^simulated samples +not run: no program in '
}
add_case "gpu-check real programs" real_programs_case

# Time and peak memory of a program that somebody else built; the memory by NVML.
real_samples_case() {
  mkdir -p scripts samples/one
  echo 1000 >used
  cat >samples/one/greedy <<'END'
#!/bin/sh
echo 300001000 >"$NVMLSIM_USED"
sleep 0.2
echo 1000 >"$NVMLSIM_USED"
echo "$@" && pwd
END
  chmod +x samples/one/greedy
  echo "two words" >samples/one/greedy.args
  gpu_check check NVMLSIM_USED="$case_dir/used" GPU_CHECK_NVML="$build/sim-nvml" -- --part real
  expect_status check 0
  expect_row greedy sample measured same
  expect_text check.out '^simulated greedy +sample +same .* peak 286/286$'
  grep -qx 'two words' work/real.run/greedy.sample.shim.out || fail "no arguments"
  grep -qx "$case_dir/samples/one" work/real.run/greedy.sample.shim.out || fail "another folder"
}
add_case "gpu-check real samples" real_samples_case

# The order of the runs: each way of each script with GPUSHIM_FREE_SYNC=verify, whatever the way
# sets; when all have, natively and with the library; when all have, with the library and
# natively; counted. The first ways come first. The row has the times of the second pair, which
# nothing watches, in its first place.
real_order_case() {
  local name all="torch_train torch_infer cupy_arrays jax_steps arrays_ctypes aaa" ways

  need_file "$build/gpu/gpu_watch"
  for name in aaa arrays_ctypes jax_steps torch_infer torch_train cupy_arrays; do
    ways=('# real: way plain REAL_WAY=plain')
    [[ $name == aaa ]] || ways+=('# real: way lazy REAL_WAY=lazy GPUSHIM_FREE_SYNC=lazy')
    plant $name "${ways[@]}" '# real: trace plain' 'import os, sys' \
      'log, way = os.path.dirname(sys.argv[0]) + "/../log", os.environ["REAL_WAY"]' \
      'with open(log, "a") as file:' \
      "    print('$name', way, 'count' if 'GPU_COUNT_FILE' in os.environ else" \
      "          'native' if 'LD_PRELOAD' not in os.environ else" \
      "          os.environ.get('GPUSHIM_FREE_SYNC', 'shim').split(',')[0], file=file)" \
      'times = sum(1 for line in open(log) if line.split()[:2] == ["'$name'", way])' \
      'print("real: %d.0 ms" % (1000 if times == 1 else 100 * times), file=sys.stderr)'
  done
  mkdir -p samples
  gpu_check check -- --part real
  expect_status check 0
  # runs PLAIN LAZY: a line for each script in its way plain, then in its way lazy.
  runs() {
    local way kinds kind

    for way in plain lazy; do
      kinds=$1
      [[ $way == plain ]] || kinds=$2
      for name in $all; do
        [[ $name:$way != aaa:lazy ]] || continue
        for kind in $kinds; do echo "$name $way $kind"; done
      done
    done
  }
  expect_equal "the runs" \
    "$(runs verify verify; runs "native shim" "native lazy"; runs "shim native" "lazy native"
      runs count "")" "$(<log)"
  expect_equal "the lines" "$all $(for name in $all; do echo "$name"; done | head -n 5 | paste -sd' ')" \
    "$(sed -n 's/^simulated \([a-z_]*\) *\(plain\|lazy\) .*/\1/p' check.out | paste -sd' ')"
  expect_count check.out ' work 500/400 ' 11
  expect_row torch_train plain measured same
  # What is timed is not watched.
  expect_equal "rows that NVML was asked for" 0 "$(grep -c '"watched":true' out/gpu-check.json)"
  expect_count out/gpu-check.json '"watched":false' 11
  gpu_check list -- --list
  expect_equal "the order of traces" "$all" \
    "$(sed -n '/^part traces/,$ s/^  \([a-z_]*\) .*/\1/p' list.out | paste -sd' ')"
}
add_long_case "gpu-check real programs in their order" real_order_case

# What allocates by itself comes before what a framework's own pool allocates.
real_uncached_case() {
  run_in list -- "$sources/scripts/gpu-check" --build "$build" --list
  expect_status list 0
  expect_equal "the first ways" \
    "torch_train uncached, torch_infer uncached, cupy_arrays unpooled, jax_steps platform" \
    "$(sed -n '/^part real/,/^part bench/ s/^  \([a-z_]*\) *\([a-z]*\) .*/\1 \2/p' list.out |
      head -n 4 | paste -sd, | sed 's/,/, /g')"
}
add_case "gpu-check real programs uncached first" real_uncached_case

# The library that part real counts launches with, under a program of tests/order that
# launches three kernels, one of them with attributes, and a graph.
launches_case() {
  need_file "$build/gpu/libgpu_count.so"
  need_file "$build/order/order"
  run_in counted LD_PRELOAD="$build/gpu/libgpu_count.so" GPU_COUNT_FILE="$case_dir/counts" -- \
    "$build/order/order" --seeds 1 graphs.before_a_programmatic_edge
  expect_status counted 0
  expect_count counts '^3 1 1$' 1
}
add_case "gpu-check counts launches with attributes" launches_case

# The part `shared`: each of its rows, and a library that does nothing of it. A driver that refuses is no failure of
# the library; an interrupted run leaves no process behind.
shared_part_case() {
  need_file "$build/replay/replay"
  gpu_check check -- --part shared
  cat check.out
  expect_status check 0
  expect_count out/gpu-check.json '"part":"shared","question":"(pause|idle|group|spill|short)",.*"verdict":"as expected"' 19
  expect_row pause full measured "as expected"
}
add_long_case "gpu-check shared" shared_part_case

shared_part_judges_case() {
  need_file "$build/gpu/libgpu_count.so"
  link_build gpu
  rm stand-in/libgpushim.so
  cp "$build/gpu/libgpu_count.so" stand-in/libgpushim.so
  gpu_check check CUDASIM_FAIL='cuCheckpointProcessLock:*=801' -- --part shared --build "$case_dir/stand-in"
  expect_status check 1
  expect_row pause managed measured refused
  expect_row group idle measured DIFFERENT
  expect_row spill rows measured DIFFERENT
  expect_row short VMM=on measured "as expected"
  expect_text check.out '^-- shared: complete: 19 rows, 4 not as expected, in '
  rm -r work
  interrupt_check work/shared.run/idle.out -- --build "$build" --part shared
  ! pgrep -f "$case_dir/work/shared.run/over" || fail "a program runs on"
}
add_long_case "gpu-check shared: what it tells apart" shared_part_judges_case

# ask_only QUESTION...: a build in stand-in whose probe asks these alone.
ask_only() {
  link_build gpu
  rm stand-in/gpu/gpu_probe
  "$build/gpu/gpu_probe" --list | grep -E "^($(paste -sd'|' < <(printf '%s\n' "$@"))) " >list
  printf '%s\n' '#!/bin/sh' "[ \"\$1\" != --list ] || exec cat '$case_dir/list'" \
    "exec '$build/gpu/gpu_probe' \"\$@\"" >stand-in/gpu/gpu_probe
  chmod +x stand-in/gpu/gpu_probe
}

# BUFFER_ID, cuMemGetInfo, pointer attributes and managed memory that is touched: each has its row
# with its figures. One of a thousand calls of cuMemGetInfo is late: the longest, not the 99th
# percentile.
answers_case() {
  ask_only attributes queries touches
  gpu_check check CUDASIM_FAIL=cuMemGetInfo_v2:700=slow:80 -- --part probe \
    --build "$case_dir/stand-in"
  expect_status check 0
  python3 -S - <<'END' || fail "an answer is not there, or not as it should be"
import json
asked = json.load(open("out/gpu-check.json"))["parts"]["probe"]["rows"]
rows = {(row["question"], row["row"]): row for row in asked}
assert len(rows) == len(asked)
assert all(row["status"] == "measured" for row in asked)

ids = rows["attributes", "BUFFER_ID"]["values"]
found = {name: int(value, 16) for name, value in ids.items()}
assert found["first"] == found["inside"], ids
others = [found[name] for name in ("first", "second", "pinned", "managed", "later")]
assert len(set(others)) == 5 and min(others) > 0, ids

for way in ("", "1000 ", "with ", "with 1000 "):
    info = rows["queries", way + "info"]
    assert info["unit"] == "ns", info
    assert 0 < info["values"]["median"] <= info["values"]["p99"] <= info["values"]["most"], info
info = rows["queries", "info"]["values"]
assert info["p99"] < 80e6 <= info["most"], info

for way in ("", "with "):
    for kind in ("device", "inside", "pinned", "managed", "1000 device"):
        values = rows["queries", way + kind]["values"]
        assert all(0 < values[name] for name in ("type", "id", "six")), (way, kind, values)
    values = rows["queries", way + "plain"]["values"]
    assert values["type"] == values["id"] == "INVALID_VALUE" and values["six"] > 0, values

for who in ("host", "device", "both"):
    for way in ("new", "kept", "cleared"):
        values = rows["touches", f"{who} {way}"]["values"]
        assert list(values) == ["4K", "64K", "1M", "4M", "16M"], values
        assert 0 < values["4K"] < values["16M"], (who, way, values)
    # The pages of new memory are touched for the first time.
    assert rows["touches", f"{who} kept"]["values"]["4M"] < \
        rows["touches", f"{who} new"]["values"]["4M"], who
END
}
add_case "gpu-check has its answers" answers_case

# The calls that the page has for a machine which is lent for minutes, as they stand there: git
# ignores the folder that they name, each part is asked for once, and each call comes to its parts.
# With so little time that each says what it had no time for.
documented_calls_case() {
  local call number=0 part parts=

  need_file "$build/gpu/conformance"
  need python3
  a_gpu
  link_build gpu
  mkdir -p tree/scripts
  ln -s "$sources/scripts"/* tree/scripts/
  ln -s "$sources"/{tests,include} tree/
  mv stand-in tree/.pack
  grep '^scripts/gpu-check --gpu --build ' "$sources/docs/gpu-check.md" >calls
  expect_count calls . 3
  grep -qx "scripts/gpu-check --pack .pack .*" "$sources/docs/gpu-check.md" ||
    fail "the page makes no such pack"
  grep -qx '/.pack/' "$sources/.gitignore" || fail "git does not ignore the pack"
  while IFS= read -r call; do
    number=$((number + 1))
    [[ "$call " == *" --build .pack "* ]] || fail "another pack: $call"
    run_in "call$number" LD_LIBRARY_PATH="$case_dir/driver" OUT="$case_dir/out$number" \
      GPU_CHECK_SECONDS=3 -- bash -c "cd tree && $call"
    expect_status "call$number" 1
    expect_no_text "call$number.err" 'line [0-9]+:'
    expect_no_text "call$number.out" simulated
    for part in ${call#*--build .pack}; do
      [[ $part != --part ]] || continue
      parts+=" $part"
      expect_text "call$number.out" "^-- $part: (complete|not all|not run)"
      expect_no_text "call$number.out" "^-- $part: .*an earlier run"
      expect_text "out$number/gpu-check.json" "^\"$part\":\{\"state\":"
    done
  done <calls
  expect_equal "the parts, each once" "bench conformance probe programs real safety shared traces" \
    "$(tr ' ' '\n' <<<"$parts" | grep . | sort | paste -sd' ')"
}
add_long_case "gpu-check calls of the page" documented_calls_case

# What new memory holds: the simulated device clears memory that it mapped again, not what
# shares a mapping. A free is timed without the library and with it.
memory_questions_case() {
  ask_only contents free_idle
  gpu_check check -- --part probe --build "$case_dir/stand-in"
  expect_status check 0
  expect_text check.out '^simulated contents +device fresh +4K=zero .* 64M=zero$'
  expect_text check.out '^simulated contents +device again +4K=old .* 64M=zero$'
  expect_text check.out '^simulated free_idle +64 streams +512B='
  expect_text check.out '^simulated free_idle +with 64 streams +512B='
}
add_case "gpu-check asks of memory" memory_questions_case

# The page has a row for each question that is asked, and for no other. What real drivers have settled
# without a GPU is not asked.
questions_case() {
  need_file "$build/gpu/gpu_probe"
  need python3
  run_in list -- "$build/gpu/gpu_probe" --list
  expect_status list 0
  expect_no_text list.out '^(lookup|reentry) '
  python3 -S - "$sources/docs/gpu-check.md" <<'END' || fail "the page has other questions than the probe"
import fnmatch, re, sys
asked = [line.split()[0] for line in open("list.out")]
page = open(sys.argv[1]).read()
rows = re.findall(r"^- ([a-z_*., ]+): ", page[page.index("## The questions"):
                                               page.index("## The documented")], re.M)
told = set()
for name in (name for row in rows for name in row.split(", ") if name != "question"):
    if " ... " in name:
        first, last = map(asked.index, name.split(" ... "))
        told.update(asked[first:last + 1])
    else:
        told.update(fnmatch.filter(asked, name) or [name])
print("not on the page:", set(asked) - told, "not asked:", told - set(asked))
sys.exit(told != set(asked))
END
}
add_case "gpu-check asks what the page says" questions_case

# The checksum that scripts print: of each value and its place; never of what is no number.
real_checksum_case() {
  need python3
  cat >sums.py <<'PROGRAM'
import sys
sys.path.insert(0, sys.argv[1] + "/tests/real")
import work

values = [0.5 * (index % 7) - 1 for index in range(2000)]
before = work.checksum(values)
assert before == work.checksum(list(values)) and len(before.strip("-")) <= 9, before
assert work.checksum([1.0001 * value for value in values], 8) != work.checksum(values, 8)
for at in (0, 999, 1999):
    assert work.checksum(values[:at] + [values[at] + 1000] + values[at + 1:]) != before
assert work.checksum([-value for value in values]) != before
assert work.checksum(values[::-1]) != before
for bad in (float("nan"), float("inf")):
    try:
        work.checksum(values + [bad])
    except SystemExit as said:
        assert "not finite" in str(said)
    else:
        raise AssertionError("accepted")
PROGRAM
  run_in sums -- python3 -SB sums.py "$sources"
  cat sums.err
  expect_status sums 0
  expect_equal "scripts without a checksum" "" \
    "$(grep -L 'checksum' "$sources"/tests/real/*_*.py)"
}
add_case "gpu-check real scripts print checksums" real_checksum_case

# A run under verify is a row of its own, whether it found an idle check failed, none, or nothing
# to check; the script is run all the same.
real_verify_case() {
  need_file "$apps/past_linked"
  plant a_past '# real: way plain' 'import subprocess, sys' \
    "sys.exit(subprocess.call(['$apps/past_linked', '$apps/past_part.so', 'known', 'device']))"
  plant b_right '# real: way plain' 'import subprocess, sys' \
    "sys.exit(subprocess.call(['$apps/pipeline_linked']))"
  plant c_none '# real: way plain' 'print("no CUDA")'
  mkdir -p samples
  gpu_check check -- --part real
  expect_status check 1
  expect_text check.out \
    '^simulated a_past +verify plain: ERROR 1: idle check failed \(cuMemFree, GPU 0\): stream '
  expect_text check.out '^simulated verify +3 runs, [1-9][0-9]* idle checks, 1 not as they '
  expect_row a_past "verify plain" failed "idle check failed"
  expect_row a_past plain measured same
  expect_row b_right "verify plain" measured "no violation"
  expect_text work/real.rows '"b_right","row":"verify plain",.*"checked":[1-9][0-9]*,"violated":0}'
  expect_row c_none "verify plain" "not run" "no report of verify"
  expect_row c_none plain measured same
}
add_long_case "gpu-check real programs with a wrong idle check" real_verify_case

# A run under verify that takes too long is a row of its own, and the next script is run; a
# script whose first run does is left out.
real_warm_case() {
  plant a_cold '# real: way plain' '# real: way other' 'import time' 'time.sleep(60)'
  plant b_next '# real: way plain' 'print("next")'
  mkdir -p samples
  plant c_later '# real: way plain' '# real: way slow REAL_SLOW=yes' 'import os, time' \
    'time.sleep(60 * ("REAL_SLOW" in os.environ))' 'print("later")'
  gpu_check check GPU_CHECK_REAL_WARM=3 -- --part real
  expect_status check 1
  expect_row a_cold "verify plain" "timed out" "its run under verify, not measured, was ended after 3 s"
  expect_text check.out '^simulated a_cold +verify plain timed out: '
  expect_count check.out '^simulated a_cold' 1
  expect_row b_next plain measured same
  expect_row c_later "verify slow" "timed out" "was ended after 3 s"
  expect_row c_later plain measured same
  expect_count check.out '^simulated c_later +slow' 0
  expect_text check.out '^-- real: complete: 2 runs, 2 not as native, '
}
add_long_case "gpu-check real programs that start too slowly" real_warm_case

# What watches the memory does not come back: nor NVML on a card that is not well.
real_watch_case() {
  need_file "$build/gpu/gpu_watch"
  link_build gpu
  rm stand-in/gpu/gpu_watch
  printf '%s\n' '#!/bin/sh' 'exec sleep 60' >stand-in/gpu/gpu_watch
  chmod +x stand-in/gpu/gpu_watch
  plant only '# real: way plain' 'print("only")'
  gpu_check check GPU_CHECK_REAL_WARM=3 -- --build "$case_dir/stand-in" --part real
  expect_status check 1
  expect_row only plain "not run" "it took more than 3 s"
}
add_long_case "gpu-check real programs that nobody watches" real_watch_case

# A part that was run before is kept, and said to be; not on another machine.
gpu_check_resumes_case() {
  mkdir -p samples
  cp "$sources"/tests/real/{arrays_ctypes,work}.py -t . && mkdir -p scripts && mv ./*.py scripts/
  need_file "$build/replay/replay"
  gpu_check first -- --part traces
  expect_status first 0
  expect_text first.out '^simulated arrays_ctypes +[0-9]+ allocations '
  expect_row arrays_ctypes - measured None
  tar -xzf out/gpu-check-work.tar.gz || fail "no archive"
  grep -q 'arrays_ctypes.py, way plain' traces/arrays_ctypes.origin || fail "no origin"
  [[ $(gzip -dc traces/arrays_ctypes.csv.gz | wc -l) -gt 1000 ]] || fail "no recording"
  plant small '# real: way plain' 'print("small")'
  gpu_check second -- --part real
  expect_status second 0
  expect_text second.out '^-- traces: complete: .* \(an earlier run; rows are in the JSON\)$'
  expect_row small plain measured same
  expect_row arrays_ctypes - measured None
  gpu_check third CUDASIM_DEVICES=3 -- --part real
  expect_status third 0
  expect_no_text third.out '^-- traces'
}
add_long_case "gpu-check resumes" gpu_check_resumes_case

# What was found before a signal is whole, and the result says that it is not all.
gpu_check_interrupted_case() {
  mkdir -p samples
  plant a_quick '# real: way plain' 'print("quick")'
  plant b_slow '# real: way plain' 'import os, time' 'print("slow", flush=True)' \
    'time.sleep(60 * ("verify" not in os.environ.get("GPUSHIM_FREE_SYNC", "")))'
  need_file "$build/gpu/gpu_watch"
  need python3
  interrupt_check work/real.run/b_slow.plain.native.out GPU_CHECK_REAL="$case_dir/scripts" \
    GPU_CHECK_SAMPLES="$case_dir/samples" -- --build "$build" --part real
  expect_row a_quick plain measured same
  expect_text check.out '^-- real: interrupted$'
}
add_case "gpu-check is interrupted" gpu_check_interrupted_case

# A signal that comes while the result is written goes for the table as any other does.
gpu_check_interrupted_writing_case() {
  mkdir -p samples tools
  plant a_quick '# real: way plain' 'print("quick")'
  plant b_slow '# real: way plain' 'import time' 'time.sleep(60)'
  need python3
  # What write_json calls for each part.
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' 'case $1 in "\$!s"*)' "echo writing >>'$case_dir/writing'; sleep 2 ;; esac" \
    "exec $(command -v sed) \"\$@\"" >tools/sed
  chmod +x tools/sed
  interrupt_check "$case_dir/writing" PATH="$case_dir/tools:$PATH" GPU_CHECK_KEEP=3 \
    GPU_CHECK_REAL="$case_dir/scripts" GPU_CHECK_SAMPLES="$case_dir/samples" -- \
    --build "$build" --part real
  expect_text check.out '^-- real: interrupted$'
  for result in out work; do
    python3 -S -c 'import json, sys; json.load(open(sys.argv[1]))' "$result/gpu-check.json" ||
      fail "the JSON in $result is not whole"
  done
}
add_long_case "gpu-check is interrupted while it writes" gpu_check_interrupted_writing_case

# What does not fit is left out of the archive, the largest first, and the table says so.
gpu_check_archive_case() {
  mkdir -p samples work/old
  plant small '# real: way plain' 'print("small")'
  truncate -s 61M work/old/zeros
  head -c 8M /dev/urandom >work/old/noise_8
  gpu_check check -- --part real
  expect_text check.out '^too large for gpu-check-work.tar.gz: 1 of [0-9]+ files, old/zeros$'
  head -c 9M /dev/urandom >work/old/noise_9
  gpu_check check -- --part real
  expect_text check.out '^too large for .*: 2 of [0-9]+ files, old/zeros old/noise_9$'
  expect_equal "files" "gpu-check-work.tar.gz gpu-check.json gpu-check.txt" \
    "$(find out -mindepth 1 -printf '%f\n' | sort | paste -sd' ')"
  [[ $(stat -c %s out/gpu-check-work.tar.gz) -le $((15 << 20)) ]] || fail "too large"
  mkdir kept
  tar -xzf out/gpu-check-work.tar.gz -C kept || fail "no archive"
  cmp kept/old/noise_8 work/old/noise_8 || fail "what fits is not there"
  grep -qx small kept/real.run/small.plain.shim.out || fail "no output of a program"
  expect_equal "left out" "$((61 << 20)) old/zeros $((9 << 20)) old/noise_9" \
    "$(paste -sd' ' kept/left-out.txt)"
}
add_long_case "gpu-check leaves the largest out" gpu_check_archive_case

# stand_in_build TOPIC: a build whose suite has that topic alone, and 3 seconds for a case.
stand_in_build() {
  need_file "$build/gpu/conformance"
  link_build gpu
  rm stand-in/gpu/conformance
  cat >stand-in/gpu/conformance <<END
#!/bin/sh
echo "suite \$*" >>"$case_dir/suite.calls"
if [ "\$1" = --list ]; then "$build/gpu/conformance" --list | grep '^$1\\.'
else exec "$build/gpu/conformance" "\$@" --case-seconds 3 $1.; fi
END
  chmod +x stand-in/gpu/conformance
  run_in list -- stand-in/gpu/conformance --list
  sed -n "s/^$1\\.\\([^ ]*\\) .*/\\1/p" list.out >cases
  [[ $(wc -l <cases) -gt 5 ]] || fail "no cases of $1"
}

# case_rows WORDS: the outcomes of the cases in the JSON; of one whose note has the words,
# "as told".
case_rows() {
  python3 -S - "$1" <<'END'
import json, sys
for row in json.load(open("out/gpu-check.json"))["parts"]["conformance"]["rows"]:
    told = sys.argv[1] and sys.argv[1] in row["note"]
    print(row["row"], "as told" if told else row["values"].get("outcome"))
END
}

# Those behind a case that does not come back are run.
gpu_check_case_hangs_case() {
  stand_in_build device
  gpu_check check CUDASIM_FAIL=cuDeviceGetExecAffinitySupport:1=slow:90000 -- \
    --build "$case_dir/stand-in" --part conformance
  expect_status check 1
  expect_row device exec_affinity "timed out" "it did not come back"
  expect_equal "rows" "$(sed 's/$/ passed/; s/^exec_affinity .*/exec_affinity as told/' cases)" \
    "$(case_rows "it did not come back")"
  expect_count suite.calls '^suite --json .* --case-seconds 60 --returns-ms 30000$' 2
  expect_text check.out '^-- conformance: complete: 1 failed, in '
  expect_text check.out '^simulated failed +device.exec_affinity *$'
}
add_case "gpu-check goes on behind a case that hangs" gpu_check_case_hangs_case

# The second case of each run ruins the context; no other fails for it.
gpu_check_case_ruins_case() {
  stand_in_build device
  gpu_check check CUDASIM_FAIL=cuCtxSynchronize:3=700 -- \
    --build "$case_dir/stand-in" --part conformance
  expect_status check 1
  expect_equal "rows" "$(sed 's/$/ passed/; 0~2s/passed/as told/' cases)" \
    "$(case_rows "the context is not usable after it")"
}
add_case "gpu-check goes on behind a case that ruins its context" gpu_check_case_ruins_case

# A suite that never comes to its first case is not started for each of them.
gpu_check_suite_dies_case() {
  stand_in_build device
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' 'case $1 in' "--list) exec '$build/gpu/conformance' --list ;;" 'esac' \
    "echo run >>'$case_dir/suite.runs'" 'echo "no such symbol" >&2' 'exit 127' \
    >stand-in/gpu/conformance
  gpu_check check -- --build "$case_dir/stand-in" --part conformance
  expect_status check 1
  expect_count suite.runs run 5
  expect_text check.out '^simulated cases +not all: given up at array\.'
  expect_text check.out '^-- conformance: not all: 5 failed, in '
}
add_case "gpu-check gives up a suite that dies" gpu_check_suite_dies_case

# The suite by itself: its limits hold for cases with a process of their own and for calls
# that must come back.
conformance_limits_case() {
  local suite=$build/gpu/conformance waits=stream.synchronize_waits_for_one

  need_file "$suite"
  run_in own CUDASIM_FAIL=cuStreamSynchronize:1=slow:90000 -- "$suite" --case-seconds 3 \
    error.sticky_elsewhere
  expect_status own 1
  expect_text own.out '^FAILED error.sticky_elsewhere: not done after 3 s$'
  run_in late CUDASIM_FAIL=cuStreamSynchronize:1+=slow:2000 -- "$suite" --returns-ms 500 "$waits"
  expect_status late 1
  expect_text late.out "^FAILED $waits .*: came_back\\(.* is not so\$"
  run_in asked CUDASIM_FAIL='cuStreamQuery:*=600' -- "$suite" --returns-ms 300 \
    memop.wait_by_default_is_met_above
  expect_status asked 1
  expect_count asked.out '^FAILED memop.* completes\(stream\) is not so$' 2
  run_in early CUDASIM_FAIL=cuStreamSynchronize:1+=slow:2000 -- "$suite" "$waits"
  expect_status early 0
  run_in usage -- "$suite" --case-seconds 0
  expect_status usage 2
  run_in usage -- "$suite" --returns-ms 1s
  expect_status usage 2
}
add_long_case "gpu-check suite has limits" conformance_limits_case

# Cases that were written before the suite was killed, with nothing said.
gpu_check_silent_case() {
  # shellcheck source=/dev/null
  source "$sources/tests/gpu/parts/conformance.sh"
  printf '%s\n' '[' '  {"case": "a.b", "outcome": "passed", "document": "d"}' >json
  : >text
  simulated=true conformance_rows json text >rows
  expect_count rows '"row":"b","status":"measured",.*"outcome":"passed"' 1
  expect_equal "on a GPU" "--case-seconds 12 --returns-ms 3000" "$(simulated=false case_limits)"
}
add_case "gpu-check keeps cases of a silent suite" gpu_check_silent_case

# With no time left every part says so, and the result is whole.
gpu_check_no_time_case() {
  mkdir -p samples
  plant small '# real: way plain' 'print("small")'
  gpu_check check GPU_CHECK_SECONDS=2 -- --part all
  expect_status check 1
  expect_no_text check.err 'line [0-9]+:'
  for part in probe conformance safety programs shared real bench traces; do
    expect_text check.out "^-- $part: (complete|not all|not run)"
  done
  expect_text check.out '^simulated cases +not all: the time was over'
  python3 -S - <<'END' || fail "the JSON is not whole"
import json
parts = json.load(open("out/gpu-check.json"))["parts"]
assert len(parts) == 8, sorted(parts)
END
}
add_long_case "gpu-check without time" gpu_check_no_time_case

# A part has what it must have although the one behind it must have as much; and what it found
# is in OUT before the next one is over.
gpu_check_share_case() {
  stand_in_build device
  plant look '# real: way plain' 'import shutil' \
    "shutil.copy('$case_dir/out/gpu-check.json', '$case_dir/seen.json')"
  gpu_check check GPU_CHECK_SECONDS=50 -- --build "$case_dir/stand-in" --part conformance \
    --part real
  expect_equal "rows" "$(sed 's/$/ passed/' cases)" "$(case_rows '')"
  python3 -S - <<'END' || fail "nothing was handed over before the end"
import json
parts = json.load(open("seen.json"))["parts"]
assert list(parts) == ["conformance"] and len(parts["conformance"]["rows"]) > 20, parts
END
}
add_case "gpu-check shares its time" gpu_check_share_case

# A run that the part's own end cut short says nothing of the program.
gpu_check_cut_case() {
  # shellcheck disable=SC2034 # read by run_command
  local library_path=$cuda_path part_has=1

  # shellcheck source=/dev/null
  source "$sources/tests/gpu/parts/compare.sh"
  # shellcheck disable=SC2317 # called by run_command
  part_left() { echo "$part_has"; }
  # shellcheck disable=SC2317
  wait_for() { wait "$1"; }
  run_command native 5 -- true
  run_command shim 1 -- sleep 30
  compare_runs native 0 shim "$run_status"
  expect_equal "the part's end" "no time" "$found"
  expect_equal "its row" "not run" "$(status_of "$found")"
  part_has=100
  run_command shim 1 -- sleep 30
  compare_runs native 0 shim "$run_status"
  expect_equal "its own limit" "timed out" "$found"
  CUDA_HOME=/a XLA_FLAGS="--b --c" CUDA_PATH=/d run_command told 5 -- env
  expect_equal "told" "CUDA_HOME=/a CUDA_PATH=/d XLA_FLAGS=--b --c" \
    "$(grep -E '^(CUDA_|XLA_)' told.out | sort | paste -sd' ')"
}
add_case "gpu-check tells a late run from a slow one" gpu_check_cut_case

# a_gpu: the simulated driver, in the folder driver, under another name: what asks whether the
# device is simulated hears that it is not.
a_gpu() {
  mkdir -p driver
  sed 's/cudasim-/cudagpu-/g' "$build/sim/libcuda.so.1" >driver/libcuda.so.1
  run_in machine LD_LIBRARY_PATH="$case_dir/driver" -- "$build/gpu/gpu_probe" --machine
  expect_text machine.out '"simulated":false'
}

# On a GPU: the rows say so, and one process keeps the driver open from the first part to the
# end. Where there must be one and is none, nothing is simulated.
gpu_check_gpu_case() {
  local keeper

  stand_in_build device
  need_file "$build/gpu/gpu_probe"
  a_gpu
  rm stand-in/gpu/gpu_probe
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' "echo \"\$\$ \$*\" >>'$case_dir/probe.calls'" 'case $1 in' \
    '--list) echo "device 20 a question" ;;' "*) exec '$build/gpu/gpu_probe' \"\$@\" ;;" \
    'esac' >stand-in/gpu/gpu_probe
  chmod +x stand-in/gpu/gpu_probe
  run_in check LD_LIBRARY_PATH="$build/sim:$case_dir/driver" GPU_CHECK_WORK="$case_dir/work" \
    OUT="$case_dir/out" -- "$sources/scripts/gpu-check" --build "$case_dir/stand-in" --gpu \
    --part probe --part conformance
  expect_status check 0
  expect_no_text check.out simulated
  expect_text check.out '^gpu +device +attributes '
  expect_text check.out '^gpu +cases +[0-9]+ passed, 0 failed'
  expect_count suite.calls '^suite --json .* --case-seconds 12 --returns-ms 3000$' 1
  expect_equal "the probe's calls" "--list --list --machine --stay device" \
    "$(cut -d' ' -f2 probe.calls | sort | paste -sd' ')"
  keeper=$(sed -n 's/ --stay .*//p' probe.calls)
  ! kill -0 "$keeper" 2>/dev/null || fail "the driver is still kept open"
  expect_no_text check.err 'Terminated|line [0-9]+'
  : >probe.calls
  run_in none LD_LIBRARY_PATH="$build/sim" GPU_CHECK_WORK="$case_dir/work" -- \
    "$sources/scripts/gpu-check" --build "$case_dir/stand-in" --gpu --part probe
  expect_status none 3
  expect_text none.err '^gpu-check: no GPU here '
  expect_no_text probe.calls 'device'
}
add_case "gpu-check on a GPU" gpu_check_gpu_case

# Two runs do not share a work folder; one that was killed is in nobody's way. A folder that
# cannot be written to is named.
gpu_check_shared_case() {
  local other

  stand_in_build device
  mkdir work
  bash -c 'exec -a gpu-check sleep 60' &
  other=$!
  echo "$other" >work/running
  gpu_check held -- --build "$case_dir/stand-in" --part conformance
  kill "$other"
  wait "$other"
  expect_status held 2
  expect_equal "what it says" \
    "gpu-check: process $other uses $case_dir/work (GPU_CHECK_WORK chooses another folder)" \
    "$(cat held.err)"
  gpu_check free -- --build "$case_dir/stand-in" --part conformance
  expect_status free 0
  [[ ! -e work/running ]] || fail "the folder is still in use"
  mkdir work/running
  gpu_check barred -- --build "$case_dir/stand-in" --part conformance
  expect_status barred 2
  expect_text barred.err '^gpu-check: cannot write to .*/work [(]GPU_CHECK_WORK chooses'
}
add_case "gpu-check alone in its folder" gpu_check_shared_case

# slow_build: a build whose probe, first program of the part safety and Python never come back.
slow_build() {
  need_file "$build/bench/bench_driver"
  link_build gpu apps
  rm stand-in/gpu/gpu_probe stand-in/apps/reuse_shared
  # shellcheck disable=SC2016 # for the programs
  printf '%s\n' '#!/bin/sh' 'case $1 in' '--list) echo "slow 20 a question" ;;' \
    "--machine) exec '$build/gpu/gpu_probe' --machine ;;" '*) exec sleep 60 ;;' 'esac' \
    >stand-in/gpu/gpu_probe
  printf '%s\n' '#!/bin/sh' 'exec sleep 60' >stand-in/apps/reuse_shared
  # shellcheck disable=SC2016
  printf '%s\n' '#!/bin/sh' 'case "$*" in' '*scripts/bench*|*a_slow*) exec sleep 60 ;;' \
    '*sys.executable*) echo "$0" ;;' "*) exec python3 -S \"\$@\" ;;" 'esac' >slow_python
  chmod +x stand-in/gpu/gpu_probe stand-in/apps/reuse_shared slow_python
  plant a_slow '# real: way plain' '# real: trace plain'
}

# What only the end of its part cut short did not time out.
gpu_check_late_case() {
  local part seconds question row

  slow_build
  while read -r part seconds question row; do
    gpu_check "$part" GPU_CHECK_SECONDS="$seconds" GPU_CHECK_PYTHON="$case_dir/slow_python" -- \
      --build "$case_dir/stand-in" --part "$part"
    [[ $part == safety ]] || expect_status "$part" 1
    expect_row "$question" "$row" "not run" "time"
    expect_no_text "$part.out" "timed out|status 124"
  done <<'END'
probe 5 slow -
safety 7 reuse_shared native
bench 10 hitpair -
real 12 a_slow:plain -
traces 17 a_slow plain
END
}
add_long_case "gpu-check does not call a part's end a slow run" gpu_check_late_case

# Its own build is brought up to date each time, warnings allowed, also with no time for it, and
# where it came from another place.
gpu_check_build_case() {
  mkdir -p tree/scripts tools
  need_file "$build/gpu/gpu_probe"
  mkdir -p tree/build-gpu-check/CMakeFiles
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere" >tree/build-gpu-check/CMakeCache.txt
  ln -s "$sources/scripts/gpu-check" tree/scripts/
  ln -s "$sources"/{tests,include} tree/
  cat >tools/cmake <<END
#!/bin/sh
echo "cmake \$*" >>"$case_dir/calls"
if grep -q elsewhere "$case_dir/tree/build-gpu-check/CMakeCache.txt"; then exit 1; fi
mkdir -p "$case_dir/tree/build-gpu-check/gpu"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$case_dir/tree" >"$case_dir/tree/build-gpu-check/CMakeCache.txt"
cp "$build/gpu/gpu_probe" "$case_dir/tree/build-gpu-check/gpu/"
END
  chmod +x tools/cmake
  for run in first second; do
    : >calls
    run_in "$run" PATH="$case_dir/tools:$PATH" GPU_CHECK_SECONDS=60 -- \
      tree/scripts/gpu-check --list
    expect_status "$run" 0
    expect_count calls '^cmake -S .* -DGPUSHIM_WERROR=OFF' 1
    expect_count calls '^cmake --build build-gpu-check .* -k$' 1
    expect_text "$run.err" '^gpu-check: .* s are left, 150 of them for the parts: '
  done
}
add_case "gpu-check brings its build up to date" gpu_check_build_case

# Where nothing can be built, the log comes back all the same.
gpu_check_no_build_case() {
  mkdir -p tree/scripts tools
  ln -s "$sources/scripts/gpu-check" tree/scripts/
  ln -s "$sources"/{tests,include,shim} tree/
  printf '%s\n' '#!/bin/sh' 'echo "no such generator"; exit 1' >tools/cmake
  printf '%s\n' '#!/bin/sh' 'echo "no such option" >&2; exit 1' >tools/gcc
  chmod +x tools/*
  run_in check PATH="$case_dir/tools:$PATH" OUT="$case_dir/out" -- tree/scripts/gpu-check --gpu
  expect_status check 1
  expect_text check.err '^no such generator$'
  expect_text check.err '^no such option$'
  expect_text check.err '^gpu-check: gpu_probe cannot be built here$'
  expect_text out/gpu-check-build.log '^no such generator$'
}
add_case "gpu-check cannot build" gpu_check_no_build_case

# A call that waits with the library alone, and a free that was told not to wait.
gpu_check_stalls_case() {
  printf 'stalls: %s\n' 'free, a stream: waits' 'ask, a stream: at once' >native
  printf 'stalls: %s\n' 'free, a stream: waits' 'ask, a stream: waits' >shim
  # shellcheck source=/dev/null
  source "$sources/tests/gpu/parts/safety.sh"
  expect_equal "waiting" "ask, a stream" "$(stalled_steps native shim waiting)"
  expect_equal "lazy" "free, a stream; ask, a stream" "$(stalled_steps native shim lazy+pool)"
  expect_equal "the same" "" "$(stalled_steps native native waiting)"
}
add_case "gpu-check sees a call that hangs" gpu_check_stalls_case

# A pack is used from another place, where nothing of the build can be reached, and is small
# enough to be carried.
gpu_check_pack_case() {
  need strip
  need_file "$build/gpu/conformance"
  run_in pack -- "$sources/scripts/gpu-check" --build "$build" --pack "$case_dir/packed"
  expect_status pack 0
  expect_text pack.out '^gpu-check: packed .* MiB; there: scripts/gpu-check --build DIR$'
  [[ $(du -sm packed | cut -f1) -lt 50 ]] || fail "it cannot be carried"
  ! find packed -name '*.o' -o -name CMakeFiles | grep -q . || fail "it has parts of the build"
  [[ -e packed/runtime/libcudart.so.13 || $(<pack.err) == *'no libcudart.so.13'* ]] ||
    fail "a machine with a driver alone lacks the runtime"
  mkdir -p scripts samples elsewhere
  mv packed elsewhere/
  plant only '# real: way plain' 'print("only")'
  run_in run GPU_CHECK_REAL="$case_dir/scripts" GPU_CHECK_SAMPLES="$case_dir/samples" \
    OUT="$case_dir/out" GPU_CHECK_SECONDS=60 -- "$sources/scripts/gpu-check" --simulated \
    --build "$case_dir/elsewhere/packed" --part real --part safety
  expect_row only plain measured same
  expect_row reuse_shared waiting measured same
  run_in again -- "$sources/scripts/gpu-check" --build "$build" --pack "$case_dir/elsewhere/packed"
  expect_status again 0
  run_in full -- "$sources/scripts/gpu-check" --build "$build" --pack "$case_dir"
  expect_status full 2
  expect_equal "what it says" \
    "gpu-check: --pack $case_dir: the folder has something in it that is no pack" "$(cat full.err)"
  run_in file -- "$sources/scripts/gpu-check" --build "$build" --pack "$case_dir/full.err"
  expect_status file 2
  expect_text file.err ': it is no folder$'
}
add_long_case "gpu-check packed" gpu_check_pack_case

# A pack on a machine that has a driver and nothing else of CUDA, and no network; the build and a
# toolkit in the checkout are out of sight. The driver is the simulated one under another name, over
# which NVIDIA's runtime does not start: the simulated runtime takes its place in the pack. Some
# questions and programs; E2E_GPU_CHECK=all has each.
gpu_check_bare_case() {
  local file cuda_path='' time_limit=300

  need strip
  need_file "$build/gpu/conformance"
  unshare -mn true 2>/dev/null || skip "a file system and a network of our own"
  a_gpu
  run_in pack -- "$sources/scripts/gpu-check" --build "$build" --pack "$case_dir/packed"
  expect_status pack 0
  mkdir -p packed/runtime
  cp packed/sim/libcudart.so.13 packed/runtime/
  for file in packed/apps-gpu/*; do
    [[ ! -f $file ]] || cp "packed/apps/${file##*/}" packed/apps-gpu/
  done
  [[ ${E2E_GPU_CHECK:-} == all ]] || few_questions
  cat >bare <<'END'
hide() { [[ ! -d $1 ]] || mount -t tmpfs -o size=32m bare "$1" || exit 77; }

hide /usr/local
[[ -z $(ls -A /usr/local) && $(grep -c : /proc/net/dev) -le 1 ]] || exit 77
[[ $PWD/ == "$1"/* ]] || hide "$1"
hide "$2/.cuda"
mkdir -p /usr/local/nvidia/lib64
cp driver/libcuda.so.1 /usr/local/nvidia/lib64/ || exit 77
shift 2
exec "$@"
END
  run_in check OUT="$case_dir/out" GPU_CHECK_SECONDS=280 -- \
    unshare -mn bash bare "$build" "$sources" "$sources/scripts/gpu-check" --gpu \
    --build "$case_dir/packed" --part probe --part safety
  [[ $(<check.status) != 77 ]] || skip "a file system and a network of our own"
  cat check.err
  expect_status check 0
  expect_no_text check.out simulated
  expect_text check.out '^-- probe: complete: 0 without an answer, '
  expect_text check.out '^-- safety: complete: [1-9][0-9]* runs, 0 not as native, '
  expect_text check.out '^gpu +reuse_shared +native [0-9]+  waiting [0-9]+  lazy [0-9]+ '
  expect_text check.out '^gpu +async_shared +native [0-9]+  pool [0-9]+ '
  expect_text out/gpu-check.json '"question":"free_legacy",.*"simulated":false'
}
add_long_case "gpu-check in a bare root" gpu_check_bare_case

# few_questions: a pack with few of its questions and programs of the part safety.
few_questions() {
  mv packed/gpu/gpu_probe packed/gpu/whole_probe
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' 'whole=${0%/*}/whole_probe' '[ "$1" = --list ] || exec "$whole" "$@"' \
    '"$whole" --list | grep -E "^(device|free_legacy|contents|attributes) "' >packed/gpu/gpu_probe
  chmod +x packed/gpu/gpu_probe
  rm -f packed/apps/{stalls,threads,pipeline,capture}_* packed/apps/reuse_{linked,static} \
    packed/apps-gpu/*
}

# What a part has found so far is in the result while the part still runs.
gpu_check_keeps_case() {
  local kept pid

  stand_in_build device
  rm stand-in/gpu/gpu_probe
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' 'case $1 in' '--list) printf "%s 20 a question\n" device slow ;;' \
    'slow) exec sleep 60 ;;' "*) exec '$build/gpu/gpu_probe' \"\$@\" ;;" 'esac' \
    >stand-in/gpu/gpu_probe
  chmod +x stand-in/gpu/gpu_probe
  env GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" GPU_CHECK_KEEP=1 \
    "$sources/scripts/gpu-check" --simulated --build "$case_dir/stand-in" --part probe \
    >check.out 2>check.err &
  pid=$!
  await 30 grep -qs '"question":"device"' out/gpu-check.json
  kept=$?
  kill -TERM "$pid"
  wait "$pid"
  expect_equal "status" 143 $?
  [[ $kept -eq 0 ]] || fail "the result has nothing of the part that runs"
  expect_no_text check.err 'line [0-9]+'
}
add_case "gpu-check keeps what it has found" gpu_check_keeps_case

# A program that SIGUSR1 ends is not taken for the signal that has the results kept, which comes
# meanwhile and ends no wait for a program.
gpu_check_signal_case() {
  # shellcheck disable=SC2034 # read by run_in
  local time_limit=60

  plant a_ended '# real: way plain' 'import os, signal' 'os.kill(os.getpid(), signal.SIGUSR1)'
  plant b_kept '# real: way plain' 'import time' 'time.sleep(3)' 'print("kept")'
  gpu_check check GPU_CHECK_SECONDS=40 GPU_CHECK_KEEP=1 -- --part real
  expect_status check 1
  expect_row a_ended plain "not run" "with status 138: "
  expect_row b_kept plain measured same
}
add_long_case "gpu-check and a program that a signal ends" gpu_check_signal_case

# What a scenario of the benchmark has measured is in the result while the scenario runs, and stays
# when a signal ends the run. The Python stands in for scripts/bench: one row, and no end.
gpu_check_keeps_bench_case() {
  local kept pid

  need_file "$build/bench/bench_driver"
  link_build gpu
  cat >slow_bench <<'END'
import json, os, sys, time
at = sys.argv[sys.argv.index("--json") + 1]
ours = {"p50": 123.0, "p99": 200.0, "calls": 0}
run = {"simulated": True, "complete": False, "missing": {}, "problems": [], "figures": [],
       "rows": [{"scenario": "hitpair", "setting": "as shipped", "threads": 1, "gpushim": ours,
                 "peers": {}}]}
with open(at + ".new", "w") as file:
    json.dump(run, file, indent=2)
os.rename(at + ".new", at)
time.sleep(60)
END
  # shellcheck disable=SC2016 # for the program
  printf '%s\n' '#!/bin/sh' 'case "$*" in' \
    "*scripts/bench*) exec python3 '$case_dir/slow_bench' \"\$@\" ;;" \
    '*sys.executable*) echo "$0" ;;' "*) exec python3 -S \"\$@\" ;;" 'esac' >slow_python
  chmod +x slow_python
  env GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" GPU_CHECK_KEEP=1 \
    GPU_CHECK_PYTHON="$case_dir/slow_python" "$sources/scripts/gpu-check" --simulated \
    --build "$case_dir/stand-in" --part bench >check.out 2>check.err &
  pid=$!
  await 30 grep -qs '"question":"hitpair"' out/gpu-check.json &&
    await 30 grep -qsE '^simulated hitpair +as shipped 123$' out/gpu-check.txt
  kept=$?
  kill -TERM "$pid"
  wait "$pid"
  expect_equal "status" 143 $?
  [[ $kept -eq 0 ]] || fail "the result has nothing of the scenario that runs"
  expect_row hitpair "as shipped" measured None
  expect_text check.out '^simulated hitpair +as shipped 123$'
}
add_case "gpu-check keeps what a scenario has measured" gpu_check_keeps_bench_case

gpu_check_usage_case() {
  gpu_check part -- --part nonsense
  expect_status part 2
  expect_text part.err "^gpu-check: no part 'nonsense': one of probe "
  expect_count part.err . 1
  gpu_check seconds GPU_CHECK_SECONDS=soon -- --part real
  expect_status seconds 2
  expect_text seconds.err 'GPU_CHECK_SECONDS is not a number of seconds$'
  gpu_check word -- --nonsense
  expect_status word 2
  expect_count word.err . 1
}
add_case "gpu-check refuses bad input" gpu_check_usage_case
