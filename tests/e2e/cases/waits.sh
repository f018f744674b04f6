# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# waits.sh - tests/gpu/parts/wait_table.py: the table of what a free waits for, made of what
# gpu-check found, and the lines that say where that is not what is assumed.

# wait_table PREFIX STATUS [ARGUMENT...]
wait_table() {
  local prefix=$1 status=$2

  shift 2
  need python3
  run_in "$prefix" -- python3 -SB "$sources/tests/gpu/parts/wait_table.py" "$@"
  expect_status "$prefix" "$status"
}

# wait_row QUESTION ROW VALUES [SIMULATED [STATUS]]
wait_row() {
  printf '{"part":"probe","question":"%s","row":"%s","status":"%s","unit":"answer","values":{%s},' \
    "$1" "$2" "${5:-measured}" "$3"
  printf '"note":"one device only","simulated":%s,"gpu":"Card","driver":"580.65","date":"2026-11-23"}' \
    "${4:-false}"
}

# wait_result FILE ROW...
wait_result() {
  local file=$1 IFS=,

  shift
  printf '{"schema":1,"parts":{"probe":{"state":"complete","rows":[%s]}}}\n' "$*" >"$file"
}

# same_sizes ANSWER: the cells of a free that answers so for every size.
same_sizes() {
  printf '"%s":"'"$1"'",' tiny alone 4K 64K 64K_near 256K 256K_near 1M 1M+512 1M+512_near \
    2M-512 2M-512_near 2M
  printf '"64M":"%s"' "$1"
}

# host_cells ANSWER [ANSWER of unregister]
host_cells() {
  printf '"%s":"'"$1"'",' 4K 64K 1M 2M 64M
  printf '"4K_ns":7,"unregister":"%s"' "${2:-$1}"
}

