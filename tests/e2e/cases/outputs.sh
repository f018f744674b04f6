# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# outputs.sh - the report as files (GPUSHIM_OUTPUT): each says what the program did, to the
# byte, and is read by a program that is not ours; and no file, however impossible, changes
# anything for the program.

report_json=$here/report_json.py

# json_get FILE NAME...: a member of a JSON file.
json_get() {
  need python3
  python3 -S "$report_json" get "$@" || fail "$1: no $2"
}

# expect_valid FILE: JSON as the schema has it. Without a validator only that it is JSON.
expect_valid() {
  need python3
  python3 -S "$report_json" validate "$sources/docs/schema/report-1.json" "$1" >problems
  case $? in
    0) ;;
    77) skip "python3's jsonschema" ;;
    *) cat problems && fail "$1 is not as docs/schema/report-1.json has it" ;;
  esac
}

schema_case() {
  need python3
  python3 -S "$report_json" schema "$sources/docs/schema/report-1.json" >problems 2>&1
  case $? in
    0) ;;
    77) skip "python3's jsonschema" ;;
    *) cat problems && fail "docs/schema/report-1.json is no schema" ;;
  esac
}
add_case "outputs json has a schema" schema_case

# expect_found REASON: the lines of the files `wanted` and `found` are the same.
expect_found() {
  [[ -s wanted ]] || fail "nothing is wanted"
  cmp -s wanted found && return
  diff -u wanted found
  fail "$1"
}

# expect_nothing_left: no file that was written beside another is still there.
expect_nothing_left() {
  local left

  left=$(find . -name '.gpushim*')
  [[ -z $left ]] || fail "left behind: $left"
}

# ---- JSON ----------------------------------------------------------------------------

# outputs_json_case WAY: all that is marked in the source, and nothing else.
outputs_json_case() {
  need python3
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json -- "$apps/leaky_$1"
  expect_status shim 0
  expect_text shim.err "^==[0-9]+== files written: $PWD/report[.]json\$"
  expect_valid report.json
  leak_marks "$sources/tests/apps/leaky.c" |
    awk '{ print $1, $2, $3 * $4, $4 }' | sort >wanted
  python3 -S "$report_json" leaks report.json | cut -d' ' -f1-4 | sort >found
  expect_found "leaks are not as marked"
  expect_equal "leaked bytes" 29884416 "$(json_get report.json summary leaked_bytes)"
  expect_equal "leaked count" 7 "$(json_get report.json summary leaked_count)"
  expect_equal "allocations" 210 "$(json_get report.json devices 0 totals allocs)"
  expect_equal "frees" 204 "$(json_get report.json devices 0 totals frees)"
  expect_equal "requests of the pool" 196 "$(json_get report.json devices 0 pool allocs)"
  expect_equal "exit status" 0 "$(json_get report.json process exit_status)"
  expect_equal "the pool's moment" null "$(json_get report.json devices 0 pool_as_of_ns)"
  expect_equal "the program" "\"$(realpath "$apps/leaky_$1")\"" \
    "$(json_get report.json process program)"
  expect_equal "a setting" '"json"' "$(json_get report.json options GPUSHIM_OUTPUT)"
  expect_nothing_left
}
for way in $(ways_of leaky); do
  add_case "outputs json $way" outputs_json_case "$way"
done

# What gpushim --summary shows of the process is in the file, too.
outputs_summary_case() {
  local peak allocs

  need_file "$build/gpushim"
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json GPUSHIM_STATE_FILE=state -- \
    "$apps/$1"
  expect_valid r.json
  run_in found -- "$build/gpushim" report --summary state
  expect_status found 0
  read -r peak allocs < <(sed -nE 's/^gpushim: +[0-9]+ +- +([0-9.]+ [KMGi]*B) +[0-9.]+ [KMGi]*B +([0-9,]+) .*/\1 \2/p' \
    found.out | tr -d , | awk '{ print $1 "_" $2, $3 }')
  [[ -n $allocs ]] || { cat found.out && fail "no line of a process"; }
  expect_equal "allocations" "$allocs" "$(json_get r.json summary allocs)"
  # Three digits of it; which way a tie is rounded is the text's own.
  awk -v text="${peak/_/ }" -v bytes="$(json_get r.json summary peak_bytes)" 'BEGIN {
    split(text, part, " ")
    unit = index("B  KiBMiBGiBTiB", part[2])
    for (shown = part[1]; unit > 1; unit -= 3) shown *= 1024
    exit !(shown >= bytes * 0.994 && shown <= bytes * 1.006)
  }' || fail "peak: ${peak/_/ }, and $(json_get r.json summary peak_bytes) bytes"
}
for program in leaky_shared registered_linked managed_shared; do
  add_case "outputs have the summary's figures $program" outputs_summary_case "$program"
