# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# outputs_journal.sh - the report in the journal (GPUSHIM_OUTPUT=journal): systemd-journald takes the records,
# journalctl finds them by their fields; without journald one line says so, and nothing else changes.

uses outputs

# in_journal PREFIX: runs the commands of stdin where /run is empty, in name spaces that end with them.
# `journald_start` starts a journald, `entries FILE MATCH...` reads it; `loaded VAR=value... PROGRAM` is a program with
# the library.
in_journal() {
  need unshare
  [[ $(id -u) -eq 0 ]] || skip "root, for a journal of its own"
  unshare -mpf --kill-child mount -t tmpfs none /run 2>/dev/null || skip "name spaces of our own"
  cat >commands <<'BASH'
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal
printf '[Journal]\nStorage=volatile\nReadKMsg=no\n' >/run/systemd/journald.conf.d/test.conf
journald_start() {
  /lib/systemd/systemd-journald >journald.log 2>&1 &
  for _ in {1..200}; do
    [[ ! -S /run/systemd/journal/socket ]] || return 0
    sleep 0.05
  done
  exit 77
}
entries() {
  journalctl --sync && journalctl --no-pager --quiet --all --directory=/run/log/journal --output=json "${@:2}" >"$1"
}
loaded() {
  env LD_PRELOAD="$shim" "$@"
}
BASH
  cat >>commands
  run_in "$1" shim="$shim" apps="$apps" build="$build" -- unshare -mpf --mount-proc --kill-child bash commands
  [[ $(<"$1.status") != 77 ]] || skip "a systemd-journald that starts here"
}

need_journald() {
  need journalctl
  need python3
  [[ -x /lib/systemd/systemd-journald ]] || skip systemd-journald
  [[ -s /etc/machine-id ]] || skip /etc/machine-id
}

# record_fields FILE FIELD...: of each record a line, the fields separated by |.
record_fields() {
  python3 -S -c '
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    print("|".join(record.get(name, "") for name in sys.argv[2:]))' "$@"
}

# Alone it would see records that journald drops, or fields that are not those of the JSON.
outputs_journal_case() {
  local member value

  need_journald
  in_journal shim <<'BASH'
journald_start
loaded GPUSHIM_OUTPUT=journal,json GPUSHIM_OUTPUT_FILE=r "$apps/leaky_linked"
loaded GPUSHIM_OUTPUT=journal "$apps/badfree_linked" 2>errors
loaded GPUSHIM_OUTPUT=journal "$apps/levels_linked"
bytes=$(python3 -S -c "import json; print(json.load(open(\"r\"))[\"summary\"][\"leaked_bytes\"])")
entries found "GPUSHIM_LEAKED_BYTES=$bytes"
entries summaries MESSAGE_ID=1419cc9e7f1f4687b91d9e591c92394f
entries leaks GPUSHIM_RULE=leak
entries wrong --priority=err SYSLOG_IDENTIFIER=gpushim
BASH
  expect_status shim 0
  expect_text shim.err "files written: $PWD/r\$" # with one file, its name as it is
  expect_equal "records with these bytes" 1 "$(wc -l <found)"
  for member in errors leaked_bytes leaked_count places peak_bytes allocs; do
    value=$(record_fields found "GPUSHIM_${member^^}")
    expect_equal "$member" "$(json_get r summary "$member")" "$value"
  done
  expect_equal "the process" "4|gpushim|$apps/leaky_linked|exit 0|0|false" \
    "$(record_fields found PRIORITY SYSLOG_IDENTIFIER GPUSHIM_PROGRAM GPUSHIM_ENDING GPUSHIM_EXIT_STATUS GPUSHIM_RUNNING)"
  expect_equal "the message" "leaky_linked: $(sed -n 's/^==[0-9]*== SUMMARY: gpushim: //p' shim.err | head -n 1)" \
    "$(record_fields found MESSAGE)"
  expect_equal "severities" "4 3 6" "$(record_fields summaries PRIORITY | paste -sd ' ')"
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $2, $3 * $4, $4 }' | sort >marked
  record_fields leaks CODE_FILE CODE_LINE GPUSHIM_BYTES GPUSHIM_COUNT |
    sed -E 's/^.*[/](leaky[.]c)[|]([0-9]+)[|]([0-9]+)[|]/\1:\2 \3 /' | sort >lines
  cmp -s marked lines || { diff -u marked lines; fail "other leaks than marked"; }
  record_fields leaks GPUSHIM_STACK CODE_FUNC >stacks
  expect_count stacks '^allocated$' 5
  expect_count stacks '^    #0 load_weights .*/leaky[.]c:[0-9]+$' 1
  expect_equal "errors" $(($(grep -cE '^==[0-9]+== ERROR ' errors) + 1)) "$(wc -l <wrong)"
}
add_case "outputs journal" outputs_journal_case

