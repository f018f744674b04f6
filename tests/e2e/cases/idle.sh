# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# idle.sh - how often the device is synchronized: a free waits where work may run, and
# nowhere else (docs/free.md). The simulated driver's log has every call.

idle_rounds=20

# waits FILE: of tests/apps/idle.c's rounds, how often the driver was made to wait.
waits() {
  sed -n '/^rounds/,/^end of rounds/p' "$1" |
    grep -cE '^cudasim: cu(Ctx|Event|Stream)Synchronize'
}

# idle_case PROGRAM MODE MORE [VARIABLE...]: under the library there are MORE calls that
# wait in the rounds than without it.
idle_case() {
  local program=$apps/$1 mode=$2 more=$3 alone with

  need_file "$program"
  run_in native CUDASIM_LOG=2 CUDASIM_DEVICES=2 -- "$program" "$mode" "$idle_rounds"
  expect_status native 0
  alone=$(waits native.err)
  preloaded shim CUDASIM_LOG=2 CUDASIM_DEVICES=2 "${@:4}" -- "$program" "$mode" "$idle_rounds"
  expect_same native shim
  with=$(waits shim.err)
  expect_equal "waits more than without the library" "$more" $((with - alone))
}
for way in shared static ptds linked dlsym proc; do
  add_case "idle $way synchronized" idle_case "idle_$way" "done" 0
  add_case "idle $way busy" idle_case "idle_$way" busy "$idle_rounds"
  # The first pair finds a context that nobody has seen complete.
  add_case "idle $way pairs" idle_case "idle_$way" pairs 1
done
# The first free has to wait: from then on a synchronize of the stream may prove that all is
# complete.
for way in shared static ptds linked dlsym proc; do
  add_case "idle $way one stream" idle_case "idle_$way" stream 1
  add_case "idle $way graph" idle_case "idle_$way" graph 1
done
# figure_of MEMBER FILE: the sum over all GPUs; "" where none has it.
figure_of() {
  grep -oE "\"$1\": [0-9]+" "$2" | awk '{ sum += $2 } END { if (NR) print sum }'
}

# shape_run SHAPE ROUNDS: sets `waited` and `idle`, how many of the ROUNDS frees did, and found.
shape_run() {
  need_file "$apps/idleshapes_linked"
  run_in native CUDASIM_DEVICES=2 -- "$apps/idleshapes_linked" "$1" "$2"
  expect_status native 0
  preloaded shim CUDASIM_DEVICES=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
    -- "$apps/idleshapes_linked" "$1" "$2"
  expect_same native shim
  waited=$(figure_of frees_waited report.json)
  idle=$(figure_of frees_idle report.json)
  [[ $waited =~ ^[0-9]+$ && $idle =~ ^[0-9]+$ ]] || fail "no figure of frees in report.json"
  expect_equal "frees" "$2" $((waited + idle))
}

# Shapes of programs, by how many frees wait at most: one for each thread.
# shape_case SHAPE MOST
shape_case() {
  local waited idle rounds=50

  shape_run "$1" "$rounds"
  [[ $waited -le $2 ]] || fail "$waited frees of $rounds waited, more than $2"
  [[ $idle -ge $((rounds - $2)) ]] || fail "$idle frees of $rounds found the GPU idle"
}

# Each free waits.
# shape_waits_case SHAPE
shape_waits_case() {
  local waited idle rounds=50

  shape_run "$1" "$rounds"
  expect_equal "frees that waited" "$rounds" "$waited"
}
for shape in cublaslt triton stream events torch graph prefetch peer; do
  add_case "idle shape $shape" shape_case "$shape" 1
done
add_case "idle shape per-thread" shape_case per-thread 2
# The first call that counts for one GPU alone voids what was known.
# How often the two threads meet so is up to them: in 200 runs 2 to 8 times of 50.
add_case "idle shape gpus" shape_case gpus 10
add_case "idle shape peers" shape_case peers 2
# Launch attributes that are known keep the order of their stream; of another nobody knows.
add_case "idle shape last known attribute" shape_case last-known 1
add_case "idle shape unknown attribute" shape_waits_case unknown
# What docs/free.md says of shapes that are never found idle.
for shape in six new-stream event-sync new-graph; do
  add_case "idle shape $shape" shape_waits_case "$shape"
