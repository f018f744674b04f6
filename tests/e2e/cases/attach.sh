# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# attach.sh - gpushim attach and detach: a process that was started without the library is recorded from then on,
# in each way in which a program can reach the driver, and runs as natively before, meanwhile and after.

# attach_start COMMAND...: natively, in the background, until it says that it is ready. Its number is in `pid`.
attach_start() {
  local settings command

  need_file "$build/gpushim"
  need_file "$1"
  [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null) != [123] || $EUID == 0 ]] || skip 'ptrace of other processes'
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- -- "$@"
  env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT # of a case that fails
  await 25 grep -qs ready program.out || fail "the program does not start"
}

# attach_step NAME WORD: makes the file, and waits until the program has said the word.
attach_step() {
  : >"$1"
  [[ ! $2 ]] || await 25 grep -qs "$2" program.out || fail "the program does not go on behind $1"
}

# attach_end [WORD]: the program ends as natively; WORD: what it says last.
attach_end() {
  local status=0

  attach_step end "${1-}"
  wait "$pid" || status=$?
  expect_equal 'the status' 0 "$status"
  expect_equal 'what the program says' "attached: ready
attached: done
attached: freed
attached: over${1+
attached: $1}" "$(<program.out)"
  expect_equal 'what the program warns of' '' "$(<program.err)"
}

# 100 rounds of four allocations each, one of them pinned, and two that stay; memory from before is freed too.
attach_case() {
  need python3
  attach_start "$apps/attached_$1" .
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in stats -- "$build/gpushim" stats --json "$pid"
  run_in dump -- "$build/gpushim" dump "$pid"
  attach_step more freed
  run_in detach -- "$build/gpushim" detach "$pid"
  attach_end
  for name in attach stats dump detach; do
    expect_status $name 0
    expect_quiet $name
  done
  expect_text attach.out "^$pid: attached: calls of [0-9]+ CUDA functions go through gpushim [(][0-9]+ pointers changed[)]; "
  python3 -S - <<'PY' >found || fail 'the statistics are no JSON'
import json
now = json.load(open("stats.out"))
device, pinned = now["devices"][0], now["pinned"]
print(device["allocs"], device["frees"], device["live_bytes"], pinned["allocs"], pinned["frees"], now["errors"])
PY
  expect_equal 'the calls that were seen' '302 300 6291456 100 100 0' "$(<found)"
  expect_text dump.out "^==$pid== LIVE 1: 6[.]00 MiB in 2 allocations"
  expect_text dump.out '#0 keep_weights +attached[.]c:[0-9]+$'
  expect_text detach.out "^==$pid== .* 0 errors so far, 0 B live"
  expect_text detach.out "^$pid: detached: its calls go to the driver alone [(][0-9]+ pointers? restored[)]$"
}
for way in shared static linked dlsym proc ptds; do
  add_case "attach $way" attach_case "$way"
done

# A trace of what is attached to: what was recorded until then, and from then on, with the program's lines. None
# before a call shows that there is a context, none after detaching.
attach_trace_case() {
  local tracing

  attach_start "$apps/attached_$1" .
  run_in attach -- "$build/gpushim" attach "$pid"
  run_in early -- "$build/gpushim" trace --wait=1 --for=1 "$pid" early
  attach_step begin done
  "$build/gpushim" trace "$pid" trace >trace.out 2>trace.err &
  tracing=$!
  await 25 [ -e trace ] || fail "no trace begins: $(<trace.err)"
  run_in stats -- "$build/gpushim" stats "$pid" # the start was answered before
  attach_step more freed
  kill -INT $tracing
  wait $tracing || fail "the trace: $(<trace.err)"
  run_in detach -- "$build/gpushim" detach "$pid"
  run_in late -- "$build/gpushim" trace --for=1 "$pid" late
  attach_end
  run_in csv -- "$build/gpushim" replay --to-csv trace
  expect_quiet csv
  expect_equal 'what is recorded' '2 2' "$(awk -F, '$2 == "a" { a++ } $2 == "f" { f++ } END { print a, f }' csv.out)"
  run_in perfetto -- "$build/gpushim" timeline --as=perfetto -o perfetto.json trace trace.state
  expect_text perfetto.json 'keep_weights'
  expect_status early 1
  expect_equal 'an early trace' "gpushim: process $pid: it has made no CUDA call since gpushim attach" "$(<early.err)"
  expect_status late 1
  expect_equal 'a late trace' "gpushim: process $pid: nothing is recorded since gpushim detach" "$(<late.err)"
}
for way in shared static linked; do
  add_case "attach and trace $way" attach_trace_case "$way"
done

# Nothing of CUDA has happened yet: the driver is loaded later, and all is seen.
attach_idle_case() {
  attach_start "$apps/attached_$1" . idle
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in dump -- "$build/gpushim" dump "$pid"
  attach_step more freed
  run_in detach -- "$build/gpushim" detach "$pid"
  attach_end
  expect_text dump.out "^==$pid== LIVE 1: 6[.]00 MiB in 2 allocations"
  expect_text dump.out "^==$pid== .* 0 errors so far, 7[.]00 MiB live in 3 allocations"
}
for way in shared static linked dlsym; do
  add_case "attach before CUDA $way" attach_idle_case "$way"
done

