# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# timeline.sh - gpushim timeline: a trace and its state file for other programs. Each format says what
# the program did, with the call stacks, also of a program that was killed.

timeline_formats=(perfetto memory_viz heaptrack)

# timeline_record PROGRAM [ARGUMENT...]: leaves `trace`, `state` and the report's text in run.err.
timeline_record() {
  need_file "$apps/$1"
  preloaded run GPUSHIM_TRACE_FILE=trace GPUSHIM_STATE_FILE=state "${timeline_settings[@]}" -- "$apps/$1" "${@:2}"
  [[ -e trace && -e state ]] || fail "no trace, or no state file"
}
timeline_settings=()

# A program that runs for a time makes as many allocations as its machine lets it: more than are shown unasked.
every=--most=4294967295

# timeline_of FORMAT [FILE...]: all of it into FORMAT.file, and what a reader finds there in FORMAT.found. Of a
# program that was killed a record may never have been finished: status 1.
timeline_of() {
  run_in made -- "$build/gpushim" timeline --as="$1" "$every" -o "$1.file" "${@:2}"
  grep -qE 'records? left out: never finished$' made.err || expect_status made 0
  timeline_read "$1"
}

# timeline_read FORMAT... [part]: FORMAT.file, into FORMAT.found.
timeline_read() {
  need python3
  python3 -S "$here/timeline.py" "$@" 2>problems && return
  cat problems
  fail "not a file of the format $1"
}

# timeline_all [FILE...]: all formats say the same; of host memory memory_viz says nothing.
timeline_all() {
  local format segments

  for format in "${timeline_formats[@]}"; do
    run_in made -- "$build/gpushim" timeline --as="$format" -o "$format.file" "$@"
    expect_status made 0
    expect_quiet made
  done
  timeline_read "${timeline_formats[@]}"
  diff <(grep -v '^reserved: ' perfetto.found) heaptrack.found || fail "heaptrack has something else"
  segments='^reserved: '
  ! grep -q "$segments" perfetto.found || segments='^$'
  diff <(grep -E '^(reserved|memory|live): GPU' perfetto.found) <(grep -vE "^(stack|all): |$segments" memory_viz.found) ||
    fail "memory_viz has something else"
}

# expect_marks SOURCE: what is live at the end is what is marked there, at its lines.
expect_marks() {
  leak_marks "$1" | awk '{ print $1, $2, $3 * $4, $4 }' | sort >wanted
  sed -nE 's/^live: (GPU [0-9]+|pinned host memory) //p' perfetto.found | sort >found
  diff wanted found || fail "not the live memory of $1"
}

# leaky_timeline_case WAY: counts as the report, places as the source.
leaky_timeline_case() {
  local gpu live made

  timeline_settings=(GPUSHIM_VERBOSE=2)
  timeline_record "leaky_$1"
  timeline_all trace state
  expect_marks "$here/../apps/leaky.c"
  gpu=$(sed -nE '/== GPU 0/,/traffic/s/.* ([0-9]+) allocs +([0-9]+) frees.*/made=\1 freed=\2/p' run.err)
  made=$(sed -nE 's/^memory: GPU 0 (made=.*) peak=.*/\1/p' perfetto.found)
  expect_equal "allocations and frees" "$gpu" "$made"
  live=$(awk '/^live: / { sum += $(NF - 1) } END { print sum }' perfetto.found)
  expect_text run.err "$(size_text "$live") leaked"
  expect_text perfetto.found '^stack: build_index < main$'
}
for way in $(ways_of leaky); do
  add_case "timeline of leaky $way" leaky_timeline_case "$way"
done

# The peak of a device is the report's.
peak_timeline_case() {
  local peak

  preloaded run GPUSHIM_TRACE_FILE=trace GPUSHIM_STATE_FILE=state GPUSHIM_OUTPUT=json \
    GPUSHIM_OUTPUT_FILE=run.json -- "$apps/pipeline_linked"
  timeline_all trace state
  peak=$(python3 -S "$here/report_json.py" get run.json devices 0 totals peak_bytes)
  expect_text perfetto.found "^memory: GPU 0 made=[0-9]+ freed=[0-9]+ peak=$peak live=0\$"
}
add_case "timeline has the peak" peak_timeline_case

# SIGKILL: both files remain as they are.
killed_timeline_case() {
  timeline_record "killed_$1" kill
  [[ $(<run.status) -eq 137 ]] || fail "not killed"
  for format in "${timeline_formats[@]}"; do
    run_in made -- "$build/gpushim" timeline --as="$format" "$every" -o "$format.file" trace state
  done
  timeline_read "${timeline_formats[@]}"
  diff <(grep -v '^reserved: ' perfetto.found) heaptrack.found || fail "heaptrack has something else"
  expect_text perfetto.found '^live: GPU 0 keep_large killed.c:[0-9]+ 6291456 1$'
  expect_text perfetto.found '^live: GPU 0 keep_small killed.c:[0-9]+ 15000 5$'
}
for way in shared linked; do
  add_case "timeline of a killed program $way" killed_timeline_case "$way"
