# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# bench.sh - scripts/bench and the part bench of gpu-check: what was measured before the end
# came early, which rows come first, which Python and which libraries are taken. No figure is
# judged.

# The JSON is whole while the run goes on, and says that it is not all.
bench_cut_off_case() {
  local pid

  need python3
  need_file "$build/bench/bench_driver"
  mkdir made
  python3 -SB "$sources/scripts/bench" --build "$build" --no-build \
    --simulated --rounds 1 --json made/cut.json launch flight hitpair threads >cut.out 2>&1 &
  pid=$!
  await 60 test -s made/cut.json || fail "nothing was written"
  kill -KILL "$pid"
  wait "$pid"
  python3 -S -c 'import json
run = json.load(open("made/cut.json"))
assert run["complete"] is False and run["rows"] + run["figures"], run' || fail "no result"
  run_in whole -- python3 -SB "$sources/scripts/bench" --build "$build" --no-build --simulated \
    --rounds 1 --json made/whole.json launch
  python3 -S -c 'import json
run = json.load(open("made/whole.json"))
assert run["complete"] is True and run["figures"], run' || fail "no whole result"
  expect_equal "the files" "cut.json whole.json" \
    "$(cd made && find . -name '*.json' | sed 's:./::' | sort | tr '\n' ' ' | sed 's/ $//')"
  mkfifo pipe
  cat pipe >piped.json &
  run_in piped -- python3 -SB "$sources/scripts/bench" --build "$build" --no-build --simulated \
    --rounds 1 --json pipe launch
  [[ -p pipe ]] || fail "what is no file was replaced"
  wait $!
  python3 -S -c 'import json; assert json.load(open("piped.json"))["complete"]' || fail "not written"
}
add_long_case "bench keeps what was measured" bench_cut_off_case

# An allocator that takes as long as a GPU's own is measured in seconds, not in the hours that
# as many calls of it as of a fast one would take: run_in ends a program after two minutes.
bench_slow_case() {
  need_file "$build/bench/bench_driver"
  printf '%s\n' 'origin: made up' 'cuMemAlloc 1000000' 'cuMemFree 1000000' >pairs
  printf '%s\n' 'origin: made up' 'cuMemAlloc 100000' 'cuMemFree 100000' >others
  run_in pairs CUDASIM_LATENCY="$case_dir/pairs" -- "$build/bench/bench_driver" malloc hitpair
  expect_status pairs 0
  expect_text pairs.out '^hitpair malloc 1 ([2-9][0-9]{6}|[0-9]{8,})\.'
  run_in others CUDASIM_LATENCY="$case_dir/others" -- "$build/bench/bench_driver" malloc remote 2
  expect_status others 0
  expect_text others.out '^remote malloc 2 [0-9]{6,}\.'
}
add_case "bench of a slow allocator ends soon" bench_slow_case

# One thread and the most are measured first, and their figures follow at once.
bench_threads_case() {
  cat >order.py <<'PROGRAM'
import sys
sys.path.insert(0, sys.argv[1] + "/tests/bench")
from report.rows import Bench

for cores, wanted in ((1, [1]), (2, [1, 2, "figure"]), (3, [1, 3, "figure", 2]),
                      (12, [1, 12, "figure", 2, 4, 8]), (64, [1, 16, "figure", 2, 4, 8])):
    bench, told = object.__new__(Bench), []
    bench.cores, bench.usual, bench.has_runtime = cores, ("bench_runtime", "cudaMalloc"), True
    bench.peers = lambda: []

    class Group:
        """A thousand pairs by one thread, as many by each of others."""
        def __init__(self, threads):
            self.times = {name: [1000.0 * threads] for name in
                          ("cudaMalloc", "cudaMalloc TRACK=off", "cuMemAlloc",
                           "a loop without memory")}

    def group(label, scenario, threads, *_, **__):
        assert label == f"threads, {threads}" and scenario == "pair4k"
        told.append(threads)
        return Group(threads)

    def figure(scenario, what, unit, value, peers=None, **more):
        assert value == 1.0 and more["threads"] == min(cores, 16), (value, more)
        if told[-1] != "figure":
            told.append("figure")

    bench.group, bench.figure = group, figure
    bench.threads()
    assert told == wanted, (cores, told)
PROGRAM
  need python3
  run_in order -- python3 -SB order.py "$sources"
  cat order.err
  expect_status order 0
}
add_case "bench measures one thread and the most first" bench_threads_case