# Memory of a pool would be unknown to the driver after detaching: there is none, also where options or the environment
# ask for it. Alone sees the environment's list of pools count, and its help, which ends the program.
attach_no_pool_case() {
  attach_start "$apps/attached_$1" .
  run_in attach GPUSHIM_HELP=on GPUSHIM_POOL=device -- \
    "$build/gpushim" --host-pool --no-managed-pool --report-on=oom --log-file="$PWD/log" attach "$pid"
  attach_step begin done
  run_in stats -- "$build/gpushim" stats "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  attach_step more freed
  attach_end
  expect_status attach 0
  expect_equal 'what it warns of' 'gpushim: attach: --host-pool has no effect: the pool stays off' "$(<attach.err)"
  expect_text stats.out '^  GPU 0 .* 302 allocations in all$'
  expect_no_text log 'set more than once' # by the user
}
for way in shared linked; do
  add_case "attach without a pool $way" attach_no_pool_case "$way"
done

# A program that executes itself again and again. It has not ended, and no other tracer has it. Alone sees addresses of
# one program replaced in the next one, and attach say that it is done.
attach_executing_case() {
  local status=0 missed=0 i

  need bash
  # shellcheck disable=SC2016 # the program's own
  printf '%s\n' '[[ -e end ]] && exit 7' '[[ $1 ]] || echo ready' 'exec bash ./again go' >again
  bash ./again >program.out 2>program.err </dev/null &
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail 'the program does not start'
  for ((i = 0; i < 20 || (i < 100 && missed == 0); i++)); do
    run_in "attach$i" -- "$build/gpushim" attach --wait=1 "$pid"
    cat "attach$i.err" >>all.err
    ! grep -qs 'it has executed another program: some calls' all.err || missed=1
  done
  : >end
  wait "$pid" || status=$?
  expect_equal 'the status' 7 "$status"
  expect_equal 'what it warns of' '' "$(<program.err)"
  expect_equal 'a program that was executed before words were replaced' 1 "$missed"
  expect_no_text all.err 'trace|has ended$'
}
add_case "attach to a program that executes itself" attach_executing_case

# A program's variables may change at any moment, and their list be freed, while threads of the library's read
# them: here the list cannot be read at all. HOW is attach, or preload. Alone sees a constructor, an answer, a report, a
# file's name or a helper for line numbers that reads `environ`.
variables_case() {
  need gcc
  local name

  cat >unreadable.c <<'C'
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
extern int cudaMalloc(void **, size_t), cudaFree(void *);
extern char **environ;
static void *keep_weights(void)
{
    void *weights = NULL;
    return cudaMalloc(&weights, 2 << 20) ? NULL : weights;
}
int main(void)
{
    char **variables = environ;
    void *block, *early = keep_weights();
    environ = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts("ready");
    fflush(stdout);
    while (access("more", F_OK))
        usleep(1000);
    void *weights = keep_weights();
    if (cudaMalloc(&block, 1 << 20) || cudaFree(block))
        return 1;
    puts("done");
    fflush(stdout);
    while (access("end", F_OK))
        usleep(1000);
    environ = variables;
    return cudaFree(weights) || cudaFree(early) ? 2 : 7;
}
C
  gcc -g unreadable.c -o unreadable -L"$build/sim" -lcudart || skip gcc
  if [[ $1 == attach ]]; then
    LD_LIBRARY_PATH=$build/sim ./unreadable >program.out 2>program.err </dev/null &
  else
    LD_LIBRARY_PATH=$build/sim LD_PRELOAD=$shim GPUSHIM_LOG_FILE='log.%q{LANG}' \
      ./unreadable >program.out 2>program.err </dev/null &
  fi
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail 'the program does not start'
  [[ $1 != attach ]] || run_in attach -- "$build/gpushim" --log-file='log.%q{LANG}' attach "$pid"
  : >more
  await 25 grep -qs done program.out || fail 'the program does not go on'
  run_in dump -- "$build/gpushim" dump "$pid"
  run_in stats -- "$build/gpushim" stats "$pid"
  run_in set -- "$build/gpushim" set "$pid" verbose=3
  run_in again -- "$build/gpushim" dump "$pid"
  run_in trace -- "$build/gpushim" trace --for=1 "$pid" trace
  run_in owners -- "$build/gpushim" owners "$pid"
  [[ $1 != attach ]] || run_in detach -- "$build/gpushim" detach "$pid"
  : >end
  local status=0
  wait "$pid" || status=$?
  expect_equal 'the status' 7 "$status"
  for name in dump stats set again trace owners; do
    expect_status $name 0
  done
  expect_text again.out '#0 keep_weights +unreadable[.]c:9$'
}
add_case "attach to a program whose variables cannot be read" variables_case attach
add_case "control with variables that cannot be read" variables_case preload

# Numbers of another PID namespace's /proc are other processes here. Alone sees one of them stopped.
attach_foreign_proc_case() {
  need unshare
  unshare -pf true 2>/dev/null || skip "name spaces of our own"
  attach_start "$apps/attached_shared" .
  run_in attach -- unshare -pf "$build/gpushim" attach --wait=1 "$pid"
  run_in detach -- unshare -pf "$build/gpushim" detach "$pid"
  run_in stats -- unshare -pf "$build/gpushim" stats "$pid"
  attach_step begin done
  attach_step more freed
  attach_end
  for name in attach detach stats; do
    expect_status $name 1
    expect_equal $name "gpushim: process $pid: /proc is that of another PID namespace" "$(<$name.err)"
  done
}
add_case "attach by another namespace's numbers" attach_foreign_proc_case

