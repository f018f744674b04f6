# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# inlines.sh - functions that the compiler has inlined are frames of their own, in the text and
# in the files for machines, as a debugger shows them; the C++ library's are folded.

# at NAME: its place, as a regular expression
at() {
  grep -n "/[*] AT $1 [*]/" "$sources"/tests/apps/inlines{.cpp,_part.c} | sed -E 's|.*/([^/:]*:[0-9]+):.*|\1|; s|[.]|[.]|'
}

# inlines_run KIND [VARIABLE...]: shim.err, out.json, out.collapsed, out.pb
inlines_run() {
  local kind=$1

  shift
  need_file "$apps/inlines_$kind"
  ! nm "$apps/inlines_$kind" | grep -qE ' __(asan|tsan|ubsan|gcov)_' ||
    skip "a build without sanitizers: others are inlined"
  preloaded shim GPUSHIM_LEAK_MAX=100 GPUSHIM_OUTPUT=json,pprof,collapsed GPUSHIM_OUTPUT_FILE=out "$@" -- \
    "$apps/inlines_$kind"
  expect_status shim 0
  expect_only_report shim.err
}

# Each frame is what llvm-symbolizer says of its address. With fewer inlined ones than the
# source has, the programs would prove nothing.
inlines_compared_case() {
  need llvm-symbolizer
  need python3
  inlines_run "$1"
  python3 -S "$here/inlines.py" compare "$apps/inlines_$1" out.json shim.err >inlined ||
    fail "the report is not what llvm-symbolizer says: $(<inlined)"
  [[ $(<inlined) -ge 30 ]] || fail "only $(<inlined) inlined frames"
}
add_case "inlines compared" inlines_compared_case plain
add_case "inlines compared, LTO" inlines_compared_case lto

# More programs, compiled as their users would: each frame is what llvm-symbolizer says of its address, and
# LEAST of them are inlined.
# inlines_program_case FILE LEAST
inlines_program_case() {
  local file=$sources/tests/apps/inlines/$1 include

  need llvm-symbolizer
  need python3
  need_file "$build/sim/libcudart.so"
  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  case $1 in
  *.rs)
    need rustc
    rustc -C opt-level=2 -g -L "$build/sim" "$file" -o program || fail "rustc $1"
    ;;
  thrust.*) [[ -d $include/cccl/thrust || -d $include/thrust ]] || skip "Thrust in $include" ;;&
  *)
    need "${CXX:-c++}"
    compile=("${CXX:-c++}" -std=c++20)
    [[ $1 == *.cpp ]] || compile=("${CC:-cc}" -std=gnu11)
    "${compile[@]}" -O2 -g -isystem "$include" -isystem "$include/cccl" "$file" -o program "$build/sim/libcudart.so" \
      -pthread || fail "$1 does not compile"
    ;;
  esac
  preloaded shim GPUSHIM_LEAK_MAX=100 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=out -- ./program
  expect_status shim 0
  expect_only_report shim.err
  python3 -S "$here/inlines.py" compare program out shim.err >inlined ||
    { cat inlined && fail "the report is not what llvm-symbolizer says"; }
  echo "$(<inlined) inlined frames"
  [[ $(<inlined) -ge $2 ]] || fail "only $(<inlined) inlined frames"
}
for program in plain.c templates.cpp threads.cpp visitors.cpp owners.cpp algorithms.cpp failures.cpp coroutines.cpp \
  rust.rs thrust.cpp; do
  add_long_case "inlines compared, $program" inlines_program_case "$program" 5
done

# The program's own functions, and none of those that the C++ library puts between and around
# them.
inlines_own_case() {
  need llvm-symbolizer
  inlines_run plain
  expect_text shim.err "#1 Buffer::Buffer\\(int\\) +$(at constructor) \\(inlined\\)\$"
  expect_text shim.err "#2 make_buffer\\(int\\) +$(at buffer)\$"
  grep -A6 '#1 operator() .* (inlined)$' shim.err >lambdas
  expect_text lambdas '[.]{3} [0-9]+ frames of the C[+][+] library$'
  expect_text lambdas "#[0-9]+ call_function\\(int\\) +$(at function)\$"
  expect_no_text shim.err '#.*(__invoke|_M_invoke|_M_run|_State_impl|call_once|native_thread|start_thread)'
  expect_text shim.err "#2 take_outer +$(at outer) \\(inlined\\)\$"
  # The name of the function, whatever the arguments of its class.
  expect_text shim.err \
    "#1 Store<std::vector<std::pair<std::string, std::string> > >::put\\(int\\) +$(at put) \\(inlined\\)\$"
  expect_text out.json '"function": "Buffer::Buffer\(int\)".*"inlined": true'
  expect_text out.collapsed ';main;make_buffer\(int\);Buffer::Buffer\(int\);inlines_take 1048576$'
  expect_text out.collapsed ';main;call_function\(int\);operator\(\);inlines_take 3145728$'
}
add_case "inlines of the program" inlines_own_case

# pprof reads the lines of a location as a call of each function by the next.
inlines_pprof_case() {
  need llvm-symbolizer
  need python3
  inlines_run plain
  python3 -S "$here/inlines.py" profile out.pb >functions || fail "not a profile"
  expect_count functions '^inlines_take < take_inner < take_outer < inlines_c$' 1
  expect_count functions '^Buffer::Buffer\(int\) < make_buffer\(int\)$' 1
}
add_case "inlines in a profile" inlines_pprof_case

# The other helper has the places, too. It gives the innermost function the symbol's name where
# that has no linkage name, as of a lambda from GCC; such a name is left out.
inlines_addr2line_case() {
  need addr2line
  mkdir bin
  ln -s "$(command -v addr2line)" bin/addr2line
  inlines_run plain PATH="$case_dir/bin"
  expect_text shim.err "#1 Buffer::Buffer\\(int\\) +$(at constructor) \\(inlined\\)\$"
  expect_text shim.err "#2 make_buffer\\(int\\) +$(at buffer)\$"
  expect_text shim.err "#1 ([?][?]|.*operator\\(\\).*) +$(at lambda) \\(inlined\\)\$"
  expect_text shim.err "#[0-9]+ call_function\\(int\\) +$(at function)\$"
}
add_case "inlines by addr2line" inlines_addr2line_case

# A rule may name an inlined function, as the report shows it.
inlines_rule_case() {
  need llvm-symbolizer
  printf 'leak:^Buffer::Buffer(int)$ from=make_buffer\n' >rules
  inlines_run plain GPUSHIM_SUPPRESSIONS=rules
  expect_text shim.err 'Suppressed: 1 allocation, 1[.]00 MiB by 1 rule$'
}
add_case "inlines matched by a rule" inlines_rule_case