waits_table_case() {
  wait_result made \
    "$(wait_row free_legacy held "$(same_sizes wait | sed 's/"tiny":"wait"/"tiny":"no"/')")" \
    "$(wait_row free_legacy 'spin 20ms' '"tiny":9,"tiny_kernel_over":"yes","4K_kernel_over":"yes"')" \
    "$(wait_row free_blocking held "$(same_sizes wait)")" \
    "$(wait_row free_nonblocking held "$(same_sizes no)")" \
    "$(wait_row free_perthread held '"tiny":"wait","2M":"CUDA_ERROR_UNKNOWN"')" \
    "$(wait_row free_context held "$(same_sizes no)")" \
    "$(wait_row free_peer - '' false 'not supported')" \
    "$(wait_row freehost_wait legacy "$(host_cells wait)")" \
    "$(wait_row freehost_wait nonblocking "$(host_cells wait no)")" \
    "$(wait_row call_wait legacy '"alloc_512B":"no","alloc_2M":"wait","not_waiting":12')"
  wait_table made 0 made
  cat >wanted <<'END_OF_TABLE'
Measured on Card, driver 580.65, 2026-11-23

| cuMemFree, kernel on | tiny | alone | 4K | 64K | 64K_near | 256K | 256K_near | 1M | 1M+512 | 1M+512_near | 2M-512 | 2M-512_near | 2M | 64M |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| the legacy stream | no | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait |
| a blocking stream | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait | wait |
| a non-blocking stream | no | no | no | no | no | no | no | no | no | no | no | no | no | no |
| the per-thread stream | wait | - | - | - | - | - | - | - | - | - | - | - | CUDA_ERROR_UNKNOWN | - |
| another context | no | no | no | no | no | no | no | no | no | no | no | no | no | no |
| another device with access | - | - | - | - | - | - | - | - | - | - | - | - | - | - |

| cuMemFreeHost, kernel on | 4K | 64K | 1M | 2M | 64M |
| --- | --- | --- | --- | --- | --- |
| the legacy stream | wait | wait | wait | wait | wait |
| a blocking stream | - | - | - | - | - |
| a non-blocking stream | wait | wait | wait | wait | wait |
| the per-thread stream | - | - | - | - | - |
| another context | - | - | - | - | - |

| cuMemFree of managed memory, kernel on | 4K | 64K | 1M | 2M | 64M |
| --- | --- | --- | --- | --- | --- |
| the legacy stream | - | - | - | - | - |
| a blocking stream | - | - | - | - | - |
| a non-blocking stream | - | - | - | - | - |
| the per-thread stream | - | - | - | - | - |
| another context | - | - | - | - | - |

| cuMemHostUnregister, kernel on | 1M |
| --- | --- |
| the legacy stream | wait |
| a non-blocking stream | no |

| call | kernel on a non-blocking stream | kernel on the legacy stream |
| --- | --- | --- |
| cuMemAlloc of 512B | - | no |
| cuMemAlloc of 2M | - | wait |
| cuMemAlloc of 64M | - | - |
| cuMemAllocManaged | - | - |
| cuMemHostAlloc | - | - |
| cuMemHostRegister | - | - |
| cuMemAllocAsync | - | - |
| cuMemFreeAsync | - | - |
| cuMemGetInfo | - | - |
| cuStreamCreate | - | - |
| cuStreamDestroy | - | - |
| cuEventCreate | - | - |
| cuModuleLoadData | - | - |

Not as the library and the simulator assume:

- cuMemFree, kernel on the legacy stream: does not wait (tiny), waits (alone 4K 64K 64K_near 256K 256K_near 1M 1M+512 1M+512_near 2M-512 2M-512_near 2M 64M); assumed: waits
- cuMemFree, kernel on a non-blocking stream: does not wait; assumed: waits
- cuMemFree, kernel on the per-thread stream: waits (tiny), CUDA_ERROR_UNKNOWN (2M); assumed: waits
- cuMemFree, kernel on the legacy stream: a kernel that ends says otherwise (tiny). Ask again: build/gpu/gpu_probe free_legacy
- cuMemHostUnregister, kernel on a non-blocking stream: does not wait; assumed: waits. Simulator: tests/sim/driver/memory/api_host.c
- cuMemAlloc of 2M, kernel on the legacy stream: waits; assumed: does not wait. Simulator: tests/sim/driver/memory/api_memory.c

Not measured:

- cuMemFree, kernel on the per-thread stream: no answer (alone 4K 64K 64K_near 256K 256K_near 1M 1M+512 1M+512_near 2M-512 2M-512_near 64M)
- cuMemFree, kernel on another device with access: not supported: one device only
- cuMemFreeHost, kernel on a blocking stream: not asked
- cuMemFreeHost, kernel on the per-thread stream: not asked
- cuMemFreeHost, kernel on another context: not asked
- cuMemFree of managed memory, kernel on the legacy stream: not asked
- cuMemFree of managed memory, kernel on a blocking stream: not asked
- cuMemFree of managed memory, kernel on a non-blocking stream: not asked
- cuMemFree of managed memory, kernel on the per-thread stream: not asked
- cuMemFree of managed memory, kernel on another context: not asked
- other calls, kernel on a non-blocking stream: not asked
- cuMemAlloc of 64M, kernel on the legacy stream: no answer (alloc_64M)
- cuMemAllocManaged, kernel on the legacy stream: no answer (managed)
- cuMemHostAlloc, kernel on the legacy stream: no answer (host_alloc)
- cuMemHostRegister, kernel on the legacy stream: no answer (register)
- cuMemAllocAsync, kernel on the legacy stream: no answer (alloc_async)
- cuMemFreeAsync, kernel on the legacy stream: no answer (free_async)
- cuMemGetInfo, kernel on the legacy stream: no answer (info)
- cuStreamCreate, kernel on the legacy stream: no answer (stream_create)
- cuStreamDestroy, kernel on the legacy stream: no answer (stream_destroy)
- cuEventCreate, kernel on the legacy stream: no answer (event_create)
- cuModuleLoadData, kernel on the legacy stream: no answer (module_load)

The rows of tests/sim/driver/core/gs_free_waits.def:

    GS_FREE_CLASS(device,  tiny,   0,            CONTEXT) /* its sizes differ on the legacy stream */
    GS_FREE_CLASS(device,  small,  64 * GS_KIB,  BLOCKING) /* was CONTEXT */
    GS_FREE_CLASS(device,  medium, GS_MIB,       BLOCKING) /* was CONTEXT */
    GS_FREE_CLASS(device,  large,  2 * GS_MIB,   CONTEXT) /* its sizes differ on the per-thread stream */
    GS_FREE_CLASS(pinned,  tiny,   0,            CONTEXT) /* not measured */
    GS_FREE_CLASS(pinned,  small,  64 * GS_KIB,  CONTEXT) /* not measured */
    GS_FREE_CLASS(pinned,  medium, GS_MIB,       CONTEXT) /* not measured */
    GS_FREE_CLASS(pinned,  large,  2 * GS_MIB,   CONTEXT) /* not measured */
    GS_FREE_CLASS(managed, tiny,   0,            CONTEXT) /* not measured */
    GS_FREE_CLASS(managed, small,  64 * GS_KIB,  CONTEXT) /* not measured */
    GS_FREE_CLASS(managed, medium, GS_MIB,       CONTEXT) /* not measured */
    GS_FREE_CLASS(managed, large,  2 * GS_MIB,   CONTEXT) /* not measured */
END_OF_TABLE
  diff wanted made.out || fail "another table"
  expect_count made.err . 0
}
add_case "waits table of a result" waits_table_case