# A Python named from here, and the libraries of an installed PyTorch.
bench_paths_case() {
  cat >paths.py <<'PROGRAM'
import os
import sys
sys.path.insert(0, sys.argv[1] + "/tests/bench")
from report.measure import Device
from report.rows import python_of

assert python_of("here/bin/python") == os.path.abspath("here/bin/python")
assert os.path.isabs(python_of("python3")) and os.path.exists(python_of("python3"))
assert python_of("no/such/python") == "no/such/python"
os.makedirs("programs")
device = object.__new__(Device)
device.programs = "programs"
assert device._of_torch() == []
open("programs/torch_libraries", "w").write("")
assert device._of_torch() == []
open("programs/torch_libraries", "w").write("/some/torch/lib")
assert device._of_torch() == ["/some/torch/lib"]
PROGRAM
  need python3
  mkdir -p here/bin
  ln -s "$(command -v python3)" here/bin/python
  run_in paths -- python3 -SB paths.py "$sources"
  cat paths.err
  expect_status paths 0
}
add_case "bench finds a Python and its PyTorch" bench_paths_case

# The part bench: a scenario that the limit ends has a row, beside those it has left.
bench_part_case() {
  need python3
  cat >python <<'PROGRAM'
#!/bin/sh
case "$*" in *scripts/bench*) ;; *) exec python3 -S "$@" ;; esac
while [ "$1" != --json ]; do shift; done
python3 -S - "$2" "$3" <<'END_OF_JSON'
import json, sys
peer = {"p50": None, "ratio": None, "note": None}
json.dump({"simulated": True, "complete": sys.argv[2] != "cut", "missing": {}, "problems": [],
           "figures": [], "rows": [{"scenario": sys.argv[2], "setting": "cudaMalloc",
           "threads": 1, "gpushim": {"p50": 12.0, "p99": 13.0, "calls": 1}, "peers": {}}]},
          open(sys.argv[1], "w"), indent=2)
END_OF_JSON
[ "$3" != cut ] || sleep 30
PROGRAM
  chmod +x python
  mkdir -p work/bench.run
  cat >part.sh <<'PROGRAM'
work=$PWD/work build=$2 simulated=true driver_path= python=$PWD/python toolkit=
least() { if [[ $1 -lt $2 ]]; then echo "$1"; else echo "$2"; fi; }
part_left() { echo 2; }
note() { :; }
wait_for() { wait "$1"; }
stamped() { cat; }
add_row() { echo "row $2 $4: $7"; }
line_of() { echo "line $1: $2"; }
table_line() { line_of "$2" "$3" >>"$work/$1.table"; }
cd "$1"
source tests/gpu/parts/compare.sh
source tests/gpu/parts/bench.sh
bench_scenario cut && echo "cut is well"
bench_scenario whole || echo "whole is not"
grep -c cudaMalloc "$work/bench.rows"
cat "$work/bench.table"
PROGRAM
  run_in part -- bash part.sh "$sources" "$build"
  expect_count part.err . 0
  expect_text part.out '^row cut not run: ended with status 124: what was measured until then is kept$'
  expect_text part.out '^line cut: cudaMalloc 12$'
  expect_text part.out '^line cut: not all was measured: ended after [0-9]+ s$'
  expect_text part.out '^line whole: cudaMalloc 12$'
  expect_no_text part.out 'cut is well|whole is not|row whole'
  expect_text part.out '^2$'
}
add_case "bench part keeps a scenario that was cut off" bench_part_case
