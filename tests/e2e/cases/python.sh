# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# python.sh - Python's functions, files and lines in the call stacks: on every version of
# CPython that is known (docs/python.md) and installed here, exact lines for leaks at known
# places, and what Python itself says of the stack against what the report says of it, over
# random call trees.

python_sources=$sources/tests/apps/python

# What GPUSHIM_TEST_PYTHONS names, pyenv's, and the path's.
python_candidates() {
  tr ':' '\n' <<<"${GPUSHIM_TEST_PYTHONS:-}"
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3 2>/dev/null
  type -aP "python$1" python3
}

# find_python VERSION: sets python, or skips.
find_python() {
  local candidate

  while read -r candidate; do
    [[ -n $candidate ]] || continue
    [[ $("$candidate" -S -c 'import sys, ctypes; print("%d.%d" % sys.version_info[:2])' \
      2>/dev/null) == "$1" ]] || continue
    python=$candidate
    return
  done < <(python_candidates "$1")
  skip "CPython $1"
}

# python_program_case VERSION NAME: NAME.py prints NAME.txt, and the same with the library, and loses nothing.
python_program_case() {
  local command

  find_python "$1"
  command=(PYTHONPATH="$sources/include/python" -- "$python" -SB "$python_sources/$2.py")
  run_in native "${command[@]}"
  expect_status native 0
  expect_quiet native
  diff -u "$python_sources/$2.txt" native.out || fail "what $2.py prints with Python $1"
  preloaded shim "${command[@]}"
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}

# Of each leak: its size in pages, then function:line of the frames in files of this test.
planted_frames() {
  awk '
    function flush() { if (pages) print pages frames; pages = ""; frames = ""; last = "" }
    / LEAK [0-9]+: / { flush(); pages = $4 / 4; next }
    /     #[0-9]+ / {
      place = $0
      sub(/^.* (made of )?/, "", place)
      if (place !~ /^(planted|again|text)[.]py:/) next
      sub(/^.*:/, "", place)
      if (last != $3 ":" place) frames = frames " " $3 ":" place
      last = $3 ":" place
      next
    }
    / largest: / { flush() }' "$1"
}

# planted_case VERSION SETTING...
planted_case() {
  local version=$1

  find_python "$version"
  need_file "$cuda_path/libcudart.so.13"
  shift
  same_as_native PYTHONUTF8=1 GPUSHIM_LEAK_MAX=1000 "$@" -- "$python" -SB "$python_sources/planted.py"
  expect_only_report shim.err
  planted_frames shim.err | sort -n >found
  # Before 3.11 a function does not know where it was defined.
  if [[ $version =~ ^3[.]([89]|10)$ ]]; then
    sed -E 's/[^ ]*[.]([^ .:]+:)/\1/g' "$python_sources/expected.txt"
  else
    cat "$python_sources/expected.txt"
  fi | sort -n >wanted
  cmp -s wanted found && return
  diff -u wanted found
  fail "stacks of Python $version are not what they should be"
}

# truth_case VERSION SEED
truth_case() {
  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  preloaded shim GPUSHIM_LEAK_MAX=100000 GPUSHIM_STACK=depth:128 GPUSHIM_STACK_FRAMES=all GPUSHIM_SYMBOLIZE=off -- \
    "$python" -SB "$python_sources/truth.py" "$2" 1000 "$PWD/truth"
  expect_status shim 0
  "$python" -SB "$python_sources/compare.py" truth shim.err && return
  fail "Python $1 and the report differ"
}

# ways_case VERSION WAY REGEX: of a frame that the report must have
ways_case() {
  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  same_as_native -- "$python" -SB "$python_sources/ways.py" "$2"
  expect_only_report shim.err
  expect_text shim.err "$3"
}

# Python fills the memory that it frees, and the report takes a tenth of a second: threads that are
# not held crash CPython 3.10 nearly each time. It crashes natively, too, once in a hundred runs on a busy
# machine, where a thread wakes up between the interpreter's end and the process's: three tries.
# busy_case VERSION
busy_case() {
  local tries=1

  find_python "$1"
  need_file "$apps/libdeep.so"
  need_file "$cuda_path/libcudart.so.13"
  need addr2line
  mkdir helpers
  printf '#!/bin/sh\nsleep 0.1\nexec %q "$@"\n' "$(command -v addr2line)" >helpers/addr2line
  chmod 755 helpers/addr2line
  [[ $1 == 3.10 ]] && tries=3
  for ((; tries > 0; tries--)); do
    preloaded shim PATH="$PWD/helpers:$PATH" PYTHONMALLOC=malloc_debug -- \
      "$python" -SB "$python_sources/ways.py" busy "$apps/libdeep.so"
    [[ $(<shim.status) == 139 ]] || break
  done
  expect_status shim 0
  expect_only_report shim.err
  expect_text shim.err '#[0-9]+ +busy +ways.py:[0-9]+$'
}

