# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# nvml.sh - GPUSHIM_NVML: what no allocation accounts for, by a library that stands in for
# NVIDIA's and answers from the simulated device's books. Where there is no figure of this
# process's own, there is no line.

uses outputs

nvml_line='^==[0-9]+==   not allocated via API +512 MiB   \(context, modules, local memory\)$'

# with_nvml PREFIX [VAR=value...] -- COMMAND...
with_nvml() {
  local prefix=$1

  shift
  need_file "$build/sim-nvml/libnvidia-ml.so.1"
  preloaded "$prefix" LD_LIBRARY_PATH="$cuda_path:$build/sim-nvml" NVMLSIM_OVERHEAD=536870912 \
    "$@"
}

# Where processes have other numbers than the host's no case can have a figure.
need_host_processes() {
  [[ $(readlink /proc/self/ns/pid) == 'pid:[4026531836]' ]] || skip "the host's process numbers"
}

# nvml_case PROGRAM WAY [VARIABLE...]: the same in the way it ends.
nvml_case() {
  need_host_processes
  native native "$apps/$1" "$2"
  with_nvml shim GPUSHIM_NVML=on "${@:3}" -- "$apps/$1" "$2"
  expect_same native shim
  expect_count shim.err "$nvml_line" 1
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation'
}

# The same figure in the file, and in a report of the state file; null where there is none.
nvml_files_case() {
  need_host_processes
  with_nvml shim GPUSHIM_NVML=on GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=r.json \
    GPUSHIM_STATE_FILE=state -- "$apps/oddities_linked" return
  expect_count shim.err "$nvml_line" 1
  expect_valid r.json
  expect_equal "in JSON" 536870912 "$(json_get r.json devices 0 not_allocated_via_api_bytes)"
  need_file "$build/gpushim"
  run_in found GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=s.json -- "$build/gpushim" report state
  expect_count found.out "$nvml_line" 1
  expect_valid s.json
  expect_equal "of a state file" 536870912 \
    "$(json_get s.json devices 0 not_allocated_via_api_bytes)"
  with_nvml off GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=off.json -- \
    "$apps/oddities_linked" return
  expect_valid off.json
  expect_equal "not asked for" null "$(json_get off.json devices 0 not_allocated_via_api_bytes)"
}
add_case "nvml in files" nvml_files_case
for end in return thread quick_exit _exit; do
  add_case "nvml $end" nvml_case oddities_shared "$end"
done
add_case "nvml static" nvml_case oddities_static return
add_case "nvml linked" nvml_case oddities_linked return

# Without the pool what the driver rounds up is in it: an allocation of 128 KiB takes 2 MiB.
nvml_no_pool_case() {
  need_host_processes
  with_nvml shim GPUSHIM_NVML=on GPUSHIM_POOL=off -- "$apps/oddities_linked" return
  expect_count shim.err '^==[0-9]+==   not allocated via API +514 MiB   ' 1
}
add_case "nvml without the pool" nvml_no_pool_case

# Not asked for: no line, and the library is not opened. A clean run neither.
nvml_not_case() {
  with_nvml off LD_DEBUG=files LD_DEBUG_OUTPUT=off.ld -- "$apps/oddities_linked"
  expect_no_text off.err 'not allocated'
  grep -q 'libnvidia-ml' off.ld.* && fail "opened without need"
  with_nvml clean GPUSHIM_NVML=on LD_DEBUG=files LD_DEBUG_OUTPUT=clean.ld -- \
    "$apps/pipeline_linked"
  expect_clean clean.err
  grep -q 'libnvidia-ml' clean.ld.* && fail "opened for a clean run"
  with_nvml plain GPUSHIM_NVML=on LD_DEBUG=files LD_DEBUG_OUTPUT=plain.ld -- "$apps/plain"
  grep -q 'libnvidia-ml' plain.ld.* && fail "opened without CUDA"
  return 0
}
add_case "nvml not asked for" nvml_not_case

# nvml_without_case TEXT [VARIABLE...]: no line, and a note why; all else as ever.
nvml_without_case() {
  need_host_processes
  native native "$apps/oddities_linked" return
  with_nvml shim GPUSHIM_NVML=on GPUSHIM_VERBOSE=2 "${@:2}" -- "$apps/oddities_linked" return
  expect_same native shim
  expect_no_text shim.err 'not allocated via API'
  expect_text shim.err "^gpushim: .*$1"
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB leaked in 1 allocation'
}
add_case "nvml that does not start" nvml_without_case 'libnvidia-ml.so.1 does not answer' \
  NVMLSIM_FAULT=init
add_case "nvml of another process" nvml_without_case 'NVML has no value for this process' \
  NVMLSIM_FAULT=pid
add_case "nvml without a figure" nvml_without_case 'NVML has no value for this process' \
  NVMLSIM_FAULT=none
add_case "nvml of a slice" nvml_without_case 'NVML has no value for this process' \
  NVMLSIM_FAULT=mig
add_case "nvml that says too little" nvml_without_case 'less memory than gpushim has recorded' \
  NVMLSIM_FAULT=little
add_case "nvml that hangs" nvml_without_case 'has not answered within 2000 ms' \
  NVMLSIM_FAULT=hang
add_case "nvml missing" nvml_without_case 'there is no libnvidia-ml.so.1' \
  LD_LIBRARY_PATH="$cuda_path"
