# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# nvtx.sh - NVTX ranges are scopes: a program that marks its phases by NVIDIA's headers has them in the
# report, if NVTX_INJECTION64_PATH names the library, and else is not touched.

nvtx_on=NVTX_INJECTION64_PATH=$shim

# phases_leaks FILE: "BYTES SCOPE" of each call site of a JSON report, "-" without a scope.
phases_leaks() {
  need python3
  python3 -S - "$1" <<'PYTHON' || fail "no report: $1"
import json, re, sys
report = json.load(open(sys.argv[1]))
for leak in report["leaks"]:
    scopes = [re.fullmatch(r"\[scope (.*)\]", report["frames"][number]["function"] or "")
              for number in leak["full_stack"]]
    for scope in [match[1] for match in scopes if match] or ["-"]:
        print(leak["bytes"], scope)
PYTHON
}

# run_phases PREFIX [VAR=value...] -- [ARGUMENT...]: phases, whose report is PREFIX.json.
run_phases() {
  local prefix=$1 settings command

  need_file "$apps/phases_$way"
  split_settings "${@:2}"
  preloaded "$prefix" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$prefix.json" "${settings[@]}" -- \
    "$apps/phases_$way" "${command[@]}"
  expect_status "$prefix" 0
}

# What NVTX answers without a tool, and with one: the level in the domain.
nvtx_kinds_case() {
  way=$1
  native native "$apps/phases_$way"
  expect_text native.out '^-2( -2){11}$'
  run_phases shim "$nvtx_on" --
  expect_text shim.out '^0 1 0 1 1 1 0 1 1 1 1 0$'
  phases_leaks shim.json | sort -n >found
  diff found - <<'WANTED' || fail "other scopes"
1000 early
2000 early/schritt:größe 😀
3000 early/schritt:größe 😀/registered
4000 early/registered
5000 early/registered/forward
6000 early
7000 early/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
8000 early/range
9000 -
WANTED
}
for way in shared static linked; do
  [[ -x $apps/phases_$way ]] && add_case "nvtx each kind $way" nvtx_kinds_case "$way"
done

# Ranges of three domains, begun and ended at random, against the program's own account.
nvtx_random_case() {
  way=linked
  run_phases shim "$nvtx_on" GPUSHIM_LEAK_MAX=0 -- random "$1"
  awk '{ sum[$2] += $1 } END { for (scope in sum) print sum[scope], scope }' shim.out | sort -n >wanted
  phases_leaks shim.json | sort -n >found
  [[ $(grep -c / wanted) -gt 20 ]] || fail "few nested ranges"
  diff wanted found >difference || { head -n 20 difference && fail "other scopes"; }
  nvtx_sums shim.out shim.json
}

# nvtx_sums OUT JSON: each scope has what the program says, those within included. Would see: a range that
# ended out of order, and whose memory is counted in the scope that it had before.
nvtx_sums() {
  python3 -S - "$1" "$2" <<'PY' || fail "other sums of scopes"
import collections, json, sys
wanted = collections.Counter()
for line in open(sys.argv[1]):
    size, path = line.split()
    names = [] if path == "-" else path.split("/")
    for depth in range(1, len(names) + 1):
        wanted["/".join(names[:depth])] += int(size)
found = {one["path"]: one["live_bytes"] for one in json.load(open(sys.argv[2]))["scopes"] if one["live_bytes"]}
assert found == wanted, (found, wanted)
PY
}
for seed in 500 501 1999; do
  add_case "nvtx at random $seed" nvtx_random_case "$seed"
done

# More ranges than scopes nest, and more ends than ranges.
nvtx_deep_case() {
  way=linked
  run_phases shim "$nvtx_on" -- deep
  phases_leaks shim.json | sort -n >found
  expect_text found '^1000 0/1/2/.*/30/31$'
  expect_text found '^2000 0$'
  expect_text found '^3000 -$'
}
add_case "nvtx deep" nvtx_deep_case

nvtx_threads_case() {
  way=shared
  run_phases shim "$nvtx_on" -- threads
  phases_leaks shim.json | sort -n >found
  diff found - <<'WANTED' || fail "other scopes"
4 -
1000 thread 0
2000 thread 1
3000 thread 2
4000 thread 3
WANTED
}
add_case "nvtx threads" nvtx_threads_case