# The first thread has ended: the process ends with its last other one, attached or not. Alone sees the library's thread
# outlive them, and files looked for where a process has none any more.
attach_second_thread_case() {
  attach_start "$apps/attached_$1" . second
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in dump -- "$build/gpushim" dump "$pid"
  run_in named -- "$build/gpushim" stats "attached_$1"
  run_in trace -- "$build/gpushim" trace --for=1 "$pid" trace
  if [[ $2 == detached ]]; then
    run_in detach -- "$build/gpushim" detach "$pid"
    expect_status detach 0
  fi
  attach_step more freed
  attach_end
  expect_status attach 0
  expect_status trace 0
  [[ -s trace ]] || fail 'there is no trace'
  expect_text dump.out '#0 keep_weights +attached[.]c:[0-9]+$'
  expect_count named.out "^$pid: " 1
}
for way in shared linked; do
  add_case "attach without a first thread $way" attach_second_thread_case "$way" attached
  add_case "attach without a first thread $way, detached" attach_second_thread_case "$way" detached
done

# The first thread ends after attaching, while another one goes on, and the driver has no thread. Alone sees the
# library's thread, which nobody has told of that end, outlive them all.
attach_leaving_case() {
  attach_start "$apps/attached_$1" . leaving
  run_in attach -- "$build/gpushim" attach --report-on=exit --log-file="$PWD/log" "$pid"
  attach_step begin done
  if [[ $2 == detached ]]; then
    run_in detach -- "$build/gpushim" detach "$pid"
    expect_status detach 0
  fi
  attach_step leave ''
  await 25 grep -q 'State:.Z' "/proc/$pid/status" || fail 'the first thread does not end'
  attach_step more freed
  attach_end exit
  expect_status attach 0
  [[ $2 == detached ]] || expect_count log "^==$pid== gpushim [0-9.]+: .* exit 0\$" 1
}
for way in shared linked; do
  add_case "attach and the first thread leaves $way" attach_leaving_case "$way" attached
  add_case "attach and the first thread leaves $way, detached" attach_leaving_case "$way" detached
done

# An allocator that blocks all signals, as tcmalloc's stacks do, and restores the mask by the C library. Alone sees the
# thread that answers without the signal that wakes it: the next question ends the program.
attach_masks_case() {
  local i asking=()

  need gcc
  cat >masks.c <<'C'
#include <signal.h>
#include <stddef.h>
void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    void *memory = __libc_malloc(bytes);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return memory;
}
C
  gcc -shared -fPIC -O1 -o masks.so masks.c || fail 'gcc cannot build the allocator'
  attach_start "$(command -v env)" LD_PRELOAD="$PWD/masks.so" "$apps/attached_linked" .
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  for ((i = 0; i < 12; i++)); do # some ask while another is answered
    "$build/gpushim" export "$pid" json >"json$i.out" 2>"json$i.err" &
    asking+=($!)
  done
  for i in "${asking[@]}"; do
    wait "$i" || fail "a question is not answered: $(cat json*.err)"
  done
  run_in stats -- "$build/gpushim" stats "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  run_in late -- "$build/gpushim" stats "$pid"
  attach_step more freed
  attach_end
  expect_status attach 0
  expect_status stats 0
  expect_status detach 0
  expect_equal 'figures of a detached process' "gpushim: process $pid: nothing is recorded since gpushim detach" "$(<late.err)"
}
add_case "attach among an allocator's masks" attach_masks_case

# 32 threads call all the time while it attaches and detaches, ten times.
attach_threads_case() {
  local i

  attach_start "$apps/attached_$1" . threads
  for ((i = 0; i < 10; i++)); do
    run_in "attach$i" -- "$build/gpushim" attach "$pid"
    run_in "detach$i" -- "$build/gpushim" detach "$pid"
    expect_status "attach$i" 0
    expect_status "detach$i" 0
  done
  attach_step begin done
  attach_step more freed
  attach_end
  expect_text attach9.out "^$pid: attached: "
}
for way in shared static linked proc; do
  add_case "attach under load $way" attach_threads_case "$way"
done

# A library sets variables named as the driver's functions to what it looks up: seen, like the calls by them.
attach_variables_case() {
  local sources_of=$sources/tests/apps/chain/wrangler.c

  need gcc
  gcc -o libwrangler.so "$sources_of" -shared -fPIC -O2 -ldl || fail 'gcc cannot build the library'
  gcc -o libuser.so "$sources_of" -DUSER -shared -fPIC -O2 -L. -lwrangler -Wl,-rpath,"$PWD" || fail 'nor its user'
  gcc -o linked "$sources_of" -DMAIN -L. -lwrangler -luser -Wl,-rpath,"$PWD" -ldl || fail 'nor the program'
  gcc -o opened "$sources_of" -DMAIN -DOPENED -ldl || fail 'nor the program'
  attach_start "./$1" steps
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in dump -- "$build/gpushim" dump "$pid"
  attach_step end ''
  wait "$pid" || fail 'the program ended otherwise'
  expect_equal 'what the program says' $'ready\n0\n0\ndone' "$(<program.out)"
  expect_text dump.out 'live in 2 allocations'
}
for way in linked opened; do
  add_case "attach to a library with variables, $way" attach_variables_case "$way"
