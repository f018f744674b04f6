# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# api.sh - gpushim.h and the Python module: what each function returns with the library and
# without it, scopes in every report, and memory in the order of a stream under hostile
# schedules. docs/api.md

uses python

api_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 8)}

# What the functions return with the library, by default and with parts of it switched off.
api_case() {
  need_file "$apps/api_$1"
  preloaded shim "${@:2}" -- "$apps/api_$1"
  expect_status shim 0
  cat shim.out >found
  diff -u "$sources/tests/apps/api/active.txt" found >differences
  grep '^[-+][^-+]' differences >changed
  case ${2-} in
  '') expect_equal 'what the functions return' '' "$(<changed)" ;;
  GPUSHIM_POOL=off)
    expect_text changed '^[+]classes: switched off by an option$'
    expect_text changed '^[+]trim: switched off by an option$'
    expect_text changed '^[+]warm up: switched off by an option$'
    expect_text changed '^[+](pressure|the last call): switched off by an option$'
    expect_text changed '^[+]POOL=off: the option is read at the start only, now "off" [(]success[)]$'
    ;;
  GPUSHIM_TRACK=off)
    expect_text changed '^[+]record: switched off by an option$'
    expect_text changed '^[+]report: switched off by an option$'
    expect_text changed '^[+]stretch: 0 allocations, 0 frees, 0 live, hit rate 0.90'
    ;;
  esac
}
for way in $(ways_of api); do
  add_case "api $way" api_case "$way"
done
add_case "api without pool" api_case shared GPUSHIM_POOL=off
add_case "api without tracker" api_case shared GPUSHIM_TRACK=off

# A program that started with a limit gets another one: what is live stays, what is new has to fit.
api_limits_case() {
  need_file "$apps/api_$1"
  preloaded shim CUDASIM_MEMORY=160M GPUSHIM_MEM_LIMIT=64M GPUSHIM_REPORT_ON=off -- "$apps/api_$1" limits
  preloaded none CUDASIM_MEMORY=160M GPUSHIM_REPORT_ON=off -- "$apps/api_$1" limits
  expect_status shim 0
  expect_status none 0
  expect_equal 'what fits' 'limit 64M: success; total 64 MiB, 16 MiB fit, 48 MiB do not fit
limit 100M: success; total 100 MiB, 16 MiB fit, 48 MiB fit
limit 32M: success; total 32 MiB, 16 MiB do not fit, 48 MiB do not fit
limit 33M: success; total 33 MiB, 16 MiB fit, 48 MiB do not fit
limit 25%: success; total 40 MiB, 16 MiB fit, 48 MiB do not fit
limit 100%: success; total 160 MiB, 16 MiB fit, 48 MiB fit' "$(<shim.out)"
  expect_count none.out "^limit [0-9M%]+: the option is read at the start only; gpushim: GPUSHIM_MEM_LIMIT: \
the program started without a limit, so its memory was never counted; total 160 MiB, 16 MiB fit, 48 MiB fit\$" 6
}
for way in $(ways_of api); do
  add_case "api limits $way" api_limits_case "$way"
done

# A limit that is lowered holds for the pool's idle memory. Alone sees blocks of the cache handed out beyond the limit:
# of memory that was idle when the limit was lowered, or that was freed later.
api_lower_case() {
  need_file "$apps/api_$1"
  preloaded shim CUDASIM_MEMORY=160M GPUSHIM_MEM_LIMIT=64M GPUSHIM_REPORT_ON=off -- "$apps/api_$1" lower
  expect_status shim 0
  expect_equal 'what fits' 'at 64M: 8 fit, then 56 MiB reserved
idle memory beyond 20M: 2 fit, then 0 MiB reserved
one of 8 freed since: 0 fit, then 56 MiB reserved
all freed since: 2 fit, then 0 MiB reserved
at 64M again: 8 fit, then 56 MiB reserved' "$(<shim.out)"
}
for way in $(ways_of api); do
  add_case "api lower limits $way" api_lower_case "$way"