for version in 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
  add_case "python $version planted" planted_case "$version"
  add_case "python $version truth" truth_case "$version" 1
  add_case "python $version fork" ways_case "$version" fork '#1 in_child +ways.py:22$'
  add_case "python $version daemon" ways_case "$version" daemon 'SUMMARY: gpushim: 0 errors'
  add_case "python $version busy" busy_case "$version"
  add_case "python $version exits" ways_case "$version" exits \
    'SUMMARY: gpushim: 0 errors, 0 B leaked'
done
# More native frames than are kept lie before the first of Python's.
# deep_case VERSION DEPTH
deep_case() {
  find_python "$1"
  need_file "$apps/libdeep.so"
  need_file "$cuda_path/libcudart.so.13"
  same_as_native GPUSHIM_STACK=depth:"$2" -- "$python" -SB "$python_sources/ways.py" deep "$apps/libdeep.so"
  expect_only_report shim.err
  grep -A9 'native frames left out' shim.err >outside || fail "no frame stands for those left out"
  expect_text outside '#[0-9]+ +deep_call +ways.py:[0-9]+$'
  [[ $2 -gt 3 ]] || return 0 # so many of Python's, too
  expect_text outside '#[0-9]+ +deep +ways.py:[0-9]+$'
  expect_text outside '#[0-9]+ +<module> +ways.py:[0-9]+$'
  expect_no_text shim.err 'GPUSHIM_STACK=depth'
}
for version in 3.8 3.10 3.11 3.13; do
  add_case "python $version deep" deep_case "$version" 32
done
add_case "python 3.11 deep, few frames kept" deep_case 3.11 1

# Up to 3.11 a thread is known by its state in the first interpreter alone.
for version in 3.8 3.9 3.10 3.11; do
  add_case "python $version subinterpreter" ways_case "$version" subinterpreter \
    '#[013] subinterpreter +ways.py:[0-9]+$'
done
for version in 3.12 3.13; do
  add_case "python $version subinterpreter" ways_case "$version" subinterpreter \
    '#1 inside +<string>:6$'
done
# Other ways to walk do not tell where frames lie.
for setting in GPUSHIM_STACK=unwind GPUSHIM_STACK=libunwind GPUSHIM_POOL=off; do
  add_case "python 3.9 planted $setting" planted_case 3.9 "$setting"
  add_case "python 3.11 planted $setting" planted_case 3.11 "$setting"
  add_case "python 3.13 planted $setting" planted_case 3.13 "$setting"
done

# What carries calls to the driver is neither the owner nor the first frame: the line of Python is.
# bindings_case PACKAGE FILE: a module of that package's
bindings_case() {
  local place=site-packages/$1

  find_python 3.11
  need_file "$apps/libdeep.so"
  need_file "$cuda_path/libcudart.so.13"
  mkdir -p "$place"
  cp "$apps/libdeep.so" "$place/$2"
  preloaded shim "${with_rules[@]}" GPUSHIM_STACK=depth:128 -- \
    "$python" -SB "$python_sources/ways.py" deep "$PWD/$place/$2"
  expect_status shim 0
  expect_only_report shim.err
  expect_text shim.err '#0 deep_call +ways[.]py:[0-9]+$'
  expect_text shim.err '#1 deep +ways[.]py:[0-9]+$'
  expect_text shim.err '^==[0-9]+==   ways[.]py +4[.]00 KiB +1$'
  expect_no_text shim.err 'leak:.*(deep_malloc|[.]so)'
}
add_case "python bindings cuda.bindings" bindings_case cuda/bindings cydriver.cpython-311-x86_64-linux-gnu.so
add_case "python bindings cuda.core" bindings_case cuda/core/experimental _memory.cpython-311-x86_64-linux-gnu.so
add_case "python bindings CuPy" bindings_case cupy_backends/cuda/api runtime.cpython-311-x86_64-linux-gnu.so
add_case "python bindings PyCUDA" bindings_case pycuda _driver.cpython-311-x86_64-linux-gnu.so
add_case "python bindings PyTorch" bindings_case torch/lib libtorch_python.so

