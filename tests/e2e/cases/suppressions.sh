# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# suppressions.sh - rules for known leaks and wrong frees: what they match is counted apart
# and does not make a run fail, all else is reported as without them; what is wrong with a
# file is said in a line and harms nothing.

# Places of leaky.c: build_index 3 MiB in 3, load_weights 24 MiB, stage_input 256 KiB (pinned),
# share_state 512 KiB (managed), queue_scratch 768 KiB.

# suppress_case RULES LINE SUMMARY: with these rules leaky has this line and this summary.
suppress_case() {
  printf '%b' "$1" >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  expect_status shim 0
  expect_only_report shim.err
  expect_equal "suppressed" "$2" "$(sed -n 's/^==[0-9]*== Suppressed: //p' shim.err)"
  expect_equal "summary" "$3" "$(sed -n 's/^==[0-9]*== SUMMARY: gpushim: //p' shim.err)"
}
all_leaks='0 errors, 28.5 MiB leaked in 7 allocations, 5 call sites'
add_case "suppressions by function" suppress_case 'leak:^load_weights$\n' \
  '1 allocation, 24.0 MiB by 1 rule' '0 errors, 4.50 MiB leaked in 6 allocations, 4 call sites'
add_case "suppressions by file" suppress_case 'leak:leaky.c\n' \
  '7 allocations, 28.5 MiB by 1 rule' '0 errors, 0 B leaked in 0 allocations, 0 call sites'
add_case "suppressions by module" suppress_case 'leak:^leaky_shared$\n' \
  '7 allocations, 28.5 MiB by 1 rule' '0 errors, 0 B leaked in 0 allocations, 0 call sites'
add_case "suppressions by whole path" suppress_case 'leak:/tests/apps/leaky.c$\n' \
  '7 allocations, 28.5 MiB by 1 rule' '0 errors, 0 B leaked in 0 allocations, 0 call sites'
add_case "suppressions of two" suppress_case \
  '# known\n\nleak:*index\n  leak:queue_*ch  \r\nleak:nobody\n' \
  '4 allocations, 3.75 MiB by 2 rules' \
  '0 errors, 24.8 MiB leaked in 3 allocations, 3 call sites'
add_case "suppressions of nothing" suppress_case 'leak:nobody\nfree:load_weights\n' '' "$all_leaks"
add_case "suppressions of another device" suppress_case 'leak:load_weights device=1\n' '' \
  "$all_leaks"
add_case "suppressions within caps" suppress_case \
  'leak:build_index max_count=3 max_bytes=3M device=0\n' '3 allocations, 3.00 MiB by 1 rule' \
  '0 errors, 25.5 MiB leaked in 4 allocations, 4 call sites'

# suppress_beyond_case RULE TEXT: more than the rule's cap allows is reported, with the reason.
suppress_beyond_case() {
  suppress_case "$1\n" '' "$all_leaks"
  expect_count shim.err '^==[0-9]+==   not suppressed: ' 1
  expect_equal "reason" "$2" \
    "$(sed -n '/LEAK 2:/,/#0 build_index/s/^==[0-9]*==   not suppressed: //p' shim.err)"
}
add_case "suppressions beyond max_count" suppress_beyond_case 'leak:build_index max_count=2' \
  '3 allocations of 3.00 MiB in all, more than leak:build_index max_count=2 (rules:1) allows'
add_case "suppressions beyond max_bytes" suppress_beyond_case 'leak:build_index max_bytes=2M' \
  '3 allocations of 3.00 MiB in all, more than leak:build_index max_bytes=2M (rules:1) allows'