done

# Without the library, and with it switched off, the program goes on and all are zero.
api_inactive_case() {
  need_file "$apps/api_$1"
  native native "$apps/api_$1"
  expect_status native 0
  expect_quiet native
  [[ $(grep -c 'gpushim is not active in this process' native.out) -ge 30 ]] || { cat native.out && fail 'too few'; }
  expect_text native.out '^stretch: 0 allocations, 0 frees, 0 live, hit rate 1.00, fragmentation 0.00$'
  expect_no_text native.out '^(trim|statistics|report|allocate|LEAK_MAX=3): success'
  preloaded off GPUSHIM_ENABLE=off -- "$apps/api_$1"
  expect_same native off
}
for way in $(ways_of api); do
  add_case "api inactive $way" api_inactive_case "$way"
done

# The header alone, as a program of each language would include it; the library linked.
api_header_case() {
  need_file "$cuda_path/libcudart.so.13"
  printf '#include <gpushim.h>\n#include <stdio.h>\nint main(void) { return puts(gpushim_library_version()) < 0; }\n' >user.c
  cp user.c user.cpp
  "${CC:-cc}" -std=c99 -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror -I "$sources/include" user.c -o c -ldl ||
    fail 'C99'
  expect_equal 'without a library' '' "$(./c)"
  "${CC:-cc}" -std=c99 -I "$sources/include" user.c -o linked -Wl,--no-as-needed "$shim" -ldl \
    -Wl,-rpath,"$build" || fail 'linked'
  LD_LIBRARY_PATH=$cuda_path ./linked >linked.out
  expect_text linked.out '^[0-9]+[.][0-9]+[.][0-9]+$'
  need "${CXX:-c++}"
  for standard in 11 17 20; do
    "${CXX:-c++}" -std=c++$standard -Wall -Wextra -Wconversion -Wshadow -Wold-style-cast -pedantic -Werror -I "$sources/include" \
      user.cpp -o cpp -ldl || fail "C++$standard"
  done
}
add_case "api header" api_header_case