done

# The report's text is the same with and without files, but for the line that names them.
outputs_text_case() {
  local setting

  for setting in "" json,pprof,collapsed,csv,openmetrics; do
    preloaded "shim$setting" GPUSHIM_OUTPUT="$setting" -- "$apps/leaky_shared"
    grep -vE 'files written|gpushim [0-9.]+:| at [0-9.]+ [mu]?s' "shim$setting.err" |
      sed -E 's/^==[0-9]+==//; s/, (age|oldest) [0-9a-z. ]+(, newest [0-9a-z. ]+)?//' >"text$setting"
  done
  cmp -s text textjson,pprof,collapsed,csv,openmetrics && return
  diff -u text textjson,pprof,collapsed,csv,openmetrics
  fail "files change the report"
}
add_case "outputs leave the report as it is" outputs_text_case

outputs_errors_case() {
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r -- "$apps/badfree_$1"
  expect_valid r
  expect_equal "errors" "$(grep -cE '^==[0-9]+== ERROR ' shim.err)" \
    "$(json_get r summary errors)"
  expect_equal "the first" '"double free"' "$(json_get r errors 0 error)"
  expect_equal "its use" null "$(json_get r errors 0 use)"
  expect_equal "its line" "$(sed -nE '0,/#0 free_twice/s/.*badfree[.]c:([0-9]+)$/\1/p' shim.err |
    head -n 1)" "$(json_get r frames "$(json_get r errors 0 stack 0)" line)"
}
for way in shared linked; do
  add_case "outputs json of errors $way" outputs_errors_case "$way"
done

# All places, whatever the report's text leaves out.
outputs_all_case() {
  preloaded shim GPUSHIM_OUTPUT=json,collapsed GPUSHIM_LEAK_MAX=1 GPUSHIM_REPORT_ON=oom \
    GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_shared"
  expect_no_text shim.err 'LEAK'
  expect_valid r.json
  expect_equal "places" 5 "$(python3 -S "$report_json" leaks r.json | wc -l)"
  expect_equal "lines" 5 "$(wc -l <r.collapsed)"
}
add_case "outputs have all places" outputs_all_case

# Without symbols what is recorded is enough to find the line later.
outputs_stripped_case() {
  local path id offset begin address

  need python3
  need strip
  need addr2line
  need readelf
  strip -o leaky "$apps/leaky_linked"
  preloaded shim GPUSHIM_OUTPUT=json,pprof GPUSHIM_OUTPUT_FILE=r -- "$PWD/leaky"
  expect_valid r.json
  python3 -S "$report_json" frames r.json >innermost
  expect_equal "places" 5 "$(wc -l <innermost)"
  while read -r path id offset; do
    expect_equal "path" "$PWD/leaky" "$path"
    expect_equal "build id" "$(readelf -n leaky | sed -n 's/.*Build ID: //p')" "$id"
    addr2line -e "$apps/leaky_linked" "$offset" | sed 's/.*\///; s/ .*//'
  done <innermost | sort >found
  leak_marks "$sources/tests/apps/leaky.c" | cut -d' ' -f2 | sort >wanted
  expect_found "offsets do not lead to the lines"
  [[ -n $(profile_reader) ]] || return 0
  read_profile -raw r.pb >raw
  expect_text raw "^1: .* $PWD/leaky $(readelf -n leaky | sed -n 's/.*Build ID: //p')"
  # Addresses of a profile are where the module was mapped.
  begin=$(sed -nE 's/^1: (0x[0-9a-f]+)\/.*/\1/p' raw)
  sed -nE 's/^ +[0-9]+: (0x[0-9a-f]+) M=1 .*/\1/p' raw | while read -r address; do
    addr2line -e "$apps/leaky_linked" "$(printf '%x' $((address - begin)))" | sed 's/.*\///; s/ .*//'
  done | sort -u >found
  comm -23 wanted found >missing
  [[ ! -s missing ]] || { cat raw missing && fail "addresses do not lead to the lines"; }
}
add_case "outputs without symbols" outputs_stripped_case

# ---- collapsed stacks ----------------------------------------------------------------

# leak_places: from marks, the lines of collapsed stacks.
leak_places() {
  leak_marks "$sources/tests/apps/leaky.c" | awk '
    $1 == "stage_input" { place = "pinned host memory" }
    $1 == "share_state" { place = "managed memory, GPU 0" }
    $1 != "stage_input" && $1 != "share_state" { place = "GPU 0" }
    { print place ";main;" $1, $3 * $4 }' | sort
}