# What was counted stays in the totals, and is said there.
suppress_totals_case() {
  echo leak:load_weights >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_VERBOSE=2 -- "$apps/leaky_shared"
  expect_text shim.err \
    '^==[0-9]+== GPU 0 .*: 4[.]2[0-9] MiB leaked at 3 call sites, peak .*  \(suppressed 24[.]0 MiB in 1\)$'
  expect_text shim.err '^==[0-9]+==          1  24[.]0 MiB  leak:load_weights \(rules:1\)$'
  expect_text shim.err '^==[0-9]+==   leaky_shared               28[.]3 MiB          6$'
}
add_case "suppressions in the totals" suppress_totals_case

# A run with nothing but known leaks: three lines, and no exit code of ours.
suppress_exit_case() {
  echo leak:leaky.c >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/leaky_shared"
  expect_status shim 0
  expect_equal "lines" 3 "$(wc -l <shim.err)"
  echo leak:build_index >rules
  preloaded some GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/leaky_shared"
  expect_status some 9
}
add_case "suppressions and GPUSHIM_ERROR_EXITCODE" suppress_exit_case

# The printed rule of each leak, put into a file, leaves nothing.
suppress_advice_case() {
  preloaded first GPUSHIM_VERBOSE=2 -- "$apps/leaky_$1"
  sed -nE 's/^==[0-9]+==   [0-9, ]+:  (leak:.*)$/\1/p' first.err >rules
  expect_equal "rules" 5 "$(wc -l <rules)"
  expect_text rules '^leak:\^build_index[$] max_bytes=3M$'
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/leaky_$1"
  expect_status shim 0
  expect_text shim.err 'Suppressed: 7 allocations, 28[.]5 MiB by 5 rules$'
}
add_case "suppressions advised shared" suppress_advice_case shared
add_case "suppressions advised linked" suppress_advice_case linked

# An advised rule means its leak: a second one through the same function is reported, and so is more
# of the first, which is beyond the rule's cap.
suppress_advice_means_one_case() {
  rule='leak:^grab$ from=^first$ max_bytes=1M'
  preloaded first GPUSHIM_VERBOSE=2 -- "$apps/grabs_$1"
  grep -qF "==   1:  $rule" first.err || fail "no rule $rule"
  echo "$rule" >rules
  preloaded none GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/grabs_$1"
  expect_status none 0
  preloaded second GPUSHIM_SUPPRESSIONS=rules GPUSHIM_VERBOSE=2 -- "$apps/grabs_$1" second
  expect_text second.err 'SUMMARY: gpushim: 0 errors, 2.00 MiB leaked in 1 allocation, '
  expect_text second.err '^==[0-9]+==   1:  leak:\^grab[$] from=\^second[$] max_bytes=2M$'
  preloaded more GPUSHIM_SUPPRESSIONS=rules -- "$apps/grabs_$1" more
  expect_text more.err 'not suppressed: 2 allocations of 2.00 MiB in all, more than leak:\^grab[$] from=\^first[$] max_bytes=1M'
  expect_text more.err 'SUMMARY: gpushim: 0 errors, 2.00 MiB leaked in 2 allocations, '
}
add_case "suppressions advised mean one leak shared" suppress_advice_means_one_case shared
add_case "suppressions advised mean one leak linked" suppress_advice_means_one_case linked

# Wrong frees.
suppress_free_case() {
  preloaded first -- "$apps/badfree_shared"
  errors=$(sed -nE 's/.*SUMMARY: gpushim: ([0-9]+) errors.*/\1/p' first.err)
  echo free:free_twice >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/badfree_shared"
  expect_status shim 9
  twice=$(grep -c 'ERROR [0-9]*: double free' first.err)
  expect_text shim.err "Suppressed: $twice errors? by 1 rule\$"
  expect_text shim.err "SUMMARY: gpushim: $((errors - twice)) errors?, 0 B leaked"
  expect_no_text shim.err 'double free'
  echo free:badfree.c >rules
  preloaded all GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/badfree_shared"
  expect_status all 0
  echo 'free:badfree.c max_count=1' >rules
  preloaded cap GPUSHIM_SUPPRESSIONS=rules -- "$apps/badfree_shared"
  expect_count cap.err "not suppressed: $errors errors in all, more than free:badfree.c" "$errors"
}
add_case "suppressions of wrong frees" suppress_free_case