done

# Two pairs of calls take as many instructions as before once it has detached, and are recorded meanwhile.
attach_steps_case() {
  local before meanwhile after

  need_file "$build/inject/steps"
  attach_start "$apps/attached_$1" . pairs
  before=$("$build/inject/steps" "$pid") || skip 'single steps by ptrace'
  run_in attach -- "$build/gpushim" attach "$pid"
  meanwhile=$("$build/inject/steps" "$pid") || fail 'no steps while attached'
  run_in detach -- "$build/gpushim" detach "$pid"
  after=$("$build/inject/steps" "$pid") || fail 'no steps after detaching'
  : >end
  wait "$pid" || fail 'the program ended otherwise'
  expect_status attach 0
  expect_status detach 0
  ((meanwhile > before)) || fail "attached, two pairs take $meanwhile instructions, natively $before"
  ((after * 100 <= before * 101)) || fail "after detaching, two pairs take $after instructions, natively $before"
}
for way in shared static linked dlsym proc ptds; do
  add_case "attach leaves native speed $way" attach_steps_case "$way"
done

# What it has from before is said where NVML knows it. Asked twice: each answer starts a thread of the library's, and
# its last one ends none of the signals that wake the thread that answers.
attach_nvml_case() {
  [[ $(readlink /proc/self/ns/pid) == 'pid:[4026531836]' ]] || skip "the host's process numbers"
  cuda_path+=:$build/sim-nvml
  attach_start "$apps/attached_linked" . pairs
  run_in attach -- "$build/gpushim" --nvml attach "$pid"
  sleep 0.1
  run_in dump -- "$build/gpushim" dump "$pid"
  run_in again -- "$build/gpushim" dump "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  : >end
  wait "$pid" || fail 'the program ended otherwise'
  for name in attach dump again detach; do
    expect_status $name 0
  done
  expect_text again.out "^==$pid==   not recorded +[1-9][.0-9]* MiB   \(all from before gpushim attached, context, modules"
}
add_case "attach says what is from before" attach_nvml_case

# Again, with other options, which come too late; and it detaches twice.
attach_again_case() {
  attach_start "$apps/attached_$1" .
  run_in first -- "$build/gpushim" --leak-max=1 attach "$pid"
  run_in second -- "$build/gpushim" --leak-max=1 attach "$pid"
  run_in other -- "$build/gpushim" --leak-max=2 attach "$pid"
  attach_step begin done
  run_in detach -- "$build/gpushim" detach "$pid"
  run_in twice -- "$build/gpushim" detach "$pid"
  run_in back -- "$build/gpushim" --leak-max=1 attach "$pid"
  attach_step more freed
  run_in last -- "$build/gpushim" detach "$pid"
  attach_end
  for name in first second other detach back last; do
    expect_status $name 0
  done
  expect_status twice 1
  expect_quiet second
  expect_text second.out "^$pid: attached before: "
  expect_equal 'other options' "gpushim: process $pid: its options stay those of the first attach; gpushim set $pid changes some" \
    "$(<other.err)"
  expect_equal 'detached twice' "gpushim: process $pid: gpushim is not attached to it" "$(<twice.err)"
  expect_quiet back
  expect_text last.out "^$pid: detached: its calls go to the driver alone [(][1-9][0-9]* pointers? restored[)]\$"
}
for way in shared linked; do
  add_case "attach again $way" attach_again_case "$way"
done

# The last file is that of the detaching, also where files are written all the time. Alone sees one of an interval that has
# waited for its turn meanwhile.
attach_last_file_case() {
  attach_start "$apps/attached_$1" .
  run_in attach -- "$build/gpushim" --log-file="$PWD/log" --output=json --output-file="$PWD/out.json" \
    --interval=output:1ms attach "$pid"
  attach_step begin done
  run_in detach -- "$build/gpushim" detach "$pid"
  sleep 0.2 # what waits for its turn has it
  expect_text out.json '"ending": "on gpushim detach"'
  attach_step more freed
  attach_end
}
add_case "attach ends files shared" attach_last_file_case shared
add_case "attach ends files linked" attach_last_file_case linked

