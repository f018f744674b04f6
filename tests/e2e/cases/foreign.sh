# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# foreign.sh - text from outside in what gpushim prints and writes: names of files, of a program, of
# functions, threads and ranges, values of variables. A terminal executes control characters, a line feed
# forges a line.

uses secure # expect_printable

# expect_readable FILE...: that of each, and no line that text from outside has begun.
expect_readable() {
  local file
  for file; do
    expect_printable "$file"
    ! LC_ALL=C grep -qP '\xe2(\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])' "$file" ||
      fail "text that turns its direction in $file"
    ! grep -q '^FORGED' "$file" || fail "a forged line in $file"
  done
}

odd=$'\nFORGED \033[31m\302\233x\377\342\200\256gpj'

# hostile_run: in o/, the files of a run of a program with an odd path, odd function names and an odd file name of
# its source; the program is $hostile.
hostile_run() {
  need iconv
  need_file "$build/gpushim"
  hostile="./pr$odd"
  LC_ALL=C sed -e $'s/load_weights/lo\033[31mights/g' -e $'s/leaky\\.c/lea\033y.c/g' "$apps/leaky_shared" >"$hostile"
  chmod +x "$hostile"
  mkdir o
  preloaded run GPUSHIM_OUTPUT=json,collapsed,csv,openmetrics GPUSHIM_OUTPUT_FILE=o/report GPUSHIM_STATE_FILE=o/state \
    GPUSHIM_TRACE_FILE=o/trace GPUSHIM_PEAK_MAX=3 -- "$hostile" "$odd"
}

# What the library writes about such a program.
foreign_library_case() {
  hostile_run
  expect_text run.err 'LEAK 1:'
  expect_readable run.err o/report*
}
add_case "foreign names of a program" foreign_library_case

# What the launcher prints and makes of it, and of files with such names.
foreign_launcher_case() {
  local format words name="o/n$odd"

  hostile_run
  for format in perfetto heaptrack massif; do
    run_in made -- "$build/gpushim" timeline --as="$format" -o - o/trace o/state
    expect_status made 0
    expect_readable made.out made.err
  done
  cp o/report.json "$name.json"
  cp o/trace "$name.trace"
  for words in "report o/state" "html -o - o/report.json" "merge o" "top --once o/state" "replay o/trace" "replay --json o/trace"; do
    # shellcheck disable=SC2086  # several words
    run_in made -- "$build/gpushim" $words
    expect_status made 0
    expect_readable made.out made.err
  done
  for words in merge diff html report timeline top replay advise pause; do
    run_in made -- "$build/gpushim" "$words" "$name" "$name.json"
    expect_readable made.out made.err
    run_in made -- "$build/gpushim" "$words" "$name.trace"
    expect_readable made.out made.err
    run_in made -- "$build/gpushim" "$words" "--x$odd" "$name.trace"
    expect_readable made.out made.err
  done
  run_in made -- "$build/gpushim" diff "$name.json" "$name.json"
  expect_status made 0
  expect_readable made.out
  run_in made -- "$build/gpushim" html "$name.json"
  expect_status made 0
  expect_readable made.out "$name.html"
  for words in "--pool=$odd" "--x$odd" "--as=$odd" "$odd"; do
    run_in made -- "$build/gpushim" "$words" true
    expect_readable made.out made.err
  done
  run_in made -- "$build/gpushim" --summary "$hostile"
  expect_readable made.err
}
add_case "foreign names for the launcher" foreign_launcher_case

# The line of --print is the same command for a shell.
foreign_print_case() {
  local word=$'\033[31m\377\'\\ \302\233'

  run_in made -- "$build/gpushim" --print printf %s "$word"
  expect_readable made.out
  env -u LD_PRELOAD bash -c "$(sed 's/^LD_PRELOAD=[^ ]* //' made.out)" >said
  expect_equal 'the word' "$word" "$(cat said)"
}
add_case "foreign words printed" foreign_print_case

# A folder has other files: a look at their beginning is enough. They do not fit into this much memory.
foreign_large_case() {
  local words

  report=${shim%/*}/CMakeCache.txt
  grep -q '^GPUSHIM_SANITIZE:[^=]*=.' "$report" 2>/dev/null && skip "a build without sanitizers"
  need_file "$build/gpushim"
  mkdir o
  truncate -s 4G o/checkpoint.bin
  printf '{"model": "' | dd of=o/model.json bs=1 conv=notrunc status=none
  truncate -s 4G o/model.json
  printf 'gpushim\032' >o/other.state
  truncate -s 4G o/other.state
  for words in "merge o" "merge o/checkpoint.bin" "diff o/model.json o/other.state" "html o/checkpoint.bin" \
    "html o/model.json" "report o/other.state" "report o/checkpoint.bin"; do
    run_in made -- bash -c "ulimit -v 500000; exec '$build/gpushim' $words"
    expect_status made 1
    expect_text made.err 'neither a report|not a gpushim report|not a state file|of another (build|version) of gpushim'
    ! grep -qi 'memory' made.err || fail "gpushim $words reads the file whole"
  done
}
add_case "foreign files are large" foreign_large_case