# What is wrong with files is said, and the rest is used.
suppress_files_case() {
  printf 'leak:build_index\nrace:x\nleak:a max_count=many\n' >one
  echo leak:load_weights >two
  mkdir folder
  preloaded shim GPUSHIM_SUPPRESSIONS=one:missing::folder:two -- "$apps/leaky_shared"
  expect_status shim 0
  expect_text shim.err '^gpushim: one:2: a rule of another tool; ignored$'
  expect_text shim.err '^gpushim: one:3: max_count is not a whole number: max_count=many; ignored$'
  expect_text shim.err '^gpushim: GPUSHIM_SUPPRESSIONS: cannot read missing: '
  expect_text shim.err '^gpushim: GPUSHIM_SUPPRESSIONS: cannot read folder: not a regular file; left out$'
  expect_count shim.err '^gpushim: ' 4
  expect_text shim.err 'Suppressed: 4 allocations, 27[.]0 MiB by 2 rules$'
}
add_case "suppressions from several files" suppress_files_case

suppress_many_problems_case() {
  seq 100 >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  expect_count shim.err '^gpushim: rules:[0-9]+: ' 20
  expect_text shim.err '^gpushim: rules: 80 more lines are ignored$'
}
add_case "suppressions of no grammar" suppress_many_problems_case

# All rules of a run in a file, which is complete at the next: nothing leaks, nothing is added.
suppress_write_case() {
  local before

  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules.%p GPUSHIM_LEAK_MAX=1 -- "$apps/leaky_$1"
  expect_count shim.err '^gpushim: 5 rules added to .*/rules[.][0-9]+$' 1
  [[ $(tail -n 1 shim.err) == *' SUMMARY: gpushim: '* ]] || fail "the SUMMARY is not the last line"
  mv rules.* rules
  expect_count rules '^leak:\^load_weights[$] max_bytes=24M$' 1
  expect_count rules '^leak:' 5
  before=$(<rules)
  preloaded known GPUSHIM_SUPPRESSIONS=rules GPUSHIM_WRITE_SUPPRESSIONS=rules \
    GPUSHIM_ERROR_EXITCODE=3 -- "$apps/leaky_$1"
  expect_status known 0
  expect_text known.err 'Suppressed: 7 allocations, 28[.]5 MiB by 5 rules$'
  expect_equal "rules" "$before" "$(<rules)"
}
for way in shared static proc; do
  add_case "suppressions written $way" suppress_write_case "$way"
done

# known_rules_case WAY CASE RULES: the rules of a run suppress the leaks of the next, and no more than those. Alone sees a
# rule that takes the leaks of a later one.
known_rules_case() {
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_$1" "$2"
  expect_equal "rules" "$3" "$(grep -v '^#' rules)"
  preloaded known GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=3 -- "$apps/known_$1" "$2"
  expect_status known 0
  expect_text known.err ' SUMMARY: gpushim: 0 errors, 0 B leaked '
  preloaded other GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=3 -- "$apps/known_$1" grown 100000
  expect_status other 3
}
for way in shared linked; do
  add_case "suppressions of a helper $way" known_rules_case "$way" helper 'leak:^allocate$ from=^load$ max_bytes=1000
leak:^allocate$ max_bytes=5000'
  add_case "suppressions of a function and its callee $way" known_rules_case "$way" nested \
    'leak:^allocate$ from=^build$ max_bytes=8000
leak:^build$ max_bytes=12345
leak:^allocate$ max_bytes=300'
  # As many callers each, the larger leak's rule would take both. Alone sees rules in the order of their leaks.
  add_case "suppressions of a function within $way" known_rules_case "$way" within \
    'leak:^allocate$ from=^build$ max_bytes=8000