# outputs_collapsed_case WAY
outputs_collapsed_case() {
  preloaded shim GPUSHIM_OUTPUT=collapsed GPUSHIM_OUTPUT_FILE=stacks -- "$apps/leaky_$1"
  expect_status shim 0
  leak_places >wanted
  sort stacks >found
  expect_found "stacks are not as marked"
}
for way in $(ways_of leaky); do
  add_case "outputs collapsed $way" outputs_collapsed_case "$way"
done

# outputs_collapsed_others_case WAY: the peak's file adds up to each peak. The total's has work, which leaks
# nothing.
outputs_collapsed_others_case() {
  preloaded shim GPUSHIM_OUTPUT=collapsed-peak,json,collapsed-total GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_$1"
  expect_status shim 0
  expect_text shim.err "files written: $PWD/r.json, $PWD/r.collapsed-peak, $PWD/r.collapsed-total\$"
  expect_equal "GPU's peak" "$(json_get r.json devices 0 totals peak_bytes)" \
    "$(awk '/GPU 0;/ { sum += $NF } END { print sum }' r.collapsed-peak)"
  expect_equal "pinned memory's peak" "$(json_get r.json pinned_host totals peak_bytes)" \
    "$(awk '/^pinned host memory;/ { sum += $NF } END { print sum }' r.collapsed-peak)"
  expect_text r.collapsed-peak '^GPU 0;main;load_weights 25165824$'
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $1, $3 * $4 }' | sort >wanted
  awk '$NF > 0 && !/;work/ { sub(/.*;/, ""); print }' r.collapsed-total | sort >found
  expect_found "not all that was allocated"
  expect_equal "memory of work" 75608064 "$(awk '/^GPU 0;main;work/ { sum += $NF } END { print sum }' r.collapsed-total)"
}
for way in $(ways_of leaky); do
  add_case "outputs collapsed of the peak and the total $way" outputs_collapsed_others_case "$way"
done

# The program as such, or as Debian's libdevel-nytprof-perl has it.
outputs_flamegraph_case() {
  local PATH=$PATH:/usr/share/perl5/Devel/NYTProf

  need flamegraph.pl
  preloaded shim GPUSHIM_OUTPUT=collapsed GPUSHIM_OUTPUT_FILE=stacks -- "$apps/leaky_static"
  flamegraph.pl --countname=bytes stacks >graph.svg 2>complaints || fail "flamegraph.pl failed"
  [[ ! -s complaints ]] || { cat complaints && fail "flamegraph.pl complains"; }
  expect_text graph.svg '<title>all \(29,884,416 bytes, 100%\)</title>'
  expect_text graph.svg '<title>GPU 0 \(29,097,984 bytes, 97[.]37%\)</title>'
  expect_text graph.svg '<title>load_weights \(25,165,824 bytes, 84[.]21%\)</title>'
  expect_text graph.svg '<title>stage_input \(262,144 bytes, 0[.]88%\)</title>'
}
add_case "outputs read by flamegraph.pl" outputs_flamegraph_case

# ---- pprof ---------------------------------------------------------------------------

# profile_reader: the command that reads profiles here; nothing where there is none.
profile_reader() {
  if command -v pprof >/dev/null; then
    echo pprof
  elif command -v go >/dev/null && go tool pprof -h 2>&1 | grep -q 'pprof <format>'; then
    echo go tool pprof
  fi
}

# read_profile OPTION... FILE
read_profile() {
  local reader

  read -ra reader < <(profile_reader)
  [[ ${#reader[@]} -gt 0 ]] || skip "pprof"
  PPROF_TMPDIR=$PWD "${reader[@]}" -symbolize=none "$@" 2>complaints ||
    { cat complaints && fail "pprof cannot read it"; }
}

# expect_sums SAMPLE FILE FUNCTION...: what pprof says that each function has, itself.
expect_sums() {
  read_profile -top -nodecount=100 -nodefraction=0 -unit="$2" -sample_index="$1" r.pb >top
  awk '/flat%/ { on = 1; next } on && $1 + 0 > 0 { print $NF, $1 + 0 }' top | sort >found
  expect_found "$1 is not as it should be"
}

# outputs_pprof_case WAY
outputs_pprof_case() {
  local program=$apps/leaky_$1

  [[ -n $(profile_reader) ]] || skip "pprof"
  need readelf
  preloaded shim GPUSHIM_OUTPUT=pprof,csv GPUSHIM_OUTPUT_FILE=r -- "$program"
  expect_status shim 0
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $1, $3 * $4 }' | sort >wanted
  expect_sums inuse_space B
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $1, $4 }' | sort >wanted
  expect_sums inuse_objects count
  csv_rows r.csv peak_bytes function | awk '{ sub(/[.].*/, "", $2); sum[$2] += $1 } END { for (f in sum) if (sum[f]) print f, sum[f] }' |
    sort >wanted
  read_profile -top -nodecount=100 -nodefraction=0 -unit=B -sample_index=peak_space r.pb |
    awk '/flat%/ { on = 1; next } on && $1 + 0 > 0 { sub(/[.].*/, "", $6); print $6, $1 + 0 }' | sort >found
  expect_found "peak_space"
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print $1, $4 }' | sort >wanted
  # work, three times 64 rounds, allocates in each one block, and in every 16th two more.
  echo "work $((3 * (64 + 4 + 4)))" >>wanted
  sort -o wanted wanted
  read_profile -top -nodecount=100 -nodefraction=0 -sample_index=alloc_objects r.pb |
    awk '/flat%/ { on = 1; next } on && $1 + 0 > 0 { sub(/[.].*/, "", $6); print $6, $1 + 0 }' |
    sort >found
  expect_found "alloc_objects"
  read_profile -raw r.pb >raw
  expect_text raw "^1: .* $(realpath "$program") $(readelf -n "$program" |
    sed -n 's/.*Build ID: //p')"
  expect_text raw ' load_weights .*leaky[.]c:39 '
  read_profile -tags r.pb >tags
  expect_text tags ' 28[.]2MB .*: 0$'
  expect_text tags ': (cudaMallocAsync|cuMemAllocAsync)'
  expect_text tags ': stream-ordered$'
  expect_text tags ': 0x[0-9a-f]+$'
}
for way in $(ways_of leaky); do
  add_case "outputs pprof $way" outputs_pprof_case "$way"
