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

# csv_live_of OWNER FILE: what the rows of an owner have now.
csv_live_of() { python3 -c '
import csv, sys
print(sum(int(row["live_bytes"]) for row in csv.DictReader(open(sys.argv[2])) if row["owner"] == sys.argv[1]))' "$@"; }

# A tensor that is live at the end is a leak; the program's own line is the first of its stack.
cached_leaks_case() {
  torch_like leaks GPUSHIM_OUTPUT=json,csv,collapsed,prometheus,openmetrics GPUSHIM_OUTPUT_FILE=out
  expect_status shim 9
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 9[.]00 MiB leaked in 3 allocations, 3 call sites$'
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 6[.]00 MiB in 4 allocations, not a leak$'
  grep -E '^==[0-9]+==     #0' shim.err | sed 's/^.*#0 *//; s/  */ /' >firsts
  printf '%s\n' 'load_batch train.py:34' 'load_batch train.py:34' 'Block.forward train.py:25' | diff - firsts ||
    fail "the first frames are not the program's own"
  expect_text shim.err '^==[0-9]+==        [.][.][.] [0-9]+ frames of PyTorch'
  expect_text shim.err '^==[0-9]+==   train[.]py +9[.]00 MiB +3$'
  expect_text shim.err '^==[0-9]+==   PyTorch +6[.]00 MiB +4$'
  expect_no_text shim.err '(libc10|torch/|nn/__init__|threading[.]py)'
  expect_text out.csv ',train[.]py,tensor of PyTorch,Block[.]forward,.*/train[.]py,25,<module>;train;Block[.]forward,'
  expect_text out.csv '^0,device,PyTorch,cudaMalloc,'
  expect_equal "bytes of train.py in CSV" 9437184 "$(csv_live_of train.py out.csv)"
  expect_equal "bytes of PyTorch in CSV" 6293504 "$(csv_live_of PyTorch out.csv)"
  expect_text out.collapsed '^GPU 0;cached by PyTorch;'
  expect_equal "leaks in the flame graph" 9437184 "$(awk '!/;cached by / { sum += $NF } END { print sum }' out.collapsed)"
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
  expect_text shim.err '^==[0-9]+== largest: 8[.]00 MiB leaked at Block[.]forward train[.]py:[0-9]+( < .*)?$'
}
add_case "families four leaks are 40 lines" families_short_case

# What a killed process had is in its state file: tensors, too.
families_killed_case() {
  torch_like killed GPUSHIM_STATE_FILE=run.state
  expect_status shim 137
  run_in report -- "$build/gpushim" report run.state
  expect_text report.out 'SUMMARY: gpushim: 0 errors, 9[.]00 MiB live in 3 allocations, 3 call sites; ended without a report$'
  expect_text report.out '^==[0-9]+== Cached by PyTorch: 6[.]00 MiB in 4 allocations$'
  expect_count report.out '^==[0-9]+==   tensor of PyTorch, GPU 0, ' 3
  sed -E 's/^==[0-9]+==//' report.out | grep -E '^     #0' | sed 's/^.*#0 *//; s/  */ /; s/:[0-9]*$//' >firsts
  printf '%s\n' 'load_batch train.py' 'load_batch train.py' 'Block.forward train.py' | diff - firsts ||
    fail "the first frames are not the program's own"
}
add_case "families tensors of a killed process" families_killed_case

# Rules and budgets count tensors: not what the allocator keeps of a block that a line made it take.
families_rules_case() {
  torch_like leaks GPUSHIM_WRITE_SUPPRESSIONS="$PWD/known.txt"
  expect_status shim 9
  expect_text known.txt '^leak:.Block[.]forward[$] .*max_bytes=4M$'
  echo 'peak:^Block.forward$ max_bytes=4M' >>known.txt
  torch_like leaks GPUSHIM_SUPPRESSIONS="$PWD/known.txt"
  expect_status shim 0
  expect_text shim.err '^==[0-9]+== Suppressed: 3 allocations, 9[.]00 MiB by [23] rules$'
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 6[.]00 MiB in 4 allocations, not a leak$'
  echo 'peak:^Block.forward$ max_bytes=3M' >budget.txt
  torch_like right GPUSHIM_SUPPRESSIONS="$PWD/budget.txt"
  expect_status shim 9
  expect_text shim.err 'budget exceeded: 4[.]00 MiB at the peak of GPU 0, '
  expect_text shim.err '^==[0-9]+==   peak at .*, the largest call site, tensor of PyTorch$'
}
add_case "families rules count tensors" families_rules_case

# Scopes count tensors, whatever blocks they are in, and what has none. Would see: a block that counts, a tensor in a
# cached block that does not, or memory past the cache that is taken for a block.
families_scopes_case() {
  local given

  printf '%s\n' "new 8388608 3145728 11534336 2 1" "cached 8388608 8388608 25165824 3 2" \
    "cached/within 8388608 8388608 8388608 1 0" "own 3145728 2097152 4194304 3 1" >expected
  for given in GPUSHIM_POOL=on GPUSHIM_POOL=off GPUSHIM_STACK=fp GPUSHIM_STACK=sample:1G; do
    torch_like scopes PYTHONPATH="$PWD/site-packages:$sources/include/python" "$given" GPUSHIM_OUTPUT=json \
      GPUSHIM_OUTPUT_FILE=out.json
    grep -E '^[a-z/]+ [0-9 ]+$' shim.out | diff expected - || fail "scopes with $given"
    python3 -c '
import json
for one in json.load(open("out.json"))["scopes"]:
    print(one["path"], one["peak_bytes"])' >peaks || fail "no scopes in JSON with $given"
    cut -d " " -f 1,2 expected | sort | diff - <(sort peaks) || fail "scopes in JSON with $given"
  done
}
add_case "families scopes count tensors" families_scopes_case

# A line that keeps ever more tensors, although the blocks are as many as before.
families_grows_case() {
  torch_like grows GPUSHIM_INTERVAL=stats:200ms
  expect_text shim.err '^==[0-9]+== GROWING 1: '
  expect_text shim.err '^==[0-9]+==   tensor of PyTorch, GPU 0, .*growing$'
  expect_text shim.err '^==[0-9]+==     #0 keep_again '
  expect_no_text shim.err '^==[0-9]+==     #0 [^k]'
}
add_case "families tensors that grow" families_grows_case

# The allocator's cache grows by far more, and is not what the program keeps.
families_fills_case() {
  torch_like fills GPUSHIM_INTERVAL=stats:200ms CUDASIM_MEMORY=2G
  grep -A 3 ' GROWING 1: ' shim.err | awk '$2 == "#0" { print $3 }' | sort -u >firsts
  expect_equal "what grows first" keep_again "$(<firsts)"
  expect_text shim.err '^==[0-9]+== GROWING 2: '
  expect_text shim.err '^==[0-9]+==   cudaMalloc, GPU 0, .*growing, cached by PyTorch$'
}
add_case "families a cache grows behind the program's line" families_fills_case

# Who had the memory at the peak: what is freed since, and the tensor that made the peak. Alone sees files count what
# no tensor had as memory of the line that made the cache grow first.
families_peak_case() {
  torch_like right GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json,csv,collapsed-peak,pprof GPUSHIM_OUTPUT_FILE=out
  expect_text shim.err '^==[0-9]+== Peak of GPU 0: 15[.]0 MiB at [^,]*, 15[.]0 MiB of it freed since$'
  expect_text shim.err '^==[0-9]+== 2[.]00 KiB of this peak were cached by PyTorch$'
  expect_text shim.err '^==[0-9]+== PEAK 1: 6[.]00 MiB in 1 allocation \(40[.]0 % of the peak\)$'
  expect_text shim.err '^==[0-9]+== PEAK 2: 4[.]00 MiB in 1 allocation '
  expect_count shim.err '^==[0-9]+==   tensor of PyTorch, GPU 0, all freed since$' 3
  expect_text shim.err '^==[0-9]+==     #0 train +train[.]py:[0-9]+$'
  expect_text shim.err '^==[0-9]+==     #0 Block[.]forward +train[.]py:[0-9]+$'
  expect_equal "tensors at the peak" 4 "$(grep -o '"call": "tensor of PyTorch"' out.json | wc -l)"
  expect_equal "cached: four now, one place then" 5 "$(grep -o '"cached_by": "PyTorch"' out.json | wc -l)"
  expect_equal "cached, of no line" 'GPU 0;cached by PyTorch 2048' "$(grep 'cached by' out.collapsed-peak)"
  expect_text out.csv '^0,device,PyTorch,cuMemAlloc,,,,\[no call stack\],0,0,0,0,2048,'
  grep -aq '\[cached by PyTorch\]' out.pb || fail "the profile has no frame for what is cached"
}
add_case "families tensors at the peak" families_peak_case

# A list that grows is gone before the report: a hint alone leads to its line.
families_list_case() {
  torch_like list GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=out.json
  expect_status shim 0
  expect_count shim.err '^==[0-9]+== Hint: ' 1
  expect_text shim.err "Hint: 40 tensors of PyTorch, 40[.]0 MiB, most at <listcomp> train[.]py:[0-9]+, accumulated \
until Python ended: call gpushim[.]report\(\) at the end of the script to list them$"
  expect_text out.json '"hint": "grew", "device": 0, .*"stack": \['
  torch_like list_interrupted GPUSHIM_STATE_FILE=run.state # Python ends, and then its process by the signal
  expect_status shim 130
  run_in report -- "$build/gpushim" report run.state
  expect_text report.out 'Hint: 40 tensors of PyTorch, 40[.]0 MiB, most at <listcomp> train[.]py:[0-9]+, accumulated '
}
add_case "families what grew until Python ended has a hint" families_list_case

# A graph of a global holds tensors until Python ends, and PyTorch then does not free them.
families_graph_case() {
  torch_like graph GPUSHIM_OUTPUT=json,csv GPUSHIM_OUTPUT_FILE=out
  expect_status shim 0
  expect_equal "lines" 5 "$(grep -c '^==' shim.err)"
  expect_text shim.err '^==[0-9]+== Held by globals until Python ended: 9[.]00 MiB in 3 tensors of PyTorch, not a leak$'
  expect_text shim.err '^==[0-9]+== Cached by PyTorch: 6[.]00 MiB in 4 allocations, not a leak$'
  expect_equal "held in JSON" 3 "$(grep -o '"held_by": "Python"' out.json | wc -l)"
  expect_text out.csv ',train[.]py,tensor of PyTorch,Block[.]forward,.*,4194304,1,0,0,'
}
add_case "families what globals held to the end is no leak" families_graph_case

# A list that a global keeps filling with graphs is a leak nonetheless.
families_graphs_case() {
  torch_like graphs
  expect_status shim 9
  expect_text shim.err '^==[0-9]+== LEAK 1: 40[.]0 MiB in 40 allocations '
  expect_text shim.err '^==[0-9]+==     #0 keep_again '
  expect_no_text shim.err 'Held by'
}
add_case "families a list of graphs that grows is a leak" families_graphs_case

# Where each tensor is an allocation (gpushim --torch=tensors).
families_graph_async_case() {
  torch_like graphs_async
  expect_status shim 0
  expect_equal "lines" 3 "$(grep -c '^==' shim.err)"
  expect_text shim.err '^==[0-9]+== Held by globals until Python ended: 22[.]0 MiB in 22 tensors of PyTorch, not a leak$'
  torch_like graphs_async_grow
  expect_status shim 9
  expect_text shim.err '^==[0-9]+== LEAK 1: 20[.]0 MiB in 20 allocations '
  expect_text shim.err '^==[0-9]+==   cudaMallocAsync, GPU 0, '
  expect_text shim.err '^==[0-9]+== Held by globals until Python ended: 2[.]00 MiB in 2 tensors of PyTorch, not a leak$'
}
add_case "families what globals held to the end, tensor by tensor" families_graph_async_case

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

# Beside a leak of the program's: the sums of the owners are what leaked, and what is cached.
cached_unknown_owner_case() {
  torch_like unreported_leak
  expect_status shim 9
  expect_text shim.err '1[.]00 MiB leaked in 1 allocation, '
  expect_text shim.err '^==[0-9]+==   train[.]py +1[.]00 MiB +1$'
  expect_text shim.err '^==[0-9]+==   PyTorch +15[.]0 MiB +4$'
}
add_case "families owners with cached memory without reports" cached_unknown_owner_case

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
