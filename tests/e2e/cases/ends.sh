# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# ends.sh - no end without a report: what a process started by the command gpushim could not
# report itself is reported by the command, and the process notices nothing of it.

# launched PREFIX [VAR=value...] -- WORD...: gpushim WORD...
launched() {
  local prefix=$1 settings command

  need_file "$build/gpushim"
  split_settings "${@:2}"
  run_in "$prefix" GPUSHIM_LIBRARY="$shim" "${settings[@]}" -- "$build/gpushim" "${command[@]}"
}

# report_comes FILE COUNT: so many reports are in the file soon; no more come.
report_comes() {
  await 20 has_reports "$1" "$2" || { cat "$1" && fail "$1: not $2 reports"; }
  expect_count "$1" '^==[0-9]+== SUMMARY: gpushim: ' "$2"
}
has_reports() {
  [[ $(grep -c '^==[0-9]*== SUMMARY: gpushim: ' "$1" 2>/dev/null) -ge $2 ]]
}

# ---- each end ---------------------------------------------------------------------------

# ends_case WAY OPTION...: the native status, or 7 where --error-exitcode applies; one report, with
# the leak and its line. With --watch=parent and the like it is there when the command has ended.
ends_case() {
  local way=$1 status fate=leaked

  need_file "$apps/ends_shared"
  run_in native -- "$apps/ends_shared" "$way"
  launched shim CUDASIM_DEVICES=1 -- "${@:2}" "$apps/ends_shared" "$way"
  status_of native
  [[ " $* " != *' --error-exitcode=7 '* || $status != 0 ]] || status=7
  expect_status shim "$status"
  if [[ " $* " == *' --summary '* ]]; then
    expect_count shim.err "^gpushim: .* $( ((status < 128)) && echo '3\.00 MiB' || echo -) +3\\.00 MiB " 1
    sed -i '/^gpushim: /d' shim.err
  fi
  [[ " $* " == *' --watch=beside '* ]] && report_comes shim.err 1
  # What a signal ended has not leaked, whichever way it was.
  [[ $status -lt 128 ]] || fate="live when killed by SIG$(kill -l "$status")"
  expect_count shim.err "^==[0-9]+== SUMMARY: gpushim: 0 errors, 3\\.00 MiB $fate in 1 allocation" 1
  expect_only_report shim.err
  expect_planted shim.err "$sources/tests/apps/ends.c"
}
# gone: without its end the library's thread that the command asks would keep the process for good.
for way in normal raw raw9 abort crash kill int quit term hup handlers leader gone; do
  for option in --watch=beside --watch=parent --error-exitcode=7 --summary; do
    add_case "ends $way $option" ends_case "$way" "$option"
  done
  add_case "ends $way --state-file" ends_case "$way" --watch=parent --state-file=state.%p
done

# The command writes the report that the process cannot write: no line says that there is none.
ends_handler_case() {
  launched shim -- --watch=parent "$apps/lastcall_linked" exit own
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: ' 1
}
add_case "ends in a handler, reported by the command" ends_handler_case

# ends_said_case WAY TEXT: the header says how.
ends_said_case() {
  launched shim -- --watch=parent "$apps/ends_shared" "$1"
  expect_count shim.err "^==[0-9]+== gpushim [0-9.]+: .*/ends_shared $1 .*  $2\$" 1
}
# A process that gives itself a name pads it with blanks, up to the length of its command line.
ends_title_case() {
  # shellcheck disable=SC2016  # the inner shell's
  launched shim -- --watch=parent bash -c 'exec -a "ray::Actor.step        " "$0"' "$apps/ends_shared"
  expect_count shim.err '^==[0-9]+== gpushim [0-9.]+: ray::Actor[.]step   host ' 1
}
add_case "ends of a process that names itself" ends_title_case

add_case "ends said raw" ends_said_case raw9 'exit_group 9'
add_case "ends said abort" ends_said_case abort 'killed by SIGABRT'
add_case "ends said kill" ends_said_case kill 'killed by SIGKILL'
add_case "ends said main thread" ends_said_case leader 'exit 0'

# Memory of a killed process is live, with the signal and the rank; nothing of it is called leaked.
# Would see the words of a program that ended by itself.
ends_fate_case() {
  launched shim RANK=3 -- --watch=parent "$apps/ends_shared" abort
  expect_status shim 134
  expect_text shim.err '^==[0-9]+== Note: The process was killed[.] This is its memory at that moment[.]$'
  expect_text shim.err '^==[0-9]+== LIVE 1: 3[.]00 MiB in 1 allocation [(]100 % of live[)]$'
  expect_text shim.err '^==[0-9]+==   cu[A-Za-z]+, GPU 0, .*live when killed by SIGABRT [(]rank 3[)]$'
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 3[.]00 MiB live when killed by SIGABRT [(]rank 3[)] in 1 allocation, 1 call site$'
  expect_no_text shim.err 'leaked|LEAK'
}
add_case "ends said of killed memory" ends_fate_case

