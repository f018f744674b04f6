# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# memory.sh - memory that the pool has no part in: physical memory, arrays, imported and
# registered memory. Each place that leaves some is named with function, file and line, with
# exact sizes and counts; what is given back leaves no trace; wrong frees get native answers.

uses leaks

# A reset takes the context's memory, and not what is no context's.
survivors_case() {
  same_as_native -- "$apps/survivors_$1"
  expect_text shim.out 'the rest came back'
  expect_planted shim.err "$sources/tests/apps/survivors.c"
  expect_count shim.err '^==[0-9]+== GPU 0 .*: 12[.]0 MiB leaked at 4 call sites \(3[.]00 MiB live at reset\), peak ' 1
}
for way in shared static linked proc; do
  add_case "memory that outlives a reset $way" survivors_case "$way"
done

# marks KIND SOURCE: "function file:line size-text count" for each marked line.
marks() {
  local function place bytes count

  awk -v file="${2##*/}" -v kind="$1:" '
    match($0, "/\\* " kind " [a-z_]+ [0-9]+ [0-9]+ \\*/") {
      split(substr($0, RSTART, RLENGTH), mark, " ")
      print mark[3], file ":" NR, mark[4], mark[5] }' "$2" |
    while read -r function place bytes count; do
      echo "$function $place $(size_text $((bytes * count))) $count"
    done
}

# places_found FILE TITLE: the same of a report's places with that title.
places_found() {
  sed 's/ in \([0-9]*\) ranges*$/ in \1 allocations/' "$1" | awk -v title="$2" '
    $2 == title { size = $4 " " $5; count = $7; waiting = 1 }
    waiting && $2 == "#0" { print $3, $4, size, count; waiting = 0 }'
}

# expect_places FILE TITLE SOURCE KIND...: exactly the marked lines are named.
expect_places() {
  local file=$1 title=$2 source=$3 kind

  shift 3
  for kind in "$@"; do
    marks "$kind" "$source"
  done | sort >wanted
  [[ -s wanted ]] || fail "nothing is marked in $source"
  places_found "$file" "$title" | sort >found
  cmp -s wanted found && return
  diff -u wanted found
  head -n 80 "$file"
  fail "places are not named as marked in ${source##*/}"
}

# run_both PROGRAM [ARGUMENT...]: without the library and with it.
run_both() {
  local program=$apps/$1

  shift
  need_file "$program"
  same_as_native -- "$program" "$@"
  expect_quiet native
  expect_only_report shim.err
}

# The one report of a run that has two processes: the other one's is clean.
parent_report() {
  local pid

  pid=$(sed -nE 's/^==([0-9]+)== LEAK 1: .*/\1/p' shim.err)
  expect_count shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 0 B leaked' 1
  grep "^==$pid==" shim.err >parent.err
}

# ---- What is left --------------------------------------------------------------------

for name in virtual arrays; do
  for way in $(ways_of $name); do
    add_case "memory $name $way" leaks_case "${name}_$way" "$name.c"
  done
done

imports_case() {
  run_both "imports_$1"
  parent_report
  expect_leaks parent.err "$sources/tests/apps/imports.c"
  expect_no_text parent.err '^==[0-9]+== GPU '
  expect_text parent.err '^==[0-9]+== Imported memory: .*peak 12[.]0 MiB'
}

# Views are named, and add nothing to what leaked.
external_case() {
  run_both "external_$1"
  expect_places shim.err LEAK "$sources/tests/apps/external.c" LEAK VIEW
  expect_count shim.err '^==[0-9]+== LEAK [0-9]+: .* \(no memory of its own\)$' 2
  expect_summary shim.err 0 1048576 3 3
  expect_no_text shim.err '^==[0-9]+== GPU '
}

# Named, and no leak: not in the sum, nor in the status.
registered_case() {
  run_both "registered_$1"
  expect_places shim.err REGISTERED "$sources/tests/apps/registered.c" REGISTERED
  expect_no_text shim.err '^==[0-9]+== (LEAK|GPU) '
  expect_summary shim.err 0 0 0 0
  preloaded coded GPUSHIM_ERROR_EXITCODE=99 -- "$apps/registered_$1"
  expect_status coded 0
}

for name in imports external registered; do
  for way in $(ways_of $name); do
    add_case "memory $name $way" "${name}_case" "$way"
  done
done

# Lost with their context, as device memory is.
arrays_reset_case() {
  run_both "arrays_$1" reset
  expect_leaks shim.err "$sources/tests/apps/arrays.c"
  expect_count shim.err ', array, GPU 0, (.*, )?live at reset$' 3
}

