# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# graphs.sh - memory of graphs: standard output and status are those of the program without
# the library, however it reaches CUDA; what leaks is named at its node's place, and what
# does not is not.

# graph_same_case WAY STEP...: leaves shim.err
graph_same_case() {
  local program=$apps/graphmem_$1

  shift
  need_file "$program"
  native native "$program" "$@"
  expect_quiet native
  expect_status native 0
  preloaded shim -- "$program" "$@"
  expect_same native shim
}

# graph_leaks_case WAY
graph_leaks_case() {
  graph_same_case "$1"
  expect_leaks shim.err "$sources/tests/apps/graphmem.c"
  expect_count shim.err '^==[0-9]+==   cu.*, graph memory, GPU 0, .*live at exit' 2
  case $1 in
    shared | static | ptds)
      expect_text shim.err '^==[0-9]+==   cudaGraphAddMemAllocNode, '
      expect_text shim.err '^==[0-9]+==   cudaMallocAsync, graph memory'
      ;;
    *)
      expect_text shim.err '^==[0-9]+==   cuGraphAddMemAllocNode, '
      expect_text shim.err '^==[0-9]+==   cuMemAllocAsync, graph memory'
      ;;
  esac
}

graph_clean_case() {
  graph_same_case "$@"
  expect_clean shim.err
}

# Each launch of a graph's own allocation counts, and the peak has it.
graph_traffic_case() {
  preloaded shim GPUSHIM_VERBOSE=2 -- "$apps/graphmem_$1" inside
  expect_text shim.err '^==[0-9]+== GPU 0 .* peak 16[.]0 KiB at '
  expect_text shim.err '^==[0-9]+==   traffic        100 allocs  100 frees$'
}

# What native refuses is one error each, of its kind.
graph_errors_case() {
  graph_same_case "$1" errors
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: ' 4
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: invalid free of' 1
  expect_count shim.err '^==[0-9]+== ERROR [0-9]+: double free of .*graph memory, GPU 0' 3
  expect_summary shim.err 4 0 0 0
}

# What a launch has freed is said to be; with the stack of the launch where frees have one.
graph_launch_free_case() {
  preloaded shim GPUSHIM_STACK=free:off -- "$apps/graphmem_$1" errors
  expect_count shim.err '^==[0-9]+==   first freed at .* by thread [0-9]+, by the launch of a graph \(no call stack recorded: GPUSHIM_STACK=free\)$' 1
  native native "$apps/graphmem_$1" errors
  preloaded stacks -- "$apps/graphmem_$1" errors
  expect_same native stacks
  expect_count stacks.err '^==[0-9]+==   first freed at .* by thread [0-9]+, by the launch of a graph$' 1
  grep -A1 'by the launch of a graph$' stacks.err | tail -n 1 >innermost
  expect_text innermost "#0 step_errors +graphmem[.]c:$(grep -n 'gpu_graph_launch(exec, stream)' \
    "$sources/tests/apps/graphmem.c" | cut -d: -f1 | while read -r line; do
      # The last in step_errors: before the function that comes next.
      ((line < $(grep -n '^/[*] ---- much' "$sources/tests/apps/graphmem.c" | cut -d: -f1))) &&
        echo "$line"
    done | tail -n 1)\$"
}

for way in $(ways_of graphmem); do
  add_case "graphs freed by a launch $way" graph_launch_free_case "$way"
  add_case "graphs leaks $way" graph_leaks_case "$way"
  for step in inside outside auto other orphan; do
    add_case "graphs $step $way" graph_clean_case "$way" "$step"
  done
  add_case "graphs traffic $way" graph_traffic_case "$way"
  add_case "graphs errors $way" graph_errors_case "$way"
done
add_long_case "graphs often shared" graph_clean_case shared often
add_long_case "graphs often linked" graph_clean_case linked often

# Nodes by every call there is, and nonsense among them.
graph_nodes_case() {
  native native "$apps/graphnodes_$1"
  expect_quiet native
  preloaded shim -- "$apps/graphnodes_$1"
  expect_same native shim
  expect_leaks shim.err "$sources/tests/apps/graphnodes.c"
}
for way in $(ways_of graphnodes); do
  add_case "graphs nodes $way" graph_nodes_case "$way"
done

# With parts of the library switched off, and where memory comes from other heaps.
# graph_setting_case VARIABLE
graph_setting_case() {
  native native "$apps/graphmem_shared"
  preloaded shim "$1" -- "$apps/graphmem_shared"
  expect_same native shim
  case $1 in
    GPUSHIM_TRACK=off | GPUSHIM_ENABLE=off) expect_quiet shim ;;
    *) expect_leaks shim.err "$sources/tests/apps/graphmem.c" ;;
  esac
}
for setting in GPUSHIM_POOL=off GPUSHIM_TRACK=off GPUSHIM_ENABLE=off GPUSHIM_ASYNC=pool \
  GPUSHIM_FREE_SYNC=lazy GPUSHIM_FREE_SYNC=wait CUDASIM_PRIVATE_ENTRIES=1; do
  add_case "graphs $setting" graph_setting_case "$setting"
done