leak:^build$ from=^run$ max_bytes=12345'
  # It matches the other one's leak, too, which is more than its cap.
  add_case "suppressions of main $way" known_rules_case "$way" outermost 'leak:^main$ max_bytes=5000'
done

# A cap is raised where it stands, with what a reader wrote around it; a rule that needs more callers goes before one with
# fewer, not behind it where it would never count.
known_update_case() {
  printf '%s\n' '# mine' 'leak:^load$ max_bytes=1K' '' 'leak:^allocate$ max_bytes=5000' 'free:kept' >rules
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" helper
  expect_count shim.err '^gpushim: 1 rule added to .*/rules$' 1
  preloaded more GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" grown 2000
  cat >wanted <<'END'
# mine
leak:^load$ max_bytes=1K

leak:^allocate$ from=^load$ max_bytes=2000
leak:^allocate$ max_bytes=5000
free:kept
END
  diff -u wanted rules || fail "other rules"
  expect_count more.err '^gpushim: 1 rule raised in .*/rules$' 1
  preloaded less GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" grown 3
  diff -u wanted rules || fail "a smaller leak changes the rules"
  expect_count less.err '^gpushim:' 0
}
add_case "suppressions written again" known_update_case

# Processes of one run: the largest leak of each rule.
known_processes_case() {
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- sh -c "$apps/known_shared grown 1000; $apps/known_shared grown 2000"
  expect_equal "rules" 'leak:^allocate$ from=^load$ max_bytes=2000' "$(grep -v '^#' rules)"
}
add_case "suppressions written by one after another" known_processes_case

# Where nothing leaks there is a file for the next run, too.
known_no_leak_case() {
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" none
  expect_count rules '^# .*/known_shared none: no rule$' 1
  preloaded known GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=3 -- "$apps/known_shared" none
  expect_status known 0
  expect_clean known.err
}
add_case "suppressions written without a leak" known_no_leak_case

# Processes that write at once do not mix, and add each rule once; what was there stays.
suppress_write_crowd_case() {
  local i

  printf 'free:kept' >rules
  for i in 1 2 3 4 5 6 7 8; do
    start_preloaded "shim$i" GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  done
  wait
  expect_equal "lines" 7 "$(wc -l <rules)"
  expect_count rules '^free:kept$' 1
  expect_count rules '^# [^ ]*/leaky_shared$' 1
  expect_count rules '^leak:\^[a-z_]+[$] max_bytes=[0-9]+[KM]$' 5
}
add_case "suppressions written by many" suppress_write_crowd_case

# While another process adds rules, one waits, and then adds what that one has not.
suppress_write_turn_case() {
  need flock
  : >rules
  flock rules sh -c ': >held; sleep 0.5; echo "leak:^load_weights\$ max_bytes=24M" >>rules' &
  await 25 test -e held || fail "nobody has the lock"
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  wait
  expect_count rules '^leak:\^load_weights[$] ' 1
  expect_count rules '^leak:' 5
}
add_case "suppressions written in turn" suppress_write_turn_case

# Who does not get its turn changes nothing: else the rules of several processes replace each other.
suppress_write_locked_case() {
  need flock
  : >rules
  flock rules sh -c ': >held; sleep 30' &
  await 25 test -e held || fail "nobody has the lock"
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" helper
  expect_count shim.err '^gpushim: .*cannot write .*/rules: another process has locked it; no rule is added$' 1
  [[ ! -s rules ]] || fail "the file has rules"
  kill %1
}
add_case "suppressions written to a locked file" suppress_write_locked_case

# A file that is not all text stays.
suppress_write_binary_case() {
  printf '# mine\0more\nleak:foo\n' >rules
  cp rules before
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS=rules -- "$apps/known_shared" helper
  expect_count shim.err '^gpushim: .*cannot write .*/rules: not a file of rules; no rule is added$' 1
  cmp rules before || fail "it was changed"
}
add_case "suppressions written to a binary file" suppress_write_binary_case

