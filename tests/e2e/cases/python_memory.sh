# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# python_memory.sh - gpushim.memory, the Python form of gpushim_memory.h: each function of the header, wrong
# arguments, threads, awaited allocations, objects that are alive when Python ends, types. The output is the same with
# the library and without it. docs/api.md

uses python

memory_programs=$sources/tests/apps/python/memory
memory_path=PYTHONPATH=$sources/include/python
memory_headers=("$sources"/include/gpushim_memory.h "$sources"/include/gpushim_memory/*.h)

# memory_case VERSION PROGRAM [ARGUMENT...]: natively and with the library. Leaves native.* and shim.*.
memory_case() {
  find_python "$1"
  need_file "$cuda_path/libgpushim-python.so"
  mkdir native_folder shim_folder # a program may write files
  (cd native_folder && run_in ../native "$memory_path" -- "$python" -SB "$memory_programs/$2" "${@:3}")
  expect_status native 0
  expect_quiet native
  (cd shim_folder && preloaded ../shim "$memory_path" -- "$python" -SB "$memory_programs/$2" "${@:3}")
  expect_same native shim
  expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}

# forms.py ends with 1 for a function of the header that no form has called.
memory_forms_lack_case() {
  find_python 3.11
  sed 's/^static inline gpushim_result gpushim_stream_wait(/static inline gpushim_result gpushim_stream_drain(/' \
    "${memory_headers[@]}" >header.h
  preloaded shim "$memory_path" -- "$python" -SB "$memory_programs/forms.py" header.h
  expect_status shim 1
  expect_text shim.err "no Python form calls \['stream_drain'\]; not of the header: \['stream_wait'\]"
}

# memory_text_case VERSION NAME [ARGUMENT...]: the output of NAME.py is NAME.txt.
memory_text_case() {
  memory_case "$1" "$2.py" "${@:3}"
  diff -u "$memory_programs/$2.txt" native.out || fail "$2.py under Python $1 ends otherwise"
}

# memory_exits_case VERSION HOLDER: what a daemon thread or the sys module holds to the end is not freed.
memory_exits_case() {
  local how

  find_python "$1"
  for how in "${@:2}"; do
    # shellcheck disable=SC2086  # a holder and "closed"
    run_in native "$memory_path" -- "$python" -W ignore -SB "$memory_programs/exits.py" $how
    expect_status native 0
    expect_quiet native
    # shellcheck disable=SC2086
    preloaded shim "$memory_path" -- "$python" -W ignore -SB "$memory_programs/exits.py" $how
    expect_status shim 0
    expect_only_report shim.err
    case $how in
      sys | waits | calls* | _exit) expect_text shim.err 'SUMMARY: gpushim: 0 errors, 1[0-9][.][0-9] KiB leaked' ;;
      *) expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked' ;;
    esac
  done
}

for version in 3.8 3.11 3.13; do
  add_case "python memory forms $version" memory_text_case "$version" forms "${memory_headers[@]}"
  add_case "python memory bad $version" memory_text_case "$version" bad
  add_case "python memory threads $version" memory_case "$version" threads.py "$(sized 1 20)"
  add_case "python memory awaits $version" memory_text_case "$version" awaits
  add_case "python memory exits $version" memory_exits_case "$version" global cycle builtins sys atexit \
    pressure deleter 'global closed'
  add_case "python memory exits, threads $version" memory_exits_case "$version" waits calls 'calls closed' fork _exit
done
add_case "python memory forms of another header" memory_forms_lack_case

# What is missing is CUDA: the text of gpushim.h, that of a missing library, would lead astray.
memory_inactive_case() {
  find_python 3.11
  need_file "$cuda_path/libgpushim-python.so"
  cat >make.py <<'EOF'
import os, sys
from gpushim.memory import Buffer, Error
if sys.argv[1:]:
    Buffer(10).close()
    child = os.fork()
    if child:
        sys.exit(os.waitpid(child, 0)[1])
try:
    Buffer(10)
except Error as error:
    print(error.name, error)
EOF
  run_in none "$memory_path" CUDASIM_DEVICES=0 -- "$python" -SB make.py
  expect_equal 'without a device' 'INACTIVE Buffer(10, DEVICE): there is no CUDA in this process, or no device' "$(<none.out)"
  run_in child "$memory_path" -- "$python" -SB make.py fork
  expect_equal 'in a forked child' 'INACTIVE Buffer(10, DEVICE): there is no CUDA in this process, or no device' "$(<child.out)"
}
add_case "python memory without CUDA" memory_inactive_case

# Frees that fail while Python ends have nobody to tell; late work of streams meets no freed memory.
memory_end_case() {
  find_python 3.11
  run_in native "$memory_path" "$@" -- "$python" -SB "$memory_programs/exits.py" global
  expect_status native 0
  expect_quiet native
  preloaded shim "$memory_path" "$@" -- "$python" -SB "$memory_programs/exits.py" global
  expect_status shim 0
}
add_case "python memory exits, failed frees" memory_end_case CUDASIM_FAIL='cuMemFree:*=719,cuMemFreeHost:*=719'
add_case "python memory exits hostile" memory_end_case CUDASIM_SCHEDULE=hostile CUDASIM_SEED=4 CUDASIM_FREE_WAITS=pinned=none

# Copies that are late: a hostile schedule sees memory that is freed or reused too early.
memory_hostile_case() {
  local seed

  find_python 3.11
  for seed in $(sized 1 '1 2 3 4 5 6'); do
    run_in native "$memory_path" CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- \
      "$python" -SB "$memory_programs/forms.py" "${memory_headers[@]}"
    expect_status native 0
    preloaded shim "$memory_path" CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- \
      "$python" -SB "$memory_programs/forms.py" "${memory_headers[@]}"
    expect_same native shim
    expect_clean shim.err
  done
}
add_case "python memory forms hostile" memory_hostile_case

# Failures of the driver: an exception with the driver's name, and nothing is lost.
memory_faults_case() {
  find_python 3.11
  cat >faults.py <<'PY'
from gpushim.memory import *
pool, buffer, met = StagingPool(4), Buffer(4096), set()
for number in range(60):
    try:
        with Buffer(100, Place.PINNED) as pinned, Buffer(200) as device:
            pinned.put(b"1234")
            device.copy_from(pinned, 100, stream=0)
            upload(buffer, b"5678", pool=pool, interval=0).wait()
            with Readback(pool, buffer, stream=0) as read:
                read.wait()
            device.resize(5000 + number)
    except Error as error:
        met.add((error.name, error.cuda_name))
print(sorted(met), pool.taken)
PY
  for name in cuMemAlloc cuMemHostAlloc cuMemcpyAsync cuEventRecord cuEventCreate; do
    run_in native "$memory_path" CUDASIM_FAIL="$name:*%20=719" CUDASIM_SEED=3 -- "$python" -SB faults.py
    expect_status native 0
    expect_text native.out "^\[\('CUDA', 'CUDA_ERROR_LAUNCH_FAILED'\)\] 0$"
    preloaded shim "$memory_path" CUDASIM_FAIL="$name:*%20=719" CUDASIM_SEED=3 -- "$python" -SB faults.py
    expect_status shim 0
    expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  done
}
add_case "python memory faults" memory_faults_case

# Without a device, a driver, or the C part: one exception, and plain host memory where there is the C part.
memory_none_case() {
  local program='from gpushim.memory import *
for place in Place:
    try:
        print(place.name, Buffer(4, place, zeroed=True).get())
    except Error as error:
        print(place.name, error.name)'

  find_python 3.11
  mkdir -p empty
  cp "$cuda_path/libgpushim-python.so" empty/
  printf '%s\n' 'DEVICE INACTIVE' "HOST bytearray(b'\\x00\\x00\\x00\\x00')" 'PINNED INACTIVE' 'MANAGED INACTIVE' >wanted
  run_in native "$memory_path" CUDASIM_DEVICES=0 -- "$python" -SB -c "$program"
  diff -u wanted native.out || fail 'without a device'
  preloaded shim "$memory_path" CUDASIM_DEVICES=0 -- "$python" -SB -c "$program"
  diff -u wanted shim.out || fail 'without a device, with the library'
  run_in native "$memory_path" LD_LIBRARY_PATH="$case_dir/empty" -- "$python" -SB -c "$program"
  diff -u wanted native.out || fail 'without a driver'
  rm empty/*
  run_in native "$memory_path" LD_LIBRARY_PATH="$case_dir/empty" -- "$python" -SB -c "$program"
  expect_count native.out ' INACTIVE$' 4
  run_in native "$memory_path" LD_LIBRARY_PATH="$case_dir/empty" -- "$python" -SB -c \
    'import gpushim.memory; gpushim.memory.Buffer(4)'
  expect_text native.err "gpushim's C part is missing or of another version: have libgpushim-python.so "
}
add_case "python memory without a device" memory_none_case

# The installed library has the C part beside it.
memory_beside_case() {
  find_python 3.11
  mkdir beside cuda
  cp "$shim" "$cuda_path/libgpushim-python.so" beside/
  cp -P "$cuda_path"/libcuda.so* cuda/
  run_in beside "$memory_path" LD_PRELOAD="$case_dir/beside/libgpushim.so" LD_LIBRARY_PATH="$case_dir/cuda" -- \
    "$python" -SB -c 'from gpushim.memory import *; print(Buffer(4, zeroed=True).get())'
  expect_text beside.out '^bytearray'
}
add_case "python memory beside the library" memory_beside_case

# A lost buffer is reported at the program's own line, not at one of the module or of ctypes.
memory_lost_case() {
  find_python 3.11
  mkdir -p site-packages
  cp -r "$sources/include/python/gpushim" site-packages/
  cat >loses.py <<'PY'
import os, sys
sys.path.insert(0, "site-packages")
from gpushim.memory import Buffer
def loses():
    return Buffer(5000)
kept = loses()
os._exit(0)
PY
  preloaded shim -- "$python" -SB loses.py
  expect_text shim.err 'LEAK 1: 4[.]88 KiB in 1 allocation'
  expect_text shim.err '#0 loses +loses[.]py:5$'
}
add_case "python memory lost" memory_lost_case

# find_mypy: sets `mypy` to that of an environment with the module, or skips.
find_mypy() {
  local venv=$scratch/mypy

  need flock
  exec 9>"$venv.lock"
  flock 9
  if [[ ! -e $venv.made && ! -e $venv.lacks ]]; then
    if ! python3 -m venv "$venv" >venv.log 2>&1; then
      echo 'python3 with venv' >"$venv.lacks"
    elif ! "$venv/bin/pip" install --quiet --retries 1 mypy >venv.log 2>&1; then
      echo 'PyPI, for mypy' >"$venv.lacks"
    else
      cp -r "$sources/include/python/gpushim" "$venv"/lib/python3*/site-packages/
      touch "$venv.made"
    fi
  fi
  exec 9>&-
  [[ ! -e $venv.lacks ]] || skip "$(<"$venv.lacks")"
  mypy=$venv/bin/mypy
}