done
# The per-thread default stream is one of several: a copy there proves nothing.
for way in shared static linked dlsym proc; do
  add_case "idle $way legacy stream" idle_case "idle_$way" legacy 0
done
add_case "idle ptds copies" idle_case idle_ptds legacy "$idle_rounds"
# The owner, each time; never the accessor.
add_case "idle linked peer" idle_case idle_linked peer "$idle_rounds"
add_case "idle wait" idle_case idle_linked "done" "$idle_rounds" GPUSHIM_FREE_SYNC=wait
add_case "idle private entry points" idle_case idle_shared "done" 0 CUDASIM_PRIVATE_ENTRIES=1

# Every function that is counted answers as the driver does.
counted_case() {
  need_file "$apps/counted"
  run_in native CUDASIM_ORACLE=0 -- "$apps/counted"
  expect_status native 0
  preloaded shim CUDASIM_ORACLE=0 -- "$apps/counted"
  expect_same native shim
}
add_case "idle counted functions" counted_case

# The line of the report, and what it counts.
idle_report_case() {
  preloaded shim -- "$apps/freewait_linked"
  expect_status shim 0
  expect_clean shim.err
  preloaded leaky GPUSHIM_VERBOSE=2 -- "$apps/leaky_linked"
  expect_text leaky.err \
    '^==[0-9]+==   frees          [1-9][0-9,]* waited [0-9.]+ (us|ms) in all, [0-9.]+ % found the device idle( \(GPUSHIM_FREE_SYNC=lazy saves the waits\))?$'
}
add_case "idle report" idle_report_case

# A function that no table has, looked up by name: every free waits from then on, and a
# line says so if the user wants to know.
# unknown_case WAY NAME ENDS
unknown_case() {
  need_file "$apps/unknown"
  preloaded shim GPUSHIM_VERBOSE=2 CUDASIM_LOG=2 -- "$apps/unknown" "$1" "$2"
  expect_status shim 0
  expect_count shim.err '^gpushim: .*every free waits' "$3"
  expect_equal "synchronizes" $((1 + 10 * $3)) "$(grep -c '^cudasim: cuCtxSynchronize' shim.err)"
}
add_case "idle unknown by dlsym" unknown_case dlsym cuMemcpyTomorrowAsync 1
add_case "idle absent by dlsym" unknown_case dlsym cuMemcpyYesterdayAsync 0
add_case "idle absent by dlsym, next" unknown_case next cuMemcpyYesterdayAsync 0
add_case "idle unknown behind the library" unknown_case next cuLaunchKernel 1
add_case "idle known by dlsym" unknown_case dlsym cuLaunchKernel 0
add_case "idle harmless by dlsym" unknown_case dlsym cuDeviceGetCount 0
add_case "idle another library's name" unknown_case dlsym cublasCreate_v2 0
add_case "idle known by cuGetProcAddress" unknown_case proc cuMemcpyHtoDAsync 0
add_case "idle harmless by cuGetProcAddress" unknown_case proc cuCtxGetId 0
add_case "idle unknown by cuGetProcAddress" unknown_case proc cuMemcpyTomorrowAsync 0
# A name of libcufile's, found: no function of the driver's.
add_case "idle cuFile by dlsym" unknown_case dlsym cuFileDriverOpen 0
add_case "idle tables behind the library" unknown_case next cuGetExportTable 1

# What counts in a wrapper of its own, and what hands out functions; of the other hooked functions
# the driver's own gives the GPU nothing.
for name in cuGraphLaunch cuGraphLaunch_ptsz cuMemPrefetchAsync cuMemPrefetchAsync_v2_ptsz \
  cuMemMapArrayAsync cuMemcpyDtoH_v2 cuMemAllocAsync cuMemAllocFromPoolAsync_ptsz cuMemFreeAsync \
  cuMemAdvise cuStreamAttachMemAsync cuGraphInstantiateWithFlags cuMulticastBindMem \
  cuGetProcAddress cuGetProcAddress_v2; do
  add_case "idle behind the library, $name" unknown_case next "$name" 1
