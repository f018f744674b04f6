# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# gpu_programs.sh - the part `programs` of scripts/gpu-check: that its list knows every program
# that is built, and what it says of programs that differ, end otherwise than the list expects,
# fill the device, are missing or forgotten, or come when the time is over; that a signal ends
# all that runs.

uses gpu_check

# programs_source: the functions of the part, for this build.
programs_source() {
  # shellcheck disable=SC2034 # the part uses them
  local PARTS=programs chosen=none

  cd "$sources" || fail "no sources"
  # shellcheck source=/dev/null
  source tests/gpu/parts/programs.sh
}

# Every program is run or left out by the list, and what the list names is there.
every_program_case() {
  local name way forgotten path

  for name in ctor_shared async_{shared,static,ptds,linked,dlsym,proc}; do
    need_file "$apps/$name"
  done
  programs_source
  forgotten=$(programs_forgotten)
  [[ $(programs_there | wc -l) -gt 200 ]] || fail "the programs were not found"
  expect_equal "programs that programs.list does not know" "" "$forgotten"
  programs_listed | cut -d' ' -f1 | sort -u >"$case_dir/listed"
  programs_there | cut -d' ' -f1 | sort -u >"$case_dir/there"
  expect_equal "programs that are in programs.list alone" "" \
    "$(comm -23 "$case_dir/listed" "$case_dir/there")"
  while read -r _ name way _; do
    built_path "$name" "$way"
    [[ -x $path ]] || fail "programs.list names $name $way"
  done < <(programs_planned)
}
add_case "gpu-check programs: the list has each" every_program_case

# Nothing that fills a device or asks for more managed memory than it has is run on a GPU.
no_filling_case() {
  programs_source
  list_lines | awk '$1 == "run" && $5 ~ /^any/' >"$case_dir/any"
  expect_count "$case_dir/any" '^run sizes ' 1
  expect_no_text "$case_dir/any" '^run (refusals |smallstacks .* all_of_it|rare .* managed)'
  expect_no_text "$case_dir/any" '^run limits .* (device|async|pitch|physical|mixed|churn)'
  expect_no_text "$case_dir/any" '^run (shortage|interim .* (oom|small)|graphmem .* (full|room))$'
  # Without arguments these fill it.
  expect_no_text "$case_dir/any" '^run (limits|interim|shortage) [^ ]+ +[0-9]+ +any[^ ]*$'
}
add_case "gpu-check programs: none fills a GPU" no_filling_case

# program NAME LINE...: a program of a build that has nothing else.
program() {
  mkdir -p build/apps
  printf '%s\n' '#!/bin/sh' "${@:2}" >"build/apps/$1"
  chmod +x "build/apps/$1"
}

# add_library: what else such a build needs.
add_library() {
  local file

  for file in gpu sim libgpushim.so; do
    need_file "$build/$file"
    ln -sfn "$build/$file" build/
  done
}

# run_listed PREFIX [VAR=value...]: the part over the programs of this case.
run_listed() {
  [[ -e build/libgpushim.so ]] || add_library
  run_in "$1" GPU_CHECK_WORK="$case_dir/work" GPU_CHECK_PROGRAMS="$case_dir/list" "${@:2}" -- \
    "$sources/scripts/gpu-check" --build "$case_dir/build" --simulated --part programs
}

# expect_row NAME ROW WORDS: one row, with these words.
expect_program() {
  grep -F "\"question\":\"$1\",\"row\":\"$2\"," work/programs.rows >row
  cat row
  expect_count row . 1
  grep -qE "$3" row || fail "the row of $1 $2 is not as it should be"
}

