# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# leaks.sh - what the report says of memory that was never freed: each place that leaks is
# named with function, file and line, with exact sizes and counts, and nothing else is.

# leaks_case PROGRAM SOURCE [VARIABLE...]
leaks_case() {
  local program=$apps/$1 source=$sources/tests/apps/$2

  shift 2
  need_file "$program"
  preloaded shim "$@" -- "$program"
  expect_status shim 0
  expect_leaks shim.err "$source"
}

for way in $(ways_of leaky); do
  add_case "leaks leaky $way" leaks_case "leaky_$way" leaky.c
done
for setting in GPUSHIM_POOL=off GPUSHIM_STACK=fp GPUSHIM_STACK=unwind; do
  for way in shared static linked; do
    add_case "leaks leaky $way $setting" leaks_case "leaky_$way" leaky.c "$setting"
  done
done

# The call that the program made is named, not the one that it ends in.
# leak_calls_case WAY
leak_calls_case() {
  preloaded shim GPUSHIM_PEAK_MAX=0 -- "$apps/leaky_$1"
  sed -nE 's/^==[0-9]+==   (cu[A-Za-z_0-9]+),.*/\1/p' shim.err | sort >calls
  case $1 in
    shared | static)
      printf '%s\n' cudaMalloc cudaMalloc cudaMallocAsync cudaMallocHost \
        cudaMallocManaged >wanted
      ;;
    *)
      printf '%s\n' cuMemAlloc cuMemAlloc cuMemAllocAsync cuMemAllocHost \
        cuMemAllocManaged >wanted
      ;;
  esac
  # Suffixes of the binary interface may be shown or not.
  sed -E 's/(_v[0-9]+)?(_pt[ds][sz])?$//' calls | sort | cmp -s - wanted && return
  paste calls wanted
  head -n 60 shim.err
  fail "the calls that leaked are not named"
}

for way in shared static linked proc; do
  add_case "leaks calls $way" leak_calls_case "$way"
done

# Totals stay, places do not.
leak_report_off_case() {
  preloaded shim GPUSHIM_REPORT_ON=oom -- "$apps/leaky_shared"
  expect_status shim 0
  expect_only_report shim.err
  expect_no_text shim.err '^==[0-9]+== LEAK '
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 '
}
add_case "leaks GPUSHIM_REPORT_ON=oom" leak_report_off_case

# Without stacks there are still sizes, calls and totals.
leak_stack_off_case() {
  preloaded shim GPUSHIM_STACK=off -- "$apps/leaky_static"
  expect_status shim 0
  expect_only_report shim.err
  expect_no_text shim.err '#0'
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 '
}
add_case "leaks GPUSHIM_STACK=off" leak_stack_off_case

# Fewer places written out than there are: the others are counted.
leak_max_case() {
  preloaded shim GPUSHIM_LEAK_MAX=2 -- "$apps/leaky_shared"
  expect_only_report shim.err
  expect_count shim.err '^==[0-9]+== LEAK [0-9]+: ' 2
  expect_text shim.err '^==[0-9]+== LEAK 1: 24[.]0 MiB in 1 allocation'
  expect_text shim.err '^==[0-9]+== LEAK 2: 3[.]00 MiB in 3 allocations'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 .* 5 call sites'
}
add_case "leaks GPUSHIM_LEAK_MAX=2" leak_max_case

# A copy without symbols and debug information: the module and offset are what is left.
leak_stripped_case() {
  need strip
  strip -o leaky_stripped "$apps/leaky_shared" || fail "strip"
  same_as_native -- ./leaky_stripped
  expect_only_report shim.err
  expect_text shim.err '#0 .*leaky_stripped\+0x[0-9a-f]+'
  expect_no_text shim.err 'leaky\.c:|build_index'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 '
}
add_case "leaks stripped program" leak_stripped_case

# A program without debug information: one line says how to have lines, and only if the report
# shows it.
leak_no_debug_case() {
  command -v llvm-symbolizer >/dev/null || need addr2line
  need strip
  strip --strip-debug -o leaky_plain "$apps/leaky_shared" || fail "strip"
  preloaded shim -- ./leaky_plain
  expect_status shim 0
  expect_text shim.err '#0 build_index +leaky_plain[+]0x'
  expect_count shim.err 'Note: ' 1
  expect_text shim.err 'Note: leaky_plain has no debug information: compile it with -g for file and line$'
  preloaded debug -- "$apps/leaky_shared"
  expect_no_text debug.err 'Note: '
  preloaded off GPUSHIM_SYMBOLIZE=off -- ./leaky_plain
  expect_no_text off.err 'Note: '
}
add_case "leaks of a program without debug information" leak_no_debug_case