done

# What heaptrack itself, and PyTorch's own reader, find.
heaptrack_case() {
  need heaptrack_print
  timeline_record leaky_shared
  timeline_of heaptrack trace state
  run_in shown -- heaptrack_print heaptrack.file
  expect_status shown 0
  expect_text shown.out '^total memory leaked: 29[.]88M$'
  expect_text shown.out '^calls to allocation functions: 223 '
  expect_text shown.out '^ *at .*/leaky[.]c:39$'
  # In the order of sizes: the device before the host.
  sed -n '/^PEAK MEMORY CONSUMERS/,$p' shown.out | grep -nE '^(GPU 0|pinned host memory)$' >order
  expect_text order '^[0-9]+:GPU 0$'
}
add_case "timeline read by heaptrack" heaptrack_case

# massif_case WAY: what is left at the end, by call site and its caller, is what the source marks; the
# peak is the events'. ms_print reads it.
massif_case() {
  timeline_record "leaky_$1"
  timeline_of perfetto trace state
  timeline_of massif trace state
  expect_equal "peak" "$(grep '^all: ' perfetto.found)" "$(grep '^all: ' massif.found)"
  # What has a hundredth: of one function's lines the sum.
  sed -nE 's/^live: (.* [0-9]+) [0-9]+$/live: \1/p' perfetto.found | sort >events
  grep '^live: ' massif.found | sort >found
  expect_equal "not live at the end" '' "$(comm -13 events found)"
  expect_text found '^live: GPU 0 load_weights leaky.c:39 25165824$'
  expect_text massif.file '^   n[0-9]+: [0-9]+ 0x[0-9a-f]+: main \(.*/leaky[.]c:[0-9]+\)$'
  need ms_print
  run_in shown -- ms_print massif.file
  expect_status shown 0
  expect_quiet shown
  expect_text shown.out '^->[0-9.]+% \([0-9,]+B\) GPU 0$'
  expect_text shown.out '->[0-9.]+% \(25,165,824B\) 0x[0-9a-f]+: load_weights \(.*/leaky[.]c:39\)$'
}
for way in shared static linked; do
  add_case "timeline for massif $way" massif_case "$way"
done

# Without stacks: memories alone. Of a killed program: up to its end. A name is text.
massif_odd_case() {
  timeline_record killed_linked kill
  timeline_of massif trace
  expect_equal "sites" '' "$(grep '^live: ' massif.found)"
  expect_text massif.file '^ n0: [0-9]+ GPU 0$'
  timeline_of massif trace state
  expect_text massif.found '^live: GPU 0 keep_large killed.c:[0-9]+ 6291456$'
  rm trace state
  timeline_record pipeline_linked
  timeline_of perfetto trace state
  timeline_of massif trace state
  expect_equal "peak" "$(grep '^all: ' perfetto.found)" "$(grep '^all: ' massif.found)"
  run_in made -- "$build/gpushim" timeline --as=massif -o - trace state
  expect_text made.out '^cmd: pipeline_linked$'
}
add_case "timeline for massif: without stacks, killed, to a pipe" massif_odd_case

# A block that lives for a microsecond of the first of many intervals is the peak.
massif_short_case() {
  printf '%s\n' t_us,op,id,bytes,stream 0,a,0,4096,0 1,a,1,1048576,0 2,f,1,1048576,0 1000000,a,2,4096,0 >short.csv
  timeline_of massif short.csv
  expect_equal "peak" "all: peak=1052672" "$(<massif.found)"
  expect_equal "at the end" mem_heap_B=8192 "$(grep '^mem_heap_B=' massif.file | tail -n 1)"
}
add_case "timeline for massif: a peak within an interval" massif_short_case

# many_case: a thousand and more items of a list, frames of plug-ins, threads.
many_case() {
  timeline_record threads_shared
  timeline_all trace state
  expect_text perfetto.found '^memory: GPU 0 made=[0-9]{3,} '
  expect_equal "live at the end" 0 "$(grep -c '^live: ' perfetto.found)"
  expect_equal "threads" 8 \
    "$(grep -o '"ph": "b".*"tid": [0-9]*' perfetto.file | grep -o '"tid": [0-9]*' | sort -u | wc -l)"
}
add_case "timeline of threads" many_case

python_timeline_case() {
  need python3
  preloaded run GPUSHIM_TRACE_FILE=trace GPUSHIM_STATE_FILE=state -- \
    python3 -SB "$sources/tests/apps/python/planted.py"
  expect_status run 0
  timeline_all trace state
  expect_text perfetto.found '^live: GPU 0 malloc cuda.py:[0-9]+ 8192 1$'
  expect_text perfetto.found '^stack: malloc < leak < größe < main < <module>$'
}
add_case "timeline of Python" python_timeline_case