done
for name in cuMemAlloc_v2 cuMemFree_v2 cuMemHostAlloc cuMemGetInfo_v2 cuPointerGetAttribute \
  cuCtxSynchronize cuEventCreate cuDeviceGetCount; do
  add_case "idle behind the library, $name" unknown_case next "$name" 0
done

# A private table of the driver's: handed on as it is, and from then on every free waits. The
# log, the report and its JSON name the table.
# table_case WHAT ENDS
table_case() {
  local name='private table 63756461-7369-6d20-6265-68696e643031'
  need_file "$apps/unknown"
  same_as_native GPUSHIM_LOOKUP_LOG=lookups -- "$apps/unknown" table "$1"
  expect_status native 0
  [[ $1 == null ]] || expect_text lookups '^cuGetExportTable [0-9a-f-]{36} [0-9]+ -> driver$'
  preloaded told GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
    GPUSHIM_STATE_FILE=state CUDASIM_LOG=2 -- "$apps/unknown" table "$1"
  expect_count told.err "^gpushim: $name may submit GPU work that gpushim cannot count: from now on every free waits" "$2"
  expect_count told.err "frees take longer, because none finds the GPU idle: $name may submit" "$2"
  expect_equal "named in JSON" "$2" "$(grep -c "\"uncounted\": \"$name\"" report.json)"
  run_in of_the_file GPUSHIM_VERBOSE=2 -- "$build/gpushim" report state
  expect_count of_the_file.out "frees take longer, because none finds the GPU idle: $name may submit" "$2"
  expect_equal "synchronizes" $((1 + 10 * $2)) "$(grep -c '^cudasim: cuCtxSynchronize' told.err)"
}
add_case "idle private table" table_case linked 1
add_case "idle private table of the runtime" table_case runtime 1
add_case "idle private table of nobody" table_case nobody 0
add_case "idle private table, no GUID, no place" table_case null 0

# What ended the proof is named once in the log, in the report and in its JSON, whatever the memory
# and the mode.
# ended_case NAME COUNT MODE ARGUMENT...: NAME is a regex; of unknown's ARGUMENTs
ended_case() {
  local name=$1 count=$2 mode=$3 what='every free waits'

  shift 3
  [[ $mode != lazy ]] || what='no free finds the GPU idle'
  need_file "$apps/unknown"
  run_in native -- "$apps/unknown" "$@"
  expect_status native 0
  preloaded told GPUSHIM_FREE_SYNC="$mode" GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json \
    GPUSHIM_OUTPUT_FILE=report.json GPUSHIM_STATE_FILE=state -- "$apps/unknown" "$@"
  expect_same native told
  expect_count told.err \
    "^gpushim: $name may submit GPU work that gpushim cannot count: from now on $what\$" "$count"
  expect_count told.err "frees take longer, because none finds the GPU idle: $name may submit" "$count"
  expect_count report.json "\"uncounted\": \"$name\"" "$count"
  run_in of_the_file -- "$build/gpushim" report state
  expect_count of_the_file.out "frees take longer, because none finds the GPU idle: $name may submit" "$count"
}
for memory in device pinned managed; do
  for mode in native lazy; do
    add_case "idle check ended, $memory, $mode" \
      ended_case cuMemcpyTomorrowAsync 1 "$mode" dlsym cuMemcpyTomorrowAsync "$memory"
    add_case "idle check holds, $memory, $mode" \
      ended_case cuLaunchKernel 0 "$mode" dlsym cuLaunchKernel "$memory"
  done
done
# Stand-ins by the names of OptiX, NVENC, NVDEC and optical flow.
for library in libnvoptix libnvidia-encode libnvcuvid libnvidia-opticalflow; do
  for mode in native lazy; do
    add_case "idle check ended, $library, $mode" \
      ended_case "$library\\.so\\.1" 1 "$mode" library "$build/order/launcher/$library.so.1"
  done
done
add_case "idle check holds, another library" \
  ended_case ".*" 0 native library "$build/order/launcher/libanother.so.1"

