# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# narrow.sh - what a terminal of 40 columns gets: the whole text, which the terminal wraps, or lines that
# end at a whole column. top.sh has gpushim top.

uses guide options

# on_terminal COLUMNS PREFIX [VAR=value...] -- COMMAND...: PREFIX.text is what it writes to a terminal of that width.
on_terminal() {
  local columns=$1 prefix=$2 settings command

  need python3
  cat >terminal.py <<'PYTHON'
import fcntl, os, struct, subprocess, sys, termios

terminal, inside = os.openpty()
fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
with subprocess.Popen(sys.argv[2:], stdin=inside, stdout=inside, stderr=inside) as program:
    os.close(inside)
    text = b""
    try:
        while part := os.read(terminal, 65536):
            text += part
    except OSError:  # the last that had it open has ended
        pass
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))
sys.exit(program.returncode if program.returncode >= 0 else 128 - program.returncode)
PYTHON
  split_settings TERM=xterm CUDASIM_MEMORY=512M CUDASIM_DEVICES=1 "${@:3}"
  run_in "$prefix" "${settings[@]}" -- python3 -S terminal.py "$columns" "${command[@]}"
  mv "$prefix.out" "$prefix.text"
}

# The reports that diff and merge read, of two ranks.
narrow_reports() {
  local rank

  mkdir reports
  for rank in 0 1; do
    preloaded "rank$rank" RANK=$rank GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="reports/$rank.json" \
      GPUSHIM_STATE_FILE="$rank.state" -- "$apps/leaky_shared"
    [[ -s reports/$rank.json ]] || fail 'no JSON'
  done
}

# The same words on a wide terminal.
# narrow_case STATUS ARGUMENT...: of gpushim
narrow_case() {
  local columns status=$1

  shift
  need_file "$build/gpushim"
  [[ $* == *--help ]] || narrow_reports
  for columns in 40 200; do
    on_terminal "$columns" "at$columns" -- "$build/gpushim" "$@"
    expect_status "at$columns" "$status"
    expect_text "at$columns.text" .
    guide_form <"at$columns.text" >"at$columns.form"
  done
  diff at200.form at40.form || fail 'other words in a narrow terminal'
}
add_case "narrow report" narrow_case 0 --leak-max=2 "$apps/leaky_shared"
add_case "narrow report, out of memory" narrow_case 0 "$apps/interim_linked" oom
add_case "narrow report, errors" narrow_case 0 --check-args "$apps/badargs_shared" freed
add_case "narrow report of a state file" narrow_case 0 report 0.state
add_case "narrow summary" narrow_case 0 --summary --log-file=/dev/null "$apps/leaky_shared"
add_case "narrow summary of state files" narrow_case 0 report --summary 0.state 1.state
add_case "narrow diff" narrow_case 0 diff reports/0.json reports/1.json
add_case "narrow bad option" narrow_case 2 --sumary "$apps/leaky_shared"
for verb in '' report html diff merge top replay advise; do
  # shellcheck disable=SC2086  # no word, or one
  add_case "narrow help${verb:+ of $verb}" narrow_case 0 $verb --help
done

# The table of call sites: no line is wider, and none ends within a number.
narrow_merge_case() {
  need_file "$build/gpushim"
  narrow_reports
  on_terminal 40 narrow NO_COLOR=1 -- "$build/gpushim" merge reports
  run_in wide -- "$build/gpushim" merge reports
  expect_status narrow 0
  sed '/^$/,$d' wide.out | sed -E 's/^(.{38}).*/\1/' >wanted
  sed '/^$/,$d' narrow.text | grep -v '^    [a-z]' >found
  diff wanted found || fail 'the numbers differ'
  sed '/^$/,$d' narrow.text >table
  expect_no_text table '.{41}'
  expect_count table "^    [a-z_]+ " "$(wc -l <wanted)" # below each line of numbers
  sed '1,/^$/d' wide.out >wanted
  sed '1,/^$/d' narrow.text >found
  diff wanted found || fail 'the processes differ'
}
add_case "narrow merge" narrow_merge_case