# Each function of the headers stands in the table of the program that calls them at random.
api_table_case() {
  need python3
  sed -n '/^#define FUNCTIONS/,/clang-format on/p' "$sources/tests/apps/apirandom.c" | grep -o 'row([a-z_]*)' |
    sed 's/row(\(.*\))/gpushim_\1/' | sort >called
  python3 -S - "$sources"/include/gpushim{,_memory}.h "$sources"/include/gpushim_memory/*.h <<'PY' >offered
import re, sys
text = "".join(open(name).read() for name in sys.argv[1:])
names = re.findall(r"^static inline [^;{(]*?\b(gpushim_\w*[a-z])\(", text, re.M)
print("\n".join(sorted(names)))
PY
  [[ $(wc -l <offered) -ge 70 ]] || fail "$(wc -l <offered) functions in the headers"
  diff -u offered called || fail 'functions that apirandom.c does not call'
  while read -r name; do
    [[ $(grep -c "\b$name(" "$sources/tests/apps/apirandom.c") -ge 1 ]] || fail "$name is never called"
  done <offered
}
add_case "api table of functions" api_table_case

# The cases that the page names for each feature exist.
api_page_case() {
  local name
  grep -E '^[|] [RDGC][0-9]+ ' "$sources/docs/api.md" >rows
  expect_equal rows 43 "$(wc -l <rows)"
  cut -d'|' -f4 rows | grep -o '`[^`]*`' | tr -d '`' | sort -u >named
  while read -r name; do
    [[ -e $sources/tests/unit/$name.c ]] || printf '%s\n' "${case_names[@]}" | grep -q "^$name" ||
      fail "docs/api.md: no case is called $name"
  done <named
}
add_case "api page names its cases" api_page_case

# A library that is older than the header, and lacks its last functions.
api_old_case() {
  cat >old.c <<'C'
#include <gpushim.h>
#include <stdio.h>
static gpushim_result trim(int device, uint64_t bytes, uint64_t *given)
{
    (void)device, (void)bytes, (void)given;
    return GPUSHIM_OFF;
}
__attribute__((visibility("default"))) const struct gpushim_functions *gpushim_functions(void)
{
    static struct gpushim_functions old;
    old.size = offsetof(struct gpushim_functions, stream_free);
    old.version = "0.0.1";
    old.trim = trim;
    return &old;
}
int main(void)
{
    gpushim_pressure level = GPUSHIM_CRITICAL;
    double share = 7;
    printf("%s %d %d %d %d %d ", gpushim_library_version(), gpushim_trim(0, 1, NULL), gpushim_stream_free(NULL, 0, NULL),
           gpushim_stream_uses(NULL, NULL), gpushim_warm_up(0, ""), gpushim_on_pressure(GPUSHIM_WARNING, NULL, NULL));
    printf("%d ", gpushim_get_pressure(0, &level, &share));
    printf("%d %d %g\n", gpushim_off_pressure(NULL, NULL), level, share);
    return 0;
}
C
  "${CC:-cc}" -std=gnu99 -Wall -Wextra -Werror -rdynamic -I "$sources/include" old.c -o old -ldl || fail 'the program'
  run_in native -- ./old
  expect_equal 'with an older library' '0.0.1 7 5 5 5 5 5 5 0 0' "$(<native.out)"
}
add_case "api older library" api_old_case

# A signal handler calls the functions that it has interrupted: each is served, or INACTIVE.
api_signals_case() {
  need_file "$apps/api_$1"
  same_as_native "${@:2}" -- "$apps/api_$1" signals
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for way in shared linked proc; do
  add_case "api signals $way" api_signals_case "$way"
done
for option in GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy GPUSHIM_STACK=off; do
  add_case "api signals $option" api_signals_case linked "$option"
done

# Calls while the process ends, in front of the report and behind it.
api_atexit_case() {
  need_file "$apps/api_$1"
  native native "$apps/api_$1" atexit
  expect_status native 0
  expect_no_text native.out ': success$'
  preloaded shim GPUSHIM_PEAK_MAX=0 -- "$apps/api_$1" atexit
  expect_status shim 0
  diff -u "$sources/tests/apps/api/atexit.txt" shim.out || fail 'what the functions return'
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' 1
  preloaded off GPUSHIM_ENABLE=off -- "$apps/api_$1" atexit
  expect_same native off
}
for way in shared static linked; do
  add_case "api atexit $way" api_atexit_case "$way"
done

# ---- contexts and devices ------------------------------------------------------------

# api_edges_case DEVICES MODE [VARIABLE...]: several schedules; the oracle judges each run.
api_edges_case() {
  local seed schedule=()

  need_file "$apps/apiedges_linked"
  for ((seed = 0; seed <= api_seeds; seed++)); do
    [[ $seed -eq 0 ]] || schedule=(CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed")
    run_in native CUDASIM_DEVICES="$1" "${schedule[@]}" -- "$apps/apiedges_linked" "$2" "$seed"
    expect_status native 0
    expect_no_text native.err 'cudasim-finding'
    preloaded shim CUDASIM_DEVICES="$1" "${schedule[@]}" "${@:3}" -- "$apps/apiedges_linked" "$2" "$seed"
    expect_same native shim
    expect_no_text shim.err 'cudasim-finding'
    expect_text shim.err 'SUMMARY: gpushim: 0 errors'
    # What a destroyed context had is lost, and named.
    [[ $2 == gone ]] || expect_text shim.err 'SUMMARY: .* 0 B leaked'
  done
}
add_case "api edges primary contexts" api_edges_case 2 primary
add_case "api edges streams that end" api_edges_case 1 uses
add_case "api edges another context's streams" api_edges_case 1 other
for option in GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL_CACHE=0; do
  add_case "api edges $option" api_edges_case 1 uses "$option"
done
add_case "api edges contexts that are gone" api_edges_case 2 gone

# None of 30 frees behind another context's stream waits; what waits is the program's.
api_unwaited_case() {
  local calls

  preloaded shim CUDASIM_LOG=2 -- "$apps/apiedges_linked" other
  expect_status shim 0
  calls=$(driver_calls shim.err cuCtxSynchronize)
  [[ $calls -lt 10 ]] || fail "$calls waits for a context"
}
add_case "api edges free that does not wait" api_unwaited_case

# A program without the library finds the one that comes later; alone sees a look that is not repeated.
api_late_library_case() {
  need_file "$apps/apiedges_linked"
  run_in late -- "$apps/apiedges_linked" late "$shim"
  expect_status late 0
  expect_text late.out '^late: ok$'
}
add_case "api edges a library that is loaded later" api_late_library_case

# ---- scopes --------------------------------------------------------------------------

# scope_of FILE BYTES-TEXT: the scope of the leak of this size.
scope_of() {
  sed 's/^==[0-9]*== *//' "$1" | awk -v size="$2" '
    /^LEAK/ { wanted = index($0, ": " size " in ") > 0 }
    /^#/ && wanted && /\[scope/ { sub(/.*\[scope /, ""); sub(/\].*/, ""); print }'
}