done

# The fault: a library is taken for the program, whose frames are all Python's; <module> and <lambda> are demangled.
outputs_pprof_python_case() {
  [[ -n $(profile_reader) ]] || skip "pprof"
  need python3
  need_file "$cuda_path/libcudart.so.13"
  cat >place.py <<'EOF'
import ctypes
cuda = ctypes.CDLL("libcudart.so.13")
alloc = lambda size: cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))
def load():
    alloc(4096)
load()
EOF
  preloaded shim GPUSHIM_OUTPUT=pprof GPUSHIM_OUTPUT_FILE=r.pb -- python3 -SB place.py
  expect_status shim 0
  read_profile -top -nodefraction=0 r.pb >top
  expect_text top "^File: $(basename "$(python3 -S -c 'import os, sys; print(os.path.realpath(sys.executable))')")\$"
  awk '/flat%/ { on = 1; next } on { print $NF }' top | sort | tr '\n' ' ' >found
  expect_equal functions '<lambda> <module> load ' "$(<found)"
}
add_case "outputs pprof of Python" outputs_pprof_python_case

# ---- CSV -----------------------------------------------------------------------------

# csv_rows FILE COLUMN...: these fields of each row, as Python's reader has them.
csv_rows() {
  need python3
  python3 -S -c '
import csv
import sys

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    reader = csv.DictReader(file, strict=True)
    for row in reader:
        if None in row or None in row.values():
            sys.exit("line %d: %s" % (reader.line_num, row))
        print(*[row[name] for name in sys.argv[2:]])
' "$@" || fail "$1 cannot be read"
}

# outputs_csv_case WAY: a row for each call site, with what it leaked, had and allocated in all.
outputs_csv_case() {
  preloaded shim GPUSHIM_OUTPUT=csv,json GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_$1"
  expect_status shim 0
  leak_marks "$sources/tests/apps/leaky.c" | awk '{ print "main;" $1, $1, $2, $3 * $4, $4, $3 * $4, $4 }' | sort >wanted
  csv_rows r.csv stack function file line leaked_bytes leaked_count live_bytes live_count |
    awk '$6 > 0 { sub(/.*\//, "", $3); print $1, $2, $3 ":" $4, $5, $6, $7, $8 }' | sort >found
  expect_found "leaks are not as marked"
  csv_rows r.csv device kind owner function | sed -n 's/ stage_input$//p' >found
  expect_equal "pinned memory" " pinned leaky_$1" "$(<found)"
  expect_equal "allocations" "$(json_get r.json summary allocs)" \
    "$(csv_rows r.csv total_count | awk '{ sum += $1 } END { print sum }')"
  expect_equal "peak" "$(json_get r.json devices 0 totals peak_bytes)" \
    "$(csv_rows r.csv peak_bytes device | awk '$2 == "0" { sum += $1 } END { print sum }')"
  expect_equal "rows of work" 0 "$(csv_rows r.csv live_count function | awk '/ work/ { sum += $1 } END { print sum + 0 }')"
}
for way in $(ways_of leaky); do
  add_case "outputs csv $way" outputs_csv_case "$way"
done