# Paths that no question to the helper can have. Would see frames without lines, and no reason for it.
leak_odd_path_case() {
  local folder

  command -v llvm-symbolizer >/dev/null || need addr2line
  for folder in 'a"b' $'a\nb' "a'b c"; do
    mkdir "$folder"
    cp "$apps/leaky_shared" "$folder/leaky_odd"
    preloaded shim -- "./$folder/leaky_odd"
    expect_status shim 0
    if [[ $folder == *\'* ]]; then
      expect_text shim.err '#0 build_index +leaky[.]c:[0-9]+'
      expect_no_text shim.err 'Note: '
    else
      expect_text shim.err '#0 build_index +leaky_odd[+]0x'
      expect_text shim.err 'Note: no file and line of leaky_odd: its path has a quotation mark or a line break; rename it$'
    fi
  done
}
add_case "leaks of a program with an odd path" leak_odd_path_case

# No helper for lines on the path: functions from the symbol table remain.
leak_no_helper_case() {
  mkdir empty
  preloaded shim PATH="$case_dir/empty" -- "$apps/leaky_shared"
  expect_status shim 0
  expect_only_report shim.err
  expect_text shim.err '#0 build_index '
  expect_text shim.err '#0 load_weights '
}
add_case "leaks without addr2line" leak_no_helper_case

# The helper for lines: it starts once, no address is asked about twice, and none of what the report
# leaves out.
# leak_asked_case [VARIABLE...]
leak_asked_case() {
  mkdir bin
  cat >bin/llvm-symbolizer <<END
#!$BASH
echo start >>starts
while read -r line; do
  echo "\$line" >>asked
  printf 'f\na.c:1:1\n\n'
done
END
  chmod +x bin/llvm-symbolizer
  preloaded shim PATH="$case_dir/bin" "$@" -- "$apps/leaky_shared"
  expect_status shim 0
  expect_text shim.err '#0 build_index +a[.]c:1$'
  expect_equal "starts of the helper" 1 "$(wc -l <starts)"
  expect_equal "what was asked twice" '' "$(sort asked | uniq -d)"
  expect_equal "what was asked about" leaky_shared "$(sed -E 's|.*/([^/]*)".*|\1|' asked | sort -u | xargs)"
}
add_case "leaks lines of shown frames alone" leak_asked_case
add_case "leaks lines of shown frames alone, collapsed" leak_asked_case GPUSHIM_OUTPUT=collapsed
add_case "leaks lines of shown frames alone, JSON" leak_asked_case GPUSHIM_OUTPUT=json

# A plug-in that was closed: its leak is still named.
# leak_plugin_case WAY...
leak_plugin_case() {
  local way plugins=()

  for way in "$@"; do
    need_file "$apps/plugin_$way.so"
    plugins+=("$apps/plugin_$way.so")
  done
  same_as_native GPUSHIM_PEAK_MAX=0 -- "$apps/plugin" "${plugins[@]}"
  expect_quiet native
  if [[ $# -eq 1 ]]; then
    expect_leaks shim.err "$sources/tests/apps/plugin_part.c"
  else
    expect_only_report shim.err
    expect_count shim.err '#0 plugin_leak +.*plugin_part[.]c:' $#
    expect_text shim.err 'SUMMARY: gpushim: 0 errors, .* in 4 allocations, 2 call sites'
  fi
}
add_case "leaks plug-in shared" leak_plugin_case shared
add_case "leaks plug-in static" leak_plugin_case static
add_case "leaks plug-ins both" leak_plugin_case shared static

# What a reset or a destroyed context took with it is named as well.
# leak_lost_case PROGRAM SOURCE
leak_lost_case() {
  preloaded shim -- "$apps/$1"
  expect_status shim 0
  expect_only_report shim.err
  leak_marks "$sources/tests/apps/$2" >marks
  while read -r function place _; do
    expect_text shim.err "#0 $function .*$place"
  done <marks
}
for way in shared static linked; do
  add_case "leaks live at reset $way" leak_lost_case "reset_$way" reset.c
done
for way in $(ways_of context); do
  add_case "leaks lost with a context $way" leak_lost_case "context_$way" context.c
done