# A job whose ranks are killed since one of them aborted: that one is named, by --summary of one
# command and by merge of the ranks' own reports. Would see the order of the files, or of ranks.
ends_job_case() {
  local rank ways=(kill kill abort)

  # shellcheck disable=SC2016  # the inner shell's
  launched shim -- --summary --log-file=log.%p sh -c \
    'RANK=0 "$0" wait up0 & zero=$!; RANK=2 "$0" wait up2 & two=$!
     while [ ! -e up0 ] || [ ! -e up2 ]; do sleep 0.05; done
     RANK=1 "$0" abort; sleep 0.3; kill -TERM $zero $two; wait' "$apps/ends_shared"
  expect_text shim.err '^gpushim: first to fail: rank 1 of [^ ]+, killed by SIGABRT$'
  expect_count shim.err '^gpushim: .* MiB +3[.]00 MiB +- +[0-9]+ +0  killed by SIGTERM +/' 2
  expect_text shim.err '^gpushim: live when killed: 9[.]00 MiB in 3 processes$'
  expect_no_text shim.err '^gpushim: +[0-9]+ +[0-9] +[0-9.]+ MiB +[^ ]+ MiB +[0-9.]+ [MK]iB'
  mkdir ranks
  for rank in 2 1 0; do
    launched "rank$rank" RANK=$rank -- --watch=parent --log-file=/dev/null --output=json --output-file="ranks/$rank.json" \
      "$apps/ends_shared" "${ways[rank]}"
  done
  run_in all -- "$build/gpushim" merge ranks
  expect_text all.out '^gpushim: first to fail: rank 2 of [^ ]+, killed by SIGABRT$'
  run_in clean -- "$build/gpushim" merge ranks/1.json
  expect_no_text clean.out 'first to fail'
}
add_case "ends said of a job" ends_job_case

# A child's end by the system call, an image that goes by it. A parent that drops a status drops no leak.
ends_child_case() {
  local said='^gpushim: the command ended with 0, and process [0-9]+ has leaks or errors: exit status 7$'

  launched shim -- --error-exitcode=7 "$apps/ends_shared" child
  expect_status shim 7
  expect_count shim.err "$said" 1
  report_comes shim.err 2
  expect_planted shim.err "$sources/tests/apps/ends.c"
  # shellcheck disable=SC2016  # the inner shell's
  launched script -- --error-exitcode=7 sh -c '"$0" raw; "$0" normal & wait; true' "$apps/ends_shared"
  expect_status script 7
  expect_count script.err "$said" 1
  # shellcheck disable=SC2016  # the inner shell's
  launched own -- --error-exitcode=7 sh -c '"$0" raw; exit 5' "$apps/ends_shared"
  expect_status own 5
  expect_no_text own.err "$said"
}
add_case "ends of a child" ends_child_case

ends_image_case() {
  launched shim -- --error-exitcode=7 "$apps/ends_shared" image
  expect_status shim 7
  expect_planted shim.err "$sources/tests/apps/ends.c"
}
add_case "ends of an image" ends_image_case

# A program that becomes itself: both images have a report, the first one's leak counts; and a line,
# if the second is out of sight.
ends_again_case() {
  launched shim -- --error-exitcode=7 "$apps/ends_shared" again "$1"
  expect_status shim 7
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 3\.00 MiB leaked' 1
  expect_count shim.err '^gpushim: exec /proc/self/exe: LD_PRELOAD is not in its environment: ' "$2"
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' $((1 - $2))
}
add_case "ends of an image that goes on" ends_again_case env 0
add_case "ends of an image out of sight" ends_again_case clean 1

# Tables that grow over several pieces are read whole.
ends_many_case() {
  launched shim GPUSHIM_PEAK_MAX=0 -- --watch=parent "$apps/ends_shared" many
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 223 MiB leaked in 900,001 allocations, 2 call sites'
  expect_no_text shim.err 'not complete|could not'
}
add_case "ends of many" ends_many_case

# More processes than the queue takes end at once.
ends_crowd_case() {
  # shellcheck disable=SC2016  # the inner shell's
  launched shim GPUSHIM_SYMBOLIZE=off -- --watch=parent sh -c \
    'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do "$0" kill & done; wait' \
    "$apps/ends_shared"
  expect_status shim 0
  report_comes shim.err 24
}
add_case "ends of a crowd" ends_crowd_case

# What else was asked for is written, too, under the process's own names.
ends_files_case() {
  mkdir rules
  echo 'leak:nobody' >rules/known
  launched shim RANK=3 -- --watch=parent --log-file=log.%r.%e.%p --output=json --suppressions=rules/known \
    --write-suppressions=new.%e sh -c "cd / && exec $apps/ends_shared kill"
  expect_quiet shim
  [[ -s new.ends_shared ]] || fail "no rules"
  expect_planted log.3.ends_shared.* "$sources/tests/apps/ends.c"
  expect_no_text log.3.ends_shared.* 'cannot read'
  [[ -s $(sed -nE 's/.*files written: (.*[.]json)$/\1/p' log.3.ends_shared.*) ]] || fail "no json"
}
add_case "ends with files" ends_files_case

ends_output_case() {
  launched shim -- --watch=parent --output=json,pprof "$apps/ends_shared" raw
  expect_equal "files" 2 "$(find . -name 'gpushim.[0-9]*.*' | wc -l)"
  expect_text shim.err "^==[0-9]+== files written: $PWD/gpushim[.][0-9]+[.]json, "
}
add_case "ends with output files" ends_output_case