# Memory of every kind counts in all that was allocated. Alone sees a kind count what is live as all that it ever was.
outputs_csv_kinds_case() {
  need_file "$apps/$1"
  preloaded shim GPUSHIM_OUTPUT=csv,json GPUSHIM_OUTPUT_FILE=r -- "$apps/$1"
  expect_equal "allocations" "$(json_get r.json summary allocs)" \
    "$(csv_rows r.csv total_count | awk '{ sum += $1 } END { print sum }')"
  csv_rows r.csv total_bytes function peak_bytes | awk 'NF > 2 && $1 < $3' >excess
  [[ ! -s excess ]] || fail "more at the peak than in all: $(<excess)"
  csv_rows r.csv kind peak_bytes | awk '/^(registered|imported)/ && NF > 1' >excess
  [[ ! -s excess ]] || fail "a peak that nobody knows: $(<excess)"
}
for program in registered_linked virtual_linked vmm_linked graphmem_linked arrays_linked imports_linked external_linked; do
  add_case "outputs csv of ${program%_*}" outputs_csv_kinds_case "$program"
done

# Of a state file neither the peak nor all that was allocated is known, which is no 0.
outputs_csv_state_case() {
  preloaded shim GPUSHIM_STATE_FILE=state -- "$apps/leaky_$1"
  run_in report GPUSHIM_OUTPUT=csv GPUSHIM_OUTPUT_FILE=r.csv -- "$build/gpushim" report state
  csv_rows r.csv leaked_bytes peak_bytes peak_count total_bytes total_count | sort -n | tail -1 >found
  expect_equal "the largest leak" '25165824    ' "$(<found)"
}
add_case "outputs csv of a state file" outputs_csv_state_case shared

# Names with all that a table could trip over.
outputs_csv_names_case() {
  local name=$'a,"b"\n\xff;c'

  cp "$apps/leaky_linked" "./$name"
  preloaded shim GPUSHIM_OUTPUT=csv GPUSHIM_OUTPUT_FILE=r.csv GPUSHIM_SYMBOLIZE=off -- "$PWD/$name"
  expect_equal "owners" $'a,"b"?\xef\xbf\xbd;c' "$(csv_rows r.csv owner | sort -u)"
  expect_equal "lines" "$(wc -l <r.csv)" $(($(csv_rows r.csv line | wc -l) + 1))
}
add_case "outputs csv of a hostile name" outputs_csv_names_case

# A clean run has files, too; nothing is in use, and all that was allocated is counted.
outputs_clean_case() {
  preloaded shim GPUSHIM_OUTPUT=json,pprof,collapsed,csv,openmetrics GPUSHIM_OUTPUT_FILE=r -- \
    "$apps/levels_linked"
  expect_equal "lines" 3 "$(wc -l <shim.err)"
  expect_text shim.err "files written: $PWD/r.json, $PWD/r.pb, $PWD/r.collapsed, $PWD/r.csv, $PWD/r.openmetrics\$"
  expect_equal "leaks" 0 "$(csv_rows r.csv leaked_count | awk '{ sum += $1 } END { print sum + 0 }')"
  [[ -e r.collapsed && ! -s r.collapsed ]] || fail "r.collapsed should be there, and empty"
  expect_valid r.json
  expect_equal "leaks" '[]' "$(json_get r.json leaks)"
  [[ -n $(profile_reader) ]] || return 0
  read_profile -top -sample_index=inuse_space r.pb >top
  expect_text top 'Total samples = 0 *$'
  read_profile -top -sample_index=alloc_objects r.pb >top
  expect_text top "Total samples = $(json_get r.json devices 0 totals allocs) *\$"
}
add_case "outputs of a clean run" outputs_clean_case

# ---- names ---------------------------------------------------------------------------

outputs_names_case() {
  preloaded none -- "$apps/leaky_linked"
  expect_no_text none.err 'files written'
  [[ -z $(find . -name 'gpushim.*') ]] || fail "files nobody asked for"
  preloaded shim GPUSHIM_OUTPUT=Collapsed,jason,json,json -- "$apps/leaky_linked"
  expect_count shim.err '^gpushim: GPUSHIM_OUTPUT: "jason" is not a format \(json, pprof, collapsed, collapsed-peak, collapsed-total, csv, prometheus, openmetrics, junit, sarif, journal\); left out$' 1
  pid=$(sed -nE 's/^==([0-9]+)== SUMMARY.*/\1/p' shim.err)
  expect_text shim.err "files written: $PWD/gpushim.$pid.json, $PWD/gpushim.$pid.collapsed\$"
  [[ -s gpushim.$pid.json && -s gpushim.$pid.collapsed ]] || fail "files are missing"
  preloaded one GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=plain -- "$apps/leaky_linked"
  [[ -s plain ]] || fail "one format has the name as it is"
  preloaded two GPUSHIM_OUTPUT=json,pprof GPUSHIM_OUTPUT_FILE='%e-%q{NAME}.json' NAME=x \
    -- "$apps/leaky_linked"
  [[ -s leaky_linked-x.json && -s leaky_linked-x.json.pb ]] || fail "two formats: $(ls)"
  preloaded off GPUSHIM_OUTPUT=json GPUSHIM_TRACK=off GPUSHIM_OUTPUT_FILE=off.json -- \
    "$apps/leaky_linked"
  expect_count off.err '^gpushim: GPUSHIM_OUTPUT: nothing is written: tracking is off$' 1
  [[ ! -e off.json ]] || fail "a file without tracking"
  expect_nothing_left
}
add_case "outputs names" outputs_names_case