# A library that is opened later and looks a function up by RTLD_NEXT gets the wrapper, which counts.
# next_wrapper_case NAME ENDS [OPTION...]: of the library, which itself has the OPTIONs
next_wrapper_case() {
  need gcc
  need_file "$build/order/behind/liborder_wrapper.so"
  printf '%s\n' '#define _GNU_SOURCE' '#include <dlfcn.h>' 'void *gs_launcher;' \
    "__attribute__((constructor)) static void look_up(void) { gs_launcher = dlsym(RTLD_NEXT, \"$1\"); }" >next.c
  gcc -shared -fPIC -o libnext.so next.c -Wl,--no-as-needed "${@:3}" -L"$build/sim" -lcuda -ldl ||
    fail "gcc cannot build it"
  ended_case "$1" "$2" native library ./libnext.so
}
for name in cuLaunchKernel cuMemcpyDtoH_v2 cuGetProcAddress_v2; do
  add_case "idle check holds, next definition of $name" next_wrapper_case "$name" 0
done
add_case "idle check ended, next definition of another library's" next_wrapper_case cuLaunchKernel 1 \
  -Wl,-rpath,"$build/order/behind" "$build/order/behind/liborder_wrapper.so"

# What ended the single order of lazy frees is named, too; in the report of a program that relied on
# the order, or where devices are shown.
order_ends='freed memory is reused only once the GPU has finished with it'
# order_ended_case NAME ARGUMENT...
order_ended_case() {
  local name=$1

  shift
  need_file "$apps/unknown"
  preloaded told GPUSHIM_FREE_SYNC=lazy GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json \
    GPUSHIM_OUTPUT_FILE=report.json GPUSHIM_STATE_FILE=state -- "$apps/unknown" "$@"
  expect_status told 0
  expect_count told.err "^gpushim: $name ended the single order of lazy frees: $order_ends\$" 1
  expect_count told.err "^==[0-9]+== $order_ends: $name ended the single order of lazy frees\$" 1
  expect_count report.json "\"order_ended\": \"$name\"" 1
  run_in of_the_file -- "$build/gpushim" report state
  expect_count of_the_file.out "$order_ends: $name ended the single order" 1
  preloaded silent GPUSHIM_FREE_SYNC=lazy GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
    -- "$apps/unknown" "$@"
  expect_no_text silent.err 'single order'
  preloaded native GPUSHIM_VERBOSE=2 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
    -- "$apps/unknown" "$@"
  expect_no_text native.err 'single order'
  expect_no_text report.json order_ended
}
add_case "idle order ended by a private table" order_ended_case \
  'private table 63756461-7369-6d20-6265-68696e643031' table linked

# A program that relied on the order: the report says why that has ended.
# order_relied_case PROGRAM NAME
order_relied_case() {
  need_file "$build/order/order"
  preloaded shim GPUSHIM_FREE_SYNC=lazy GPUSHIM_LOG_FILE=log -- \
    "$build/order/order" --seeds 1 "$1"
  expect_status shim 0
  expect_count log "^==[0-9]+== $order_ends: $2 ended the single order of lazy frees\$" 1
}
add_case "idle order ended by a second stream" order_relied_case order.second_blocking_stream \
  cuStreamCreate
add_case "idle order ended by a table" order_relied_case order.private_table \
  'private table 63756461-7369-6d20-6265-68696e643031'
add_case "idle order ended by a library" order_relied_case order.launcher_is_loaded 'libnvoptix\.so\.1'
add_case "idle order ended by a transport" order_relied_case order.transport_is_loaded 'libgdrapi\.so'
add_case "idle order ended behind the library" order_relied_case order.launch_behind cuLaunchKernel

# The report's schema describes what ended the order and the proof.
order_schema_case() {
  local status=0

  need python3
  need_file "$apps/unknown"
  preloaded shim GPUSHIM_FREE_SYNC=lazy GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=report.json \
    -- "$apps/unknown" table linked
  expect_text report.json '"order_ended"'
  python3 -S "$sources/tests/e2e/report_json.py" validate "$sources/docs/schema/report-1.json" report.json \
    >validate.out 2>&1 || status=$?
  [[ $status -ne 77 ]] || skip "python3's jsonschema"
  [[ $status -eq 0 ]] || fail "$(cat validate.out)"
}
add_case "idle order ended, the report's schema" order_schema_case
