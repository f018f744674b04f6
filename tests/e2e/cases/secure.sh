# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# secure.sh - programs that run with another user's rights, and files that others may read or
# plant: nothing that the caller chooses is started or opened with rights that are not the
# caller's.

# secure_program: a program that leaks, linked with the library and the simulated driver by
# RUNPATH, which a set-uid program keeps; beside it a folder of helpers that leave a mark.
secure_program() {
  cat >leaks.c <<'EOF'
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, uint64_t);
int main(void)
{
    void *context;
    uint64_t block;
    printf("secure: %lu\n", getauxval(AT_SECURE));
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
           cuCtxSetCurrent(context) || cuMemAlloc_v2(&block, 4321);
}
EOF
  gcc -g -o leaks leaks.c -Wl,--no-as-needed "$shim" "$build/sim/libcuda.so.1" \
    -Wl,-rpath,"$build:$build/sim" || fail "gcc cannot build the program"
  mkdir helpers marks
  chmod 1777 marks
  for name in llvm-symbolizer addr2line; do
    printf '#!/bin/sh\n: >%q/%s\n' "$PWD/marks" "$name" >"helpers/$name"
  done
  chmod 755 helpers/*
}

# secure_rights_case user|group|capability: by PATH and by variables, the caller of a program with
# more rights would choose what runs and what is written with them.
secure_rights_case() {
  local other=65534 settings
  local -a who=()

  need gcc
  need python3
  need setpriv
  [[ $(id -u) -eq 0 ]] || skip "root, to give a program rights"
  secure_program
  setpriv --reuid=$other --clear-groups test -r "$shim" ||
    skip "a build folder that other users may read"
  chmod 711 "$scratch" "$case_dir/.." # so that the other user may reach the helpers
  settings=(PATH="$PWD/helpers:$PATH" GPUSHIM_VERBOSE=3 GPUSHIM_OUTPUT=json GPUSHIM_POOL=maybe)
  for name in LOG_FILE LOOKUP_LOG STATE_FILE OUTPUT_FILE TRACE_FILE METRICS_FILE; do
    settings+=("GPUSHIM_$name=$PWD/marks/$name")
  done
  # The same program without any rights does what the caller says.
  chmod 755 leaks
  run_in plain "${settings[@]}" -- ./leaks
  [[ -e marks/LOG_FILE && (-e marks/llvm-symbolizer || -e marks/addr2line) ]] ||
    fail "the helpers are not what a program without rights starts"
  rm marks/*
  chown $other:$other leaks
  case $1 in
    user) chmod 4755 leaks ;;
    group) chmod 2755 leaks ;;
    capability) # CAP_NET_RAW, permitted and effective: setcap(8), capabilities(7)
      who=(setpriv --reuid=$other --clear-groups)
      python3 -S -c 'import os, struct
os.setxattr("leaks", "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))' ||
        skip "capabilities of files"
      ;;
  esac
  run_in secure "${settings[@]}" -- "${who[@]}" ./leaks
  grep -qx 'secure: 1' secure.out || skip "a file system that gives programs rights"
  expect_status secure 0
  expect_equal "files and programs of the caller's choice" "" "$(ls marks)"
  expect_only_report secure.err
  expect_summary secure.err 0 4321 1 1
}
add_case "secure set-uid program" secure_rights_case user
add_case "secure set-gid program" secure_rights_case group
add_case "secure program with a capability" secure_rights_case capability

# What others may read: files that have addresses in them are the owner's alone.
secure_modes_case() {
  need_file "$apps/leaky_linked"
  umask 0
  preloaded shim GPUSHIM_OUTPUT=json,pprof,collapsed,csv GPUSHIM_OUTPUT_FILE=report \
    GPUSHIM_STATE_FILE=state GPUSHIM_TRACE_FILE=trace -- "$apps/leaky_linked"
  preloaded logged GPUSHIM_LOG_FILE=log GPUSHIM_LOOKUP_LOG=look-ups -- "$apps/leaky_shared"
  expect_equal "files with another mode than 600" "" "$(find . -type f \
    \( -name 'report*' -o -name state -o -name trace -o -name log -o -name look-ups \) ! -perm 600)"
  expect_equal "files" 8 "$(find . -type f -perm 600 | wc -l)"
}
add_case "secure modes of files" secure_modes_case

# secure_link_case VARIABLE link|roots: what is written to is not chosen by who can make a link,
# nor by a link of root's that leads to that one.
secure_link_case() {
  local named=$PWD/$2 variable=$1 end='writing to stderr'

  echo old >precious
  ln -s precious link
  ln -s "$PWD/link" roots
  if [[ $(id -u) -eq 0 ]]; then
    chown -h 65534 link
  elif [[ $2 == roots ]]; then
    skip "root, to make a link of root's"
  fi
  same_as_native GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=other "$1=$named" -- "$apps/leaky_shared"
  expect_equal "the file behind the link" old "$(<precious)"
  [[ -L link && -L roots ]] || fail "a link was replaced"
  [[ $1 != GPUSHIM_OUTPUT_FILE ]] || variable=GPUSHIM_OUTPUT=json end='left out'
  expect_count shim.err '^gpushim: ' 1
  expect_count shim.err "^gpushim: $variable: cannot write .*/$2: a symbolic link is in the way; $end\$" 1
}
for variable in GPUSHIM_LOG_FILE GPUSHIM_LOOKUP_LOG GPUSHIM_OUTPUT_FILE; do
  add_case "secure link $variable" secure_link_case $variable link
  add_case "secure link of root's to another's $variable" secure_link_case $variable roots