for way in $(ways_of arrays); do
  add_case "memory arrays reset $way" arrays_reset_case "$way"
done

# Memory that only a binding to a multicast object reaches.
bound_case() {
  export CUDASIM_DEVICES=2
  run_both virtual_linked bound
  expect_places shim.err LEAK "$sources/tests/apps/virtual.c" BOUND OBJECT
  expect_summary shim.err 0 4194304 2 2
  run_both virtual_linked shared
  expect_clean shim.err
}
add_case "memory bound to a multicast object" bound_case

# Memory of a locality domain (CUDA 13.4) is its device's, and is limited: it was taken for the host's.
domain_case() {
  export CUDASIM_DEVICES=2 CUDASIM_DRIVER_VERSION=13050
  run_in shim LD_PRELOAD="$shim" GPUSHIM_MEM_LIMIT=32M -- "$apps/virtual_$1" domain
  expect_status shim 0
  expect_text shim.out '^too much: 2$'
  expect_text shim.err 'cuMemCreate of 64.0 MiB on GPU 1 failed at GPUSHIM_MEM_LIMIT=32M,'
  expect_places shim.err LEAK "$sources/tests/apps/virtual.c" DOMAIN
  expect_count shim.err ', GPU 1, (.*, )?live at exit$' 2
  expect_summary shim.err 0 6291456 2 2
}

for way in $(ways_of virtual); do
  add_case "memory of a locality domain $way" domain_case "$way"
done

# ---- What is not ---------------------------------------------------------------------

# clean_case PROGRAM [COUNT]: COUNT reports
clean_case() {
  run_both "$1" clean
  expect_clean shim.err "${2:-1}"
}

for name in virtual arrays external registered; do
  for way in $(ways_of $name); do
    add_case "memory $name clean $way" clean_case "${name}_$way"
  done
done
for way in $(ways_of imports); do
  add_case "memory imports clean $way" clean_case "imports_$way" 2
done

# With parts of the library switched off nothing changes for the program.
# memory_off_case VARIABLE
memory_off_case() {
  local name

  for name in virtual arrays external registered imports; do
    need_file "$apps/${name}_linked"
    same_as_native "$1" -- "$apps/${name}_linked"
    [[ $1 == GPUSHIM_POOL=off ]] || expect_quiet shim
  done
}
for setting in GPUSHIM_TRACK=off GPUSHIM_ENABLE=off GPUSHIM_POOL=off; do
  add_case "memory $setting" memory_off_case "$setting"
done

# ---- Wrong frees ---------------------------------------------------------------------

# memory_wrong_case NAME WAY ERROR...: one error for each, in this order.
memory_wrong_case() {
  local program=$1_$2 number=0 text

  shift 2
  run_both "$program" errors
  for text in "$@"; do
    number=$((number + 1))
    expect_text shim.err "^==[0-9]+== ERROR $number: $text"
  done
  expect_summary shim.err "$number" 0 0 0
}

for way in linked proc; do
  add_case "memory virtual errors $way" memory_wrong_case virtual "$way" \
    'double free of handle 0x[0-9a-f]+ \(4[.]00 MiB, GPU 0, cuMemRelease\)' \
    'double free of handle 0x[0-9a-f]+ \(2[.]00 MiB, GPU 0, cuMemRelease\)' \
    'invalid free of handle 0x7654321 \(GPU 0, cuMemRelease\)'
  add_case "memory arrays errors $way" memory_wrong_case arrays "$way" \
    'double free of handle 0x[0-9a-f]+ \(16[.]0 KiB, array, GPU 0, cuArrayDestroy\)' \
    'double free of handle 0x[0-9a-f]+ \(21[.]0 KiB, array, GPU 0, cuMipmappedArrayDestroy\)'
  add_case "memory registered errors $way" memory_wrong_case registered "$way" \
    'invalid free of 0x[0-9a-f]+ \(GPU 0, cuMemHostUnregister\)' \
    'double free of 0x[0-9a-f]+ \(1[.]00 MiB, registered host memory, cuMemHostUnregister\)'
  add_case "memory external errors $way" memory_wrong_case external "$way" \
    'double free of 0x[0-9a-f]+ \(8[.]00 KiB, mapping of imported memory, GPU 0, cuMemFree' \
    'double free of handle 0x[0-9a-f]+ \(1[.]00 MiB, imported memory, GPU 0, cuDestroyExte'
done