expect_scopes() {
  expect_equal 'scope of the first' early "$(scope_of "$1" '1000 B')"
  expect_equal 'scope of a nested one' early/step "$(scope_of "$1" '1.95 KiB')"
  expect_equal 'scope of a third' early/step/forward "$(scope_of "$1" '2.93 KiB')"
  expect_equal 'scope of a thread' worker "$(scope_of "$1" '3.91 KiB')"
  expect_equal 'scope behind the end' '' "$(scope_of "$1" '4.88 KiB')"
  expect_equal 'scope around one that is too long' early/step "$(scope_of "$1" '5.86 KiB')"
  expect_equal 'a named call' weights "$(scope_of "$1" '9.77 KiB')"
  expect_equal 'no scope' '' "$(scope_of "$1" '7.81 KiB')"
  expect_count "$1" '#[0-9]+ .*deep/deep' 1
}

api_scopes_case() {
  need_file "$apps/api_$1"
  native native "$apps/api_$1" scopes
  expect_status native 0
  preloaded shim GPUSHIM_PEAK_MAX=0 "${@:2}" -- "$apps/api_$1" scopes
  expect_status shim 0
  expect_text shim.out '^left: not found$'
  expect_scopes shim.err
}
for way in $(ways_of api); do
  add_case "api scopes $way" api_scopes_case "$way"
done
for unwinder in fp unwind libunwind; do
  add_case "api scopes $unwinder" api_scopes_case shared GPUSHIM_STACK=$unwinder
done

# Without stacks there is nothing that a scope could be added to.
api_scopes_without_stacks_case() {
  preloaded shim GPUSHIM_STACK=off -- "$apps/api_shared" scopes
  expect_status shim 0
  expect_no_text shim.err '\[scope'
}
add_case "api scopes without stacks" api_scopes_without_stacks_case

