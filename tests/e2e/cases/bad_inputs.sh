# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for another shell
#
# bad_inputs.sh - what the tracker is given that is of no use: rules without a grammar,
# places that nothing can be written to, helpers that do not help, programs that were
# replaced meanwhile. Each costs a line at most; the program and the rest of its report
# are as ever. State files: state.sh; GPUSHIM_OUTPUT: outputs.sh; values: options.sh.

leaky_summary='SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 allocations, 5 call sites$'

# ---- rules -----------------------------------------------------------------------------

# bad_rules_case MAKE LINES: a file made by this command; so many lines of ours.
bad_rules_case() {
  (eval "$1") || fail "cannot make the file"
  same_as_native GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  expect_count shim.err '^gpushim: ' "$2"
  expect_text shim.err "$leaky_summary"
  LC_ALL=C grep -qP '[^\x09\x0a\x20-\x7e]' shim.err && fail "bytes of the file are shown"
  return 0
}
add_case "bad rules: a pipe" bad_rules_case 'mkfifo rules' 1
add_case "bad rules: a device" bad_rules_case 'ln -s /dev/zero rules' 1
add_case "bad rules: a program" bad_rules_case 'head -c 20000 "$shim" | tr "\n" " " >rules' 1
add_case "bad rules: zeros" bad_rules_case 'head -c 100000 /dev/zero >rules' 1
add_case "bad rules: a line without an end" bad_rules_case \
  '{ printf leak:; head -c 1000000 /dev/zero | tr "\0" x; } >rules' 1
add_case "bad rules: stars" bad_rules_case \
  '{ printf leak:; for i in {1..2000}; do printf "*e"; done; echo "*Z"; } >rules' 0
add_case "bad rules: nothing" bad_rules_case ': >rules' 0

# ---- where the report goes -------------------------------------------------------------

# What the log file does not take goes to standard error, whole.
bad_log_case() {
  native native "$apps/leaky_shared"
  preloaded shim GPUSHIM_LOG_FILE="$1" -- "${@:3}" "$apps/leaky_shared"
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_LOG_FILE: cannot write ' 1
  expect_text shim.err "^gpushim: GPUSHIM_LOG_FILE: cannot write .*: $2"
  expect_count shim.err "$leaky_summary" 1
}
add_case "bad log: a full device" bad_log_case /dev/full 'no space left'

# A disk with room for the first lines.
bad_log_disk_case() {
  mkdir small
  unshare -m true 2>/dev/null || skip "a file system of our own"
  native native "$apps/leaky_shared"
  cat >mounted <<'END'
mount -t tmpfs -o size=4k tmpfs small || exit 77
head -c 3000 /dev/zero | tr '\0' '\n' >small/log
"$@"
status=$?
cp small/log log
exit $status
END
  preloaded shim GPUSHIM_LOG_FILE="$PWD/small/log" -- \
    unshare -m bash mounted "$apps/leaky_shared"
  [[ $(<shim.status) != 77 ]] || skip "a file system of our own"
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_LOG_FILE: cannot write .*: no space left' 1
  { tail -c +3001 log && grep -v '^gpushim: ' shim.err; } >both
  expect_only_report both
  expect_text both "$leaky_summary"
  expect_equal "bytes of the log" 4096 "$(wc -c <log)"
}
add_case "bad log: a disk that fills up" bad_log_disk_case

# A disk without room: no empty file remains, and one that was there does.
bad_log_full_case() {
  mkdir small
  unshare -m true 2>/dev/null || skip "a file system of our own"
  cat >mounted <<'END'
mount -t tmpfs -o size=4k tmpfs small || exit 77
: >small/old
head -c 4096 /dev/zero >small/rest
GPUSHIM_LOG_FILE=$PWD/small/new "$@"
GPUSHIM_LOG_FILE=$PWD/small/old "$@"
ls small >found
END
  preloaded shim -- unshare -m bash mounted "$apps/leaky_shared"
  [[ $(<shim.status) != 77 ]] || skip "a file system of our own"
  expect_count shim.err '^gpushim: GPUSHIM_LOG_FILE: cannot write .*: no space left' 2
  expect_equal "files" $'old\nrest' "$(<found)"
}
add_case "bad log: a disk without room" bad_log_full_case

bad_log_pipe_case() {
  mkfifo pipe
  bad_log_case pipe ''
}
add_case "bad log: a pipe that nobody reads" bad_log_pipe_case

