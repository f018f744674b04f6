# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# gpu_check.sh - scripts/gpu-check itself, over the simulated device: what it says of real
# programs that are right, differ, fail or need what is not there; that it resumes, is
# interrupted, and refuses bad input in a line. What it finds out about a device is the
# business of its parts.

# gpu_check PREFIX [VAR=value...] -- ARGUMENT...: with a work folder of the case's own.
gpu_check() {
  local prefix=$1 settings=()

  shift
  for needed in gpu/gpu_probe gpu/gpu_watch; do
    need_file "$build/$needed"
  done
  need python3
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  run_in "$prefix" GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" \
    GPU_CHECK_REAL="$case_dir/scripts" GPU_CHECK_SAMPLES="$case_dir/samples" "${settings[@]}" -- \
    "$sources/scripts/gpu-check" --build "$build" --simulated "$@"
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
  python3 - "$@" <<'END' || fail "the row of $1 $2 is not as it should be"
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

# A part that was run before is kept, and said to be; not on another machine.
gpu_check_resumes_case() {
  mkdir -p samples
  cp "$sources"/tests/real/{arrays_ctypes,work}.py -t . && mkdir -p scripts && mv ./*.py scripts/
  need_file "$build/replay/replay"
  gpu_check first -- --part traces
  expect_status first 0
  expect_text first.out '^simulated arrays_ctypes +[0-9]+ allocations '
  expect_row arrays_ctypes - measured None
  grep -q 'arrays_ctypes.py, way plain' out/traces/arrays_ctypes.origin || fail "no origin"
  [[ $(gzip -dc out/traces/arrays_ctypes.csv.gz | wc -l) -gt 1000 ]] || fail "no recording"
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
add_case "gpu-check resumes" gpu_check_resumes_case

# What was found before a signal is whole, and the result says that it is not all.
gpu_check_interrupted_case() {
  local pid waited=0

  mkdir -p samples
  plant a_quick '# real: way plain' 'print("quick")'
  plant b_slow '# real: way plain' 'import time' 'time.sleep(60)'
  need_file "$build/gpu/gpu_watch"
  need python3
  GPU_CHECK_WORK=$case_dir/work OUT=$case_dir/out GPU_CHECK_REAL=$case_dir/scripts \
    GPU_CHECK_SAMPLES=$case_dir/samples "$sources/scripts/gpu-check" --build "$build" \
    --simulated --part real >check.out 2>check.err &
  pid=$!
  until [[ -e work/real.run/b_slow.plain.native.out ]]; do
    sleep 0.2
    waited=$((waited + 1))
    [[ $waited -lt 300 ]] || fail "it did not come to the slow one"
  done
  kill -TERM "$pid"
  wait "$pid"
  expect_equal "status" 143 $?
  expect_row a_quick plain measured same
  expect_text check.out '^-- real: interrupted$'
}
add_case "gpu-check is interrupted" gpu_check_interrupted_case

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