# The first driver that has memory nodes.
graph_old_driver_case() {
  run_in native CUDASIM_DRIVER_VERSION=11040 -- "$apps/graphmem_$1"
  expect_status native 0
  preloaded shim CUDASIM_DRIVER_VERSION=11040 -- "$apps/graphmem_$1"
  expect_same native shim
  expect_leaks shim.err "$sources/tests/apps/graphmem.c"
}
add_case "graphs driver 11.4 linked" graph_old_driver_case linked
add_case "graphs driver 11.4 dlsym" graph_old_driver_case dlsym

# The driver is said to be out of memory once, and then has a piece that cannot be pooled:
# the program gets that very piece, and the driver none back before it is freed.
graph_full_case() {
  preloaded shim CUDASIM_MEMORY=64M CUDASIM_FAIL=cuMemAlloc_v2:1=2 -- \
    "$apps/graphmem_linked" full
  expect_status shim 0
  expect_text shim.out '^graphmem: the last piece: 0$'
}
add_case "graphs the last piece in a capture" graph_full_case

# What the pool keeps idle is no reason for a graph to go without.
graph_room_case() {
  run_in native CUDASIM_MEMORY=64M -- "$apps/graphmem_$1" room
  expect_status native 0
  preloaded shim CUDASIM_MEMORY=64M -- "$apps/graphmem_$1" room
  expect_same native shim
  expect_clean shim.err
}
add_case "graphs room shared" graph_room_case shared
add_case "graphs room linked" graph_room_case linked

# ---- Frees in a capture ---------------------------------------------------------------

# Each kind of memory, mode of capture and thread: the driver's answer, and the capture's
# fate.
# graph_codes_case WAY [VARIABLE...]
graph_codes_case() {
  local program=$apps/graphcodes_$1

  shift
  need_file "$program"
  native native "$program"
  expect_quiet native
  preloaded shim "$@" -- "$program"
  expect_same native shim
  expect_clean shim.err
}
for way in $(ways_of graphcodes); do
  add_case "graphs codes $way" graph_codes_case "$way"
done
for setting in GPUSHIM_FREE_SYNC=wait GPUSHIM_POOL=off GPUSHIM_POOL_CACHE=0; do
  add_case "graphs codes $setting" graph_codes_case linked "$setting"
done

# Memory freed during a capture serves the next allocation of a full device, as natively: each block that the free
# would hold back until the capture ends is refused here.
# In the lazy mode, whose frees have not waited, the allocation waits.
# graph_full_free_case MODE BYTES [thread]
graph_full_free_case() {
  local mode=$1

  shift
  need_file "$apps/capturefull_linked"
  run_in native CUDASIM_MEMORY=64M -- "$apps/capturefull_linked" "$@"
  expect_status native 0
  preloaded shim CUDASIM_MEMORY=64M GPUSHIM_FREE_SYNC="$mode" -- "$apps/capturefull_linked" "$@"
  expect_same native shim
  expect_clean shim.err
}
for mode in native lazy; do
  add_case "graphs frees on a full device, $mode" graph_full_free_case $mode 1000000
  add_case "graphs frees on a full device, $mode, small" graph_full_free_case $mode 100000
  add_case "graphs frees on a full device, $mode, large" graph_full_free_case $mode 3000000
  add_case "graphs frees on a full device, $mode, another thread" graph_full_free_case $mode 1000000 thread
done

# Work that waits for the allocations themselves is none that their wait may wait for. Would alone see: a wait of the driver
# in the lazy mode that never ends. Natively, and in the native mode, nothing is refused.
graph_full_held_case() {
  need_file "$apps/capturefull_linked"
  run_in native CUDASIM_MEMORY=64M -- "$apps/capturefull_linked" 1000000 held
  preloaded shim CUDASIM_MEMORY=64M -- "$apps/capturefull_linked" 1000000 held
  expect_same native shim
  preloaded lazy CUDASIM_MEMORY=64M GPUSHIM_FREE_SYNC=lazy -- "$apps/capturefull_linked" 1000000 held
  expect_status lazy 0
  expect_text lazy.out '^capturefull: [1-9][0-9]* of 41 refused$'
}
add_case "graphs frees on a full device, work that waits" graph_full_held_case

# Two settings accept frees that native refuses, and leave the capture alone; nothing else
# differs.
# graph_accepted_case SETTING KINDS COUNT
graph_accepted_case() {
  local where="($2), (global|thread local), (that|another) thread, (idle|busy)"

  native native "$apps/graphcodes_linked"
  preloaded shim "$1" -- "$apps/graphcodes_linked"
  expect_status shim 0
  expect_clean shim.err
  diff native.out shim.out >differences
  grep '^[<>]' differences >strange
  grep -vE "^(< graphcodes: $where: 900, its end 901|> graphcodes: $where: 0, its end 0)$" \
    strange >others
  [[ ! -s others ]] || { cat others && fail "another difference than the documented one"; }
  expect_count strange '^>' "$3"
}
add_case "graphs codes lazy" graph_accepted_case GPUSHIM_FREE_SYNC=lazy 'small|large' 12
add_case "graphs codes GPUSHIM_ASYNC=pool" graph_accepted_case GPUSHIM_ASYNC=pool ordered 6