# A message longer than a datagram; a name that would forge a field; a process that is killed.
outputs_journal_odd_case() {
  local deep

  need_journald
  need_file "$build/gpushim"
  deep=$(printf '%0200d/' {1..15})
  mkdir -p "$deep"
  cp "$apps/lastwords_linked" "$deep/places"
  cp "$apps/levels_linked" $'./a\nGPUSHIM_FORGED=1'
  in_journal shim <<'BASH'
journald_start
loaded GPUSHIM_OUTPUT=journal GPUSHIM_SYMBOLIZE=off GPUSHIM_LEAK_MAX=1000 GPUSHIM_STACK=depth:64 "$PWD"/*1/*/*/*/*/*/*/*/*/*/*/*/*/*/*/places places
LD_PRELOAD="$shim" GPUSHIM_OUTPUT=journal "./a
GPUSHIM_FORGED=1"
loaded GPUSHIM_STATE_FILE=state "$apps/oddities_static" sigkill
"$build/gpushim" report --output=journal state
entries long GPUSHIM_RULE=leak
entries forged GPUSHIM_FORGED=1
entries odd GPUSHIM_ERRORS=0 GPUSHIM_LEAKED_BYTES=0
entries killed GPUSHIM_LEAKED_BYTES=131072
BASH
  expect_equal "leaks of one message" 60 "$(wc -l <long)"
  [[ $(record_fields long GPUSHIM_PROGRAM GPUSHIM_STACK | wc -c) -gt 250000 ]] || fail "short enough for a datagram"
  expect_equal "forged fields" "" "$(<forged)"
  expect_equal "the name" "$PWD/a"$'\nGPUSHIM_FORGED=1' "$(record_fields odd GPUSHIM_PROGRAM)"
  expect_equal "a killed process" "6|false|" "$(record_fields killed PRIORITY GPUSHIM_RUNNING GPUSHIM_EXIT_STATUS)"
}
add_case "outputs journal of odd processes" outputs_journal_odd_case

# Without journald the program is as it was, and a line names what is not there.
outputs_journal_absent_case() {
  local way why

  preloaded plain -- "$apps/leaky_linked"
  in_journal shim <<'BASH'
at=/run/systemd/journal/socket
loaded GPUSHIM_OUTPUT=journal "$apps/leaky_linked" >absent.out 2>absent.err
mkdir $at
loaded GPUSHIM_OUTPUT=journal "$apps/leaky_linked" >folder.out 2>folder.err
rmdir $at
echo kept >$at
loaded GPUSHIM_OUTPUT=journal "$apps/leaky_linked" >file.out 2>file.err
cp $at kept
loaded GPUSHIM_OUTPUT=journal GPUSHIM_OUTPUT_FILE=run "$apps/leaky_linked" >named.out 2>named.err
BASH
  expect_status shim 0
  while read -r way why; do
    cmp -s plain.out "$way.out" || fail "$way: another output"
    expect_count "$way.err" "^gpushim: GPUSHIM_OUTPUT=journal: cannot write /run/systemd/journal/socket: $why; left out\$" 1
    expect_count "$way.err" '^==[0-9]+== SUMMARY: gpushim: 0 errors, ' 1
  done <<'END'
absent no such file or directory
folder no process reads it
file no process reads it
named no process reads it
END
  expect_equal "a file in its place" kept "$(<kept)"
  expect_count named.err '^gpushim: GPUSHIM_OUTPUT_FILE=run: no format of GPUSHIM_OUTPUT is a file; not written$' 1
  [[ ! -e run ]] || fail "a file that is no format's"
}
add_case "outputs journal without journald" outputs_journal_absent_case