add_case "nvml of an integrated device" nvml_without_case 'NVML has no values here' \
  CUDASIM_ATTRIBUTES=INTEGRATED=1
add_case "nvml of a MIG device" nvml_without_case "not a MIG slice's" \
  'CUDASIM_NAME=NVIDIA A100 MIG 1g.5gb'

nvml_mps_case() {
  mkdir pipes
  : >pipes/control
  nvml_without_case "under MPS NVML's values are the server's" CUDA_MPS_PIPE_DIRECTORY="$PWD/pipes"
}
add_case "nvml under MPS" nvml_mps_case

# In a container the process has another number there.
nvml_container_case() {
  unshare -pf true 2>/dev/null || skip "process numbers of our own"
  with_nvml shim GPUSHIM_NVML=on GPUSHIM_VERBOSE=2 -- unshare -pf "$apps/oddities_linked" return
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 128 KiB'
  expect_text shim.err 'NVML has other process ids than this container'
  expect_no_text shim.err 'not allocated via API'
}
add_case "nvml in a container" nvml_container_case

# Managed memory may be anywhere.
nvml_managed_case() {
  with_nvml shim GPUSHIM_NVML=on -- "$apps/leaky_linked"
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 28[.]5 MiB'
  expect_no_text shim.err 'not allocated via API'
}
add_case "nvml beside managed memory" nvml_managed_case

# Out of memory: who has it, and what nobody asked for.
nvml_oom_case() {
  need_host_processes
  with_nvml shim GPUSHIM_NVML=on -- "$apps/interim_linked" oom
  expect_text shim.err "$nvml_line"
}
add_case "nvml out of memory" nvml_oom_case

# With GPUSHIM_MEM_LIMIT NVML says the limit, as CUDA does, however the program has found
# NVML, and before the first CUDA call; without NVML's order being CUDA's.
# nvml_limit_case PROGRAM WAY LIMIT [VARIABLE...]
nvml_limit_case() {
  local nvml=(LD_LIBRARY_PATH="$cuda_path:$build/sim-nvml" CUDASIM_DEVICES=2
    NVMLSIM_ORDER=reverse)

  run_in native "${nvml[@]}" CUDASIM_MEMORY=32M -- "$build/$1" "$2"
  expect_status native 0
  expect_text native.out '^nvmlinfo: 10 MiB: 22 of 32 MiB free$'
  run_in shim LD_PRELOAD="$shim" "${nvml[@]}" CUDASIM_MEMORY=64M GPUSHIM_MEM_LIMIT="$3" \
    "${@:4}" -- "$build/$1" "$2"
  expect_same native shim
}
for limit in 32M 50%; do
  add_case "nvml says the limit, linked, $limit" nvml_limit_case apps-linked/nvmlinfo linked "$limit"
  for way in dlsym default; do
    add_case "nvml says the limit, $way, $limit" nvml_limit_case apps/nvmlinfo_linked "$way" "$limit"
  done
done
add_case "nvml says the limit, reserve" nvml_limit_case apps/nvmlinfo_linked dlsym 32M \
  NVMLSIM_RESERVED=16777216
add_case "nvml says the limit, no pool" nvml_limit_case apps-linked/nvmlinfo linked 32M \
  GPUSHIM_POOL=off
nvml_group_case() {
  local group=nvml-$$

  # shellcheck disable=SC2064  # the variable is gone by then
  trap "rm -f '/dev/shm/gpushim.$(id -u).$group.group'" EXIT
  nvml_limit_case apps/nvmlinfo_linked dlsym 32M GPUSHIM_MEM_GROUP="$group"
}
add_case "nvml says the limit of a group" nvml_group_case

# Without a limit, or switched off, each value is NVML's own. No CUDA call, no output.
nvml_no_limit_case() {
  local nvml=(LD_LIBRARY_PATH="$cuda_path:$build/sim-nvml" CUDASIM_DEVICES=2
    NVMLSIM_ORDER=reverse CUDASIM_MEMORY=64M)

  run_in native "${nvml[@]}" -- "$build/$1" "$2"
  run_in shim LD_PRELOAD="$shim" "${nvml[@]}" "${@:3}" -- "$build/$1" "$2"
  expect_same native shim
}
for program in "apps-linked/nvmlinfo linked" "apps/nvmlinfo_linked dlsym" "apps/nvmlinfo_linked default"; do
  read -r -a words <<<"$program"
  add_case "nvml untouched, ${words[1]}, off" nvml_no_limit_case "${words[@]}" \
    GPUSHIM_ENABLE=off GPUSHIM_MEM_LIMIT=32M
  add_case "nvml untouched, ${words[1]}, no pool" nvml_no_limit_case "${words[@]}" \
    GPUSHIM_POOL=off
done

# nvidia-ml-py: ctypes opens NVML. A process without CUDA calls gets the limit, and no line.
nvml_python_case() {
  need python3
  cat >ask.py <<'END'
import ctypes, os

class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), Memory()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
print(memory.total >> 20, memory.free >> 20, memory.used >> 20)
END
  run_in shim LD_PRELOAD="$shim" LD_LIBRARY_PATH="$cuda_path:$build/sim-nvml" \
    CUDASIM_MEMORY=64M GPUSHIM_MEM_LIMIT=24M -- python3 ask.py
  expect_status shim 0
  expect_text shim.out '^24 24 0$'
  expect_equal "lines of the library" 0 "$(grep -c . shim.err)"
}
add_case "nvml says the limit to Python" nvml_python_case