# CSV, or a trace without call stacks: sizes and times alone; a line says why where it can be mended.
# bare_case PATTERN [SETTING...] [-- FILE...]
bare_case() {
  local pattern=$1 settings=() format

  shift
  while [[ $# -gt 0 && $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  preloaded run GPUSHIM_TRACE_FILE=trace "${settings[@]}" -- "$apps/leaky_shared"
  for format in "${timeline_formats[@]}"; do
    timeline_of "$format" trace "${@:2}"
    if [[ $pattern ]]; then
      expect_count made.err "^gpushim: trace: no call stacks: $pattern\$" 1
    else
      expect_quiet made
    fi
    expect_text "$format.found" '^memory: GPU 0 made=210 freed=204 peak=31719424 live=29622272$'
    expect_text "$format.found" '^live: GPU 0 [^ ]* [^ ]* 29622272 6$'
  done
}
add_case "timeline without a state file" bare_case 'recorded without --state-file, which keeps the call stacks'
add_case "timeline with no state file named" bare_case 'name the state file of the same run as well' \
  GPUSHIM_STATE_FILE=state
add_case "timeline without stacks" bare_case 'the trace has no call stacks' GPUSHIM_STACK=off \
  GPUSHIM_STATE_FILE=state -- state
add_case "timeline without the tracker" bare_case '' GPUSHIM_TRACK=off
add_case "timeline with a missing state file" bare_case 'nothing: no such file or directory' \
  GPUSHIM_STATE_FILE=state -- nothing
add_case "timeline with a state file that is none" bare_case 'trace: not a state file of gpushim' \
  GPUSHIM_STATE_FILE=state -- trace

# Stacks of another process would be wrong ones.
other_case() {
  timeline_record leaky_shared
  mv state other
  rm trace
  timeline_record leaky_shared
  timeline_of perfetto trace other
  expect_count made.err '^gpushim: trace: no call stacks: other: of another process$' 1
}
add_case "timeline with another run's state file" other_case

# The holes of memory_viz's segments are what the pool has idle: a block of 3 MiB and a byte has 4.
holes_case() {
  need python3
  cat >odd.py <<'PYTHON'
import ctypes
cuda = ctypes.CDLL("libcudart.so.13")
def allocate(size):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)) == 0
    return block
cuda.cudaFree(allocate(40 << 20))
for size in ((3 << 20) + 1, 700, (5 << 20) + 1, 100001, (3 << 20) + 1):
    allocate(size)
PYTHON
  preloaded run GPUSHIM_TRACE_FILE=trace GPUSHIM_STATE_FILE=state GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- \
    python3 -S odd.py
  expect_status run 0
  timeline_all trace state
  expect_equal "holes" "$(python3 -S "$here/report_json.py" get run.json devices 0 pool idle_bytes)" \
    "$(python3 -S -c 'import pickle
segments = pickle.load(open("memory_viz.file", "rb"))["segments"]
print(sum(block["size"] for segment in segments for block in segment["blocks"] if block["state"] == "inactive"))')"
}
add_case "timeline for memory_viz: holes" holes_case

csv_timeline_case() {
  need_file "$build/replay/replay"
  timeline_record leaky_shared
  "$build/replay/replay" --to-csv trace >trace.csv || fail "no CSV"
  "$build/replay/replay" --to-binary trace >copy || fail "no copy"
  timeline_all trace.csv
  expect_text perfetto.found '^memory: GPU 0 made=210 freed=204 peak=31719424 live=29622272$'
  timeline_all copy state
  expect_marks "$here/../apps/leaky.c"
}
add_case "timeline of CSV and of a copy" csv_timeline_case

# Of many allocations the largest, and the whole curve in fewer points.
most_case() {
  local format

  timeline_record leaky_shared
  for format in perfetto memory_viz; do
    run_in made -- "$build/gpushim" timeline --as="$format" --most=9 -o "$format.file" trace state
    expect_status made 0
    expect_count made.err '^gpushim: trace: has the 9 largest of 223 allocations \(--most=NUMBER\)$' 1
    timeline_read "$format" part
    expect_text "$format.found" '^live: GPU 0 load_weights leaky.c:39 25165824 1$'
    expect_no_text "$format.found" '^live: GPU 0 share_state'
    expect_equal "$format: allocations" 9 \
      "$(awk '/^memory: / { sub("made=", "", $(NF - 3)); sum += $(NF - 3) } END { print sum }' "$format.found")"
  done
  expect_text perfetto.found '^curve: GPU 0 peak=31719424 last=29622272 points=([1-9]|10)$'
  expect_text perfetto.found '^curve: pinned host memory peak=1310720 last=262144 points=([1-9]|10)$'
  run_in made -- "$build/gpushim" timeline --as=heaptrack --most=9 -o heaptrack.file trace state
  expect_quiet made
  timeline_all trace state
}
add_case "timeline of the largest" most_case

# ---- In a page -----------------------------------------------------------------------

# timeline_page [ARGUMENT...]: the page of trace and state, taken apart in the folder `page`.
timeline_page() {
  run_in made -- "$build/gpushim" html --timeline=trace -o run.html state
  expect_status made 0
  python3 -S "$here/page.py" run.html - page 2>problems || { cat problems && fail "not a page"; }
}