# What was there is replaced, in the folder that the program began in.
outputs_replace_case() {
  preloaded before GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- "$apps/leaky_linked"
  head -c 100000 /dev/zero >>r.json
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- "$apps/leaky_linked"
  expect_valid r.json
  expect_nothing_left
}
add_case "outputs replace a file" outputs_replace_case

# ---- files that cannot be ------------------------------------------------------------

# outputs_refused_case NAME REASON: nothing but one line tells of it.
outputs_refused_case() {
  mkdir folder
  echo old >precious
  ln -s precious link
  ln -s "$PWD/none" dangling # of root it is followed
  same_as_native GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$1" GPUSHIM_LEAK_MAX=0 -- "$apps/leaky_shared"
  expect_count shim.err '^gpushim: ' 1
  expect_count shim.err "^gpushim: GPUSHIM_OUTPUT=json: cannot write [^ ]*: $2; left out\$" 1
  expect_no_text shim.err 'files written'
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 28[.]5 MiB' 1
  expect_nothing_left
  expect_equal "a file" old "$(<precious)"
  [[ -L link && -L dangling && -d folder ]] || fail "what was in the way is gone"
}
long_name=$(printf 'n%.0s' {1..300})
add_case "outputs to a full device" outputs_refused_case /dev/full "no space left"
add_case "outputs to no folder" outputs_refused_case none/r.json "no such file or directory"
add_case "outputs through a file" outputs_refused_case precious/r.json "not a directory"
add_case "outputs over a folder" outputs_refused_case folder "is a directory"
add_case "outputs over a link" outputs_refused_case link "a symbolic link is in the way"
add_case "outputs over a dangling link" outputs_refused_case dangling "a symbolic link is in the way"
add_case "outputs with a long name" outputs_refused_case "$long_name" "name too long"

# outputs_log_case LOG FILE FORMATS WRITTEN: the report's own file is not replaced by one of
# these, by whatever name.
outputs_log_case() {
  preloaded shim GPUSHIM_LOG_FILE="$1" GPUSHIM_OUTPUT="$3" GPUSHIM_OUTPUT_FILE="$2" -- \
    "$apps/leaky_shared"
  expect_status shim 0
  expect_quiet shim
  expect_count "$1" '^gpushim: ' 1
  expect_text "$1" "^gpushim: GPUSHIM_OUTPUT=json: its file would be GPUSHIM_LOG_FILE; writing .*/$4\$"
  expect_text "$1" 'SUMMARY: gpushim: 0 errors, 28[.]5 MiB'
  expect_valid "$4"
}
add_case "outputs to the log" outputs_log_case same same json same.json
add_case "outputs to the log by another name" outputs_log_case same ./same json same.json
add_case "outputs to the log with an extension" \
  outputs_log_case r.json r json,collapsed r.json.json

# One of two cannot be written: the other is.
outputs_half_case() {
  mkdir r.json
  preloaded shim GPUSHIM_OUTPUT=json,collapsed GPUSHIM_OUTPUT_FILE=r -- "$apps/leaky_linked"
  expect_status shim 0
  expect_text shim.err 'GPUSHIM_OUTPUT=json: cannot write .*/r[.]json: is a directory'
  expect_text shim.err "files written: $PWD/r.collapsed\$"
  [[ -s r.collapsed ]] || fail "no r.collapsed"
}
add_case "outputs go on after a failure" outputs_half_case

# A file system that is full after the first page.
outputs_disk_case() {
  mkdir small
  unshare -m true 2>/dev/null || skip "a file system of our own"
  native native "$apps/leaky_linked"
  cat >mounted <<'END'
mount -t tmpfs -o size=4k tmpfs small || exit 77
"$@"
status=$?
ls -A small >left
exit $status
END
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$PWD/small/r.json" -- \
    unshare -m bash mounted "$apps/leaky_linked"
  [[ $(<shim.status) != 77 ]] || skip "a file system of our own"
  expect_same native shim
  expect_text shim.err 'GPUSHIM_OUTPUT=json: cannot write .*/r[.]json: no space left'
  expect_equal "left" "" "$(<left)"
}
add_case "outputs to a full disk" outputs_disk_case

