# shellcheck shell=bash
# shellcheck disable=SC2154  # what lib.sh sets
#
# families.sh - programs inside a framework: the program's own line is the first frame and the owner in every
# format, and what a caching allocator keeps is no leak. Over a stand-in for PyTorch, with its names and paths.
uses python

# torch_like MODE [VAR=value...]: runs train.py MODE.
torch_like() {
  local mode=$1
  shift

  find_python 3.11
  need_file "$apps/torch_like/libc10_cuda.so"
  need_file "$cuda_path/libcudart.so.13"
  mkdir -p site-packages/torch
  cp -r "$python_sources/torch_like/torch" site-packages/
  mkdir -p site-packages/torch/lib
  cp "$apps"/torch_like/*.so site-packages/torch/lib/
  cp "$python_sources/torch_like/train.py" .
  preloaded shim PYTHONPATH="$PWD/site-packages" TORCH_LIBRARIES="$PWD/site-packages/torch/lib" GPUSHIM_ERROR_EXITCODE=9 \
    "$@" -- "$python" -B train.py "$mode"
}

# What the allocator keeps is a line, and not the program's fault.
cached_right_case() {
  torch_like right
  expect_status shim 0
  expect_text shim.out '^reports: 8$'
  expect_equal "lines" 3 "$(grep -c '^==' shim.err)"
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 15[.]0 MiB in 4 allocations, not a leak$'
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites$'
}
add_case "families cached memory is no leak" cached_right_case

# A tensor that is live at the end is a leak; the program's own line is the first of its stack.
cached_leaks_case() {
  torch_like leaks GPUSHIM_OUTPUT=json,csv,collapsed,prometheus,openmetrics GPUSHIM_OUTPUT_FILE=out
  expect_status shim 9
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 9[.]00 MiB leaked in 3 allocations, 3 call sites$'
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 6[.]00 MiB in 4 allocations, not a leak$'
  grep -E '^==[0-9]+==     #0' shim.err | sed 's/^.*#0 *//; s/  */ /' >firsts
  printf '%s\n' 'load_batch train.py:27' 'load_batch train.py:27' 'Block.forward train.py:18' | diff - firsts ||
    fail "the first frames are not the program's own"
  expect_text shim.err '^==[0-9]+==        [.][.][.] [0-9]+ frames of PyTorch'
  expect_text shim.err '^==[0-9]+==   train[.]py +15[.]0 MiB +7$'
  expect_no_text shim.err '(libc10|torch/|nn/__init__|threading[.]py)'
  expect_text out.csv ',train[.]py,tensor of PyTorch,Block[.]forward,.*/train[.]py,18,<module>;train;Block[.]forward,'
  expect_no_text out.collapsed '(torch_empty|_call_impl)'
  expect_text out.prom 'owner="train[.]py"'
  expect_text out.openmetrics 'owner="train[.]py"'
  expect_text out.json '"inner": "[0-9]+ frames of PyTorch'
  expect_text out.json '"family": "PyTorch"'
  expect_text out.json 'alloc_block'
}
add_case "families the program's own line is the first" cached_leaks_case

# Who made the allocator take a block is not who has a tensor in it.
cached_reused_case() {
  torch_like reused
  expect_text shim.err '^==[0-9]+== LEAK 1: 5[.]00 MiB in 1 allocation \(100 % of leaked\)$'
  expect_text shim.err '^==[0-9]+==   tensor of PyTorch, GPU 0, '
  expect_text shim.err '^==[0-9]+==     #0 keep_again +train[.]py:[0-9]+$'
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 512 B in 1 allocation, not a leak$'
}
add_case "families a tensor in a block of another line" cached_reused_case

# A model with four leaks: a report that a terminal shows at once, the largest leak at its end.
families_short_case() {
  local lines

  torch_like model
  lines=$(grep -c '^==' shim.err)
  [[ $lines -le 40 ]] || {
    cat shim.err
    fail "$lines lines"
  }
  expect_count shim.err '^==[0-9]+== LEAK [1-4]: ' 4
  expect_text shim.err '^==[0-9]+== largest: 8[.]00 MiB leaked at Block[.]forward train[.]py:[0-9]+$'
}
add_case "families four leaks are 40 lines" families_short_case

families_all_case() {
  torch_like leaks GPUSHIM_STACK_FRAMES=all
  expect_text shim.err '#0 +torch_empty '
  expect_text shim.err '#[0-9]+ +Module._call_impl '
  expect_no_text shim.err 'frames of'
}
add_case "families all frames on request" families_all_case

# Without the allocator's reports the report says what it cannot know.
cached_unknown_case() {
  torch_like unreported
  expect_status shim 0
  expect_text shim.err 'Cached by PyTorch: 15[.]0 MiB in 4 allocations, not a leak \(tensors in it are not seen: gpushim --torch=tensors\)$'
}
add_case "families cached memory without reports" cached_unknown_case

cached_as_leaks_case() {
  torch_like right GPUSHIM_SUPPRESSIONS_BUILTIN=off
  expect_status shim 9
  expect_text shim.err '15[.]0 MiB leaked in 4 allocations, '
}
add_case "families cached memory is a leak on request" cached_as_leaks_case

# Memory of a framework's past its cache.
uncached_case() {
  torch_like uncached
  expect_status shim 9
  expect_text shim.err '#0 <module> +train[.]py:[0-9]+$'
}
add_case "families memory past the cache is a leak" uncached_case
