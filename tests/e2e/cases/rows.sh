# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# rows.sh - every row of hooks.def that the library serves or tracks, by every way of
# linking: what each call makes is named as that call's with its size, what each call ends
# has ended. A row that no program calls is a failure.

# rows_case PROGRAM keep|end WAY [PLUGIN]: the other process has no library.
rows_case() {
  local program=$apps/$1 mode=$2 arguments=("$2" "$3")
  local settings=(CUDASIM_DEVICES=2 APP_PEER_PRELOAD= GPUSHIM_LEAK_MAX=1000
    GPUSHIM_LEAK_MIN_BYTES=0)

  [[ $# -gt 3 ]] && arguments+=("$apps/$4")
  need_file "$program"
  run_in native "${settings[@]}" -- "$program" "${arguments[@]}"
  cat native.err
  expect_status native 0
  expect_quiet native
  preloaded shim "${settings[@]}" -- "$program" "${arguments[@]}"
  expect_same native shim
  expect_only_report shim.err
  case $mode-$1-$3 in
    end-* | keep-rows_dlsym-dlvsym) expect_clean shim.err ;;
    keep-rows_runtime_dlsym-*) expect_rows shim '[A-Za-z_0-9]+' ;;
    *) expect_rows shim '' ;;
  esac
}

# expect_rows PREFIX UNNAMED: one place for each line `rows: kept CALL BYTES OWNER STANDING`.
# UNNAMED: a pattern of names that are not looked at, '' for none. A runtime that is opened
# is not overridden; its calls are named by the stack, and a jump to the driver leaves none
# (names_by_stack_case).
expect_rows() {
  local bytes owner standing unnamed=${2:-no name}

  while read -r _ _ _ bytes owner standing; do
    echo "$owner $standing $(size_text "$bytes")"
  done < <(grep '^rows: kept ' "$1.out") | sed -E "s/^$unnamed /- /" | sort >wanted
  [[ $(wc -l <wanted) -ge 20 ]] || fail "the program kept next to nothing"
  awk '
    $2 == "LEAK" || $2 == "REGISTERED" {
      standing = / \(no memory of its own\)$/ ? "VIEW" : $2
      size = $4 " " $5
      getline
      sub(/,$/, "", $2)
      print $2, standing, size }' "$1.err" | sed -E "s/^$unnamed /- /" | sort >found
  expect_text "$1.err" '^==[0-9]+== SUMMARY: gpushim: 0 errors, '
  cmp -s wanted found && return
  diff -u wanted found
  fail "what each call made is not named as its own"
}

# Calls of a runtime that is opened are named by their frames, as the program has them: those
# that the simulated runtime does not make by a jump. The innermost frame is the program's.
names_by_stack_case() {
  local name

  need_file "$apps/rows_runtime_dlsym"
  preloaded shim CUDASIM_DEVICES=2 APP_PEER_PRELOAD= GPUSHIM_LEAK_MAX=1000 \
    GPUSHIM_LEAK_MIN_BYTES=0 -- "$apps/rows_runtime_dlsym" keep "$1"
  expect_status shim 0
  for name in cudaMallocMipmappedArray cudaImportExternalMemory cudaIpcOpenMemHandle \
    cudaMemPoolImportPointer cudaGraphAddMemAllocNode; do
    expect_count shim.err "^==[0-9]+==   $name, " 1
    expect_count shim.err "^==[0-9]+==     #[01] make_$name  " 1 # behind a function inlined in it
  done
  expect_no_text shim.err '^==[0-9]+==   cu[A-Za-z_0-9]*_ptsz, '
}
for way in dlsym dlvsym; do
  add_case "rows named by the stack $way" names_by_stack_case "$way"
done

for mode in keep end; do
  add_case "rows $mode linked" rows_case rows_linked "$mode" linked
  for way in dlsym dlvsym proc proc_first proc_ptsz; do
    add_case "rows $mode $way" rows_case rows_dlsym "$mode" "$way"
  done
  add_case "rows $mode plug-in" rows_case rows_dlsym "$mode" dlsym rows_plugin.so
  for way in shared static ptds; do
    add_case "rows $mode runtime $way" rows_case "rows_runtime_$way" "$mode" linked
    add_case "rows $mode runtime plug-in $way" \
      rows_case rows_dlsym "$mode" linked "rows_runtime_plugin_$way.so"
  done
  for way in dlsym dlvsym; do
    add_case "rows $mode runtime $way" rows_case rows_runtime_dlsym "$mode" "$way"
  done
done

# rows_all_case PROGRAM REGEX LEAST: the rows of hooks.def like this, LEAST at least, are in
# the program's table.
rows_all_case() {
  need_file "$apps/$1"
  "$sources/scripts/def-rows" "$sources/shim/entries/hooks.def" | grep -E "$2" |
    cut -d'|' -f2 | sort >wanted
  [[ $(wc -l <wanted) -ge $3 ]] || fail "hooks.def was not read"
  run_in list -- "$apps/$1" list
  expect_status list 0
  cut -d' ' -f1 list.out | sort >found
  comm -23 wanted found >without
  [[ -s without ]] || return 0
  cat without
  fail "a row of hooks.def has no call in ${1%_*}.def"
}
add_case "rows: every row" rows_all_case rows_dlsym \
  '\|(POOLED|TRACKED|ORDERED)\|' 38
add_case "rows: every row of the runtime" rows_all_case rows_runtime_dlsym \
  '^GS_RUNTIME\|' 30