# Go ends by the system call, always.
ends_go_case() {
  need go
  cat >main.go <<'GO'
package main

// #include <cuda.h>
// static int start(void) { CUdevice d; CUcontext c; return cuInit(0) || cuDeviceGet(&d, 0) ||
//   cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c); }
// static int leak(void) { CUdeviceptr p; return cuMemAlloc(&p, 5 << 20); }
import "C"
import (
	"os"
	"runtime"
)

func main() {
	runtime.LockOSThread()
	if C.start() != 0 || C.leak() != 0 {
		os.Exit(2)
	}
	if len(os.Args) > 1 {
		panic(os.Args[1])
	}
}
GO
  GOCACHE=$PWD/cache GOFLAGS=-mod=mod CGO_CFLAGS="-I${CUDA_PATH:-/usr/local/cuda}/include" \
    CGO_LDFLAGS="-L$build/sim -lcuda" go build -o hold main.go >go.log 2>&1 || skip "a Go program: $(tail -n 1 go.log)"
  launched shim -- --error-exitcode=7 ./hold
  expect_status shim 7
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 5\.00 MiB leaked in 1 allocation'
  launched shim -- --error-exitcode=7 ./hold boom
  expect_status shim 2
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 5\.00 MiB leaked in 1 allocation'
}
add_long_case "ends of a Go program" ends_go_case

# ---- a place of its own ---------------------------------------------------------------

# places PREFIX SCRIPT: output with each process's number replaced by whose it is.
places() {
  local self shell above

  self=$(sed -n 's/^started //p' "$1.out")
  shell=$(sed -n 's/^shell //p' "$1.out")
  above=$(sed -nE 's/.* sid ([0-9]+)$/\1/p' "$1.out")
  sed -E "s/\b$self\b/SELF/g; s/\b$shell\b/SHELL/g; s/\b${above:-none}\b/SID/g" "$1.out" |
    sed '/^started /d' # the shell and the program write at the same time
}

# The command has the launcher's place: number, parent, group, session, descriptors, children, signals.
ends_place_case() {
  local script

  # shellcheck disable=SC2016  # the inner shell's
  script='"$@" place & echo "started $!"; wait $!; echo "status $?"; echo "shell $$"'
  run_in native -- setsid bash -c "$script" bash "$apps/ends_shared"
  run_in shim GPUSHIM_LIBRARY="$shim" -- setsid bash -c "$script" bash "$build/gpushim" "$@" "$apps/ends_shared"
  places native >expected
  places shim >found
  expect_text expected '^pid SELF ppid SHELL '
  expect_text expected '^children -1 No child processes|^children -1 Success'
  cmp -s expected found || { diff -u expected found && fail "no difference"; fail "another place"; }
  expect_clean shim.err
}
add_case "ends in the command's place" ends_place_case --watch=beside

# Signals that the launcher gets are the command's, and so is its end.
ends_passed_case() {
  local pid settings command

  rm -f ready
  clean_env "$case_dir" "$cuda_path" "${!CUDASIM_@}" -- GPUSHIM_LIBRARY="$shim" -- \
    "$build/gpushim" "$1" "$apps/ends_shared" "$2" "$PWD/ready"
  env -i "${settings[@]}" "${command[@]}" >shim.out 2>shim.err </dev/null &
  pid=$!
  await 20 test -s ready || fail "not ready"
  kill "-$3" "$pid"
  wait "$pid"
  expect_equal "status" "$4" "$?"
  report_comes shim.err 1
  [[ $1 != --watch=beside ]] || expect_equal "process" "$pid" "$(<ready)"
  await 10 gone "$(<ready)" || fail "the command is still there"
}
gone() {
  [[ ! -e /proc/$1 ]] || grep -q '^State:.*Z' "/proc/$1/status"
}
for option in --watch=beside --watch=parent --error-exitcode=7; do
  add_case "ends passed TERM $option" ends_passed_case $option wait TERM 143
  add_case "ends passed HUP $option" ends_passed_case $option wait HUP 129
  add_case "ends passed USR1 $option" ends_passed_case $option wait USR1 138
  add_case "ends passed KILL $option" ends_passed_case $option wait KILL 137
  add_case "ends caught TERM $option" ends_passed_case $option catch TERM 17
done

# A timer that the launcher inherits is the command's.
ends_alarm_case() {
  need perl
  # shellcheck disable=SC2016  # perl's
  run_in shim GPUSHIM_LIBRARY="$shim" -- perl -e 'alarm 1; exec @ARGV' "$build/gpushim" "$1" "$apps/ends_shared" wait ready
  expect_status shim 142
  report_comes shim.err 1
}
for option in --watch=beside --watch=parent; do
  add_case "ends by an alarm $option" ends_alarm_case $option
done

# write_terminal: a script that types its arguments at a shell with a terminal, and prints what is
# on the screen. ^C and the like are keys; behind ! a command is waited for by its file `ready`.
write_terminal() {
  cat >terminal.py <<'PYTHON'
import os, pty, re, select, signal, sys, time
keys = {"^C": b"\x03", "^Z": b"\x1a", "^\\": b"\x1c"}
pid, fd = pty.fork()
if pid == 0:
    for key in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP): # ignored where the tests run in the background
        signal.signal(key, signal.SIG_DFL)
    os.environ["PS1"] = "PROMPT> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