# The same scopes by the state file of a killed program, and in the files of the report.
api_scopes_files_case() {
  preloaded shim GPUSHIM_OUTPUT=json,collapsed,pprof,csv GPUSHIM_OUTPUT_FILE="$PWD/out" \
    GPUSHIM_STATE_FILE="$PWD/state" GPUSHIM_PEAK_MAX=0 -- "$apps/api_shared" scopes
  expect_status shim 0
  run_in report -- "$build/gpushim" report --peak-max=0 "$PWD/state"
  expect_scopes report.out
  need python3
  python3 -S - out.json >named <<'PY' || fail 'the JSON'
import json, sys
report = json.load(open(sys.argv[1]))
frames = [frame["function"] for frame in report["frames"]]
for leak in report["leaks"]:
    print([frames[number] for number in leak["stack"] or []])
PY
  expect_text named 'scope early/step/forward'
  expect_text out.collapsed ';\[scope early/step/forward\];main;'
  grep -qaF '[scope early/step/forward]' out.pb || fail 'pprof'
  expect_text out.csv ',\[scope weights\];work;lost;lose,10000,1,'
  run_in html -- "$build/gpushim" html -o "$PWD/page.html" "$PWD/out.json"
  expect_status html 0
  python3 -S "$here/page.py" page.html out.json . || fail 'the page'
}
add_case "api scopes in files" api_scopes_files_case

# Beside a report that has none.
api_scopes_compared_case() {
  preloaded other GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/other" -- "$apps/leaky_linked"
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/scopes" GPUSHIM_PEAK_MAX=0 -- "$apps/api_shared" scopes
  run_in diff -- "$build/gpushim" diff other scopes
  expect_status diff 0
  expect_text diff.out '^    #[0-9]+ \[scope early/step/forward\]$'
}
add_case "api scopes compared" api_scopes_compared_case

api_child_case() {
  preloaded shim -- "$apps/api_$1" child
  expect_status shim 0
  expect_text shim.out '^child: 0$'
  expect_text shim.err '\[scope parent/child\]'
}
for way in shared linked; do
  add_case "api scopes of a child $way" api_child_case "$way"
done

# ---- memory in the order of a stream ----------------------------------------------------

api_streams_case() {
  local seed

  need_file "$apps/api_$1"
  for ((seed = 1; seed <= api_seeds; seed++)); do
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" "${@:3}" -- "$apps/api_$1" "$2" "$seed"
    expect_status shim 0
    expect_text shim.out "^$2: ok$"
    expect_no_text shim.err 'cudasim-finding'
    expect_text shim.err 'SUMMARY: gpushim: 0 errors'
  done
}
for way in $(ways_of api); do
  add_case "api streams $way" api_streams_case "$way" streams
  add_case "api legacy $way" api_streams_case "$way" legacy
  add_case "api captured $way" api_streams_case "$way" captured
done
api_threads_case() {
  preloaded shim "$@" -- "$apps/api_shared" threads
  expect_status shim 0
  expect_text shim.out '^threads: ok$'
}
for mode in GPUSHIM_ASYNC=pool GPUSHIM_FREE_SYNC=lazy GPUSHIM_POOL=off GPUSHIM_POOL_CACHE=0 GPUSHIM_TRACK=off; do
  [[ $mode == GPUSHIM_TRACK=off ]] || add_case "api streams $mode" api_streams_case linked streams "$mode"
  add_case "api threads $mode" api_threads_case "$mode"
done

add_case "api threads" api_threads_case

# Memory that was freed in its stream is reused there at once: no call of the driver.
api_reuse_case() {
  preloaded shim CUDASIM_LOG=2 -- "$apps/api_$1" streams 1
  expect_status shim 0
  calls=$(driver_calls shim.err cuMemAllocFromPoolAsync)
  [[ $calls -gt 0 && $calls -lt 60 ]] || fail "$calls calls of the driver for 150 allocations"
  expect_equal 'calls past the heaps' 0 "$(driver_calls shim.err cuMemAllocAsync)"
}
add_case "api streams reuse" api_reuse_case linked

# An address that is allocated again does not wait for the streams of its last owner.
api_handed_case() {
  preloaded shim CUDASIM_LOG=2 -- "$apps/api_$1" handed
  expect_status shim 0
  expect_text shim.out '^handed: ok$'
  expect_equal 'waits for an old stream' 0 "$(driver_calls shim.err cuStreamWaitEvent)"
}
add_case "api streams in other hands" api_handed_case linked