# suppress_write_bad_case FILE WHY: one line, no rule, the rest as ever.
suppress_write_bad_case() {
  mkdir folder
  mkfifo pipe
  preloaded shim GPUSHIM_WRITE_SUPPRESSIONS="$1" -- "$apps/leaky_shared"
  expect_status shim 0
  expect_count shim.err "^gpushim: GPUSHIM_WRITE_SUPPRESSIONS: cannot write .*$1: $2; no rule is added\$" 1
  expect_count shim.err '^gpushim:' 1
  expect_count shim.err ' SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked' 1
}
add_case "suppressions written to a folder" suppress_write_bad_case folder 'is a directory'
add_case "suppressions written to no folder" suppress_write_bad_case none/rules 'no such file or directory'
add_case "suppressions written to a pipe" suppress_write_bad_case pipe 'not a regular file'
add_case "suppressions written to a device" suppress_write_bad_case /dev/full 'not a regular file'

# On the command line it is known before a run of hours: a program's source, say, and then no program runs.
suppress_write_refused_case() {
  echo 'import torch' >train.py
  echo '# mine' >rules
  run_in foreign -- "$build/gpushim" --write-suppressions=train.py touch ran
  expect_status foreign 2
  expect_equal 'a line' 'gpushim: --write-suppressions=train.py: not a file of rules' "$(<foreign.err)"
  expect_equal 'the file' 'import torch' "$(<train.py)"
  [[ ! -e ran ]] || fail "the program ran"
  run_in own -- "$build/gpushim" --write-suppressions=rules touch ran
  expect_status own 0
}
add_case "suppressions written refused" suppress_write_refused_case

# On a full disk the rules that were there stay as they were, without a part of a new one.
suppress_write_full_case() {
  need unshare
  mkdir small
  cat >mounted <<'END'
mount -t tmpfs -o size=4k tmpfs small || exit 77
{ echo '# mine' && head -c 4000 /dev/zero | tr '\0' '#' && echo; } >small/rules
cp small/rules before
"$1"
cmp small/rules before || exit 3
END
  run_in shim LD_PRELOAD="$shim" GPUSHIM_WRITE_SUPPRESSIONS=small/rules -- \
    unshare -m bash mounted "$apps/leaky_shared"
  [[ $(<shim.status) != 77 && ! $(<shim.err) =~ unshare: ]] || skip "unshare and mount"
  expect_status shim 0
  expect_count shim.err '^gpushim: GPUSHIM_WRITE_SUPPRESSIONS: cannot write .*/rules: no space left; no rule is added$' 1
}
add_case "suppressions written to a full disk" suppress_write_full_case

# The rule itself where its file belongs: one line says so.
suppress_no_file_case() {
  preloaded shim GPUSHIM_SUPPRESSIONS='leak:load_weights max_bytes=24M' -- "$apps/leaky_shared"
  expect_count shim.err '^gpushim: GPUSHIM_SUPPRESSIONS=leak:load_weights max_bytes=24M: a rule, not a file: ' 1
  expect_count shim.err '^gpushim:' 1
  echo leak:load_weights >leak
  preloaded file GPUSHIM_SUPPRESSIONS=leak: -- "$apps/leaky_shared"
  expect_text file.err 'Suppressed: 1 allocation, 24[.]0 MiB by 1 rule$'
}
add_case "suppressions of a rule for a file" suppress_no_file_case

# A library that is called as cuBLAS is called: what it keeps is folded, unless that is off,
# or it is more than a framework keeps.
suppress_builtin_case() {
  need_file "$apps/plugin_shared.so"
  cp "$apps/plugin_shared.so" libcublas.so.13
  preloaded shim GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_VERBOSE=2 -- "$apps/plugin" ./libcublas.so.13
  expect_status shim 0
  expect_text shim.err 'Suppressed: [0-9]+ allocations?, .* by 1 built-in rule$'
  expect_text shim.err '  leak:\^libcublas[.]so max_count=256 \(built-in\)$'
  expect_text shim.err ' peak .*  \(kept by libraries .* in [0-9]+\)$'
  preloaded off GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_SUPPRESSIONS_BUILTIN=off -- \
    "$apps/plugin" ./libcublas.so.13
  expect_status off 9
  expect_no_text off.err 'Suppressed'
}
add_case "suppressions built in" suppress_builtin_case