text = ""
def read(done, seconds=30):
    global text
    end = time.time() + seconds
    while time.time() < end and not done():
        if select.select([fd], [], [], 0.02)[0]:
            try:
                text += os.read(fd, 65536).decode(errors="replace")
            except OSError:
                return
def prompts():
    return text.count("PROMPT> ")
read(lambda: prompts() == 1)
for step in sys.argv[1:]:
    before = prompts()
    wait = not step.startswith("!")
    step = step.lstrip("!")
    os.write(fd, keys.get(step) or step.encode() + b"\n")
    if wait:
        read(lambda: prompts() > before)
    else:
        end = time.time() + 30
        while time.time() < end and not os.path.exists("ready"):
            time.sleep(0.02)
        time.sleep(0.3)
os.close(fd)
sys.stdout.write(re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\r", "")))
PYTHON
}

# At a terminal: job control as natively, and the report before the prompt.
ends_terminal_case() {
  need python3
  write_terminal
  local wait="!COMMAND wait ready" steps prefix what
  steps=("$wait" '^C' 'echo "status $?"' "$wait" '^Z' jobs bg jobs '!fg' '^Z' '!fg' "^\\" 'echo "status $?"'
    'COMMAND raw' 'echo "status $?"' 'COMMAND kill' 'echo "status $?"')
  for prefix in native shim; do
    rm -f ready
    what=$apps/ends_shared
    [[ $prefix == native ]] || what="$build/gpushim $what"
    run_in "$prefix" GPUSHIM_LIBRARY="$shim" -- python3 -S terminal.py "${steps[@]//COMMAND/$what}"
    sed -E "s,$build/gpushim ,,; s/^\^(C|\\\\)==/^\1\n==/; s/[(]core dumped[)]//; s/^\^\\\\Quit/^\\\\\nQuit/; s/ +$//" "$prefix.out" |
      sed '/^==[0-9]*==/d; /^$/d' >"$prefix.lines"
  done
  grep -q '^status 130$' native.lines || { cat native.out && fail "no status of Ctrl-C"; }
  cmp -s native.lines shim.lines || { diff -u native.lines shim.lines; fail "not as natively"; }
  expect_count shim.out 'SUMMARY: gpushim: 0 errors, 3\.00 MiB (leaked|live when killed by SIG)' 4
  reports_before_prompts shim.out
}
add_case "ends at a terminal" ends_terminal_case

# Who waits for a report at a terminal learns that there will be none; not in a script, nor for a program that has one,
# nor with a line of its own for the same. Would alone see: silence, or the line twice.
ends_terminal_nothing_case() {
  local nothing='^gpushim: no CUDA call was seen: there is nothing to report$'

  need python3
  write_terminal
  run_in shim GPUSHIM_LIBRARY="$shim" -- python3 -S terminal.py "$build/gpushim $apps/plain" "$build/gpushim $apps/ends_shared raw" \
    "GPUSHIM_VERBOSE=0 $build/gpushim true" "$build/gpushim --error-exitcode=3 true" "$build/gpushim --summary true"
  expect_count shim.out "$nothing" 1
  expect_count shim.out '^gpushim: no ' 3
  expect_text shim.out 'SUMMARY: gpushim: '
  run_in script GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" --watch=parent "$apps/plain"
  expect_quiet script
}
add_case "ends at a terminal, nothing was seen" ends_terminal_nothing_case

# reports_before_prompts FILE: each report is whole before the next prompt.
reports_before_prompts() {
  awk '/^PROMPT> / { at = 1 } /^==[0-9]+==/ && last == "PROMPT> " { bad = 1 } { last = $0 } END { exit bad }' "$1" ||
    { cat "$1" && fail "a report behind a prompt"; }
}

# Ctrl-C where the command is not the leader of the terminal's group: in a pipeline, in a script;
# and in Python, whose KeyboardInterrupt comes first. Would see the report behind the prompt.
ends_ctrl_c_case() {
  local command="$build/gpushim $apps/ends_shared wait ready"

  need python3
  write_terminal
  printf '#!/bin/sh\n%s\n' "$command" >script
  chmod +x script
  cat >hold.py <<'PYTHON'
import ctypes, time
block = ctypes.c_void_p()
ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(block), ctypes.c_size_t(3 << 20))
open("ready", "w").close()
time.sleep(60)
PYTHON
  run_in shim GPUSHIM_LIBRARY="$shim" -- python3 -S terminal.py \
    "!echo x | $command" '^C' 'echo "status $?"; rm ready' '!./script' '^C' 'echo "status $?"; rm ready' \
    "!$build/gpushim python3 -S hold.py" '^C' 'echo "status $?"'
  expect_count shim.out '^status 130$' 3
  expect_count shim.out 'SUMMARY: gpushim: 0 errors, 3[.]00 MiB live when killed by SIGINT in 1 allocation, 1 call site' 3
  expect_text shim.out '^KeyboardInterrupt$'
  reports_before_prompts shim.out
}
add_case "ends at Ctrl-C in a pipeline, a script and Python" ends_ctrl_c_case