# page_shows [ACTION...]: what the page shows, in page.out.
page_shows() {
  need node
  run_in page -- node "$here/page.js" page "$@"
  expect_status page 0
}

# The curves add up, and have the peaks and the end that the trace has.
# page_timeline_case OWNERS PROGRAM [ARGUMENT...]: owners that a memory has at the end, at least.
# A program that is killed has an operation of each of its two threads in one of the files alone, at most.
page_timeline_case() {
  timeline_record "${@:2}"
  timeline_of perfetto trace state
  timeline_page
  python3 -S - "$1" "$(<run.status)" <<'PYTHON' || fail "the curves are not those of the trace"
import json, re, sys
report, memories = json.load(open("page/report.json")), json.load(open("page/curves.json"))
wanted = {match[1]: (int(match[2]), int(match[3])) for match in
          re.finditer("memory: (.*) made=.* peak=(.*) live=(.*)", open("perfetto.found").read())}
live = {}
for match in re.finditer("live: (GPU [0-9]+|pinned host memory) ([^ ]*) [^ ]* ([0-9]+) [0-9]+\\n", open("perfetto.found").read()):
    live[match[1], match[2]] = live.get((match[1], match[2]), 0) + int(match[3])
assert len(memories) == len(wanted)
one = {0} | {sign * (512 << i) for sign in (-1, 1) for i in range(12)} if sys.argv[2] == "137" else {0} # killed.c's churn
apart = {first + second for first in one for second in one}
owners = 0
for memory in memories:
    name = "pinned host memory" if memory["device"] is None else "GPU %d" % memory["device"]
    assert max(memory["live"]) == wanted[name][0] and memory["live"][-1] == wanted[name][1], name
    for layers in memory["sites"], memory["owners"]:
        assert [sum(at) for at in zip(*(layer["live"] for layer in layers))] == memory["live"]
    # The last moment is the end.
    ends = {owner["name"]: owner["live"][-1] for owner in memory["owners"] if owner["live"][-1]}
    kept = {owner["path"]: owner["bytes"] for owner in report["owners"] if owner["device"] == memory["device"]}
    assert set(ends) == set(kept) and all(ends[name] - kept[name] in apart for name in kept), (ends, kept)
    owners = max(owners, len(kept))
    ends = {}
    for site in memory["sites"]:
        function = report["frames"][site["stack"][0]]["function"]
        ends[function] = ends.get(function, 0) + site["live"][-1]
    assert {function: size for function, size in ends.items() if size} == {function: size for (where, function), size in live.items() if where == name}
assert owners >= int(sys.argv[1]), owners
PYTHON
}
add_case "timeline in a page" page_timeline_case 1 leaky_shared
add_case "timeline in a page, threads" page_timeline_case 0 threads_linked
add_case "timeline in a page, plug-ins" page_timeline_case 2 plugin "$apps/plugin_shared.so" "$apps/plugin_static.so"
add_case "timeline in a page, killed" page_timeline_case 1 killed_linked kill