# After detaching the process ends as natively: no report, no status of --error-exitcode for what it frees by then, and
# no file changes. Each file says what there was at detaching. Alone sees a library that reports at exit.
attach_left_case() {
  local sums name

  attach_start "$apps/attached_$1" .
  run_in attach -- "$build/gpushim" --error-exitcode=9 --log-file="$PWD/log" --output=json --output-file="$PWD/out.json" \
    --metrics-file="$PWD/metrics" --state-file="$PWD/state" --interval=output:100ms attach "$pid"
  attach_step begin done
  run_in detach -- "$build/gpushim" detach "$pid"
  for name in log out.json metrics state; do
    [[ -s $name ]] || fail "no file $name is written"
  done
  sums=$(cksum log out.json metrics state)
  run_in stats -- "$build/gpushim" stats "$pid"
  sleep 0.3 # three intervals
  attach_step more freed
  attach_end
  expect_equal 'the files after the end' "$sums" "$(cksum log out.json metrics state)"
  [[ ! -e out.1.json && ! -e state.data ]] || fail 'more files are written'
  expect_status attach 0
  expect_status detach 0
  expect_text detach.out "^==$pid== gpushim .* on gpushim detach\$"
  expect_text log "^==$pid== gpushim .* on gpushim detach\$"
  expect_text log "^==$pid== .* 0 errors so far, 6[.]00 MiB live in 2 allocations"
  expect_text out.json '"live": 1|"leaked_bytes": 6291456'
  run_in report -- "$build/gpushim" report state
  expect_text report.out "^==$pid== gpushim .* on gpushim detach\$"
  expect_text report.out "^==$pid== LIVE 1: 6[.]00 MiB in 2 allocations"
  expect_status stats 1
  expect_equal 'figures of a detached process' "gpushim: process $pid: nothing is recorded since gpushim detach" "$(<stats.err)"
}
for way in shared linked; do
  add_case "attach leaves nothing behind $way" attach_left_case "$way"
done

# Signals do what they do natively after detaching, and write a report again once it is attached to again. Alone sees a
# handler that stays.
attach_signal_case() {
  local status=0

  attach_start "$apps/attached_linked" .
  for i in 1 2; do
    run_in attach -- "$build/gpushim" --report-on=SIGUSR1 --log-file="$PWD/log" attach "$pid"
    kill -USR1 "$pid"
    await 25 grep -qs 'on SIGUSR1$' log || fail "SIGUSR1 writes no report the time number $i"
    run_in detach -- "$build/gpushim" detach "$pid"
    rm log
  done
  kill -USR1 "$pid"
  wait "$pid" || status=$?
  expect_equal 'the status' "$((128 + $(kill -l USR1)))" "$status"
  [[ ! -e log ]] || fail 'a report is written'
}
add_case "attach leaves signals" attach_signal_case

# What was recorded before detaching may be freed and allocated anew, unseen: it is forgotten. Alone sees blocks of the
# first recording counted in the second, and a free of one that is an error.
attach_anew_case() {
  need python3
  attach_start "$apps/attached_$1" .
  run_in first -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in detach -- "$build/gpushim" detach "$pid"
  run_in second -- "$build/gpushim" attach "$pid"
  attach_step more freed
  run_in stats -- "$build/gpushim" stats --json "$pid"
  run_in short -- "$build/gpushim" stats "$pid"
  run_in json -- "$build/gpushim" export "$pid" json
  run_in last -- "$build/gpushim" detach "$pid"
  run_in none -- "$build/gpushim" detach "$pid"
  attach_end
  expect_text detach.out "^==$pid== .* 0 errors so far, 6[.]00 MiB live in 2 allocations"
  python3 -S - <<'PY' >found || fail 'the answers are no JSON'
import json
now = json.load(open("stats.out"))
device, recorded = now["devices"][0], json.load(open("json.out"))["recorded"]
print(device["allocs"], device["frees"], device["live_bytes"], device["peak_bytes"], now["pinned"]["allocs"], now["errors"])
print(now["attached"], recorded["attached"], recorded["windows"], recorded["from_ns"] == now["recorded_from_ns"] > 0)
PY
  expect_equal 'what is recorded anew' '0 0 0 0 0 0
True True 1 True' "$(<found)"
  expect_text last.out "^==$pid== .* 0 errors so far, 0 B live"
  expect_text last.out "^==$pid== recorded from [0-9.]+ m?s on [(]attached[)]: memory allocated before is not counted\$"
  expect_text short.out '^  recorded from [0-9.]+ m?s on [(]attached[)]: memory allocated before is not counted$'
  expect_status last 0
  expect_status none 1
  expect_equal 'detached twice' "gpushim: process $pid: gpushim is not attached to it" "$(<none.err)"
  expect_equal 'its report' '' "$(<none.out)"
}
for way in shared static linked; do
  add_case "attach anew $way" attach_anew_case "$way"
done

# Alone sees a second recording that has no peak, since the first one had a higher one, or the growth of the first one.
attach_peak_case() {
  need python3
  attach_start "$apps/attached_$1" . threads
  run_in first -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in detach -- "$build/gpushim" detach "$pid"
  run_in second -- "$build/gpushim" attach "$pid"
  await 25 have_peak || fail "no peak: $(<stats.out)"
  run_in last -- "$build/gpushim" detach "$pid"
  attach_step more freed
  attach_end
  expect_no_text last.out ', peak 0 B'
}
# The peak of the second recording is there, and lower than the 6 MiB of the first one.
have_peak() {
  "$build/gpushim" stats --json "$pid" >stats.out
  python3 -S -c 'import json; device = json.load(open("stats.out"))["devices"][0]
raise SystemExit(not 0 < device["peak_bytes"] < 6 << 20)'
}
for way in shared linked; do
  add_case "attach again has a peak $way" attach_peak_case "$way"
done