# An exception that nothing catches: its message, the status and a core file as natively.
ends_exception_case() {
  local prefix

  need c++
  printf '%s\n' 'extern "C" int cudaMalloc(void **, unsigned long);' '#include <stdexcept>' \
    'int main() { void *p; cudaMalloc(&p, 3 << 20); throw std::runtime_error("no more"); }' >throw.cpp
  c++ -g throw.cpp -o throw -L"$build/sim" -l:libcudart.so.13 || skip "a C++ compiler that links"
  for prefix in native shim; do
    mkdir "$prefix"
    [[ $prefix == native ]] || set -- "$build/gpushim" --watch=parent
    # shellcheck disable=SC2016  # the inner shell's
    run_in "$prefix" GPUSHIM_LIBRARY="$shim" -- sh -c 'cd "$0" && { ulimit -c unlimited 2>/dev/null; exec "$@"; }' \
      "$prefix" "$@" ../throw
  done
  expect_status native 134
  expect_status shim 134
  expect_equal "the message" "$(<native.err)" "$(grep -v '^==' shim.err)"
  expect_text shim.err 'live when killed by SIGABRT'
  expect_equal "core files" "$(find native -type f | wc -l)" "$(find shim -type f | wc -l)"
}
add_case "ends by an exception" ends_exception_case

# Who reads standard error sees its end as natively: a daemon that has closed it keeps no reader.
ends_reader_case() {
  local began=$SECONDS

  # shellcheck disable=SC2016  # the inner shell's
  launched shim -- bash -c 'x=$("$1" --watch=beside sh -c "sleep 20 >/dev/null 2>&1 </dev/null & echo hi" 2>&1); echo "$x"' \
    bash "$build/gpushim"
  expect_equal "output" hi "$(<shim.out)"
  [[ $((SECONDS - began)) -lt 15 ]] || fail "the reader waited for the daemon"
}
add_case "ends with a reader" ends_reader_case

# Without any of descriptors 0 to 2: the watcher gives its own other numbers and keeps them apart.
ends_closed_case() {
  local way

  run_in native -- sh -c "exec $apps/ends_shared place <&- 2>&-"
  run_in shim GPUSHIM_LIBRARY="$shim" -- sh -c "exec $build/gpushim --watch=beside $apps/ends_shared place <&- 2>&-"
  sed 's/[0-9][0-9]*/N/; /^pid/d; /^foreground/d' native.out >expected
  sed 's/[0-9][0-9]*/N/; /^pid/d; /^foreground/d' shim.out >found
  grep -c . expected >/dev/null
  cmp -s expected found || { diff -u expected found; fail "other descriptors"; }
  launched shim -- --watch=parent --log-file="$PWD/log" sh -c "exec $apps/ends_shared raw <&- >&- 2>&-"
  expect_text log 'SUMMARY: gpushim: 0 errors, 3\.00 MiB leaked'
  for way in beside parent; do
    rm -f log
    run_in none GPUSHIM_LIBRARY="$shim" -- \
      sh -c "exec $build/gpushim --watch=$way --log-file=log $apps/ends_shared raw <&- >&- 2>&-"
    expect_status none 0
    report_comes log 1
  done
}
add_case "ends with closed descriptors" ends_closed_case

# The memory is not on any disk, and a fork within a call has a copy.
ends_inside_case() {
  launched shim -- --watch=parent "$apps/ends_shared" inside
  expect_status shim 0
  expect_count shim.err '^==[0-9]+== SUMMARY: ' 1
}
add_case "ends with forks within calls" ends_inside_case

# Without the watcher the program goes on, and says nothing.
ends_no_watcher_case() {
  need python3
  cat >stop.py <<'PYTHON'
import os, signal, subprocess, sys, time
command = subprocess.Popen(sys.argv[1:], stderr=open("err", "w"))
while not os.path.exists("ready"):
    time.sleep(0.02)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/environ").read()
        name = open(f"/proc/{pid}/comm").read()
    except OSError:
        continue
    if "MARK=" + os.getcwd() + "\0" in words and name == "gpushim-watch\n":
        assert "ready" not in open(f"/proc/{pid}/cmdline").read()
        os.kill(int(pid), signal.SIGKILL)
        print("killed")
os.kill(command.pid, signal.SIGTERM)
print(command.wait())
PYTHON
  run_in shim GPUSHIM_LIBRARY="$shim" MARK="$PWD" -- python3 -S stop.py "$build/gpushim" "$1" "$apps/ends_shared" catch "$PWD/ready"
  expect_equal "output" $'killed\n17' "$(<shim.out)"
  expect_count err '^==[0-9]+== SUMMARY: ' 1
}
for option in --watch=beside --watch=parent; do
  add_case "ends without the watcher $option" ends_no_watcher_case $option
done