done

# What is not to replace anything takes another name beside a link.
secure_link_beside_case() {
  echo old >precious
  ln -s precious link
  preloaded shim "$1=$PWD/link" -- "$apps/leaky_shared"
  expect_equal "the file behind the link" old "$(<precious)"
  expect_count shim.err "^gpushim: $1=.*/link: exists; (writing|recording to) .*/link[.][0-9]+\$" 1
}
for variable in GPUSHIM_STATE_FILE GPUSHIM_TRACE_FILE; do
  add_case "secure link $variable" secure_link_beside_case $variable
done

# The system's own links are followed.
secure_stdout_case() {
  [[ -L /dev/stdout && $(stat -c %u /dev/stdout) -eq 0 ]] || skip "/dev/stdout, a link of root's"
  preloaded shim GPUSHIM_LOG_FILE=/dev/stdout -- "$apps/leaky_shared"
  expect_status shim 0
  expect_quiet shim
  expect_text shim.out 'SUMMARY: gpushim: 0 errors'
  native native "$apps/leaky_shared"
  preloaded shim GPUSHIM_OUTPUT=collapsed GPUSHIM_OUTPUT_FILE=/dev/stdout -- "$apps/leaky_shared"
  expect_equal "output" "$(<native.out)" "$(tail -n "$(wc -l <native.out)" shim.out)"
  expect_count shim.out '^(GPU 0|managed memory|pinned host memory).*;main;[a-z_]+ [0-9]+$' 5
  preloaded shim GPUSHIM_STATE_FILE=/dev/stdin -- "$apps/leaky_shared"
  expect_count shim.err '^gpushim: GPUSHIM_STATE_FILE=/dev/stdin: cannot be created: exists; not written$' 1
}
add_case "secure link to standard output" secure_stdout_case

# A socket cannot be opened by that name; for text it is written to as what is open.
secure_socket_case() {
  need python3
  cat >socket_end.py <<'PYTHON'
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
status = subprocess.run(sys.argv[1:], stdout=theirs, check=False).returncode
theirs.close()
sys.stdout.buffer.write(b"".join(iter(lambda: ours.recv(65536), b"")))
sys.exit(status)
PYTHON
  run_in shim -- python3 -S socket_end.py env LD_PRELOAD="$shim" GPUSHIM_LOG_FILE=/dev/stdout \
    "$apps/leaky_shared"
  expect_status shim 0
  expect_quiet shim
  expect_text shim.out 'SUMMARY: gpushim: 0 errors'
}
add_case "secure link to standard output, a socket" secure_socket_case

# So is the kernel's name for what is open, a pipe or a file, whoever runs the program.
# secure_open_case root|other
secure_open_case() {
  local -a who=()

  if [[ $1 == other ]]; then
    need setpriv
    [[ $(id -u) -eq 0 ]] || skip "root, to become another user"
    chmod 711 "$scratch" "$case_dir/.."
    who=(setpriv --reuid=65534 --clear-groups)
    "${who[@]}" test -r "$shim" || skip "a build folder that other users may read"
  fi
  exec 3>open
  [[ $1 == root ]] || chown 65534 open
  run_in shim -- "${who[@]}" env LD_PRELOAD="$shim" GPUSHIM_LOG_FILE=/proc/self/fd/3 "$apps/leaky_shared"
  exec 3>&-
  expect_quiet shim
  expect_text open 'SUMMARY: gpushim: 0 errors'
  # shellcheck disable=SC2016  # expanded by the inner shell
  run_in shim -- "${who[@]}" sh -c '{ LD_PRELOAD=$0 GPUSHIM_LOG_FILE=/proc/self/fd/3 "$1" 3>&1 >&4 4>&- | cat; } 4>/dev/null' \
    "$shim" "$apps/leaky_shared"
  expect_quiet shim
  expect_text shim.out 'SUMMARY: gpushim: 0 errors'
}
add_case "secure link to what is open" secure_open_case root
add_case "secure link to what is open, another user" secure_open_case other