judged_case() {
  # shellcheck disable=SC2016 # for the programs
  {
    program right_shared 'echo "right $*"'
    program right_linked 'echo linked'
    program ends 'echo wrong arguments >&2' 'exit 3'
    program nine 'echo nine' 'exit 9'
    program differs_shared 'echo "${#LD_PRELOAD}"'
    program late 'echo late' 'exit ${LD_PRELOAD:+4}'
    program told_shared 'echo "$TOLD"'
    program writes 'echo "${LD_PRELOAD:-nothing}" >"$1"'
    program clock 'date +%N'
    program once 'if [ -e "$1" ]; then echo two; else echo one >"$1"; echo one; fi'
    program beside 'echo x >>"$1"' '[ "$(wc -l <"$1")" -gt 2 ] || exit 3' 'echo alone'
  }
  program forgotten_linked 'echo forgotten'
  program away 'echo away'
  : >build/apps/libright.so.9
  chmod +x build/apps/libright.so.9
  printf '%s\n' '# a comment' 'run right all 0 any' 'run right shared 0 any,alone one {apps}/two' \
    'run ends - 0 any' 'run nine - 9 any' 'run differs shared 0 any' 'run late - 0 any' \
    'run told shared 0 any TOLD=yes' 'run writes - 0 any {file}' 'run clock - 0 any' \
    "run once - 0 any $case_dir/ran" "run beside - 0 any $case_dir/lines" 'run missing linked 0 any' 'leave away - for a reason' >list
  run_listed check
  expect_status check 1
  expect_program right shared '"measured".*"verdict":"same","native_status":0,"shim_status":0'
  expect_program right linked '"verdict":"same"'
  expect_program right "shared one two" '"verdict":"same"'
  grep -q "^right one $case_dir/build/apps/two$" work/run/right:shared:one_two.shim.out ||
    fail "other arguments"
  expect_program nine - '"verdict":"same","native_status":9,"shim_status":9'
  expect_program told shared '"verdict":"same"'
  grep -qx yes work/run/told:shared:.native.out || fail "the setting was not made"
  expect_program ends - '"verdict":"wrong status".*both end with 3, not 0: wrong arguments'
  expect_program differs shared '"verdict":"DIFFERENT"'
  expect_program late - '"verdict":"DIFFERENT","native_status":0,"shim_status":4'
  expect_program writes - '"verdict":"DIFFERENT".*stdout: < nothing'
  expect_program clock - '"verdict":"unsteady"'
  expect_program once "- $case_dir/ran" '"verdict":"same"' # alone, after others
  expect_program beside "- $case_dir/lines" '"verdict":"same","native_status":0' # likewise
  expect_program missing linked '"not run".*it was not built'
  expect_program forgotten linked '"not run".*neither run nor left out by programs.list'
  expect_no_text work/programs.rows '"question":"(away|libright)'
  expect_text check.out '^simulated .*right 3 ~[0-9]+/[0-9]+ '
  expect_text check.out '^simulated .*nine 1 ~[0-9]+/[0-9]+\(9\)'
  expect_text check.out '^simulated ends - +wrong status: both end with 3, not 0'
  expect_text check.out '^simulated in no list +forgotten linked$'
  # Without those that are not right there is nothing to complain of.
  rm build/apps/forgotten_linked ran
  sed -i -E 's/^run ((ends|differs|late|writes|clock|missing) .*)/leave \1/' list
  run_listed right
  expect_status right 0
}
add_case "gpu-check programs: what they show" judged_case

# On a GPU, runs are measured alone as far as the time goes; their rows are kept where it does not.
on_gpu_case() {
  local seconds runs

  program quick_shared 'sleep 0.6' 'echo quick'
  echo 'run quick all 0 any' >list
  add_library
  a_gpu
  while read -r seconds runs; do
    run_in check LD_LIBRARY_PATH="$case_dir/driver" GPU_CHECK_WORK="$case_dir/work" \
      GPU_CHECK_PROGRAMS="$case_dir/list" GPU_CHECK_SECONDS="$seconds" -- \
      "$sources/scripts/gpu-check" --build "$case_dir/build" --gpu --part programs
    expect_status check 0
    expect_program quick shared "\"verdict\":\"same\".*\"runs\":$runs,.*\"simulated\":false"
    expect_text check.out '^gpu +quick 1 ~?[0-9]+/[0-9]+'
  done <<'END'
12 0
60 3
END
}
add_case "gpu-check programs: on a GPU" on_gpu_case

# What ran natively twice shows nothing: a library that ld.so does not take, from a machine with
# a newer one, say.
not_preloaded_case() {
  program right_shared 'echo right'
  echo 'run right all 0 any' >list
  add_library
  rm build/libgpushim.so
  echo 'no library' >build/libgpushim.so
  run_listed check
  expect_status check 1
  expect_program right shared '"not run".*"verdict":"cannot run".*without the library: .*ld.so'
}
add_case "gpu-check programs: the library is not taken" not_preloaded_case

# The first way of each program comes before the second of any, whatever time is left.
in_time_case() {
  program slow_shared 'sleep 9' 'echo slow'
  program slow_linked 'echo slow'
  program quick_shared 'echo quick'
  printf '%s\n' 'run slow all 0 any' 'run quick shared 0 any' >list
  run_listed check GPU_CHECK_SECONDS=14
  expect_status check 1
  expect_program quick shared '"verdict":"same"'
  expect_program slow linked '"not run".*the time is over'
  expect_text check.out '^simulated no time for +slow:linked:$'
}
add_long_case "gpu-check programs: the time is over" in_time_case