# The launcher's option; and it leaves another tool's variable alone.
nvtx_launcher_case() {
  way=linked
  need_file "$apps/phases_linked"
  run_in shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=shim.json -- "$build/gpushim" --nvtx "$apps/phases_linked"
  expect_status shim 0
  phases_leaks shim.json >found
  expect_text found '^5000 early/registered/forward$'
  run_in print -- "$build/gpushim" --nvtx --print true
  expect_text print.out "^LD_PRELOAD=$shim NVTX_INJECTION64_PATH=$shim true\$"
  run_in other NVTX_INJECTION64_PATH=/other/tool.so -- "$build/gpushim" --nvtx --print true
  expect_text other.out "^LD_PRELOAD=$shim true\$"
  expect_count other.err '^gpushim: --nvtx: NVTX_INJECTION64_PATH is set: /other/tool.so receives the ranges$' 1
  run_in plain GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=plain.json -- "$build/gpushim" "$apps/phases_linked"
  expect_equal "scopes without it" 9 "$(phases_leaks plain.json | grep -c ' -$')"
}
add_case "nvtx by the launcher" nvtx_launcher_case

# The fault: a program that frees all its memory seems to have had no ranges. Or their table is shown unasked.
nvtx_clean_case() {
  need_file "$build/gpushim"
  run_in shim -- "$build/gpushim" --nvtx "$apps/phases_linked" clean
  expect_status shim 0
  expect_text shim.err '== Memory by scope [(]and within[)] +live +peak '
  expect_text shim.err '==   early/forward +0 B +5[.]86 KiB '
  expect_text shim.err '== SUMMARY: gpushim: 0 errors, 0 B leaked'
  run_in none -- "$build/gpushim" --nvtx "$apps/levels_linked"
  expect_count none.err '^==[0-9]+== Memory by scope: no NVTX range was pushed$' 1
  run_in other NVTX_INJECTION64_PATH=/other/tool.so -- "$build/gpushim" "$apps/levels_linked"
  expect_no_text other.err 'Memory by scope'
}
add_case "nvtx without leaks" nvtx_clean_case

# Another tool gets its ranges, as without the library.
nvtx_beside_case() {
  way=linked
  need gcc
  cat >tool.c <<'TOOL'
#include <stdio.h>
static unsigned pushed;
static int push(const char *name) { pushed++; return (int)pushed - 1; }
typedef int (*get_module)(int, void (****)(void), unsigned *);
__attribute__((destructor)) static void end(void) { fprintf(stderr, "tool: %u\n", pushed); }
int InitializeInjectionNvtx2(const void *(*get_table)(unsigned))
{
    const struct { unsigned long size; get_module get; } *callbacks = get_table(1);
    void (***table)(void);
    unsigned count;
    callbacks->get(1, &table, &count);
    *table[9] = (void (*)(void))push;
    return 1;
}
TOOL
  gcc -shared -fPIC -o tool.so tool.c || fail "gcc cannot build the tool"
  native native "$apps/phases_linked" deep
  run_in alone NVTX_INJECTION64_PATH="$PWD/tool.so" -- "$apps/phases_linked" deep
  run_phases shim NVTX_INJECTION64_PATH="$PWD/tool.so" -- deep
  expect_text alone.err '^tool: 40$'
  expect_text shim.err '^tool: 40$'
  expect_equal "scopes" 3 "$(phases_leaks shim.json | grep -c ' -$')"
}
add_case "nvtx beside another tool" nvtx_beside_case

# Switched off, or without a library that is preloaded: nothing happens.
nvtx_off_case() {
  way=linked
  need_file "$apps/phases_linked"
  native native "$apps/phases_linked"
  preloaded off GPUSHIM_ENABLE=off "$nvtx_on" -- "$apps/phases_linked"
  expect_same native off
  run_in bare "$nvtx_on" -- "$apps/phases_linked"
  expect_status bare 0
  expect_text bare.out '^0 1 0 1 1 1 0 1 1 1 1 0$'
  preloaded stackless GPUSHIM_STACK=off "$nvtx_on" -- "$apps/phases_linked"
  expect_status stackless 0
}
add_case "nvtx switched off" nvtx_off_case
