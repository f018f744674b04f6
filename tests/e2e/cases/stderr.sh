# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# stderr.sh - where text goes when descriptor 2 is not what it was: never among the
# program's data, and along with what was sent elsewhere on purpose.

uses options

# other_stderr WAY HOW [VARIABLE...]: leaves what arrived without the library in
#   native.data, and with it in shim.data.
other_stderr() {
  local run

  native native "$apps/otherstderr_$1" "$2" native.data
  preloaded shim "${@:3}" -- "$apps/otherstderr_$1" "$2" shim.data
  expect_same native shim
  for run in native shim; do
    [[ $2 == socket || $2 == pipe || $2 == fifo || $2 == piped || $2 == detached ]] || continue
    await 20 test -e "$run.data.end" || fail "the reader of $run has not come to its end"
  done
}

# The program's data is not touched; what there is to say has a place if the user gave one.
# data_stays_case WAY HOW
data_stays_case() {
  other_stderr "$1" "$2"
  cmp native.data shim.data || fail "text among the program's data"
  expect_quiet shim
  rm -f ./*.data* # else the FIFO is there, and the file
  other_stderr "$1" "$2" GPUSHIM_LOG_FILE=log
  cmp native.data shim.data || fail "text among the program's data"
  expect_count log 'SUMMARY: gpushim: 0 errors, (100|200) B leaked' 1
}
for way in shared static linked proc; do
  for how in closed first socket pipe fifo detached; do
    add_case "stderr $how $way" data_stays_case "$way" "$how"
  done
done

# stderr_follows_case WAY HOW
stderr_follows_case() {
  other_stderr "$1" "$2"
  expect_quiet shim
  expect_count shim.data "^the program's own data\$" 1
  expect_count shim.data 'SUMMARY: gpushim: 0 errors, 100 B leaked' 1
}
for way in shared static linked proc; do
  for how in both piped errors; do
    add_case "stderr $how $way" stderr_follows_case "$way" "$how"
  done
done

# A parent that reads its child's pipe once the child has ended: a full pipe holds nobody up,
# natively. No report is worth a program that never ends.
# full_pipe_case
full_pipe_case() {
  need python3
  need_file "$apps/leaky_shared"
  # Prints the status, and how many bytes of the text came behind those that were there.
  cat >parent.py <<'PYTHON'
import fcntl, os, subprocess, sys
reader, writer = os.pipe()
size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
os.write(writer, b"x" * size)
child = subprocess.Popen(sys.argv[1:], stderr=writer, stdout=subprocess.DEVNULL)
print("ended with", child.wait())
os.close(writer)
print("behind the first", len(b"".join(iter(lambda: os.read(reader, 65536), b""))) - size)
PYTHON
  run_in native -- python3 -S parent.py "$apps/leaky_shared"
  run_in shim -- python3 -S parent.py env LD_PRELOAD="$shim" "$apps/leaky_shared"
  expect_same native shim
}
add_case "stderr is a full pipe" full_pipe_case

# The same of a terminal, which has less room than a pipe: who started the program in one
# reads it once the program has ended.
full_terminal_case() {
  need python3
  need_file "$apps/leaky_shared"
  cat >terminal.py <<'PYTHON'
import os, pty, subprocess, sys, tty
reader, terminal = pty.openpty()
tty.setraw(terminal)
os.set_blocking(terminal, False)
try:
    while os.write(terminal, b"x" * 64):
        pass
except BlockingIOError:
    pass
os.set_blocking(terminal, True)
child = subprocess.Popen(sys.argv[1:], stderr=terminal, stdout=subprocess.DEVNULL)
print("ended with", child.wait())
PYTHON
  run_in native -- python3 -S terminal.py "$apps/leaky_shared"
  run_in shim -- python3 -S terminal.py env LD_PRELOAD="$shim" "$apps/leaky_shared"
  expect_same native shim
}
add_case "stderr is a full terminal" full_terminal_case

# The other end of a terminal: opened again it is that of another, which nobody reads.
terminal_master_case() {
  need python3
  need_file "$apps/leaky_shared"
  cat >terminal.py <<'PYTHON'
import os, pty, subprocess, sys, tty
master, terminal = pty.openpty()
tty.setraw(terminal)
subprocess.run(sys.argv[1:], stderr=master, stdout=subprocess.DEVNULL, check=True)
os.set_blocking(terminal, False)
try:
    while text := os.read(terminal, 4096):
        print(text.decode(), end="")
except BlockingIOError:
    pass
PYTHON
  run_in shim -- python3 -S terminal.py env LD_PRELOAD="$shim" "$apps/leaky_shared"
  expect_text shim.out 'SUMMARY: gpushim'
}
add_case "stderr is the other end of a terminal" terminal_master_case

# In the background of a terminal with `stty tostop` what writes there is stopped. A program
# that writes nothing natively is not stopped by its report.
tostop_case() {
  need python3
  need_file "$apps/leaky_shared"
  cat >terminal.py <<'PYTHON'
import os, pty, signal, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    mode = termios.tcgetattr(0)
    mode[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, mode)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        os.execvp(sys.argv[2], sys.argv[2:])
    try:
        os.setpgid(job, job)
    except OSError:
        pass
    state = os.waitpid(job, os.WUNTRACED)[1]
    if os.WIFSTOPPED(state):
        os.kill(job, signal.SIGKILL)
    with open(sys.argv[1], "w") as out:
        out.write("stopped\n" if os.WIFSTOPPED(state) else "ended with %d\n" % (state >> 8))
    os._exit(0)
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
os.waitpid(pid, 0)
PYTHON
  run_in native -- python3 -S terminal.py native.end "$apps/leaky_shared"
  run_in shim -- python3 -S terminal.py shim.end env LD_PRELOAD="$shim" "$apps/leaky_shared"
  expect_text native.end '^ended with 0$'
  expect_text shim.end '^ended with 0$'
}
add_case "stderr is a terminal that stops its background" tostop_case