# What the pool held by the trace is what it says it holds, and its segments have what is live.
# page_segments_case PROGRAM BYTES SETTING: the driver's own memory at the end.
page_segments_case() {
  timeline_settings=("${@:3}")
  # shellcheck disable=SC2086  # with its arguments
  timeline_record $1
  timeline_of perfetto trace state
  timeline_page
  python3 -S - "$2" "${3-}" <<'PYTHON' || fail "the segments are not those of the pool"
import json, re, sys
report, timeline = json.load(open("page/report.json")), json.load(open("page/timeline.json"))
curves = json.load(open("page/curves.json"))
live = {match[1]: int(match[2]) for match in
        re.finditer("memory: (.*) made=.* live=([0-9]+)", open("perfetto.found").read())}
pools = {device["device"]: device["pool"] for device in report["devices"]}
reserved = {}
for event in json.load(open("perfetto.file"))["traceEvents"]:
    if event["ph"] == "C":
        reserved.setdefault(event["name"], []).append(event["args"]["bytes"])
for memory, curve in zip(timeline["memories"], curves):
    name = "pinned host memory" if memory["device"] is None else "GPU %d" % memory["device"]
    changes, held = dict(zip(memory["reserved"][::2], memory["reserved"][1::2])), []
    for at in range(2400):
        held.append(changes.get(at, held[-1] if held else 0))
    memory["reserved"] = held
    assert all(held >= live for live, held in zip(curve["live"], held)), name
    segments = memory["segments"]
    assert max(memory["reserved"]) == max(reserved[name + " reserved"])
    assert 0 < len(segments) == min(memory["segments_all"], 48), name
    begins = [int(segment["address"], 16) for segment in segments]
    assert begins == sorted(begins)
    ends = [segment for segment in segments if segment["used"][-1] is not None]
    held, used = sum(s["bytes"] for s in ends), sum(s["bytes"] * s["used"][-1] // 100 for s in ends)
    own, pool = int(sys.argv[1]), pools.get(memory["device"])
    if pool is None:
        own = 0
        assert sys.argv[2] != "GPUSHIM_HOST_RELEASE=0" or any(segment["used"][-1] is None for segment in segments)
    else:
        assert held == pool["reserved_bytes"], held
        assert own or max(memory["reserved"]) == pool["reserved_peak_bytes"]
    assert held <= memory["reserved"][-1] - own # the last interval has had more
    assert used - held // 100 - len(ends) <= live[name] - own <= used + len(ends), (name, used, live[name])
    for segment in segments:
        assert len(segment["used"]) == 120 and all(u is None or 0 <= u <= 100 for u in segment["used"])
PYTHON
}
add_case "timeline in a page: segments" page_segments_case leaky_shared 1310720
add_case "timeline in a page: segments of threads" page_segments_case threads_shared 0 GPUSHIM_POOL_RELEASE=0
add_case "timeline in a page: segments of pinned memory" page_segments_case hostpools_shared 0 GPUSHIM_HOST_RELEASE=0
add_case "timeline in a page: segments of moving pages" page_segments_case consolidated_shared 0 GPUSHIM_POOL_VMM=on
add_case "timeline in a page: segments of a full device" page_segments_case 'limits_linked churn 300' 0 \
  GPUSHIM_POOL_VMM=on CUDASIM_MEMORY=64M CUDASIM_DEVICES=1

# Each row of the legend has a text of its own, where call sites differ several calls up in more than one place. Would see
# the first of these places alone.
page_rows_case() {
  timeline_record churn_shared 2000 10
  timeline_page
  page_shows
  sed -n 's/^share: [^|]*|[^|]*| //p' page.out >rows
  expect_equal "rows" 9 "$(grep -c '^replace [|] churn[.]c:' rows)"
  expect_text rows '^1 other call site [|]'
  expect_equal "rows of the same text" '' "$(sort rows | uniq -d)"
  expect_text rows '[|] from [a-z_]+ churn[.]c:[0-9]+ < [a-z_]+ churn[.]c:[0-9]+'
}
add_case "timeline in a page: rows of one function" page_rows_case

# What the page says at the peak, at the ends, and where the pointer is.
page_words_case() {
  timeline_record leaky_shared
  timeline_page
  page_shows
  expect_text page.out '^timeline: GPU 0 \(peak 30[.]3 MiB\)$'
  expect_text page.out '^timeline: pinned host memory \(peak 1[.]25 MiB\)$'
  expect_text page.out '^moment: At [0-9.]+ [mu]?s: 30[.]3 MiB of GPU 0 live, its peak; 3[34][.][0-9] MiB reserved$'
  expect_text page.out '^share:  [|] 24[.]0 MiB [|] load_weights [|] leaky[.]c:39 [|] $'
  expect_text page.out '^share:  [|] 3[.]00 MiB [|] build_index [|] leaky[.]c:30 [|] '
  expect_equal "areas" "$(grep -c '^share: ' page.out)" "$(grep -c '^area: [to]' page.out)"
  expect_text page.out '^area: reserved M[0-9.]+,[0-9.]+ L.*[0-9]$'
  expect_text page.out '^segment: u[1-4] M[0-9.]+,[0-9]h[0-9.]+v[.]8h-[0-9.]+z'
  expect_text page.out '^area: t0 M66[.]0,[0-9.]+ L.*Z$'
  expect_text page.out '^tick: tick y 16 MiB$'
  expect_text page.out '^tick: tick x [0-9.]+ ms$'
  page_shows chart=End
  expect_text page.out '^moment: At [0-9.]+ [mu]?s: 28[.]3 MiB of GPU 0 live; peak 30[.]3 MiB at [0-9.]+ [mu]?s; 3[34][.][0-9] MiB reserved$'
  expect_text page.out '^cursor: 100[.]00$'
  page_shows chart=Home
  expect_text page.out '^moment: At [0-9.]+ [mu]?s: .* of GPU 0 live; peak'
  expect_text page.out '^cursor: 0[.]02$'
  page_shows by=owners
  expect_text page.out '^share:  [|] 30[.]3 MiB [|] leaky_shared [|]  [|] $'
  expect_no_text page.out '^area: t1 '
  page_shows memory=1
  expect_text page.out '^moment: At [0-9.]+ [mu]?s: 1[.]25 MiB of pinned host memory live, its peak; 2[.]00 MiB reserved$'
  # Without a trace there is none.
  run_in made -- "$build/gpushim" html -o run.html state
  python3 -S "$here/page.py" run.html - page || fail "not a page"
  page_shows
  expect_no_text page.out '^(timeline|moment): '
}
add_case "timeline in a page: what it says" page_words_case

# The graph follows a moment and a range, by pointer and by keys; each of these fails if the key or the
# drag does nothing, or if a range counts what was there before it.
page_actions_case() {
  local range='^option: Allocated [0-9.]+ [mu]?s to [0-9.]+ [mu]?s, not freed '

  timeline_record growing_linked 5
  timeline_page
  page_shows
  expect_text page.out '^option: What leaked '
  page_shows chart=p
  expect_text page.out '^frame: 0 0[.]0 100[.]0 frame top [|] Peak at '
  page_shows click=0.5
  expect_text page.out '^frame: 0 0[.]0 100[.]0 frame top [|] Live at '
  expect_text page.out '^cursor: (49|50)[.]'
  expect_text page.out '^value: At [0-9.]+ ms: '
  expect_equal "the graph's sum" "$(sed -nE 's/^moment: At [^:]*: ([0-9.]+ MiB) .*/\1/p' page.out)" \
    "$(sed -nE 's/^shown: Live at [^:]*: ([0-9.]+ MiB) .*/\1/p' page.out)"
  # The model is allocated before the range, and a session in it is never freed.
  page_shows drag=0.5,0.9
  expect_text page.out "$range"
  expect_text page.out '^frame: 3 .* keep_session$'
  expect_no_text page.out '^frame: .* load_model$'
  expect_text page.out '^moment: From [0-9.]+ ms to [0-9.]+ ms: [+][0-9.]+ MiB in [0-9.]+ ms \([0-9.]+ MiB/s\), GPU 0[.] At '
  expect_text page.out '^range: '
  page_shows chart=Home shift=PageDown shift=ArrowRight
  expect_text page.out "$range"
  page_shows drag=0.5,0.9 chart=Escape
  expect_no_text page.out "$range|^range: "
  expect_text page.out '^frame: 0 .* [|] (Live|Peak) at '
  # What is zoomed has other ticks; a range can be zoomed to.
  page_shows
  grep '^tick: tick x' page.out >all
  page_shows chart=+ chart=+
  ! cmp -s all <(grep '^tick: tick x' page.out) || fail "+ does not zoom"
  page_shows chart=+ chart=+ chart=- chart=-
  cmp -s all <(grep '^tick: tick x' page.out) || fail "- does not zoom out"
  page_shows drag=0.5,0.6 press=zoom-range press=zoom-reset
  cmp -s all <(grep '^tick: tick x' page.out) || fail "the button does not reset"
  page_shows point=0.5
  expect_text page.out '^tip: [0-9.]+ ms: [0-9.]+ MiB live [|] [0-9.]+ MiB  load_model  growing[.]c:[0-9]+$'
}
add_case "timeline in a page: moments and ranges" page_actions_case

# Nothing leaked: the page opens at the peak.
page_peak_case() {
  timeline_record peaks_linked
  timeline_page
  page_shows
  expect_text page.out '^sum: Peak of GPU 0 at [0-9.]+ [mu]?s; 54[.]0 MiB in 8 allocations '
  expect_text page.out '^frame: [0-9] 0[.]0 88[.]9 frame p[0-2] [|] activations$'
}
add_case "timeline in a page: no leak" page_peak_case

# A trace alone, recorded or CSV: by kind and size.
page_trace_case() {
  timeline_record leaky_shared
  need_file "$build/replay/replay"
  "$build/replay/replay" --to-csv trace >trace.csv || fail "no CSV"
  for file in trace trace.csv; do
    run_in made -- "$build/gpushim" html -o run.html "$file"
    expect_status made 0
    python3 -S "$here/page.py" run.html - page || fail "not a page"
    page_shows
    expect_text page.out '^summary: GPU 0: peak 30[.]3 MiB, 28[.]3 MiB not freed'
    expect_text page.out '^share:  [|] 24[.]0 MiB [|] device, 16[.]0 MiB to 32[.]0 MiB '
    expect_text page.out '^note: call sites need the state file '
    expect_text page.out '^frame: [0-9] 0[.]0 .* [|] \[device, 16[.]0 MiB to 32[.]0 MiB\]$'
    expect_no_text page.out '(undefined|NaN|null)'
  done
}
add_case "timeline in a page: a trace alone" page_trace_case

# A folder of ranks: a process each, with its own trace and state file, or its JSON.
page_folder_case() {
  local rank

  mkdir ranks
  for rank in 0 1; do
    preloaded run OMPI_COMM_WORLD_RANK=$rank GPUSHIM_TRACE_FILE=ranks/trace.%p GPUSHIM_STATE_FILE=ranks/state.%p \
      GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=ranks/run.%p.json -- "$apps/leaky_shared"
  done
  preloaded run OMPI_COMM_WORLD_RANK=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=ranks/run.%p.json -- "$apps/pipeline_linked"
  echo words >ranks/notes
  run_in made -- "$build/gpushim" html ranks
  expect_status made 0
  expect_text made.out '^gpushim: wrote ranks/gpushim[.]html '
  expect_text made.err '^gpushim: ranks: 1 of 8 files left out: '
  python3 -S "$here/page.py" ranks/gpushim.html - page || fail "not a page"
  page_shows
  expect_count page.out '^process: rank [01]: 28[.]5 MiB leaked$' 2
  expect_count page.out '^process: rank 2: 0 B leaked$' 1
  rank=$(($(grep '^process: ' page.out | grep -n 'rank 2' | cut -d: -f1) - 1))
  page_shows "hash=#$rank"
  expect_text page.out '^summary: 0 errors, 0 B leaked '
  expect_no_text page.out '^moment: '
  rank=$(($(grep '^process: ' page.out | grep -n 'rank 1' | cut -d: -f1) - 1))
  page_shows "hash=#$rank"
  expect_text page.out '^about: .*rank 1'
  expect_text page.out '^share: .* load_weights '
  # Its own page is in the folder now, and is one of the files that are left out.
  cp ranks/gpushim.html page.html
  run_in again -- "$build/gpushim" html ranks
  expect_status again 0
  expect_text again.err '^gpushim: ranks: 2 of 9 files left out: '
  cmp -s page.html ranks/gpushim.html || fail "another page"
  rm -r ranks/*
  run_in none -- "$build/gpushim" html ranks
  expect_status none 1
  expect_text none.err '^gpushim: ranks: no reports and no traces; no HTML written$'
}
add_case "page of a folder" page_folder_case

# The files of a killed process name their data, and the page has both.
page_killed_folder_case() {
  mkdir killed
  preloaded run GPUSHIM_TRACE_FILE=killed/trace GPUSHIM_STATE_FILE=killed/state -- "$apps/killed_linked" many 5
  expect_status run 137
  [[ -e killed/trace.data && -e killed/state.data ]] || fail "no data files"
  run_in made -- "$build/gpushim" html killed
  expect_status made 0
  expect_quiet made
  python3 -S "$here/page.py" killed/gpushim.html - page || fail "not a page"
  page_shows
  expect_no_text page.out '^process: '
  expect_text page.out '^summary: 0 errors, 5[.]00 KiB live in 5 allocations, 1 call site'
  expect_text page.out '^share:  [|] 5[.]00 KiB [|] plant_many [|] killed[.]c:[0-9]+( [(]inlined[)])? [|] $'
}
add_case "page of a folder, killed" page_killed_folder_case

page_bad_case() {
  local before

  timeline_settings=(GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json)
  timeline_record leaky_shared
  mv state other
  mv trace before
  mv run.json before.json
  timeline_record leaky_shared
  before=$(cksum trace state)
  # no_page TEXT ARGUMENT...
  no_page() {
    run_in bad -- "$build/gpushim" html -o run.html "${@:2}"
    [[ $(<bad.status) -eq 1 && ! -e run.html ]] || fail "status $(<bad.status) of ${*:2}"
    expect_text bad.err "^gpushim: $1; no HTML written\$"
  }
  no_page 'nothing: no trace' --timeline=nothing state
  no_page 'state: no trace' --timeline=state state
  no_page 'other: of another process' --timeline=trace other
  no_page 'state: of another process' --timeline=before state
  no_page 'before.json: of another process' trace before.json # one page would show two programs as one
  no_page 'nothing: no such file or directory' --timeline=trace nothing
  preloaded plain GPUSHIM_TRACE_FILE=plain -- "$apps/pipeline_shared"
  no_page 'plain: recorded without --state-file, which keeps the call stacks' --timeline=plain state
  run_in itself -- "$build/gpushim" html -o trace --timeline=trace state
  expect_status itself 2
  expect_text itself.err '^gpushim: trace: the HTML would replace one of its input files$'
  run_in value -- "$build/gpushim" html --timeline
  expect_status value 2
  expect_equal "the files" "$before" "$(cksum trace state)"
}
add_case "timeline in a page: bad words and files" page_bad_case

# The page in Chromium: the areas are drawn, and nothing is logged.
page_browser_case() {
  local browser

  browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "chromium"
  timeline_record peaks_linked leak
  timeline_page
  run_in browser -- "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr \
    --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/run.html"
  expect_status browser 0
  expect_no_text browser.err 'CONSOLE'
  expect_text browser.out '<svg id="segments"[^>]* viewBox="0 0 [0-9]+ [0-9]+"[^>]*><path class="u0" d="M'
  expect_text browser.out '<svg id="areas"[^>]* viewBox="0 0 [0-9]+ 230"><path class="t0" d="M'
  expect_text browser.out '<p id="moment" role="status">At [0-9.]+ [mu]?s: 54[.]0 MiB of GPU 0 live, its peak; [0-9.]+ MiB reserved</p>'
}
add_case "timeline in a browser" page_browser_case

# The same in Chromium, with its own events: a script behind the page's does what a user would, and leaves
# what the page says then in its title.
page_driven_case() {
  local browser

  browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "chromium"
  timeline_record growing_linked 5
  timeline_page
  { sed '/^<\/body>/,$d' run.html && cat "$here/page_driven.html"; } >driven.html
  run_in browser -- "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr \
    --window-size=420,900 --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/driven.html"
  expect_status browser 0
  expect_no_text browser.err 'CONSOLE'
  grep -o '<title>.*</title>' browser.out | sed 's/<[^>]*>//g' | tr '~' '\n' >said
  expect_text said '^tip: [0-9.]+ ms: [0-9.]+ MiB live'
  expect_text said '^drag: Allocated [0-9.]+ [mu]?s to [0-9.]+ [mu]?s, not freed: '
  expect_text said '^escape: Live at '
  expect_text said '^peak: Peak at '
  expect_text said '^focus: chart slider outline$'
  expect_text said '^zoomed: true$'
  expect_text said '^wide: [0-9]+ true$'
}
add_case "timeline driven in a browser" page_driven_case

# ---- Bad input -----------------------------------------------------------------------

# Bad words and files: one line, and nothing is lost.
bad_timeline_case() {
  local before most

  timeline_record leaky_shared
  before=$(cksum trace state)
  run_in none -- "$build/gpushim" timeline
  expect_status none 2
  expect_text none.err '^usage: '
  run_in three -- "$build/gpushim" timeline trace state more
  expect_status three 2
  run_in format -- "$build/gpushim" timeline --as=svg trace
  expect_status format 2
  expect_count format.err '^gpushim: --as=svg: not one of perfetto, memory_viz, heaptrack, massif$' 1
  for most in 0 -1 9x 4294967296 ''; do
    run_in most -- "$build/gpushim" timeline --most="$most" trace
    expect_status most 2
    expect_count most.err "^gpushim: --most=$most: not a number from 1 to 4294967295\$" 1
  done
  run_in option -- "$build/gpushim" timeline --at=perfetto trace
  expect_status option 2
  expect_count option.err '^gpushim: unknown option --at ' 1
  run_in missing -- "$build/gpushim" timeline nothing
  expect_status missing 1
  expect_count missing.err '^gpushim: nothing: cannot be read: No such file or directory$' 1
  run_in wrong -- "$build/gpushim" timeline state
  expect_status wrong 1
  run_in itself -- "$build/gpushim" timeline -o trace trace state
  expect_status itself 2
  expect_count itself.err '^gpushim: trace: the timeline would replace one of its input files$' 1
  run_in states -- "$build/gpushim" timeline -o state trace state
  expect_status states 2
  expect_count states.err '^gpushim: state: the timeline would replace one of its input files$' 1
  run_in folder -- "$build/gpushim" timeline -o /nonexistent/file trace state
  expect_status folder 1
  expect_count folder.err '^gpushim: /nonexistent/file: no such file or directory; no timeline written$' 1
  run_in full -- sh -c "'$build/gpushim' timeline -o - trace state >/dev/full"
  expect_status full 1
  expect_equal "the files" "$before" "$(cksum trace state)"
  run_in beside -- "$build/gpushim" timeline trace state
  expect_count beside.out '^gpushim: wrote trace.perfetto.json \([0-9.]+ KiB\)$' 1
  run_in page -- "$build/gpushim" timeline -o - trace state
  cmp -s page.out trace.perfetto.json || fail "standard output has something else"
}
add_case "timeline of bad words and files" bad_timeline_case

# Cut and changed files: what is whole is shown; nothing ends by a signal.
damaged_timeline_case() {
  local cut

  timeline_record leaky_shared
  for cut in 100 200 3000 10000; do
    head -c "$cut" trace >piece
    run_in made -- "$build/gpushim" timeline -o out piece state
    [[ $(<made.status) -le 1 ]] || fail "status $(<made.status) of $cut bytes"
    expect_text made.err '^gpushim: piece: '
  done
  for cut in 1000 100000 3000000; do
    head -c "$cut" state >piece
    timeline_of perfetto trace piece
    expect_text perfetto.found '^memory: GPU 0 made=210 '
  done
}
add_case "timeline of damaged files" damaged_timeline_case

# A record whose time is the largest there is, as its seal says: the intervals of time would have no length.
far_timeline_case() {
  need python3
  timeline_record leaky_shared
  python3 -S - <<'PYTHON' || fail "no trace"
import struct

data = bytearray(open("trace", "rb").read())
full = 2**64 - 1
slot = max(i for i in range(4, len(data) // 48) if any(data[48 * i:48 * i + 48]))
struct.pack_into("<Q", data, 48 * slot, full)
seal, factor = (slot + 1) * 0x9E3779B97F4A7C15 & full, 0xD6E8FEB86659FD93
for word in struct.unpack_from("<5Q", data, 48 * slot):
    seal, factor = seal + word * factor & full, factor + 0xA0761D6478BD642E & full
seal = (seal ^ seal >> 32) * 0xE7037ED1A0B428DB & full
struct.pack_into("<Q", data, 48 * slot + 40, seal ^ seal >> 29 or 1)
open("trace", "wb").write(data)
PYTHON
  for format in perfetto memory_viz heaptrack massif; do
    timeline_of "$format" trace state
  done
  run_in page -- "$build/gpushim" html --timeline=trace -o run.html state
  expect_status page 0
}
add_case "timeline that never ends" far_timeline_case