# A process that was waited for before the watcher had time to hear of it: how it ended is known.
ends_late_watcher_case() {
  need python3
  awk -v have="$(uname -r)" 'BEGIN { split(have, v, "."); exit !(v[1] > 6 || (v[1] == 6 && v[2] >= 17)) }' ||
    skip "Linux 6.17, which has pidfds of processes that were waited for"
  cat >late.py <<'PYTHON'
import os, signal, subprocess, sys, time

def watcher():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/environ").read()
            name = open(f"/proc/{pid}/comm").read()
        except OSError:
            continue
        if "MARK=" + os.getcwd() + "\0" in words and name == "gpushim-watch\n":
            return int(pid)
    return None

end = time.monotonic() + 60
while not (pid := watcher()) and time.monotonic() < end: # it may not have its name yet
    time.sleep(0.05)
os.kill(pid, signal.SIGSTOP)
print([subprocess.run([sys.argv[1], way]).returncode for way in ("abort", "kill")])
os.kill(pid, signal.SIGCONT)
PYTHON
  launched shim MARK="$PWD" -- --summary --log-file=log.%p python3 -S late.py "$apps/ends_shared"
  expect_equal "output" '[-6, -9]' "$(<shim.out)"
  expect_count shim.err '^gpushim: .* 3[.]00 MiB +- .* killed by SIGABRT +/' 1
  expect_count shim.err '^gpushim: .* 3[.]00 MiB +- .* killed by SIGKILL +/' 1
}
add_case "ends before the watcher hears of it" ends_late_watcher_case

# What strangers send, and states that are cut, end in a line or in nothing.
ends_strange_case() {
  need python3
  cat >strange.py <<'PYTHON'
import array, os, socket, struct, sys, time
public, secret = os.environ["_GPUSHIM_WATCHER"].encode().rsplit(b"-", 1)
name = b"\0" + public
magic = b"gpushim\x1b" + secret
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def send(data, *sizes):
    fds = [os.memfd_create("x") for _ in sizes]
    for fd, size in zip(fds, sizes):
        os.write(fd, os.urandom(size))
    to.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [], 0, name)
    for fd in fds:
        os.close(fd)
    time.sleep(0.01)
send(b"x")
send(b"x" * 30000, 10)
head = struct.pack("24sQQII", magic, 5, 0, 0, 0)
send(head)
send(head, 4, 5, 6)
send(struct.pack("24sQQII", magic, 6, 4096, 0, 0), 10)
send(struct.pack("24sQQII", magic, 7, 0, 0, 4000000000), 10)
send(head, 8192)
send(struct.pack("24sQQII", magic, 9, 0, 1, 3) + b"A=\0", 0)
PYTHON
  launched shim -- --watch=parent sh -c "python3 -S strange.py; exec $apps/ends_shared kill"
  expect_status shim 137
  grep -v '^gpushim: no report of a process that has ended: its state is ' shim.err >rest
  expect_planted rest "$sources/tests/apps/ends.c"
}
add_case "ends with strangers" ends_strange_case

# A signal that the command sends to its parent does not come back to it.
ends_own_signal_case() {
  # shellcheck disable=SC2016  # the inner shell's
  launched shim -- "$1" sh -c 'trap "echo got" USR1; kill -USR1 "$PPID"; sleep 0.3; echo end'
  expect_status shim 0
  expect_equal "output" end "$(<shim.out)"
}
add_case "ends with a signal to the parent" ends_own_signal_case --watch=parent

# A process 1 that stays one has no child that it did not make.
ends_first_case() {
  need unshare
  unshare -pf true 2>/dev/null || skip "a PID namespace"
  run_in shim GPUSHIM_LIBRARY="$shim" GPUSHIM_REPORT_ON=exit,oom,term -- \
    timeout -s KILL 20 unshare -pf --kill-child "$build/gpushim" python3 -S -c '
import os
try:
    print(os.getpid(), os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print(os.getpid(), "no child")'
  expect_equal "output" "1 no child" "$(<shim.out)"
}
add_case "ends of a first process that stays" ends_first_case

# write_refuse: writes refuse.py, which becomes a command to which the kernel refuses system calls:
# refuse.py ERRNO NUMBER... -- COMMAND
write_refuse() {
  need python3
  [[ $(uname -m) == x86_64 ]] || skip "x86-64"
  cat >refuse.py <<'PYTHON'
import ctypes, os, struct, sys
at = sys.argv.index("--")
numbers = [int(word) for word in sys.argv[2:at]]
rows = [(0x20, 0, 0, 0)] + [(0x15, len(numbers) - i, 0, n) for i, n in enumerate(numbers)]
rows += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x50000 | int(sys.argv[1]))]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[at + 1], sys.argv[at + 1:])
PYTHON
}

# Where the kernel has no close_range, the watcher keeps no inherited descriptor open either.
ends_inherited_case() {
  local began=$SECONDS

  write_refuse
  # shellcheck disable=SC2016  # the inner shell's
  run_in shim GPUSHIM_LIBRARY="$shim" -- bash -c 'x=$( (python3 -S refuse.py 38 436 -- "$1" --watch=beside sh -c \
    "sleep 20 9>&- >/dev/null 2>&1 & echo hi >&9") 9>&1 >/dev/null 2>/dev/null); echo "$x"' bash "$build/gpushim"
  expect_equal "output" hi "$(<shim.out)"
  [[ $((SECONDS - began)) -lt 15 ]] || fail "the reader waited for the watcher"
}
add_case "ends with a descriptor to inherit" ends_inherited_case