# It detaches by itself.
attach_for_case() {
  attach_start "$apps/attached_shared" .
  env -i "$build/gpushim" attach --for=2 --stack=depth:4 "$pid" >for.out 2>for.err &
  await 25 grep -qs attached: for.out || fail 'it does not attach'
  attach_step begin done
  wait $! || fail 'it does not end well'
  attach_step more freed
  attach_end
  expect_quiet for
  expect_text for.out "^==$pid== LIVE 1: 6[.]00 MiB in 2 allocations"
  expect_text for.out "^$pid: detached: "
}
add_case "attach for some time" attach_for_case

# A process with another root, as in a container, has no file of the library: it gets a copy for a moment. Its
# /tmp is a link that leads elsewhere from outside; or no program may run from there.
# attach_container_case link|noexec
attach_container_case() {
  local library outer start=(env -i LD_LIBRARY_PATH=/app)

  need unshare
  need chroot
  unshare -mpf true 2>/dev/null || skip "name spaces of our own"
  need_file "$apps/attached_shared"
  mkdir -p root/{app,proc,other,dev,var/tmp} elsewhere
  if [[ $1 == link ]]; then
    ln -s /other root/tmp
  else
    mkdir root/tmp
    # shellcheck disable=SC2016 # of the shell that mounts
    start=(bash -c 'mount -t tmpfs -o noexec none root/tmp || exit 9; exec "$@"' bash "${start[@]}")
  fi
  ldd "$apps/attached_shared" "$build/sim/libcuda.so.1" | grep -oE '/[^ :]+[.]so[^ :]* [(]' | sort -u >libraries
  while read -r library _; do
    mkdir -p "root${library%/*}"
    cp -L "$library" "root$library"
  done <libraries
  cp "$apps/attached_shared" "$build"/sim/libcuda.so.1 "$build"/sim/libcudart.so.13 root/app/
  unshare -mpf --mount-proc="$PWD/root/proc" --kill-child "${start[@]}" "$(command -v chroot)" "$PWD/root" /app/attached_shared /app \
    >program.out 2>program.err </dev/null &
  outer=$!
  trap 'kill -9 "$outer" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "the program does not start: $(<program.err)"
  pid=$(pgrep -P "$outer")
  run_in attach -- "$build/gpushim" attach "$pid"
  : >root/app/begin
  await 25 grep -qs done program.out || fail 'the program does not go on'
  run_in dump -- "$build/gpushim" dump "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  : >root/app/more
  : >root/app/end
  wait "$outer" || fail 'the program ended otherwise'
  expect_status attach 0
  expect_status detach 0
  expect_text dump.out "^==1== .* 0 errors so far, 6[.]00 MiB live in 2 allocations"
  expect_text dump.out '#0 keep_weights +attached[.]c:[0-9]+$' # which nothing in it could find
  expect_equal 'a copy that remains' '' "$(find root/{other,dev,var/tmp} elsewhere -mindepth 1)"
}
add_case "attach to a container" attach_container_case link
add_case "attach to a container without programs in /tmp" attach_container_case noexec

# Root attaches to another user's process, which may not read the library where it is: it gets a copy, too.
attach_private_case() {
  local public

  need setpriv
  ((EUID == 0)) || skip "root's rights"
  need_file "$apps/attached_shared"
  public=$(mktemp -d) || fail 'no folder'
  chmod 755 "$public"
  cp "$apps/attached_shared" "$build"/sim/libcuda.so.1 "$build"/sim/libcudart.so.13 "$public/"
  mkdir -m 700 private
  cp "$build"/gpushim "$build"/libgpushim.so private/
  env -i LD_LIBRARY_PATH="$public" setpriv --reuid=65534 --regid=65534 --clear-groups "$public/attached_shared" "$public" \
    >program.out 2>program.err </dev/null &
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null; rm -rf "$public"' EXIT
  await 25 grep -qs ready program.out || fail "the program does not start: $(<program.err)"
  run_in attach -- private/gpushim attach "$pid"
  attach_step "$public/begin" done
  run_in dump -- private/gpushim dump "$pid"
  run_in detach -- private/gpushim detach "$pid"
  : >"$public/more"
  : >"$public/end"
  wait "$pid" || fail 'the program ended otherwise'
  expect_status attach 0
  expect_status detach 0
  expect_text dump.out "^==$pid== .* 0 errors so far, 6[.]00 MiB live in 2 allocations"
}
add_case "attach to a process that may not read the library" attach_private_case

# A container's filter holds for its first process, too, and allows what programs do. A program's own may end it.
# attach_filter_case inside|outside
attach_filter_case() {
  local outer settings command inside=()

  need python3
  need unshare
  unshare -mpf true 2>/dev/null || skip "name spaces of our own"
  need_file "$apps/attached_linked"
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- -- "$apps/attached_linked" "$PWD"
  cat >filtered.py <<'PY' # a filter that allows all
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, header, 0, 0) == 0
os.execvp("env", ["env", "-i"] + sys.argv[1:])
PY
  [[ $1 == outside ]] || inside=(unshare -mpf --mount-proc --kill-child)
  "${inside[@]}" python3 -S filtered.py "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  outer=$!
  trap 'kill -9 "$outer" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "the program does not start: $(<program.err)"
  pid=$(pgrep -f "^$apps/attached_linked $PWD\$")
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  attach_step more freed
  attach_step end over
  wait "$outer" || fail 'the program ended otherwise'
  if [[ $1 == inside ]]; then
    expect_status attach 0
  else
    expect_status attach 1
    expect_text attach.err "^gpushim: process $pid: a sandbox filters its system calls"
  fi
}
add_case "attach behind a container's filter" attach_filter_case inside
add_case "attach behind a program's filter" attach_filter_case outside