# Type hints: a program without a mistake has none, and each mistake is found.
memory_types_case() {
  local line

  find_mypy
  "$mypy" --strict --cache-dir=cache "$memory_programs/typed.py" >typed.out 2>&1 || { cat typed.out; fail 'typed.py'; }
  "$mypy" --strict --cache-dir=cache "$memory_programs/typed_wrong.py" >wrong.out 2>&1
  while IFS=: read -r line _; do
    grep -q "typed_wrong.py:$line: error" wrong.out || { cat wrong.out; fail "the mistake in line $line"; }
  done < <(grep -n ' = ' "$memory_programs/typed_wrong.py")
}
add_long_case "python memory types" memory_types_case

# A buffer that grows in place: what does not fit changes nothing, nor does a call of the driver that fails; and where
# addresses or pages cannot be had, it grows by a copy. It alone sees: data lost with a mapping that failed, memory of one
# that stays.
memory_in_place_case() {
  local failure

  find_python 3.11
  need_file "$cuda_path/libgpushim-python.so"
  cat >program.py <<'PROGRAM'
import gpushim
from gpushim.memory import Buffer, Error
data, live = bytes(range(256)) * 4096, lambda: gpushim.statistics(gpushim.ALL_DEVICES).live_bytes
with Buffer(5 << 20, in_place=True, growth=16) as grows:
    grows.put(data, 4 << 20)
    place = grows.address
    for size in (20 << 20, 100 << 20, 1 << 60):
        try:
            grows.resize(size)
            print("grown", end=" ")
        except Error as error:
            print(error.name, end=" ")
        assert grows.get(1 << 20, 4 << 20) == data
    print(grows.in_place, grows.address == place, grows.nbytes >> 20)
print("live", live())
PROGRAM
  for failure in cuMemMap:9=2 cuMemMap:2=2 cuMemSetAccess:2=1 cuMemCreate:2=2; do
    preloaded shim "$memory_path" CUDASIM_MEMORY=64M CUDASIM_FAIL="$failure" -- "$python" -SB program.py
    expect_status shim 0
    expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked'
    case $failure in
      cuMemSetAccess*) expect_equal "$failure" 'CUDA NO_MEMORY NO_MEMORY True True 5 live 0' "$(xargs <shim.out)" ;;
      *:2=2) expect_equal "$failure" 'NO_MEMORY NO_MEMORY NO_MEMORY True True 5 live 0' "$(xargs <shim.out)" ;;
      *) expect_equal "$failure" 'grown NO_MEMORY NO_MEMORY True True 20 live 0' "$(xargs <shim.out)" ;;
    esac
  done
  preloaded shim "$memory_path" CUDASIM_MEMORY=64M CUDASIM_FAIL=cuMemAddressReserve:1=2 GPUSHIM_POOL_VMM=off -- "$python" -SB program.py
  expect_status shim 0
  expect_equal "by a copy" 'grown NO_MEMORY NO_MEMORY False False 20 live 0' "$(xargs <shim.out)"
}
add_case "python memory in place" memory_in_place_case