# rows_say FILE KIND SIZE SCOPE [COMMENT]: a row for gs_free_waits.def.
rows_say() { expect_text "$1" "^    GS_FREE_CLASS\\($2, +$3, .*, +$4\\)${5:+ /\\* $5 \\*/}\$"; }

# What a simulated device does that is told so by CUDASIM_FREE_WAITS stands in the rows:
# questions of the probe, asked here.
waits_simulated_case() {
  local waits stamp='"gpu":"Simulated CUDA device","driver":"simulated","date":"2026-11-23"' rows
  local mixed=device.small=none,device.large=blocking,pinned=blocking,managed=device

  need_file "$build/gpu/gpu_probe"
  for waits in context device "$mixed"; do
    rows=()
    for question in free_legacy free_blocking free_nonblocking free_perthread free_context \
      free_peer freehost_wait free_managed call_wait; do
      [[ $waits != device || $question == free_* ]] || continue
      run_in answer CUDASIM_DEVICES=2 CUDASIM_FREE_WAITS="$waits" -- \
        "$build/gpu/gpu_probe" $question
      expect_status answer 0
      mapfile -t -O ${#rows[@]} rows < <(grep '^{' answer.out | sed "s/}\$/,$stamp}/")
    done
    wait_result "${waits%%.*}" "${rows[@]}"
    wait_table "${waits%%.*}" 0 --simulated "${waits%%.*}"
    expect_text "${waits%%.*}.out" '^SIMULATED, Simulated CUDA device, driver simulated, 2026-11-23$'
    [[ $waits != device ]] || mv device.out everything.out
  done
  expect_text context.out '^Nothing measured differs from what the library and the simulator assume.$'
  expect_count context.out '^- ' 0
  expect_text context.out '^\| another device with access( \| no){14} \|$'
  expect_count context.out ', +CONTEXT\)$' 12
  expect_text everything.out '^- cuMemFree, kernel on another context: waits; assumed: does not wait$'
  expect_count everything.out ', +DEVICE\) /\* was CONTEXT \*/$' 8
  expect_count everything.out ', +CONTEXT\) /\* not measured \*/$' 4
  rows_say device.out device tiny CONTEXT
  rows_say device.out device small NONE 'was CONTEXT'
  rows_say device.out device medium CONTEXT
  rows_say device.out device large BLOCKING 'was CONTEXT'
  rows_say device.out pinned tiny BLOCKING 'was CONTEXT'
  rows_say device.out managed large DEVICE 'was CONTEXT'
  expect_text device.out '^- cuMemFreeHost, kernel on a non-blocking stream: does not wait; assumed: waits$'
}
add_long_case "waits table of the simulated device" waits_simulated_case

waits_refuses_case() {
  wait_result simulated "$(wait_row free_legacy held "$(same_sizes wait)" true)"
  wait_table simulated 1 simulated
  expect_text simulated.err '^wait_table: simulated: measured on the simulated device: '
  expect_count simulated.out . 0
  wait_result none "$(wait_row cost_device 'alloc pair' '"512B":7')"
  wait_table none 1 none
  expect_text none.err ': nothing of what calls wait for was measured$'
  wait_result two "$(wait_row free_legacy held "$(same_sizes wait)")" \
    "$(wait_row free_blocking held "$(same_sizes wait)" | sed 's/"Card"/"Other"/')"
  wait_table two 1 two
  expect_text two.err ': rows of more than one machine$'
  echo '{"parts":{"bench":{"rows":[]}}}' >other
  wait_table other 1 other
  expect_text other.err ': no result of gpu-check with the part probe$'
  echo '{"parts":' >torn
  wait_table torn 1 torn
  expect_text torn.err ': no JSON: '
  wait_table nowhere 1 nowhere
  expect_text nowhere.err ': No such file or directory$'
  wait_table usage 2
  wait_table usage 2 one two
  for name in simulated none two other torn nowhere usage; do
    expect_count $name.err . 1
  done
}
add_case "waits table of what is none" waits_refuses_case
