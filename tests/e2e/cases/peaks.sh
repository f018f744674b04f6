# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# peaks.sh - who held the memory when there was most of it: by the report's text, and by its
# JSON against what a program knows of itself.
uses python

peaks_steps_case() {
  local app=$apps/peaks_$1

  need_file "$app"
  same_as_native GPUSHIM_VERBOSE=2 -- "$app"
  expect_text shim.err 'Peak of GPU 0: 54.0 MiB at [0-9.]+ [mu]?s, 54.0 MiB of it freed since$'
  expect_text shim.err 'PEAK 1: 48.0 MiB in 6 allocations \(88.9 % of the peak\)$'
  expect_text shim.err "  (cuMemAlloc|cudaMalloc), GPU 0, all freed since$"
  expect_text shim.err '#0 activations +peaks.c:[0-9]+$'
  expect_text shim.err 'PEAK 3: 2.00 MiB in 1 allocation \(3.7 % of the peak\)$'
  preloaded clean -- "$app" # two lines, as ever
  expect_no_text clean.err 'Peak|PEAK'
}

peaks_leak_case() {
  local app=$apps/peaks_linked

  preloaded shim -- "$app" leak
  expect_count shim.err 'Peak of GPU 0: 54.0 MiB at [0-9.]+ [mu]?s, 50.0 MiB of it freed since; 48.0 MiB at activations peaks.c:[0-9]+ [(]GPUSHIM_PEAK_MAX=N lists more[)]$' 1
  expect_no_text shim.err 'PEAK [0-9]'
  preloaded asked GPUSHIM_PEAK_MAX=3 -- "$app" leak
  expect_text asked.err 'Peak of GPU 0: 54.0 MiB at [0-9.]+ [mu]?s, 50.0 MiB of it freed since$'
  expect_text asked.err 'PEAK 2 = LEAK 1: 4.00 MiB in 1 allocation \(7.4 % of the peak\), all still live$'
  preloaded one GPUSHIM_PEAK_MAX=1 -- "$app" leak
  expect_text one.err '2 more call sites of this peak: 6.00 MiB \(GPUSHIM_PEAK_MAX=N lists more\)$'
  expect_no_text one.err 'PEAK 2'
  preloaded none GPUSHIM_PEAK_MAX=0 -- "$app" leak
  expect_no_text none.err 'Peak|PEAK'
  preloaded odd GPUSHIM_PEAK_MAX=-2 -- "$app" leak
  expect_text odd.err 'GPUSHIM_PEAK_MAX'
  expect_text odd.err 'PEAK 3'
}

# Asked for by the program itself.
peaks_set_case() {
  find_python 3.11
  cat >asks.py <<'EOF'
import ctypes, sys, gpushim
cuda, block = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(3 << 20))
cuda.cudaFree(block)
cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20))
if sys.argv[1] == "asks":
    gpushim.set_option("PEAK_MAX", 3)
EOF
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB asks.py no
  expect_text shim.err 'Peak of GPU 0: .*; 3[.]00 MiB at <module> asks[.]py:3 '
  expect_no_text shim.err 'PEAK [0-9]'
  preloaded asked PYTHONPATH="$sources/include/python" -- "$python" -SB asks.py asks
  expect_status asked 0
  expect_text asked.err 'PEAK 1: 3[.]00 MiB in 1 allocation \(100 % of the peak\)$'
}

# peaks_known PREFIX: the program's own figures on PREFIX.out, and those of ./out.
peaks_known() {
  python3 -S - "$1.out" out <<'EOF' || fail "another peak than the program's own"
import json, sys
want = {word: int(bytes) for word, bytes in map(str.split, open(sys.argv[1]))}
report = json.load(open(sys.argv[2]))
peak = next(peak for peak in report["peaks"] if peak["device"] == 0)
held = {}
for place in peak["places"]:
    functions = {report["frames"][frame]["function"] for frame in place["stack"]}
    name = next(name for name in want if name in functions)
    held[name] = held.get(name, 0) + place["bytes"]
assert peak["bytes"] == want.pop("peak"), peak["bytes"]
assert held == {name: bytes for name, bytes in want.items() if bytes}, (held, want)
assert peak["places_are_exact"]
assert peak["freed_bytes"] <= peak["bytes"]
EOF
}

# peaks_known_case LINKAGE WAY [VAR=value...]
peaks_known_case() {
  local app=$apps/peaks_$1 way=$2 seed

  need python3
  need_file "$app"
  shift 2
  for seed in 1 2 3 4 5; do
    preloaded "$way$seed" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=out "$@" -- \
      "$app" "$way" "$seed"
    expect_status "$way$seed" 0
    peaks_known "$way$seed"
  done
}

for linkage in linked shared static; do
  add_case "peaks steps $linkage" peaks_steps_case "$linkage"
  add_case "peaks random $linkage" peaks_known_case "$linkage" random
done
add_case "peaks leak" peaks_leak_case
add_case "peaks asked for by the program" peaks_set_case
add_case "peaks threads" peaks_known_case linked threads
for setting in GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=lazy GPUSHIM_STACK=fp GPUSHIM_STACK=unwind; do
  add_case "peaks random $setting" peaks_known_case linked random "$setting"
  add_case "peaks threads $setting" peaks_known_case linked threads "$setting"
done