# Standard error is of no use: nothing but the report is missing.
bad_stderr_case() {
  native native "$apps/leaky_shared"
  preloaded shim -- bash -c "$1" - "$apps/leaky_shared"
  expect_same native shim
}
add_case "bad standard error: a full device" bad_stderr_case '"$1" 2>/dev/full'
add_case "bad standard error: a pipe that was closed" bad_stderr_case \
  'exec 2> >(exec true); wait $!; "$1"'
add_case "bad standard error: closed" bad_stderr_case '"$1" 2>&-'

# A device is no place for a state file, and none is made beside it.
bad_state_case() {
  native native "$apps/leaky_shared"
  mkfifo pipe
  for place in /dev/full "$PWD/pipe"; do
    preloaded shim GPUSHIM_STATE_FILE="$place" -- "$apps/leaky_shared"
    expect_same native shim
    expect_count shim.err "^gpushim: GPUSHIM_STATE_FILE=$place: cannot be created: .*; not written\$" 1
    expect_text shim.err "$leaky_summary"
    compgen -G "$place.*" && fail "a file beside $place"
  done
  return 0
}
add_case "bad state: a device, a pipe" bad_state_case

# A disk on which the file has room at first, and none to grow.
bad_state_disk_case() {
  mkdir small
  unshare -m true 2>/dev/null || skip "a file system of our own"
  native native "$apps/killed_linked" many 50000
  cat >mounted <<'END'
mount -t tmpfs -o size=6656k tmpfs small || exit 77
"$@"
status=$?
cp small/state.data state
exit $status
END
  preloaded shim GPUSHIM_STATE_FILE="$PWD/small/state" -- \
    unshare -m bash mounted "$apps/killed_linked" many 50000
  [[ $(<shim.status) != 77 ]] || skip "a file system of our own"
  expect_same native shim
  expect_count shim.err 'cannot grow: no space left; allocations from now on may be missing' 1
  run_in found -- "$build/gpushim" report state
  expect_text found.out '; it could not grow and is incomplete$'
}
add_case "bad state: a disk that fills up" bad_state_disk_case

# ---- helpers and programs --------------------------------------------------------------

# bad_helper_case BODY: functions stay, and it is said why there is no more.
bad_helper_case() {
  mkdir bin
  if [[ -n $1 ]]; then
    printf '#!%s\n%s\n' "$BASH" "$1" >bin/llvm-symbolizer
    chmod +x bin/llvm-symbolizer
  fi
  preloaded shim PATH="$case_dir/bin" GPUSHIM_SYMBOLIZE=timeout:300ms -- "$apps/leaky_shared"
  expect_status shim 0
  expect_only_report shim.err
  expect_count shim.err '#0 build_index +leaky_shared[+]0x[0-9a-f]+$' 1
  expect_text shim.err "$2"
  expect_text shim.err "$leaky_summary"
}
add_case "bad helper: none" bad_helper_case '' \
  'no file and line: neither llvm-symbolizer nor addr2line was found on PATH'
add_case "bad helper: one that hangs" bad_helper_case 'while :; do read -t 9 <>/dev/tty; done 2>&-' \
  'file and line are incomplete: the time limit was reached'
add_case "bad helper: one that fails" bad_helper_case 'exit 3' 'file and line are incomplete'
add_case "bad helper: one that talks" bad_helper_case \
  'for ((i = 0; i < 99999; i++)); do echo "what is this"; done' 'leaky_shared[+]0x'

# Another program has its place by the time that names are looked up: no names of that one.
# bad_program_case ID: with a build id or without.
bad_program_case() {
  local name

  need objcopy
  for name in killed_linked leaky_linked; do
    cp "$apps/$name" "$name"
    [[ $1 == with ]] || objcopy --remove-section .note.gnu.build-id "$name" || fail objcopy
  done
  preloaded shim GPUSHIM_STATE_FILE=state -- ./killed_linked kill
  run_in before -- "$build/gpushim" report state
  expect_text before.out '#0 keep_large +killed[.]c:[0-9]+$'
  mv leaky_linked killed_linked
  run_in after -- "$build/gpushim" report state
  expect_text after.out '#0 ([?][?] +)?killed_linked[+]0x[0-9a-f]+$'
  [[ $1 == without ]] || expect_text after.out 'Note: functions are missing: .*/killed_linked is another file now [(]of a container: GPUSHIM_SYSROOT=ITS_ROOT[)]$'
  expect_no_text after.out '#[0-9]+ .*(leaky|killed)[.]c:|#[0-9]+ [a-z_]+ +killed_linked'
}
add_case "bad program: replaced, with a build id" bad_program_case with
add_case "bad program: replaced, without a build id" bad_program_case without