# ThreadSanitizer ends a process for a thread that it has not made. Alone sees such a thread, and a runtime that is
# linked statically taken for none: it shows no name of its own.
# attach_sanitized_case WAY LIBRARY: waits in poll, or never
attach_sanitized_case() {
  local status=0

  need gcc
  cat >sanitized.c <<'C'
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    volatile unsigned long turns = 0;
    int waits = argc > 1 && strcmp(argv[1], "poll") == 0;
    puts("ready");
    fflush(stdout);
    while (access("end", F_OK) != 0)
        if (waits)
            poll(NULL, 0, 100);
        else
            for (int i = 0; i < 10000000; i++)
                turns = turns + 1;
    return 7;
}
C
  gcc -O1 -fsanitize=thread ${2:+"$2"} -o sanitized sanitized.c 2>/dev/null || skip 'ThreadSanitizer'
  setarch -R true 2>/dev/null || skip 'setarch -R'
  setarch -R ./sanitized "$1" >program.out 2>program.err </dev/null & # its memory is at fixed addresses
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || skip 'ThreadSanitizer'
  run_in attach -- "$build/gpushim" attach --wait=2 "$pid"
  : >end
  wait "$pid" || status=$?
  expect_equal 'the status' 7 "$status"
  expect_equal 'what it warns of' '' "$(<program.err)"
  expect_status attach 1
  expect_text attach.err "^gpushim: process $pid: it runs under ThreadSanitizer, which would not know the new thread\$"
}
for way in busy poll; do
  add_case "attach to a program under ThreadSanitizer, $way" attach_sanitized_case $way
  add_case "attach to a program under ThreadSanitizer, linked statically, $way" attach_sanitized_case $way -static-libtsan
done

# A program that has just been started has not loaded its C library: here the loader waits for the writer of a pipe.
attach_starting_case() {
  local settings command

  need_file "$build/gpushim"
  mkfifo named
  clean_env "$case_dir" "$cuda_path" -- LD_PRELOAD="$PWD/named" -- "$apps/attached_linked" "$PWD"
  env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  (sleep 0.1 && : >named) &
  run_in attach -- "$build/gpushim" attach "$pid"
  expect_status attach 0
  expect_text attach.out "^$pid: attached: "
}
add_case "attach to a program that starts" attach_starting_case

# A thread that reads what is not a plain file can load the library: by a name of its own, too.
attach_named_pipe_case() {
  need_file "$build/gpushim"
  mkfifo named
  cat <named >program.out &
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  exec 9>named
  run_in attach -- "$build/gpushim" attach "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  echo over >&9
  exec 9>&-
  wait "$pid" || fail 'the program ended otherwise'
  expect_status attach 0
  expect_status detach 0
  expect_text attach.out "^$pid: attached: no CUDA driver is loaded yet; "
  expect_equal 'what it reads' over "$(<program.out)"
}
add_case "attach to the reader of a named pipe" attach_named_pipe_case

# Addresses that stay are said: in shared memory, where a process without the library may use them, and in a packed
# struct. The program calls both before and after. Alone sees them left without a line.
attach_unchanged_case() {
  local status=0

  need gcc
  cat >table.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static struct {
    char tag;
    int (*free)(unsigned long long);
} __attribute__((packed)) own;
int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (**shared)(unsigned long long) = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!driver || shared == MAP_FAILED)
        return 1;
    *shared = own.free = (int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2");
    puts("ready");
    fflush(stdout);
    while (access("end", F_OK) != 0)
        usleep(10000);
    return (*shared)(0) == 3 && own.free(0) == 3 ? 7 : 2; /* CUDA_ERROR_NOT_INITIALIZED */
}
C
  gcc -O1 -o table table.c -ldl || fail 'gcc cannot build the program'
  attach_start ./table
  run_in attach -- "$build/gpushim" attach "$pid"
  run_in detach -- "$build/gpushim" detach "$pid"
  : >end
  wait "$pid" || status=$?
  expect_equal 'the status' 7 "$status"
  expect_status attach 0
  expect_status detach 0
  expect_equal 'what stays' "gpushim: process $pid: 2 addresses of driver functions not changed, in memory that it may \
share, or not aligned: calls through them are missed" "$(<attach.err)"
}
add_case "attach to a table in shared memory" attach_unchanged_case

# Little address space is left (RLIMIT_AS), then none. Alone sees a thread there with a stack of 8 MiB, which the C
# library keeps, and a question that waits for an answer in vain, without the reason.
attach_limited_case() {
  local size now

  need prlimit
  attach_start "$apps/attached_linked" .
  size=$(awk '/^VmSize/ { print $2 }' "/proc/$pid/status")
  prlimit --pid "$pid" --as=$(((size + 22 * 1024) * 1024)) || fail 'no limit can be set'
  run_in attach -- "$build/gpushim" attach "$pid"
  attach_step begin done
  run_in stats -- "$build/gpushim" stats "$pid"
  now=$(awk '/^VmSize/ { print $2 }' "/proc/$pid/status")
  prlimit --pid "$pid" --as=$((now * 1024)): || fail 'no limit can be set'
  run_in none -- "$build/gpushim" stats --wait=60 "$pid"
  prlimit --pid "$pid" --as=$(((size + 22 * 1024) * 1024)): || fail 'no limit can be set'
  attach_step more freed
  run_in detach -- "$build/gpushim" detach "$pid"
  attach_end
  expect_status none 1
  expect_equal 'without addresses' "gpushim: process $pid: its address space is used up (RLIMIT_AS)" "$(<none.err)"
  for name in attach stats detach; do
    expect_status $name 0
    expect_quiet $name
  done
}
add_case "attach with little address space" attach_limited_case