# The package's own lines of Python, too, as Numba has them.
bindings_python_case() {
  find_python 3.11
  need_file "$cuda_path/libcudart.so.13"
  mkdir -p site-packages/numba/cuda
  cp "$python_sources/cuda.py" site-packages/numba/cuda/
  printf 'import cuda\ndef memalloc(size):\n    return cuda.malloc(size)\n' >site-packages/numba/cuda/driver.py
  cat >train.py <<'EOF'
import sys
sys.path.insert(0, sys.argv[1])
import driver
def allocate():
    driver.memalloc(4096)
allocate()
EOF
  preloaded shim -- "$python" -B train.py "$PWD/site-packages/numba/cuda"
  expect_status shim 0
  expect_only_report shim.err
  expect_text shim.err '#0 allocate +train[.]py:5$'
  expect_text shim.err '^==[0-9]+==   train[.]py +4[.]00 KiB +1$'
  expect_no_text shim.err '(driver|cuda)[.]py'
}
add_case "python bindings Numba" bindings_python_case

# Where nothing else is in the stack, the package stays.
bindings_alone_case() {
  find_python 3.11
  need_file "$cuda_path/libcudart.so.13"
  mkdir -p site-packages/numba
  cp "$python_sources"/{ways,cuda}.py site-packages/numba/
  preloaded shim -- "$python" -B "$PWD/site-packages/numba/ways.py" in_child
  expect_status shim 0
  expect_text shim.err '#1 in_child +ways[.]py:[0-9]+$'
  expect_text shim.err '^==[0-9]+==   cuda[.]py +4[.]00 KiB +1$'
}
add_case "python bindings alone" bindings_alone_case