# Nothing outlives it, and what was found is there.
interrupted_programs_case() {
  local waited

  program quick_shared 'echo quick'
  # shellcheck disable=SC2016 # for the program
  program slow_linked 'echo $$ >"$1"' 'exec sleep 60'
  program quick_linked 'echo quick'
  printf '%s\n' 'run quick all 0 any' "run slow linked,proc 0 any $case_dir/pid" >list
  cp build/apps/slow_linked build/apps/slow_proc
  cp build/apps/quick_linked build/apps/slow_linked
  add_library
  interrupt_check "$case_dir/pid" GPU_CHECK_PROGRAMS="$case_dir/list" -- \
    --build "$case_dir/build" --part programs
  expect_program quick shared '"verdict":"same"'
  expect_text check.out '^-- programs: interrupted$'
  for ((waited = 0; waited < 50; waited++)); do
    kill -0 "$(<pid)" 2>/dev/null || return 0
    sleep 0.1
  done
  fail "the slow one still runs"
}
add_case "gpu-check programs: interrupted" interrupted_programs_case

# kept_so_far TEXT FILE: waits until the result that is kept has that text; ends the run that has
# left its number in run_pid, and fails, where it does not come.
kept_so_far() {
  await 60 grep -qsE -- "$1" "$2" && return
  kill -TERM "$run_pid"
  wait "$run_pid"
  cat out/gpu-check.{json,txt}
  fail "$2 never has $1"
}

# Rows and lines of what ran are in the result before the turn that they belong to is over; what
# differs beside others is not settled then. What is found so stays when a signal ends the run.
kept_programs_case() {
  local run_pid

  program quick_shared 'echo quick'
  # shellcheck disable=SC2016 # for the program
  program differs_shared 'echo "${#LD_PRELOAD}"'
  program slow_shared 'exec sleep 60'
  printf '%s\n' 'run quick shared 0 any' 'run differs shared 0 any' 'run slow shared 0 any' >list
  add_library
  env GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" GPU_CHECK_KEEP=1 \
    GPU_CHECK_PROGRAMS="$case_dir/list" "$sources/scripts/gpu-check" --simulated \
    --build "$case_dir/build" --part programs >check.out 2>check.err &
  run_pid=$!
  kept_so_far '"question":"quick","row":"shared","status":"measured".*"verdict":"same"' \
    out/gpu-check.json
  kept_so_far '"question":"differs",.*"note":"not settled yet: ' out/gpu-check.json
  kept_so_far '^simulated quick 1 ~[0-9]+/[0-9]+' out/gpu-check.txt
  kept_so_far '^simulated differs shared +DIFFERENT: ' out/gpu-check.txt
  expect_text out/gpu-check.txt '^-- programs: interrupted$'
  expect_no_text work/programs.rows quick # the turn is not over
  python3 -S -c 'import json; json.load(open("out/gpu-check.json"))' || fail "the JSON is not whole"
  kill -TERM "$run_pid"
  wait "$run_pid"
  expect_equal "status" 143 $?
  expect_program quick shared '"verdict":"same"'
  expect_count check.out '^simulated quick 1 ~' 1
  expect_count out/gpu-check.json '"question":"quick"' 1
  expect_no_text check.err 'line [0-9]+'
}
add_case "gpu-check programs: kept in time" kept_programs_case

# Times that were measured alone are in the result before all rounds are over.
kept_times_case() {
  local run_pid

  program quick_shared 'echo quick'
  # The fifth run, which is the second round's first, does not end.
  # shellcheck disable=SC2016 # for the program
  program slow_shared 'echo x >>"$1"' '[ "$(wc -l <"$1")" -lt 5 ] || exec sleep 60' 'echo slow'
  printf '%s\n' 'run quick shared 0 any' "run slow shared 0 any $case_dir/lines" >list
  add_library
  a_gpu
  env LD_LIBRARY_PATH="$case_dir/driver" GPU_CHECK_WORK="$case_dir/work" OUT="$case_dir/out" \
    GPU_CHECK_KEEP=1 GPU_CHECK_PROGRAMS="$case_dir/list" "$sources/scripts/gpu-check" --gpu \
    --build "$case_dir/build" --part programs >check.out 2>check.err &
  run_pid=$!
  kept_so_far '"question":"quick",.*"runs":[12],' out/gpu-check.json
  kept_so_far '^gpu +quick 1 [0-9]+/[0-9]+' out/gpu-check.txt
  kill -TERM "$run_pid"
  wait "$run_pid"
  expect_equal "status" 143 $?
  expect_program quick shared '"verdict":"same".*"runs":[12],'
}
add_case "gpu-check programs: times kept in time" kept_times_case

# The parts are read into one shell: a second function of a name takes the first one's place.
one_name_case() {
  expect_equal "functions that two files have" "" "$(grep -hoE '^[a-z_]+\(\)' "$sources"/tests/gpu/parts/*.sh \
    "$sources/scripts/gpu-check" | sort | uniq -d)"
}
add_case "gpu-check: no function twice" one_name_case