# Threads that read many random numbers and zeros at once, which no signal cuts short natively. Alone sees a stop cut
# them short.
attach_reading_case() {
  local status=0 i

  need gcc
  cat >reading.c <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
enum { BYTES = 16 << 20 };
static volatile int ending, cut;
static void *read_all(void *path)
{
    char *to = malloc(BYTES);
    int file = path ? open(path, O_RDONLY) : -1;
    while (!ending)
        if ((path ? read(file, to, BYTES) : getrandom(to, BYTES, 0)) != BYTES)
            cut++;
    return NULL;
}
int main(void)
{
    char *paths[] = {"/dev/urandom", "/dev/zero", NULL};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, read_all, paths[i]);
    puts("ready");
    fflush(stdout);
    while (access("end", F_OK) != 0)
        usleep(10000);
    ending = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (cut > 0)
        printf("%d reads are cut short\n", cut);
    return 7;
}
C
  gcc -O1 -pthread -o reading reading.c || fail 'gcc cannot build the program'
  attach_start ./reading
  for i in 1 2 3; do
    run_in "attach$i" -- "$build/gpushim" attach "$pid"
    run_in "detach$i" -- "$build/gpushim" detach "$pid"
    expect_status "attach$i" 0
    expect_status "detach$i" 0
  done
  : >end
  wait "$pid" || status=$?
  expect_equal 'the status' 7 "$status"
  expect_equal 'what the program says' ready "$(<program.out)"
}
add_case "attach among long reads" attach_reading_case

# What it cannot attach to, it says, and leaves alone.
attach_refused_case() {
  local stub

  need_file "$apps/stub-driver/libcuda.so.1"
  run_in none -- "$build/gpushim" attach 999999
  run_in word -- "$build/gpushim" attach me
  run_in empty -- "$build/gpushim" attach
  run_in off -- "$build/gpushim" --no-track attach "$$"
  run_in verbose -- "$build/gpushim" attach --verbose=3 999999
  run_in silent -- "$build/gpushim" attach --stats-interval=1s 999999
  run_in logged -- "$build/gpushim" attach --stats-interval=1s --log-file=x 999999
  run_in trace -- "$build/gpushim" attach --trace-file=x "$$"
  LD_PRELOAD=$apps/stub-driver/libcuda.so.1 sleep 60 &
  stub=$!
  run_in lacks -- "$build/gpushim" attach "$stub"
  kill "$stub"
  run_in long -- "$build/gpushim" attach --for=0 "$$"
  run_in never -- "$build/gpushim" detach "$$"
  start_preloaded under -- "$apps/asked_linked" "$PWD/over"
  pid=$!
  trap 'kill -9 "$pid" 2>/dev/null' EXIT
  await 25 grep -qs ready under.out || fail "the program does not start"
  run_in under_it -- "$build/gpushim" attach "$pid"
  run_in left_it -- "$build/gpushim" detach "$pid"
  : >over
  wait "$pid" || fail 'the program ended otherwise'
  for name in none never under_it lacks; do
    expect_status $name 1
  done
  for name in word empty off long trace; do
    expect_status $name 2
  done
  expect_text none.err '^gpushim: process 999999: no such process$'
  expect_equal 'a word' 'gpushim: a process is a number from 1 to 2147483647, not me' "$(<word.err)"
  expect_equal 'nothing to record' "gpushim: attach: with GPUSHIM_ENABLE=off or GPUSHIM_TRACK=off nothing is recorded" \
    "$(<off.err)"
  expect_text verbose.err "^gpushim: attach: --verbose has no effect without --log-file: the program's output stays its own\$"
  expect_text silent.err '^gpushim: attach: --stats-interval writes no lines without --log-file: the program'
  expect_equal 'with a log' 'gpushim: process 999999: no such process' "$(<logged.err)"
  expect_text trace.err '^gpushim: attach: --trace-file: a trace of a running process is recorded by gpushim trace PID FILE$'
  expect_text empty.err '^gpushim: attach: no PID is given$'
  expect_equal 'not attached' "gpushim: process $$: gpushim is not attached to it" "$(<never.err)"
  expect_text lacks.err "^gpushim: process $stub: its CUDA driver lacks cu[A-Za-z0-9_]+: nothing can be recorded\$"
  expect_text under_it.err "^gpushim: process $pid: it runs under gpushim from its start: ask it with gpushim dump\$"
  # The fault: it is refused after it has written a report.
  expect_text left_it.err "^gpushim: process $pid: it runs under gpushim from its start: ask it with gpushim dump\$"
  [[ ! -s left_it.out ]] || fail "a report of a program that is not left"
}
add_case "attach refused" attach_refused_case
