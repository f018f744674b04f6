# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# paths.sh - two files of one base name, with equal functions at equal lines, are two call sites, owners and rules
# in every report, each shown by what tells it from the other; or with its whole path, where that is asked for.
uses python views

readonly PATHS=$sources/tests/apps/paths

# paths_cpp [FLAG...]: ./plug, a/libutils.so, b/libutils.so of a/utils.cpp and b/utils.cpp; sets `program`.
paths_cpp() {
  local include folder compiler=${CXX:-c++}

  need "$compiler"
  need_file "$build/sim/libcudart.so"
  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  for folder in a b; do
    mkdir -p $folder
    cp "$PATHS/utils.cpp" $folder/
    "$compiler" -O1 -g -fPIC -shared "$@" -isystem "$include" "$PWD/$folder/utils.cpp" -o $folder/libutils.so \
      "$build/sim/libcudart.so" || fail "utils.cpp is not compiled"
  done
  "$compiler" -O1 -g "$@" "$PATHS/plug.cpp" -o plug -ldl || fail "plug.cpp is not compiled"
  program=(./plug)
  files=(a/utils.cpp b/utils.cpp)
  owners=(a/libutils.so b/libutils.so)
  make_line=7 step_line=13
}

# paths_python: train.py, and the packages pa and pb; sets `program`.
paths_python() {
  find_python 3.11
  need_file "$cuda_path/libcudart.so.13"
  mkdir pa pb
  cp "$PATHS/package.py" pa/__init__.py
  cp "$PATHS/package.py" pb/__init__.py
  cp "$PATHS/train.py" .
  program=("$python" -SB train.py)
  files=(pa/__init__.py pb/__init__.py)
  owners=("${files[@]}")
  make_line=7 step_line=12
}

# run_paths PREFIX WHICH [VAR=value...]
run_paths() {
  preloaded "$1" "${@:3}" -- "${program[@]}" "$2"
  expect_status "$1" 0
}

# The text of a process, and of its state file.
paths_text_case() {
  local i text

  "paths_$1"
  run_paths shim ab GPUSHIM_STATE_FILE=state
  run_in state -- "$build/gpushim" report state
  for text in shim.err state.out; do
    for i in 0 1; do
      expect_text $text "    #0 make.* ${files[i]}:$make_line\$"
      expect_text $text "    #1 (get|step).* ${files[i]}:$step_line\$"
      expect_text $text "^==[0-9]+==   ${owners[i]} +$((i + 1))[.]00 MiB +1\$"
    done
    expect_text $text '    #2 (main|<module>) +(plug[.]cpp|train[.]py):[0-9]+$'
  done
  run_paths one b
  expect_text one.err "    #0 make.* (utils[.]cpp|__init__[.]py):$make_line\$"
  expect_text one.err '^==[0-9]+==   (libutils[.]so|__init__[.]py) '
}

# Each path can be opened.
paths_full_case() {
  local path

  "paths_$1"
  run_paths shim ab GPUSHIM_STATE_FILE=state GPUSHIM_FULL_PATHS=on
  run_in option -- "$build/gpushim" report --full-paths state
  for text in shim.err option.out; do
    expect_text $text "    #0 make.*  $PWD/${files[0]}:$make_line\$"
    expect_text $text "^==[0-9]+==   $PWD/${owners[1]} +2[.]00 MiB +1\$"
    while read -r path; do
      [[ -f $path ]] || fail "$text: $path cannot be opened"
    done < <(sed -nE 's/^==[0-9]+==     #[0-9].*  ([^ ]*):[0-9]+$/\1/p' $text)
  done
}

# A rule takes its own leak alone.
paths_rules_case() {
  local i

  "paths_$1"
  run_paths shim ab GPUSHIM_WRITE_SUPPRESSIONS=rules
  expect_equal rules 2 "$(grep -c '^leak:' rules)"
  for i in 0 1; do
    grep "^leak:.make.* file=/${files[i]}[$] from=.* file=/${files[i]}[$] max_bytes=$((i + 1))M\$" rules >one ||
      fail "no rule of ${files[i]}: $(<rules)"
    run_paths taken ab GPUSHIM_SUPPRESSIONS=one
    expect_text taken.err "^==[0-9]+== Suppressed: 1 allocation, $((i + 1))[.]00 MiB by 1 rule\$"
    expect_text taken.err " $((2 - i))[.]00 MiB leaked in 1 allocation, 1 call site\$"
  done
}