# expect_printable FILE: no control character, C1 included, and nothing that is no UTF-8.
expect_printable() {
  iconv -f UTF-8 -t UTF-8 "$1" >/dev/null || fail "$1: not UTF-8"
  LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1" || return 0
  fail "$1: control characters"
}

# Names and values from outside neither reach the terminal as commands nor make lines.
secure_characters_case() {
  local strange=$'x\e[31m\xc2\x9b31m\x9b\xff\ngpushim: forged'

  need iconv
  preloaded signal GPUSHIM_REPORT_ON=exit,oom,"$strange" GPUSHIM_TRACK="$strange" -- \
    "$apps/leaky_linked"
  expect_count signal.err '^gpushim: GPUSHIM_(REPORT_ON|TRACK)=x' 2
  expect_printable signal.err
  for name in LOG_FILE LOOKUP_LOG STATE_FILE TRACE_FILE OUTPUT_FILE SUPPRESSIONS; do
    preloaded file GPUSHIM_OUTPUT=json GPUSHIM_$name="none/$strange" -- "$apps/leaky_shared"
    expect_text file.err 'none/x'
    expect_no_text file.err '^gpushim: forged'
    expect_printable file.err
  done
}
add_case "secure characters in messages" secure_characters_case

# secure_modules_case absolute|relative: a module, and a program, whose names would make lines
# of their own.
secure_modules_case() {
  local forged=$'\ngpushim: forged\e[31m\xc2\x9b'
  local program=./app$forged plugin=./plugin$forged.so

  need gcc
  need iconv
  need python3
  [[ $1 == relative ]] || plugin=$PWD/${plugin#./}
  printf '%s\n' '#include <stdint.h>' 'int cuMemAlloc_v2(uint64_t *, uint64_t);' \
    'int leaks_here(void) { uint64_t block; return cuMemAlloc_v2(&block, 4321); }' >plugin.c
  cat >app.c <<'EOF'
#include <dlfcn.h>
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int main(int argc, char **argv)
{
    void *context;
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW);
    int (*leaks)(void) = plugin ? (int (*)(void))dlsym(plugin, "leaks_here") : 0;
    return !leaks || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
           cuCtxSetCurrent(context) || leaks();
}
EOF
  { gcc -g -shared -fPIC -o "$plugin" plugin.c &&
    gcc -g -o "$program" app.c "$build/sim/libcuda.so.1"; } || fail "gcc cannot build"
  preloaded shim GPUSHIM_STATE_FILE=state GPUSHIM_OUTPUT=json,collapsed \
    GPUSHIM_OUTPUT_FILE=report -- "$program" "$plugin"
  run_in state -- "$build/gpushim" report state
  expect_status shim 0
  expect_only_report shim.err
  for file in shim.err state.out report.collapsed; do
    expect_printable $file
    expect_no_text $file '^gpushim: forged'
    expect_text $file 'leaks_here'
  done
  expect_summary shim.err 0 4321 1 1
  expect_text shim.err '#1 main +app[?]gpushim: forged[?].*[+]0x'
  python3 -S -c 'import json, sys
modules = json.load(open(sys.argv[1]))["modules"]
sys.exit(sum("\ngpushim: forged" in module["path"] for module in modules) != 2)' report.json ||
    fail "the names in report.json"
}
for way in absolute relative; do
  add_case "secure characters in $way names of modules" secure_modules_case $way
done

# The version that a state file names is whatever its maker wrote.
secure_state_case() {
  local at

  need iconv
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/leaky_linked"
  at=$(grep -abo '0[.]1[.]0' state | head -n 1)
  [[ -n $at ]] || skip "a version of five characters"
  printf '\e\n\xc2\x9b\xff' | dd of=state bs=1 seek="${at%%:*}" conv=notrunc status=none
  run_in report -- "$build/gpushim" report state
  expect_text report.out 'SUMMARY: gpushim: 0 errors'
  expect_printable report.out
  expect_count report.out '^==[0-9]+== gpushim [?]{5}: ' 1
}
add_case "secure version of a state file" secure_state_case

# Files go to the folder that the program began in, whatever its name.
secure_folder_case() {
  local folder=$'d\e\xc2\x9b\xff%p'

  mkdir "$folder"
  (cd "$folder" && preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report \
    GPUSHIM_STATE_FILE=state GPUSHIM_TRACE_FILE=trace GPUSHIM_LOG_FILE=log \
    GPUSHIM_LOOKUP_LOG=lookups -- "$apps/leaky_shared") || exit
  for name in report state trace log lookups; do
    [[ -s $folder/$name ]] || fail "$name is not in the program's folder"
  done
  expect_equal "folders" 1 "$(find . -mindepth 1 -type d | wc -l)"
}
add_case "secure folder with a strange name" secure_folder_case