# What the module repeats of the C headers agrees with them; and each kind of change to a header is found.
memory_headers_case() {
  local change file wanted

  find_python "$1"
  run_in same "$memory_path" -- "$python" -SB "$sources/tests/apps/python/headers.py" "$sources"
  expect_status same 0
  expect_quiet same
  expect_text same.out '^1[0-9][0-9] functions, 1[0-9][0-9] members, [4-9][0-9] numbers$'
  [[ $1 == 3.11 ]] || return 0
  while IFS='|' read -r file change wanted; do
    rm -rf other
    mkdir -p other/include other/shim/api
    cp -r "$sources"/include/gpushim*.h "$sources"/include/gpushim_memory other/include
    cp "$sources"/shim/api/python_*.h other/shim/api
    sed -i -E "$change" "other/$file"
    ! cmp -s "other/$file" "$sources/$file" || fail "$file has nothing for $change"
    run_in other "$memory_path" -- "$python" -SB "$sources/tests/apps/python/headers.py" other
    expect_status other 1
    expect_text other.err "$wanted"
  done <<'CHANGES'
include/gpushim.h|s/^    gpushim_result \(\*report\)\(void\);/    gpushim_result (*between)(void);\n&/|^struct gpushim_functions: .*'between', 'report'
include/gpushim.h|s/\(\*record\)\(int on\);/(*record)(double on);/|^arguments of record: \['f8'\] in the header, \['i4'\] in Python$
include/gpushim.h|s/\(\*scope_path\)\(char \*out, size_t capacity\)/(*scope_path)(char *out, size_t capacity, int flags)/|^arguments of scope_path: \['p8', 'u8', 'i4'\] in the header
include/gpushim.h|s/uint64_t live_count, live_bytes;/uint64_t live_bytes, live_count;/|^struct gpushim_scope_totals: .*'live_bytes', 'live_count', 'peak_bytes'
include/gpushim.h|s/^    int has_address; /    uint64_t has_address; /|^has_address of struct gpushim_allocation: u8 in the header, i4 in Python$
include/gpushim.h|s/GPUSHIM_OFF = 7,/GPUSHIM_OFF = 17,/|^GPUSHIM_OFF: 17 in the header, 7 in Python$
include/gpushim.h|s/define GPUSHIM_CLASSES 131/define GPUSHIM_CLASSES 132/|^GPUSHIM_CLASSES: 132 in the header, 131 in Python$
include/gpushim_memory.h|s/GPUSHIM_MANAGED = 3 /GPUSHIM_MANAGED = 4 /|^GPUSHIM_MANAGED: 4 in the header, 3 in Python$
include/gpushim_memory.h|s/^    gpushim_place place;$/    size_t place;/|^place of struct gpushim_buffer: u8 in the header, i4 in Python$
include/gpushim_memory/rings.h|s/gpushim_ring_push\(struct gpushim_ring \*ring, void \*stream\)/gpushim_ring_push(struct gpushim_ring *ring)/|^gpushim_ring_push: .*'p8'\].* in the header, .*'p8', 'p8'\]
shim/api/python_memory.h|s/gpushim_python_memory_passed\(void \*event, int \*ready\)/gpushim_python_memory_passed(void *event)/|^gpushim_python_memory_passed: 
shim/api/python_calls.h|s/^    uint8_t code, bits;/    uint8_t bits, code;/|^struct gpushim_python_tensor: .*'bits', 'code'
CHANGES
}
for version in 3.8 3.11 3.13; do
  add_case "python memory headers $version" memory_headers_case "$version"
done