suppress_print_case() {
  preloaded shim GPUSHIM_HELP=rules GPUSHIM_SUPPRESSIONS_BUILTIN=off -- \
    "$apps/leaky_shared"
  grep -vE '^==[0-9]+==( |$)' shim.err >rules
  expect_text rules '^leak:\^libcublas[.]so max_count=256$'
  cp "$apps/plugin_shared.so" libcublas.so.13
  preloaded read GPUSHIM_SUPPRESSIONS=rules GPUSHIM_SUPPRESSIONS_BUILTIN=off -- \
    "$apps/plugin" ./libcublas.so.13
  expect_text read.err 'Suppressed: .* by 1 rule$'
  expect_only_report read.err
}
add_case "suppressions printed" suppress_print_case

# A hundred thousand rules.
suppress_much_case() {
  seq -f 'leak:^nobody_%.0f$' 100000 >rules
  echo leak:load_weights >>rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  expect_text shim.err 'Suppressed: 1 allocation, 24[.]0 MiB by 1 rule$'
}
add_case "suppressions by the thousand" suppress_much_case

# ---- Budgets -----------------------------------------------------------------------------

# found_errors FILE: the errors of a report, each with its innermost frame.
found_errors() {
  sed -nE 's/^==[0-9]+== (ERROR [0-9]+: )?//; /^(budget exceeded|denied call)/ { s/ of [^ ]*:.*//; h }
    /^    #0 / { x; /./ { G; s/\n +#0 ([^ ]+) .*/ at \1/p }; s/.*//; x }' "$1"
}

# The fault: a rule that a report shows, and that fails no run; or one that only the text has.
budgets_case() {
  need python3
  printf '%s\n' 'peak:^load_weights$ max_bytes=20M' 'peak:leaky.c max_bytes=1G' 'peak: max_bytes=10M device=0' \
    'deny:Async not_from=queue_scratch' 'deny:Host not_from=work' >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_OUTPUT=json,junit,sarif \
    GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_$1"
  expect_status shim 9
  expect_text shim.err 'SUMMARY: gpushim: 3 errors, 28[.]5 MiB leaked in 7 allocations'
  found_errors shim.err >found
  expect_text found '^budget exceeded: 24[.]0 MiB at the peak of GPU 0, more than the 20[.]0 MiB at load_weights$'
  expect_text found '^budget exceeded: 30[.]3 MiB at the peak of GPU 0, more than the 10[.]0 MiB at load_weights$'
  expect_text found '^denied call: cu(da)?M[a-zA-Z]*Host[a-zA-Z]*, 1 call, 256 KiB, denied by deny:Host.* at stage_input$'
  expect_equal errors 3 "$(wc -l <found)"
  status=0
  python3 -S "$here/report_json.py" validate "$sources/docs/schema/report-1.json" r.json >problems || status=$?
  [[ $status -eq 0 || $status -eq 77 ]] || { cat problems && fail "r.json is not as its schema says"; }
  uses outputs_ci
  ci_list cases r.junit.xml >junit
  expect_count junit '^failure[|][^|]*[|](budget exceeded, peak|denied call, deny):[^|]*[|](budget exceeded|denied call): ' 3
  ci_list results r.sarif >sarif
  expect_count sarif '^error[|](over-budget|denied-call)[|]file:///.*/leaky[.]c:[0-9]+[|]' 3
}
for way in shared linked; do
  add_case "suppressions budgets $way" budgets_case "$way"
done