# What the watcher needs is refused: the native end, and one line that says what is missing; or a
# report, where there is another way.
# ends_refused_case WAY LINE NATIVE WORD...: NATIVE: no report; the words come before the command.
ends_refused_case() {
  local way=$1 line=$2 reports=$3

  write_refuse
  run_in native -- "${@:4}" "$apps/ends_shared" raw9
  run_in shim GPUSHIM_LIBRARY="$shim" -- "${@:4}" "$build/gpushim" "--watch=$way" "$apps/ends_shared" raw9
  status_of native
  expect_status shim "$status"
  if ((reports)); then
    report_comes shim.err 1
  elif [[ $way == beside ]]; then
    await 20 grep -q "$line" shim.err # the watcher's words may come after the command's end
  fi
  expect_count shim.err '^gpushim: ' "$([[ -n $line ]] && echo 1 || echo 0)"
  expect_text shim.err "${line:-.}"
}
for way in beside parent; do
  refuse=(env python3 -S refuse.py)
  add_case "ends without pidfd_open $way" ends_refused_case $way '' 1 "${refuse[@]}" 38 434 --
  add_case "ends without memfd_create $way" ends_refused_case $way \
    '^gpushim: the command gpushim has no state .*: the system does not allow the call; if' 0 "${refuse[@]}" 38 319 --
  add_case "ends without a socket $way" ends_refused_case $way \
    '^gpushim: no socket for the states of processes: ' 0 "${refuse[@]}" 1 41 --
  add_case "ends without address space $way" ends_refused_case $way \
    '^gpushim: the command gpushim has no state .*: the address space is limited; if' 0 sh -c "ulimit -v 80000000; exec \"\$@\"" sh
  add_case "ends without files $way" ends_refused_case $way \
    '^gpushim: the command gpushim has no state .*: the size of files is limited; if' 0 sh -c "ulimit -f 1000; exec \"\$@\"" sh
done
add_case "ends without fork beside" ends_refused_case beside \
  '^gpushim: no process can be started for the watcher: Resource' 0 "${refuse[@]}" 11 56 435 --
add_case "ends without fork parent" ends_refused_case parent \
  '^gpushim: no process can be started for the command: Resource' 0 "${refuse[@]}" 11 56 435 --
add_case "ends with few descriptors beside" ends_refused_case beside \
  '^gpushim: a process.s state was not received: too many open files' 0 sh -c "ulimit -n 5; exec \"\$@\"" sh
add_case "ends with few descriptors parent" ends_refused_case parent \
  '^gpushim: no process can be started for the watcher: Too many open files' 0 sh -c "ulimit -n 5; exec \"\$@\"" sh

# The first fork is allowed, and the watcher's own is not.
ends_last_process_case() {
  need setpriv
  [[ $(id -u) == 0 ]] || skip "root"
  cat >limited.sh <<'SH'
ulimit -u 2
exec "$@"
SH
  chmod 777 .
  run_in shim GPUSHIM_LIBRARY="$shim" -- setpriv --reuid=54321 --regid=54321 --clear-groups \
    bash limited.sh "$build/gpushim" --watch=beside "$apps/ends_shared" raw9
  status_of shim
  [[ $status != 126 && $status != 127 ]] || skip "another user reads the build"
  expect_status shim 9
  expect_count shim.err '^gpushim: ' 1
  expect_text shim.err '^gpushim: no process can be started for the watcher: Resource'
}
add_case "ends without a last process" ends_last_process_case

# Without /proc and pidfds the watcher still sees the end, and ends itself.
ends_no_proc_case() {
  local pid

  write_refuse
  need unshare
  unshare -m mount -t tmpfs none /proc 2>/dev/null || skip "a mount namespace"
  run_in shim GPUSHIM_LIBRARY="$shim" -- unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
    python3 -S refuse.py 38 434 -- "$build/gpushim" "$1" "$apps/ends_shared" raw9
  expect_status shim 9
  report_comes shim.err 1
  pid=$(sed -nE '1s/^==([0-9]+)==.*/\1/p' shim.err)
  await 10 unwatched "$pid" || fail "the watcher stays"
}
# unwatched PID: no process has the socket of this command.
unwatched() {
  ! grep -q "@gpushim-$1-" /proc/net/unix
}
for option in --watch=beside --watch=parent; do
  add_case "ends without /proc $option" ends_no_proc_case $option
done

# Every user can read the socket's name. What is sent without the secret is not taken.
ends_stranger_case() {
  need python3
  cat >stranger.py <<'PYTHON'
import array, os, socket, struct, sys
public, secret = os.environ["_GPUSHIM_WATCHER"].encode().rsplit(b"-", 1)
secret = secret if sys.argv[1] == "known" else b"0" * 16
fd = os.memfd_create("x")
os.write(fd, b"\1" * 56 + bytes(65536))
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg(
    [b"gpushim\x1b" + secret + struct.pack("QQII", 5, 0, 0, 0)],
    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))], 0, b"\0" + public)
PYTHON
  launched shim -- --watch=parent python3 -S stranger.py "$1"
  expect_count shim.err '^gpushim: no report of a process that has ended: its state is ' "$2"
}
add_case "ends with a known sender" ends_stranger_case known 1
add_case "ends with a stranger" ends_stranger_case stranger 0