# ---- Python -----------------------------------------------------------------------------

api_python_case() {
  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/module.py"
  expect_status shim 0
  diff -u "$python_sources/module.txt" shim.out || fail "what Python $1 found is not what it should be"
  expect_text shim.err '\[scope step/forward\]'
  run_in native PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/module.py"
  expect_status native 0
  expect_text native.out '^active: False$'
  expect_quiet native
}
for version in 3.8 3.11 3.13; do
  add_case "api python $version" api_python_case "$version"
done

# An error names the memory, not the number that stands for it.
api_python_error_case() {
  find_python 3.11
  preloaded shim GPUSHIM_TRACK=off PYTHONPATH="$sources/include/python" -- "$python" -SBc '
import ctypes, gpushim
ctypes.CDLL("libcudart.so.13").cudaFree(None)
for device in (gpushim.EVERYWHERE, gpushim.PINNED, 1):
    try:
        gpushim.snapshot(device)
    except gpushim.Error as error:
        print(error)'
  expect_status shim 0
  expect_equal "what is said" 'all memory: switched off by an option
pinned memory: switched off by an option
device 1: switched off by an option' "$(<shim.out)"
}
add_case "api python errors" api_python_error_case

# Memory of the module is that of any package; the output is that of a run without the library.
api_buffers_case() {
  find_python "$1"
  run_in native PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/buffers.py"
  expect_status native 0
  expect_text native.out '^too much: MemoryError'
  expect_text native.out '^let go: True$'
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/buffers.py"
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for version in 3.8 3.11 3.13; do
  add_case "api python buffers $version" api_buffers_case "$version"
done

# The line that made a buffer comes first, not one of the module's, from whose source folder it is used here.
api_buffer_owner_case() {
  find_python "$1"
  printf '%s\n' 'import os' 'from gpushim.buffer import Buffer' 'def serve():' \
    '    return Buffer((1024,), "<f4")' 'kept = serve()' 'os._exit(0)' >own.py
  preloaded shim PYTHONPATH="$sources/include/python" -- "$python" -SB own.py
  expect_text shim.err '#0 serve +own[.]py:4$'
  expect_text shim.err '^==[0-9]+==   own[.]py +4[.]00 KiB +1$'
  expect_no_text shim.err 'buffers?[.]py'
}
for version in 3.8 3.13; do
  add_case "api python buffer's owner $version" api_buffer_owner_case "$version"
done

# DLPack as the protocol wants it, refused capsules, and tensors that outlive the interpreter.
for version in 3.8 3.11 3.13; do
  add_case "api python dlpack $version" python_program_case "$version" dlpack
done

# RMM's buffers: the same natively, with the library and with it switched off; a lost one is named.
api_rmm_case() {
  local paths=PYTHONPATH=$sources/include/python:$python_sources/stand_in

  find_python "$1"
  run_in native "$paths" -- "$python" -SB "$python_sources/rmm_use.py"
  expect_count native.out ': (True|0)$' 4
  preloaded shim "$paths" -- "$python" -SB "$python_sources/rmm_use.py"
  expect_same native shim
  expect_clean shim.err
  preloaded off "$paths" GPUSHIM_ENABLE=off -- "$python" -SB "$python_sources/rmm_use.py"
  expect_same native off
  preloaded leak "$paths" -- "$python" -SB "$python_sources/rmm_use.py" lose
  expect_text leak.err 'LEAK 1: 4[.]88 KiB in 1 allocation'
  expect_text leak.err '#[0-9]+ loses +rmm_use[.]py:12$'
}
add_case "api python rmm" api_rmm_case 3.11

# gpushim.torch.use() beside --torch=tensors, and twice: PyTorch (a stand-in) fails with two allocators.
api_torch_use_case() {
  local paths=PYTHONPATH=$sources/include/python:$python_sources/stand_in
  local use='import gpushim.torch, torch; print(gpushim.torch.use(), gpushim.torch.use(), *torch.calls)'

  find_python "$1"
  preloaded once "$paths" -- "$python" -SB -c "$use"
  expect_text once.out '^True True record change$'
  expect_quiet once
  preloaded both "$paths" PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync -- "$python" -SB -c "$use"
  expect_text both.out '^True True$'
  expect_count both.err '^gpushim: gpushim.torch.use\(\) changes nothing: PyTorch.s allocator is cudaMallocAsync' 2
  run_in native "$paths" -- "$python" -SB -c "$use"
  expect_text native.out '^False False$'
}
add_case "api python torch twice" api_torch_use_case 3.11

# torch.accelerator's figures, by the functions that it calls: PyTorch's own allocator has not begun, and would say 0.
api_accelerator_case() {
  find_python "$1"
  cat >program.py <<'PROGRAM'
import torch, cuda, gpushim.torch
torch.cuda.device_count, torch.cuda.is_initialized = lambda: 1, lambda: True
for name in "isAllocatorInitialized", "getDeviceStats", "resetPeakStats", "resetAccumulatedStats":
    setattr(torch._C, "_accelerator_" + name, None)
kept = [gpushim.torch.use(), cuda.malloc(1000)]
cuda.free(cuda.malloc(5000))
def found(device=0):
    stats = torch._C._accelerator_getDeviceStats(device)
    return [stats["allocated_bytes"]["all"][name] for name in ("current", "peak")] + [stats["allocation"]["all"]["allocated"]]
print(torch._C._accelerator_isAllocatorInitialized(), *found())
torch._C._accelerator_resetPeakStats(0)
torch._C._accelerator_resetAccumulatedStats(0)
print(*found())
try:
    found(1)
except RuntimeError as error:
    print(error)
PROGRAM
  preloaded shim PYTHONPATH="$sources/include/python:$python_sources/stand_in:$python_sources" -- "$python" -SB program.py
  expect_status shim 0
  expect_equal figures 'True 1000 6000 2 1000 1000 0 invalid device index 1' "$(xargs <shim.out)"
}
add_case "api python torch accelerator" api_accelerator_case 3.11

# gpushim.torch.modules(). Would see: a scope that a failed call leaves, a module whose part of the backward pass is
# taken for that of the module around, hooks that stay.
api_modules_case() {
  local paths=PYTHONPATH=$sources/include/python:$python_sources/stand_in

  find_python "$1"
  preloaded shim "$paths" -- "$python" -SB "$python_sources/modules.py" "${@:2}"
  expect_status shim 0
  expect_no_text shim.err 'RuntimeWarning'
  diff - shim.out <<'WANTED' || fail "other scopes"
hooks left: 0
step: 6 of 11200 B
step/backward: 1 of 200 B
step/Net: 5 of 11000 B
step/Net/backward: none
step/Net/layers.0: 2 of 5000 B
step/Net/layers.0/backward: 1 of 4000 B
step/Net/layers.1: 2 of 4000 B
step/Net/layers.1/backward: 1 of 3000 B
step/Net/layers: none
Net: 123 of 164000 B
Net/layers.0: 41 of 41000 B
Net/layers.1: 41 of 41000 B
Net/Net: none
gpushim.torch.pool: this version of PyTorch has no torch.cuda.MemPool
WANTED
  run_in native "$paths" -- "$python" -SB "$python_sources/modules.py" "${@:2}"
  expect_status native 0
  expect_quiet native
  expect_text native.out '^gpushim.torch.pool: libgpushim.so is not in the process: gpushim python'
}
add_case "api python torch modules" api_modules_case 3.11
add_case "api python torch modules 3.8" api_modules_case 3.8 old

# Options that are set before the first CUDA call: any, as by their variables, for this process alone. Would see: one
# that is dropped, as all were; one of a wrong value that is kept.
early_options_case() {
  find_python 3.11
  cat >program.py <<'PROGRAM'
import os, subprocess, cuda, gpushim
def change(name, value):
    try:
        return gpushim.set_option(name, value)
    except (KeyError, ValueError, gpushim.Error) as error:
        return "%s: %s" % (type(error).__name__, error)
for name, value in (("LEAK_MAX", 7), ("GPUSHIM_leak_max", 8), ("POOL", "off"), ("STACK", "fp,depth:9"), ("LEAK_MAX", "many"),
                    ("LEAF_MAX", 1), ("POOL_SEGMENT", 3), ("STACK_DEPTH", 5)):
    print(name, value, change(name, value))
print(gpushim.active(), gpushim.option("LEAK_MAX"))
cuda.free(cuda.malloc(4096))
print(*(gpushim.option(name) for name in ("LEAK_MAX", "POOL", "STACK")))
print(change("POOL", "on"))
print(subprocess.run("env | grep -c ^GPUSHIM_LEAK", shell=True, stdout=subprocess.PIPE).stdout.decode().strip())
PROGRAM
  preloaded shim GPUSHIM_LEAK_MAX=3 PYTHONPATH="$sources/include/python:$python_sources" -- "$python" -SB program.py
  expect_status shim 0
  diff - shim.out <<'WANTED' || fail "other answers"
LEAK_MAX 7 True
GPUSHIM_leak_max 8 True
POOL off True
STACK fp,depth:9 True
LEAK_MAX many ValueError: gpushim: GPUSHIM_LEAK_MAX=many: not a whole number
LEAF_MAX 1 KeyError: 'LEAF_MAX: not found'
POOL_SEGMENT 3 ValueError: gpushim: GPUSHIM_POOL_SEGMENT=3: not in 2M to 1G
STACK_DEPTH 5 Error: STACK_DEPTH: the option is read at the start only
False None
8 off fp,depth:9
Error: POOL: the option is read at the start only
1
WANTED
  expect_no_text shim.err 'Pool of GPU'
  run_in native GPUSHIM_LEAK_MAX=3 PYTHONPATH="$sources/include/python:$python_sources" -- "$python" -SB program.py
  expect_text native.out '^POOL off False$'
}
add_case "api options before the first call" early_options_case

# ---- the launcher -------------------------------------------------------------------------

api_torch_case() {
  run_in print -- "$build/gpushim" --torch=tensors --print python train.py
  expect_text print.out 'PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync GPUSHIM_ASYNC=pool python train[.]py$'
  run_in mine PYTORCH_ALLOC_CONF=pinned_use_cuda_host_register:True -- \
    "$build/gpushim" --async=driver --torch=tensors --print python train.py
  expect_text mine.out 'CONF=backend:cudaMallocAsync,pinned_use_cuda_host_register:True python'
  expect_text mine.out 'GPUSHIM_ASYNC=driver'
  run_in same PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync -- "$build/gpushim" --torch=tensors --print true
  expect_text same.out 'CONF=backend:cudaMallocAsync GPUSHIM'
  run_in other PYTORCH_CUDA_ALLOC_CONF=backend:native -- "$build/gpushim" --torch=tensors true
  expect_status other 2
  expect_text other.err '^gpushim: --torch=tensors needs backend:cudaMallocAsync, but PYTORCH_CUDA_ALLOC_CONF is backend:native$'
  run_in newer PYTORCH_ALLOC_CONF=backend:native -- "$build/gpushim" --torch=tensors true # the variable that is set is named
  expect_status newer 2
  expect_text newer.err '^gpushim: --torch=tensors needs backend:cudaMallocAsync, but PYTORCH_ALLOC_CONF is backend:native$'
  run_in bad -- "$build/gpushim" --torch=blocks true
  expect_status bad 2
  expect_text bad.err '^gpushim: --torch takes tensors'
  run_in none -- "$build/gpushim" --torch true
  expect_status none 2
}
add_case "api launcher torch" api_torch_case