# The fault: calls whose stacks are not sampled are let through in silence.
budgets_sampled_case() {
  printf '%s\n' 'deny:Host' 'deny:Host max_count=12' 'deny:Host max_count=13' 'deny:Host from=nobody' >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_STACK=sample:100G GPUSHIM_ERROR_EXITCODE=9 -- "$apps/leaky_shared"
  expect_status shim 9
  expect_text shim.err 'ERROR 1: denied call: cuda[a-zA-Z]*, 13 calls, 4[.]06 MiB, denied by deny:Host [(]rules:1[)]$'
  expect_text shim.err 'ERROR 2: .*, 13 calls in all, more than max_count=12 of deny:Host [(]rules:2[)]$'
  expect_count shim.err 'denied call' 2
  expect_text shim.err 'Not judged: 13 calls without a call stack, by deny:Host from=nobody [(]rules:4[)]$'
}
add_case "suppressions budgets, sampled stacks" budgets_sampled_case

# The fault: a run that keeps its budgets fails, or says anything of them.
budgets_kept_case() {
  printf '%s\n' 'peak: max_bytes=1G' 'peak:main max_bytes=32M' 'deny:^cu not_from=main' 'deny:^cu after=1h' \
    'deny:^cudaMallocFromPoolAsync$' 'leak:leaky.c' >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 -- "$apps/leaky_shared"
  expect_status shim 0
  expect_equal lines 3 "$(wc -l <shim.err)"
}
add_case "suppressions budgets that are kept" budgets_kept_case