# ---- how a process ends --------------------------------------------------------------

# outputs_ending_case END STATUS: the file has the leak and the status.
outputs_ending_case() {
  same_as_native GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- "$apps/oddities_static" "$1"
  expect_valid r.json
  expect_equal "status" "$(<native.status)" "$(json_get r.json process exit_status)"
  expect_equal "leaked" 131072 "$(json_get r.json summary leaked_bytes)"
}
for end in return thread quick_exit _exit _Exit pthread_exit exec; do
  add_case "outputs at the end by $end" outputs_ending_case "$end"
done

outputs_killed_case() {
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- "$apps/oddities_static" sigkill
  [[ ! -e r.json ]] || fail "a file of a process that was killed"
  expect_nothing_left
}
add_case "outputs of a killed process" outputs_killed_case

# Before an exec there is a file; afterwards nobody calls CUDA.
outputs_exec_case() {
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json -- "$apps/execs_shared" execv
  expect_valid r.json
  expect_equal "ending" '"exec /proc/self/exe"' "$(json_get r.json process ending)"
  expect_equal "status" null "$(json_get r.json process exit_status)"
  expect_equal "leaked" 131072 "$(json_get r.json summary leaked_bytes)"
}
add_case "outputs before an exec" outputs_exec_case

# Each process that used CUDA has its own file.
outputs_fork_case() {
  local pid

  need python3
  preloaded shim GPUSHIM_OUTPUT=json,pprof -- "$apps/fork_$1"
  expect_status shim 0
  sed -nE 's/^==([0-9]+)== SUMMARY: .*/\1/p' shim.err | sort -u >reporters
  [[ $(wc -l <reporters) -ge 2 ]] || fail "child and parent have not both reported"
  expect_equal "files" $((2 * $(wc -l <reporters))) "$(find . -name 'gpushim.*' | wc -l)"
  while read -r pid; do
    expect_valid "gpushim.$pid.json"
    expect_equal "pid" "$pid" "$(json_get "gpushim.$pid.json" process pid)"
  done <reporters
}
for way in shared static linked; do
  add_case "outputs of forked processes $way" outputs_fork_case "$way"
done

# ---- while the program runs ------------------------------------------------------------

# At a signal the files have what is live then, each time under a name of its own, and two of them show
# what has grown meanwhile.
outputs_signal_case() {
  local number=0 program

  # Asks for files and waits until they are there.
  ask() {
    number=$((number + 1))
    kill -USR1 "$program" || fail "the program has ended"
    while [[ ! -e run.$number.csv ]] && kill -0 "$program"; do
      sleep 0.05
    done
  }
  start_preloaded shim GPUSHIM_REPORT_ON=exit,oom,USR1 GPUSHIM_OUTPUT=json,csv GPUSHIM_OUTPUT_FILE=run \
    GPUSHIM_LEAK_MAX=0 -- "$apps/growing_$1" 30
  program=$!
  # Until the library handles SIGUSR1, number 10: the tenth bit.
  until grep -q '^SigCgt:.*[2367abef]..$' "/proc/$program/status"; do
    kill -0 "$program" || fail "ended"
  done
  ask
  until grep -q keep_session "run.$number.csv"; do
    ask
  done
  sleep 0.2
  ask
  wait "$program" || fail "status $?"
  for number in $number $((number - 1)); do
    expect_valid "run.$number.json"
    expect_equal "running $number" true "$(json_get "run.$number.json" process running)"
    expect_equal "ending $number" '"on SIGUSR1"' "$(json_get "run.$number.json" process ending)"
    expect_text "run.$number.csv" ',keep_session,'
    expect_count shim.err "^==[0-9]+== files written: $PWD/run[.]${number}[.]json, $PWD/run[.]${number}[.]csv\$" 1
  done
  expect_equal "running at the end" false "$(json_get run.json process running)"
  "$build/gpushim" diff "run.$number.json" "run.$((number + 1)).json" >grown
  expect_text grown 'keep_session'
  expect_nothing_left
}
for way in shared static linked; do
  add_case "outputs on a signal $way" outputs_signal_case "$way"
done