ends_usage_case() {
  launched shim -- --watch=never true
  expect_status shim 2
  expect_text shim.err '^gpushim: --watch takes auto, beside, parent or off, not never$'
  launched shim -- --summary --watch=off true
  expect_status shim 2
  launched off -- --watch=off "$apps/ends_shared" raw
  expect_status off 0
  expect_quiet off
}
add_case "ends, bad words" ends_usage_case

# ---- daemons ---------------------------------------------------------------------------

# Relative names are those of the folder where the program was started, by the command and without.
ends_daemon_case() {
  local log

  mkdir start
  echo 'leak:keep max_bytes=4M' >start/known
  cd start || fail start
  if [[ $1 == preload ]]; then
    preloaded ../shim GPUSHIM_LOG_FILE=log.%p GPUSHIM_OUTPUT=json GPUSHIM_SUPPRESSIONS=known \
      GPUSHIM_TRACE_FILE=trace.%p GPUSHIM_STATE_FILE=state.%p GPUSHIM_WRITE_SUPPRESSIONS=new.%p -- \
      "$apps/ends_shared" "$2" "$PWD/../done"
  else
    launched ../shim -- --watch=beside --log-file=log.%p --output=json --suppressions=known \
      --trace-file=trace.%p --state-file=state.%p --write-suppressions=new.%p "$apps/ends_shared" "$2" "$PWD/../done"
  fi
  await 20 test -s ../done || fail "no daemon"
  log=log.$(<../done)
  await 20 test -s "$log" || { ls -la . && fail "no log"; }
  report_comes "$log" 1
  expect_count "$log" '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' 1
  expect_text "$log" 'Suppressed: 1 allocation'
  [[ -s gpushim.$(<../done).json && -s trace.$(<../done) && -s state.$(<../done) ]] || { ls && fail "a file is missing"; }
}
add_case "ends of a daemon, preloaded" ends_daemon_case preload daemon
add_case "ends of a daemon, launched" ends_daemon_case launch daemon
add_case "ends of a daemon by the system call" ends_daemon_case launch rawdaemon
# Options that are first read after clearenv() are the defaults: no file of the six, and no word.
add_case "ends of a daemon with a cleaned environment, preloaded" ends_daemon_case preload cleandaemon
add_case "ends of a daemon with a cleaned environment, launched" ends_daemon_case launch cleandaemon
# The command keeps the state for a process that still knows of the command.
add_case "ends of a daemon with a cleaned environment by the system call" ends_daemon_case launch cleanrawdaemon

# ---- another C library -----------------------------------------------------------------

# musl refuses a program with a reference that it cannot resolve: weak ones alone may be glibc's.
ends_references_case() {
  local musl

  need nm
  musl=$(find /usr/lib /lib -path '*musl*/libc.so' 2>/dev/null | head -n 1)
  [[ -n $musl ]] || skip "musl"
  nm -D "$shim" | grep -qE '__(asan|tsan|ubsan|gcov)_' && skip "a build without sanitizers"
  nm -D --undefined-only "$shim" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort >needed
  nm -D --defined-only "$musl" | awk '{ print $3 }' | sort >there
  comm -23 needed there >missing
  [[ ! -s missing ]] || { cat missing && fail "musl has not all that is needed"; }
}
add_case "ends with references that musl has" ends_references_case

# A helper that is linked with musl, started by a program of glibc.
ends_musl_case() {
  need musl-gcc
  cat >hello.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    printf("hello %d\n", WEXITSTATUS(status));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)0);
        _exit(9);
    }
    waitpid(child, &status, 0);
    return system("exit 4") >> 8;
}
C
  musl-gcc hello.c -o hello || fail "musl-gcc"
  same_as_native -- sh -c './hello; echo $?'
  expect_equal "output" $'hello 3\n4' "$(<shim.out)"
  expect_quiet shim
}
add_case "ends of a helper linked with musl" ends_musl_case

# Started by the command itself, the program runs as natively, with one line that says why there is no report: each
# driver of NVIDIA's needs functions that glibc alone has.
ends_musl_command_case() {
  local driver drivers

  need musl-gcc
  cat >hello.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *driver = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    puts(driver ? "a driver" : argc > 1 ? dlerror() : "hello");
    return 7;
}
C
  musl-gcc hello.c -o hello || fail "musl-gcc"
  native native ./hello
  run_in shim GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" ./hello
  expect_same native shim
  expect_equal "what is said" "gpushim: $case_dir/hello is linked with musl, and NVIDIA's driver is built for glibc: the \
program cannot call CUDA, and nothing is recorded" "$(sed "s#: [./]*hello is#: $case_dir/hello is#" shim.err)"
  # glibc's programs get no such line; and what the line says of drivers is so.
  run_in other GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" true
  expect_quiet other
  drivers=$(find -L "${DRIVERS_DIR:-$sources/.drivers}" -name 'libcuda.so.[0-9]*.*' -type f 2>/dev/null)
  for driver in $cuda_path/libcuda.so.1 $drivers; do
    run_in driver -- ./hello "$driver"
    expect_text driver.out ': symbol not found$'
  done
}
add_case "ends of a command linked with musl" ends_musl_command_case
