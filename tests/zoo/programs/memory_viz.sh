#!/usr/bin/env bash
# memory_viz.sh - PyTorch's own reader of its memory snapshots takes a program's timeline: what leaked is live in
# it, and each allocation is in a segment of the pool.
# shellcheck source=tests/zoo/programs/timeline_of_leaky.sh
source "${0%/*}/timeline_of_leaky.sh" memory_viz
python - timeline <<'PYTHON'
import importlib.util, os, pickle, re, sys

place = importlib.util.find_spec("torch").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("memory_viz", os.path.join(place, "cuda", "_memory_viz.py"))
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)
snapshot = pickle.load(open(sys.argv[1], "rb"))
assert "total_allocated: 28.2MiB" in reader.segsum(snapshot), reader.segsum(snapshot)
assert ";leaky.c:39:load_weights 25165824\n" in reader.memory(snapshot, format_flamegraph=str)
events = reader.trace(snapshot)
assert len(re.findall(r"\n[a-z0-9]+ = [a-z0-9]+\[[0-9]+:", events)) == 210 and events.count("\ndel ") == 204, events[-2000:]
assert 7 <= events.count("= cudaMalloc(") < 30, "the pool's segments"
reader.trace_plot(snapshot)
PYTHON