# The fault: a misspelt rule passes for kept, in silence. The exit status stays, and only patterns that name nothing
# are complained of.
budgets_misspelt_case() {
  printf '%s\n' 'peak:^laod_weights$ max_bytes=20M' 'deny:^cudaMaloc$' 'deny:^cu after=^epohc$' 'deny:^cudaMallocFromPoolAsync$' \
    'leak:leaky.c' >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules GPUSHIM_ERROR_EXITCODE=9 GPUSHIM_OUTPUT=json,junit,sarif GPUSHIM_OUTPUT_FILE=r -- \
    "$apps/leaky_shared"
  expect_status shim 0
  expect_text shim.err '^==[0-9]+== Never matched: the peak has no memory of such a call site, by peak:.laod_weights[$] max_bytes=20M [(]rules:1[)]$'
  expect_text shim.err '== Never matched: no allocating function has this name, by deny:.cudaMaloc[$] [(]rules:2[)]$'
  expect_text shim.err '== Never matched: no such scope was begun, by deny:.cu after=.epohc[$] [(]rules:3[)]$'
  expect_count shim.err 'Never matched' 3
  uses outputs_ci
  ci_list cases r.junit.xml >junit
  expect_count junit '^skipped[|]gpushim[|](peak|deny):.*[|]never matched: ' 3
  ci_list results r.sarif >sarif
  expect_equal notifications 3 "$(grep -o '"text": "[^"]*: never matched: ' r.sarif | wc -l)"
  expect_count r.json '"note": "never matched"' 4
  preloaded info GPUSHIM_SUPPRESSIONS=rules GPUSHIM_VERBOSE=2 -- "$apps/leaky_shared"
  expect_text info.err '== Never matched: no such call was made, by deny:.cudaMallocFromPoolAsync[$] [(]rules:4[)]$'
}
add_case "suppressions budgets that match nothing" budgets_misspelt_case

# Calls are denied from the moment a scope begins, those within another scope excused.
budgets_after_case() {
  echo 'deny:^cu not_from=^forward$ not_from=^worker$ not_from=^weights$ after=^step$' >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules -- "$apps/api_shared" scopes
  expect_status shim 0
  # 2000 B in step, 5000 of the thread, 6000, 7000 and 8000; not 1000, which was before.
  sed -nE 's/.*ERROR [0-9]+: denied call: [^,]*, GPU 0, 1 call, ([^,]*), .*/\1/p' shim.err | sort -g >found
  expect_equal denied '1.95 KiB 4.88 KiB 5.86 KiB 6.84 KiB 7.81 KiB ' "$(tr '\n' ' ' <found)"
}
add_case "suppressions deny after a scope" budgets_after_case

# A rule of before names the line, the value and what is done.
budgets_bad_case() {
  printf '%s\n' 'peak:a max_bytes=2.5' 'peak:a max_bytes=-2G' 'deny:cudaMalloc not from=rmm after=mark' 'deny:a after=3' 'deny:a after=5x' \
    >rules
  preloaded shim GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_shared"
  expect_status shim 0
  expect_text shim.err '^gpushim: rules:1: max_bytes is not a size [(]such as 20M[)]: max_bytes=2.5; ignored$'
  expect_text shim.err '^gpushim: rules:2: max_bytes is not a size [(]such as 20M[)]: max_bytes=-2G; ignored$'
  expect_text shim.err '^gpushim: rules:3: the pattern of a call has a space [(]callers are from= and not_from=[)]; ignored$'
  expect_text shim.err '^gpushim: rules:4: after is a time without a unit [(]ms, s, m or h[)]: after=3; ignored$'
  expect_text shim.err '^gpushim: rules:5: after is not a time [(]such as 30s; a scope with such a name: after=.5x[)]: after=5x; '
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, '
}
add_case "suppressions budgets without sense" budgets_bad_case

# gate_case BAD FILE LINE: a check for CI does not pass because its rule is misspelt or its file is missing: the command
# says so before the start; by the variable the process says it, and fails. Rules of another tool are no fault.
gate_case() {
  printf '%s\n' 'race:x' "$1" >rules
  preloaded shim GPUSHIM_SUPPRESSIONS="$2" GPUSHIM_ERROR_EXITCODE=7 GPUSHIM_SUPPRESSIONS_BUILTIN=off -- "$apps/peaks_linked"
  expect_status shim "${4:-7}"
  if [[ ${4:-7} == 0 ]]; then
    expect_no_text shim.err 'rules were ignored'
  else
    expect_count shim.err '^gpushim: GPUSHIM_SUPPRESSIONS: rules were ignored, so the process ends with GPUSHIM_ERROR_EXITCODE$' 1
  fi
  preloaded plain GPUSHIM_SUPPRESSIONS="$2" -- "$apps/peaks_linked"
  expect_status plain 0
  expect_no_text plain.err 'rules were ignored'
  need_file "$build/gpushim"
  run_in started -- "$build/gpushim" --suppressions="$2" touch ran
  expect_status started "$([[ ${4:-7} == 0 ]] && echo 0 || echo 2)"
  [[ ${4:-7} == 0 || ! -e ran ]] || fail "the program ran"
  [[ ${4:-7} == 0 ]] || expect_text started.err "^gpushim: --suppressions: $3\$"
  if [[ ${4:-7} != 0 ]]; then
    run_in read -- "$build/gpushim" report --suppressions="$2" none.state
    expect_status read 2
  fi
}
add_case "suppressions gate, a misspelt rule" gate_case 'paek: max_bytes=1K' rules \
  '(.*/)?rules:2: not one of leak:, free:, overrun:, arg:, peak: and deny:'
add_case "suppressions gate, a misspelt setting" gate_case 'peak: max_byte=1K' rules '(.*/)?rules:2: .*max_byte=1K'
add_case "suppressions gate, a rule without its cap" gate_case 'peak:train' rules '(.*/)?rules:2: a peak: rule needs max_bytes .*'
add_case "suppressions gate, the second file" gate_case 'deny:a after=3' /dev/null:rules '(.*/)?rules:2: after is a time without .*'
add_case "suppressions gate, no file" gate_case '' none 'cannot read (.*/)?none: no such file or directory'
add_case "suppressions gate, another tool's rules" gate_case 'deadlock:y' rules '' 0
