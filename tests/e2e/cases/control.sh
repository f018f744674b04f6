# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# control.sh - gpushim stats, dump, owners, set, trim and top ask running processes: what they answer, who may
# ask, and that a process is as without the socket.

# control_start NAME [VAR=value...] -- COMMAND...: in the background, until it says that it is ready. Its number is in
# `pid`, in `pids` those of all.
pids=()
control_start() {
  local name=$1 settings command

  split_settings "${@:2}"
  need_file "$build/gpushim"
  [[ ${command[0]} != */* ]] || need_file "${command[0]}"
  start_preloaded "$name" GPUSHIM_CONTROL=on GPUSHIM_LOG_FILE=/dev/null "${settings[@]}" -- "${command[@]}"
  pid=$!
  pids+=("$pid")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT # of a case that fails
  await 25 grep -qs ready "$name.out" || fail "$name does not start"
}

# control_sockets [PID]: how many sockets have the number in their names.
control_sockets() {
  grep -cE "@gpushim/${1:-$pid}/[0-9a-f]{16}\$" /proc/net/unix
}

has_sockets() {
  [[ $(control_sockets) == "$1" ]]
}

control_end() {
  local status=0

  : >over
  wait "${pids[@]}" || status=$?
  expect_equal "the program's status" 0 "$status"
}

# ask PREFIX WORD...: gpushim WORD...
ask() {
  run_in "$1" -- "$build/gpushim" "${@:2}"
}

# expect_told PREFIX TEXT: nothing else, with status 1.
expect_told() {
  expect_status "$1" 1
  expect_equal "what is told" "gpushim: process $pid: $2" "$(<"$1.err")"
  [[ ! -s $1.out ]] || fail "$1.out is not empty"
}

# ---- What is answered ----------------------------------------------------------------

control_answers_case() {
  local name

  need python3
  control_start program -- "$apps/asked_$1" "$PWD/over"
  ask stats stats "$pid"
  ask json stats --json "$pid"
  ask dump dump "$pid"
  ask owners owners "$pid"
  ask set set "$pid" leak-max=0
  ask less dump "$pid"
  ask start set GPUSHIM_POOL=off "$pid"
  ask trim trim "$pid"
  ask top top
  control_end
  expect_equal "what the program says" 'asked: ready' "$(<program.out)"
  expect_text stats.out "^$pid: .*/asked_$1 "
  expect_text stats.out '^  GPU 0 [0-9a-f:.]+: 1[.]00 MiB live, peak 1[.]00 MiB, 1 allocation, [0-9.]+ MiB reserved$'
  expect_count stats.out . 2
  python3 -S -c 'import json, sys; json.load(sys.stdin)' <json.out || fail "the statistics are no JSON"
  expect_text json.out "^{\"pid\":$pid,.*\"live_bytes\":1048576,.*\"reserved_bytes\":[0-9]+,.*}\$"
  expect_text dump.out "^==$pid== gpushim [0-9.]+: .*  on gpushim dump\$"
  expect_text dump.out "^==$pid== LIVE 1: 1[.]00 MiB in 1 allocation "
  expect_text dump.out '#0 hold +asked[.]c:[0-9]+$'
  expect_text dump.out '; still running$'
  expect_text owners.out "^==$pid==   asked_$1 +1[.]00 MiB +1\$"
  expect_no_text owners.out 'LIVE|LEAK_MAX'
  expect_equal "the setting" "$pid: GPUSHIM_LEAK_MAX=0" "$(<set.out)"
  expect_no_text less.out 'LIVE 1'
  expect_told start "GPUSHIM_POOL is read at the start of a program; unchanged"
  expect_text trim.out "^$pid: 0 B of idle GPU memory returned to the driver"
  expect_text top.out "^ +$pid +0  1[.]00 MiB +[0-9.]+ MiB .* [^ ]*/asked_$1 "
  for name in stats json dump owners set less trim; do
    expect_status "$name" 0
    expect_quiet "$name"
  done
}
for way in shared static linked; do
  add_case "control answers $way" control_answers_case "$way"
done

# The idle 40 MiB go back, by the trim thread alone.
control_trim_case() {
  control_start keeps GPUSHIM_POOL_TRIM_INTERVAL=60m -- "$apps/asked_linked" "$PWD/over" idle
  ask before stats "$pid"
  ask trim trim "$pid"
  ask after stats "$pid"
  control_start never GPUSHIM_POOL_TRIM_THREAD=off -- "$apps/asked_linked" "$PWD/over" idle
  ask refused trim "$pid"
  control_start without GPUSHIM_POOL=off -- "$apps/asked_linked" "$PWD/over" idle
  ask none trim "$pid"
  control_end
  expect_text before.out ' 4[0-9][.0-9]* MiB reserved$'
  expect_text trim.out ': 40[.]0 MiB of idle GPU memory returned to the driver'
  expect_no_text after.out ' 4[0-9][.0-9]* MiB reserved$'
  pid=${pids[1]} expect_told refused "nothing is returned: GPUSHIM_POOL_TRIM_THREAD=off, and no other thread may call the driver"
  expect_told none "the pool is off: there is no idle memory"
}
add_case "control trim" control_trim_case

# Every process at once, by number and by --all.
control_many_case() {
  local i count

  count=$(sized 20 50)
  for ((i = 0; i < count; i++)); do
    start_preloaded "program$i" GPUSHIM_CONTROL=on GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
    pids+=("$!")
  done
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  for ((i = 0; i < count; i++)); do
    await 60 grep -qs ready "program$i.out" || fail "program $i does not start"
  done
  ask named stats "${pids[@]}"
  ask all stats --all --json
  ask top top
  for pid in "${pids[@]}"; do
    expect_count named.out "^$pid: " 1
    expect_count all.out "^{\"pid\":$pid," 1
    expect_count top.out "^ +$pid +0 " 1
  done
  control_end
  expect_status named 0
}
add_case "control of many" control_many_case

# ---- Who is not asked ----------------------------------------------------------------

# control_off_case SETTING: no thread and no socket; the line names why.
control_off_case() {
  control_start program "$1" -- "$apps/asked_linked" "$PWD/over" "${@:2}"
  expect_equal "sockets" 0 "$(control_sockets)"
  expect_equal "threads" 0 "$(grep -l control /proc/"$pid"/task/*/comm | wc -l)"
  ask stats stats "$pid"
  control_end
  expect_told stats "it cannot be asked: it has no CUDA context yet, or was started without GPUSHIM_CONTROL=on (gpushim --control)"
}
add_case "control off" control_off_case GPUSHIM_CONTROL=off
add_case "control by default" control_off_case GPUSHIM_CONTROL=
add_case "control of what is switched off" control_off_case GPUSHIM_ENABLE=off
add_case "control without a context" control_off_case GPUSHIM_CONTROL=on without

control_none_case() {
  local name

  sleep 60 &
  pid=$!
  pids+=("$pid")
  ask plain stats "$pid"
  kill "$pid"
  wait "$pid"
  ask ended stats "$pid"
  expect_told plain "it runs without libgpushim.so"
  expect_told ended "no such process"
  ask word stats x
  ask two set "$$" leak-max=1 leak-min-bytes=2
  ask unknown set "$$" leek-max=1
  ask value set "$$" leak-max=many
  ask both stats --all "$$"
  for name in word two unknown value both; do
    expect_status "$name" 2
    expect_count "$name.err" '^gpushim: ' 1
  done
  expect_text unknown.err 'did you mean GPUSHIM_LEAK_MAX'
}
add_case "control of no program" control_none_case

# It gives up soon, says why, and goes on where the program does.
control_stopped_case() {
  local began

  control_start program -- "$apps/asked_linked" "$PWD/over"
  kill -STOP "$pid"
  began=$SECONDS
  ask stats stats "$pid"
  ask top top
  [[ $((SECONDS - began)) -lt 8 ]] || fail "it waits for too long"
  kill -CONT "$pid"
  ask again stats "$pid"
  control_end
  expect_told stats "it is stopped, by a signal or a debugger"
  expect_text top.err "process $pid: it is stopped, by a signal or a debugger"
  expect_status again 0
}
add_case "control of what is stopped" control_stopped_case

# ---- Forks, execs, descriptors, ends ---------------------------------------------------

# A child has a socket of its own once it has a context, and none of its parent's; so has an image.
control_fork_case() {
  local child plain

  control_start parent -- "$apps/asked_$1" "$PWD/over" fork
  child=$(sed -n 's/^asked: CUDA child //p' parent.out)
  plain=$(sed -n 's/^asked: plain child //p' parent.out)
  await 20 control_sockets "$child" >/dev/null || fail "no socket of the child's"
  ask both stats "$pid" "$child"
  expect_status both 0
  expect_equal "the plain child's sockets" 0 "$(control_sockets "$plain")"
  expect_equal "the parent's sockets" 1 "$(control_sockets)"
  control_end
  control_start image -- "$apps/asked_$1" "$PWD/never" exec
  ask stats stats "$pid"
  await 10 has_sockets 1 || fail "$(control_sockets) sockets" # that of the image before goes as its thread ends
  expect_count stats.out '1[.]00 MiB live' 1
  kill "$pid"
}
for way in shared static linked; do
  add_case "control after fork and exec $way" control_fork_case "$way"
done

# A program that closes every descriptor, fills its table, and gets the number of the socket for one of its own: as
# natively. The library answers even then.
control_close_case() {
  local inode file

  : >over
  same_as_native -- "$apps/asked_linked" over close
  expect_text native.out 'the first free descriptor is 3$'
  rm over
  control_start program -- "$apps/asked_linked" "$PWD/over" close
  inode=$(sed -n "s|.* \([0-9]*\) @gpushim/$pid/.*|\1|p" /proc/net/unix)
  [[ $inode ]] || fail "there is no socket"
  for file in /proc/"$pid"/fd/*; do
    [[ $(readlink "$file") != "socket:[$inode]" ]] || fail "the program has the socket"
  done
  ask stats stats "$pid"
  control_end
  expect_status stats 0
}
add_case "control has no descriptor of the program's" control_close_case

# It ends while it is asked, again and again.
control_ending_case() {
  local i

  for ((i = 0; i < $(sized 8 40); i++)); do
    rm -f over
    control_start program -- "$apps/asked_linked" "$PWD/over"
    : >over
    while kill -0 "$pid" 2>/dev/null; do
      ask dump dump "$pid" &
      ask stats stats --all --wait 2
    done
    wait "$pid" || fail "its status is $?"
    wait
  done
}
add_case "control of what ends" control_ending_case

# ---- Who asks, and how -----------------------------------------------------------------

# A client that hangs, writes anything, or leaves keeps neither the program nor others.
control_hostile_case() {
  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  python3 -S - "$pid" <<'PYTHON' || fail "a client has to wait"
import random, re, socket, sys, time
pid = sys.argv[1]
name = re.search(r'@(gpushim/%s/[0-9a-f]{16})\n' % pid, open('/proc/net/unix').read()).group(1)

def client():
    for _ in range(500):
        try:
            it = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            it.settimeout(20)
            it.connect('\0' + name)
            return it
        except BlockingIOError:  # as many wait as may
            it.close()
            time.sleep(0.02)
    raise SystemExit('it lets nobody in')

def ask(request):
    got = b''
    with client() as it:
        try:
            it.sendall(request)
        except OSError:
            pass
        try:
            while part := it.recv(65536):
                got += part
        except ConnectionResetError:
            pass
    return got

whole = ask(b'stats\n')
assert whole.startswith(b'gpushim ok '), whole
head, body = whole.split(b'\n', 1)
assert int(head.split()[2]) == len(body), whole
for request in (b'x' * 1000000, b'x' * 1000000 + b'\n', b'\n', b' \n', b'\0\0\n', b'stats x\n', b'set\n', b'set =\n',
                b'set GPUSHIM_LEAK_MAX=' + b'9' * 4000 + b'\n', b'STATS\n', b'stats\r\n', b'dump dump\n'):
    assert ask(request).startswith(b'gpushim no '), (request[:40], ask(request))
made = random.Random(1)
for _ in range(300):
    assert ask(made.randbytes(made.randrange(200)) + b'\n').startswith(b'gpushim '), 'random'
for _ in range(300):
    client().close()
hanging = [client() for _ in range(7)]
hanging[0].sendall(b'dump\n')
began = time.time()
assert ask(b'stats\n').startswith(b'gpushim ok ')
assert time.time() - began < 30, time.time() - began
PYTHON
  ask stats stats "$pid"
  control_end
  expect_status stats 0
}
add_case "control by a hostile client" control_hostile_case

# A name of the same form, of another process's, is no process's.
control_squatted_case() {
  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  sleep 60 &
  pids+=("$!")
  python3 -S - "$pid" "$!" <<'PYTHON' &
import socket, sys, time
held = []
for pid in sys.argv[1:]:
    for secret in '0000000000000000', 'ffffffffffffffff':
        it = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        it.bind('\0gpushim/%s/%s' % (pid, secret))
        it.listen(5)
        held.append(it)
open('squats', 'w').close()
time.sleep(60)
PYTHON
  pids+=("$!")
  await 20 test -e squats || fail "nobody squats"
  ask right stats "$pid"
  ask wrong stats --wait 2 "${pids[1]}"
  kill "${pids[@]:1}"
  : >over
  expect_status right 0
  expect_quiet right
  pid=${pids[1]} expect_told wrong "it runs without libgpushim.so"
}
add_case "control of a squatted name" control_squatted_case

# Another user gets nothing, by the command or by hand; root asks whom it likes.
control_user_case() {
  local another=(setpriv --reuid=12345 --regid=12345 --clear-groups)

  need setpriv
  need python3
  [[ $(id -u) -eq 0 ]] || skip "root, to become another user"
  "${another[@]}" test -x "$build/gpushim" -a -r "$shim" || skip "a build folder that other users may read"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  run_in other -- "${another[@]}" "$build/gpushim" stats "$pid"
  run_in all -- "${another[@]}" "$build/gpushim" stats --all
  "${another[@]}" python3 -S -c 'import socket, re' || skip "a Python that other users may start"
  "${another[@]}" python3 -S - "$pid" >by_hand <<'PYTHON'
import re, socket, sys
name = re.search(r'@(gpushim/%s/[0-9a-f]{16})\n' % sys.argv[1], open('/proc/net/unix').read()).group(1)
it = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
it.connect('\0' + name)
try:
    it.sendall(b'set GPUSHIM_VERBOSE=3\n')
except OSError:
    pass
print(it.recv(1000).decode())
PYTHON
  expect_told other "it is another user's process"
  expect_no_text all.out "^$pid:"
  expect_text by_hand "^gpushim no [0-9]+$"
  expect_text by_hand "^it is another user's process$"
  chmod 755 . "$case_dir/.." "$scratch"
  control_start theirs -- "${another[@]}" "$apps/asked_linked" "$PWD/over"
  ask root stats "$pid"
  run_in own -- "${another[@]}" "$build/gpushim" stats "$pid"
  control_end
  expect_status root 0
  expect_status own 0
}
add_case "control by another user" control_user_case

# ---- Containers ------------------------------------------------------------------------

# From outside a process has another number and another network; root finds it nevertheless.
control_namespace_case() {
  local settings command

  need unshare
  unshare -npf true 2>/dev/null || skip "name spaces of our own"
  need_file "$build/gpushim"
  clean_env "$case_dir" "$cuda_path" -- LD_PRELOAD="$shim" GPUSHIM_CONTROL=on GPUSHIM_LOG_FILE=/dev/null -- "$apps/asked_linked" "$PWD/over"
  unshare "$@" --kill-child env -i "${settings[@]}" "${command[@]}" >program.out 2>program.err </dev/null &
  pids+=("$!")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "it does not start"
  pid=$(pgrep -P "${pids[0]}") || pid=${pids[0]}
  ask stats stats "$pid"
  control_end
  expect_status stats 0
  expect_text stats.out "^$pid: .*/asked_linked "
}
add_case "control of another process namespace" control_namespace_case -pf
add_case "control of another network namespace" control_namespace_case -nf
add_case "control of a container" control_namespace_case -mnpf --mount-proc