# Two processes, each of which allocates in one of the files.
paths_processes_case() {
  "paths_$1"
  run_paths a a GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=a.json
  run_paths b b GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=b.json
  run_in merge -- "$build/gpushim" merge a.json b.json
  expect_text merge.out "^1[.]00 MiB .* 1 of 2  make.* ${files[0]}:$make_line < .* ${files[0]}:$step_line, "
  expect_text merge.out "^2[.]00 MiB .* 1 of 2  make.* ${files[1]}:$make_line < .* ${files[1]}:$step_line, "
  run_in full -- "$build/gpushim" merge --full-paths a.json b.json
  expect_text full.out "  make.* $PWD/${files[0]}:$make_line < .* $PWD/${files[0]}:$step_line, "
  run_in diff -- "$build/gpushim" diff --fail-on=new a.json b.json
  expect_status diff 3
  expect_text diff.out "    #0 make.* ${files[1]}:$make_line\$"
  expect_text diff.out ': 1 new [(][+]2[.]00 MiB[)], 0 grown, 0 shrunk, 1 gone [(]-1[.]00 MiB[)], 0 unchanged$'
}

# A checkout of its own for each run is no reason for new call sites.
paths_moved_case() {
  local run

  for run in 1 2; do
    mkdir -p builds/$run
    cd builds/$run || fail "no folder"
    "paths_$1"
    cd ../..
    # shellcheck disable=SC2016  # for that shell
    preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/$run.json" -- \
      sh -c 'cd "$1" && shift && exec "$@"' sh "builds/$run" "${program[@]}" ab
    expect_status run 0
  done
  run_in diff -- "$build/gpushim" diff --fail-on=new 1.json 2.json
  expect_status diff 0
  expect_text diff.out "^Note: [0-9]+ files have moved, such as $PWD/builds/1/.* to $PWD/builds/2/"
  expect_text diff.out ': 0 new, 0 grown, 0 shrunk, 0 gone, 2 unchanged$'
}

# Other programs read the whole paths; what they read before is as it was.
paths_files_case() {
  local base

  need python3
  "paths_$1"
  run_paths shim ab GPUSHIM_OUTPUT=json,csv,prometheus GPUSHIM_OUTPUT_FILE=out
  base=${owners[0]##*/}
  python3 -S - "$PWD" "$base" "${files[@]}" "${owners[@]}" <<'PYTHON' || fail "the files are not as they should be"
import csv, json, sys
folder, base, paths = sys.argv[1], sys.argv[2], ["%s/%s" % (sys.argv[1], path) for path in sys.argv[3:]]
rows = sorted(csv.DictReader(open("out.csv")), key=lambda row: int(row["leaked_bytes"]))
assert [row["file"] for row in rows] == paths[:2], rows
assert [row["owner_path"] for row in rows] == paths[2:] and {row["owner"] for row in rows} == {base}, rows
assert all(row["places"].split(";")[-1] == "%s:%s" % (row["file"], row["line"]) for row in rows), rows
assert len({row["stack"] for row in rows}) == 1, rows
owners = sorted(json.load(open("out.json"))["owners"], key=lambda owner: owner["bytes"])
assert [owner["path"] for owner in owners] == paths[2:] and {owner["module"] for owner in owners} == {base}, owners
live = [line for line in open("out.prom") if line.startswith("gpushim_owner_live_bytes{")]
assert len(live) == 2, live
for path, size in zip(paths[2:], ("1048576", "2097152")):
    assert any('owner="%s",path="%s"} %s\n' % (base, path, size) in line for line in live), live
PYTHON
}

# The page's table of call sites.
paths_page_case() {
  "paths_$1"
  run_paths run ab GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json
  make_page run.json
  take_page run.html run.json
  show_page page
  expect_text page.out "^row: .*make.* ${files[0]}:$make_line"
  expect_text page.out "^row: .*make.* ${files[1]}:$make_line"
}

for language in cpp python; do
  add_case "paths text $language" paths_text_case $language
  add_case "paths in full $language" paths_full_case $language
  add_case "paths rules $language" paths_rules_case $language
  add_case "paths processes $language" paths_processes_case $language
  add_case "paths of a folder that moved $language" paths_moved_case $language
  add_case "paths files $language" paths_files_case $language
  add_case "paths page $language" paths_page_case $language
done

# The debug information has relative paths.
paths_relative_case() {
  paths_cpp -ffile-prefix-map="$PWD=."
  run_paths shim ab
  expect_text shim.err "    #0 make.* a/utils[.]cpp:$make_line\$"
  expect_text shim.err "    #0 make.* b/utils[.]cpp:$make_line\$"
  run_paths full a GPUSHIM_FULL_PATHS=on
  expect_text full.err "    #0 make.* [./]+/a/utils[.]cpp:$make_line\$"
}
add_case "paths relative" paths_relative_case

# A stack of an earlier sample is shown in another way once it could be taken for a new one.
paths_growth_case() {
  paths_python
  cp "$PATHS/grow.py" .
  preloaded shim GPUSHIM_INTERVAL=stats:200ms -- "$python" -SB grow.py
  expect_status shim 0
  awk '/ GROWING / { growing = 1 } / #0 make/ { if (growing) print $NF; growing = 0 }' shim.err >shown
  expect_equal "first sample" __init__.py:7 "$(head -n 1 shown)"
  tail -n 2 shown | sort | diff - <(printf '%s\n' pa/__init__.py:7 pb/__init__.py:7) || fail "the last sample: $(<shown)"
}
add_case "paths growth" paths_growth_case