# A program that loads its interpreter late keeps its own frames around Python's.
# embed_case VERSION
embed_case() {
  local library home

  find_python "$1"
  need_file "$apps/embed"
  need_file "$cuda_path/libcudart.so.13"
  library=$("$python" -S -c 'import os, sysconfig as s
print(os.path.join(s.get_config_var("LIBDIR"), s.get_config_var("INSTSONAME")))')
  [[ $library == *.so.* && -e $library ]] || skip "libpython$1"
  home=$("$python" -S -c 'import sys; print(sys.base_prefix)')
  run_in native PYTHONHOME="$home" -- "$apps/embed" "$library"
  preloaded shim PYTHONHOME="$home" -- "$apps/embed" "$library"
  expect_same native shim
  expect_status shim 0
  expect_only_report shim.err
  grep -A1 '#0 inside  *<string>:5$' shim.err >within || fail "no frame of the inner Python"
  expect_text within '#1 <module>  *<string>:6$'
  expect_text shim.err '#2 run_python  *embed[.]c:[0-9]+$'
  expect_text shim.err '#3 main  *embed[.]c:[0-9]+$'
}
for version in 3.8 3.11 3.13; do
  add_case "python $version embedded" embed_case "$version"
done

python_off_case() {
  find_python 3.11
  preloaded shim GPUSHIM_STACK=python:off -- "$python" -SB "$python_sources/planted.py"
  expect_status shim 0
  expect_no_text shim.err '[.]py:[0-9]+$'
  expect_text shim.err '#[0-9]+ +_PyEval_EvalFrameDefault '
}
add_case "python off" python_off_case

# In files for machines the frames have the same names.
python_outputs_case() {
  need python3
  preloaded shim GPUSHIM_OUTPUT=json,collapsed GPUSHIM_OUTPUT_FILE=out -- \
    python3 -SB "$sources/tests/apps/python/planted.py"
  expect_text out.collapsed ';Encoder[.]forward[^;]*;'
  expect_text out.json '"function": "Encoder[.]forward'
  expect_text out.json '"file": "[^"]*planted[.]py"'
  python3 - <<'EOF' || fail "a Python frame has an address, a file no line, or a place no frame"
import json
report = json.load(open("out.json"))
frames = [f for f in report["frames"] if (f["file"] or "").endswith("planted.py")]
assert frames and all(f["address"] is None and f["line"] for f in frames)
assert any(report["frames"][n] in frames for leak in report["leaks"] for n in leak["stack"])
EOF
}
add_case "python in files" python_outputs_case

# ---- a scan for pointers -----------------------------------------------------------------

# held_fates FILE: "function fate" for each leak of held.py.
held_fates() {
  awk '
    / LEAK [0-9]+: / { getline; fate = $0; sub(/.*GPU 0, /, "", fate)
                        sub(/^(age|oldest) [^,]*, (newest [^,]*, )?/, "", fate); next }
    fate != "" && $3 ~ /^(held|lost)_/ { sub(/[.].*/, "", $3); print $3, fate; fate = "" }' "$1" | sort
}

# While the interpreter runs, a leak is lost or not by the objects that it has; at its end none is
# called lost, for those that held it are gone.
# scan_python_case VERSION
scan_python_case() {
  local settings=(GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50)

  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  preloaded running "${settings[@]}" -- "$python" -SB "$python_sources/held.py" exit
  expect_status running 0
  held_fates running.err >found
  sed -nE 's/^def (held_[a-z_]+).*/\1 still referenced/p
    s/^def (lost_[a-z_]+).*/\1 lost (no host pointer found)/p' "$python_sources/held.py" | sort >wanted
  [[ $(wc -l <wanted) -eq 15 ]] || fail "held.py has other functions"
  diff -u wanted found || fail "what is held and what is lost"
  expect_no_text running.err 'Note: the leak scan'
  preloaded ended "${settings[@]}" -- "$python" -SB "$python_sources/held.py"
  expect_status ended 0
  expect_count ended.err \
    '^==[0-9]+== Note: the leak scan is not reliable for Python objects: they ended before this report; no leak is called lost$' 1
  expect_no_text ended.err 'no host pointer found|, [0-9]+ lost'
}
for version in 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
  add_case "python $version scan" scan_python_case "$version"
done

# Of an interpreter that is not known nothing is said.
scan_unknown_python_case() {
  find_python 3.7
  need_file "$cuda_path/libcudart.so.13"
  preloaded shim GPUSHIM_LEAK_SCAN=on GPUSHIM_LEAK_MAX=50 -- "$python" -SB "$python_sources/held.py" exit
  expect_count shim.err 'Note: the leak scan is not reliable for Python objects: it does not know this interpreter; ' 1
  expect_no_text shim.err 'no host pointer found|, [0-9]+ lost'
}
add_case "python 3.7 scan" scan_unknown_python_case

# until_end_case VERSION WHAT hint|none [SETTING...]: what a script has kept when Python ends is gone before the report.
until_end_case() {
  find_python "$1"
  need_file "$cuda_path/libcudart.so.13"
  preloaded shim "${@:4}" GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=out.json PYTHONPATH="$python_sources" \
    -- "$python" -SB "$python_sources/until_end.py" "$2"
  expect_status shim 0
  if [[ $3 == none ]]; then
    expect_no_text shim.err ' Hint: '
    expect_text out.json '"hints": \[\]'
    return
  fi
  expect_count shim.err '^==[0-9]+== Hint: ' 1
  expect_text shim.err '^==[0-9]+== Hint: 60 allocations, 3[.]75 MiB, most at malloc cuda[.]py:23, accumulated until '\
'Python ended: call gpushim[.]report\(\) at the end of the script to list them$'
  expect_text out.json '"hint": "grew", "device": 0, .*"stack": \['
}
# The word that says that Python ends is another in each version.
for version in 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
  add_case "python $version grows until its end" until_end_case "$version" list hint
done
add_case "python grows until its end, without the pool" until_end_case 3.11 list hint GPUSHIM_POOL=off
add_case "python grows until its end, from a third of the run on" until_end_case 3.11 slow_start hint
add_case "python grows until its end, and another function leaks" until_end_case 3.11 apart hint
# Alone see: a leak that is said twice; a right program with a hint, by each of the rules in grown.h.
for what in leaks few seldom latest freed model alone; do
  add_case "python keeps until its end: $what" until_end_case 3.11 "$what" none
done

# A program that Ctrl-C ends has a report of the command's, by the file.
until_end_killed_case() {
  find_python 3.11
  need_file "$build/gpushim"
  preloaded shim GPUSHIM_STATE_FILE=run.state PYTHONPATH="$python_sources" \
    -- "$python" -SB "$python_sources/until_end.py" interrupted
  expect_status shim 130
  run_in report -- "$build/gpushim" report run.state
  expect_text report.out ' Hint: 60 allocations, 3[.]75 MiB, most at malloc cuda[.]py:23, accumulated until '
}
add_case "python grows until its end by Ctrl-C" until_end_killed_case