# Whoever reads the file finds a whole one of a running program; the last of a killed one stays.
outputs_interval_case() {
  local name program

  start_preloaded shim GPUSHIM_INTERVAL=output:"$2" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- \
    "$apps/growing_$1" 600
  program=$!
  for name in seen.0 seen.1 seen.2; do
    await 60 cp run.json "$name" 2>/dev/null || fail "no file is written"
    sleep 0.3
  done
  kill -KILL "$program"
  wait "$program"
  rm -f .gpushim* # it may have been at the next one
  for name in seen.0 seen.1 seen.2 run.json; do
    expect_valid "$name"
    expect_equal "$name: ending" '"at an interval"' "$(json_get "$name" process ending)"
  done
  [[ $(json_get seen.0 summary leaked_bytes) -lt $(json_get run.json summary leaked_bytes) ]] ||
    fail "nothing is newer in the last one"
  expect_equal "text" '' "$(<shim.err)"
  expect_equal "files" run.json "$(echo run*)"
}
for way in shared static linked; do
  add_case "outputs at intervals $way" outputs_interval_case "$way" 100ms
done
add_case "outputs as often as can be" outputs_interval_case linked 1ms

# A pipe has the last report alone; a folder that is not there is told of once; what is not a time is named.
outputs_running_names_case() {
  preloaded pipe GPUSHIM_REPORT_ON=exit,oom,USR1 GPUSHIM_LOG_FILE=asked GPUSHIM_OUTPUT=json GPUSHIM_INTERVAL=output:1ms \
    GPUSHIM_OUTPUT_FILE=/dev/stdout -- "$apps/interim_linked" usr1 asked
  expect_status pipe 0
  sed '/^interim: /d' pipe.out >one.json
  expect_valid one.json
  expect_equal "running" false "$(json_get one.json process running)"
  preloaded missing GPUSHIM_OUTPUT=json GPUSHIM_INTERVAL=output:1ms GPUSHIM_OUTPUT_FILE=missing/run.json -- \
    "$apps/growing_linked" 2
  expect_status missing 0
  expect_count missing.err '^gpushim: GPUSHIM_OUTPUT=json: cannot write .*/missing/run[.]json: ' 2
  preloaded bad GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json GPUSHIM_INTERVAL=output:often -- "$apps/pipeline_linked"
  expect_count bad.err '^gpushim: GPUSHIM_INTERVAL=output:often: ' 1
}
add_case "outputs while it runs: bad names" outputs_running_names_case

# A name that is mistyped costs no program and no source: only gpushim's own files are replaced. Before, each of these
# became JSON, metrics, rules or a page.
outputs_foreign_case() {
  local kind option

  preloaded made GPUSHIM_OUTPUT=json,csv,pprof,collapsed,prometheus,openmetrics GPUSHIM_OUTPUT_FILE=run -- "$apps/leaky_linked"
  cp "$apps/plain" program
  echo '#include <cuda.h>
int main(void) { return 0; }' >kernel.cu
  cp program program.before
  cp kernel.cu kernel.before
  for name in program kernel.cu; do
    preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=$name -- "$apps/leaky_linked"
    expect_status shim 0
    expect_count shim.err "^gpushim: GPUSHIM_OUTPUT=json: .*/$name: not written by gpushim \\(--force replaces it\\); writing .*/${name}[.][0-9]+\$" 1
    expect_valid "$(echo "$name".[0-9]*)"
    preloaded shim GPUSHIM_METRICS_FILE=$name GPUSHIM_WRITE_SUPPRESSIONS=$name -- "$apps/leaky_linked"
    expect_count shim.err "^gpushim: GPUSHIM_METRICS_FILE: cannot write .*/$name: not written by gpushim .*; left out\$" 1
    expect_count shim.err "^gpushim: GPUSHIM_WRITE_SUPPRESSIONS: cannot write .*/$name: not a file of rules; no rule is added\$" 1
    run_in page -- "$build/gpushim" html -o $name run.json
    expect_status page 2
    expect_count page.err "^gpushim: $name: not written by gpushim \\(--force replaces it\\); no HTML written\$" 1
    # Typed to the command, the name is refused before anything starts.
    for option in --metrics-file=$name "--output=json --output-file=$name"; do
      # shellcheck disable=SC2086 # words
      run_in typed GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" $option "$apps/leaky_linked"
      expect_status typed 2
      expect_equal "$option" "gpushim: ${option##* }: not written by gpushim (--force replaces it)" "$(<typed.err)"
      expect_equal "$option" '' "$(<typed.out)"
    done
    cmp "$name" "${name%.*}.before" || fail "$name was changed"
  done
  # What gpushim wrote is replaced by each kind, and all by --force.
  for kind in json csv pb collapsed prom openmetrics html; do
    run_in page -- "$build/gpushim" html -o run.html run.json
    cp "run.$kind" page
    run_in page -- "$build/gpushim" html -o page run.json
    expect_status page 0
  done
  run_in page -- "$build/gpushim" html --force -o program run.json
  expect_status page 0
  preloaded shim GPUSHIM_FORCE=on GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=kernel.cu -- "$apps/leaky_linked"
  expect_valid kernel.cu
}
add_case "outputs leave other files alone" outputs_foreign_case
