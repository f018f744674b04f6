# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# owned.sh - gpushim_memory.h and gpushim.hpp: the same output natively and with the library,
# in every way of reaching CUDA; no leak; wrong arguments and failures of the driver leave
# everything as it was; asynchronous work under hostile schedules. docs/api.md

owned_seeds=${E2E_HOSTILE_SEEDS:-$(sized 1 12)}

# owned_same_case WAY MODE...
owned_same_case() {
  need_file "$apps/owned_$1"
  same_as_native -- "$apps/owned_$1" "${@:2}"
  expect_quiet native
  expect_clean shim.err
}
for way in $(ways_of owned); do
  add_case "owned $way" owned_same_case "$way"
  for mode in bad transfers threads peers files; do
    add_case "owned $mode $way" owned_same_case "$way" "$mode"
  done
done
add_case "owned random" owned_same_case linked random 7

# Arguments right and wrong: each wrong one gets its code, and nothing is lost.
owned_calls_case() {
  local calls

  calls=$(sized 40000 1000000)
  need_file "$apps/apirandom_$1"
  same_as_native -- "$apps/apirandom_$1" "$2" "$calls"
  expect_status native 0
  expect_text shim.err 'SUMMARY: gpushim: [0-9]+ errors?, 0 B leaked in 0 allocations'
}
for way in $(ways_of apirandom); do
  add_case "owned calls at random $way" owned_calls_case "$way" 1
done

# The headers' code under AddressSanitizer and UBSan: it is the program's own.
# owned_sanitized_case NAME [ARGUMENT...]
owned_sanitized_case() {
  local common=$sources/tests/apps/common include runtime

  include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$build/CMakeCache.txt")
  runtime=$("${CC:-cc}" -print-file-name=libasan.so)
  [[ $runtime == /* ]] || skip "${CC:-cc} with AddressSanitizer"
  "${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
    -DAPP_DRIVER_LINKED=1 -I "$sources/include" -I "$common" -I "$sources/tests/sim/kernels" -isystem "$include" \
    "$sources/tests/apps/$1.c" "$common"/{app,driver,gpu,launch}.c -o program -L "$build/sim" -lcuda -ldl -lpthread ||
    fail "$1.c with sanitizers"
  export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
  run_in native -- ./program "${@:2}"
  expect_status native 0
  run_in shim LD_PRELOAD="$runtime $shim" -- ./program "${@:2}"
  expect_same native shim
}
add_case "owned calls at random, sanitized" owned_sanitized_case apirandom 3 "$(sized 20000 200000)"
# Without captures buffers grow in place, and are defragmented: both synchronize the context.
add_case "owned calls without captures, sanitized" owned_sanitized_case apirandom 4 "$(sized 20000 200000)" nocapture
add_long_case "owned sanitized" owned_sanitized_case owned
for name in ringkernel dotcompute genesis consolidated; do
  add_long_case "owned sanitized $name" owned_sanitized_case "$name"
done
for mode in 'random 5' transfers 'staging 1' 'rings 1' threads bad; do
  # shellcheck disable=SC2086  # a mode and its seed
  add_long_case "owned sanitized ${mode%% *}" owned_sanitized_case owned $mode
done

# What a device says of managed memory.
owned_visibility_case() {
  run_in native CUDASIM_ATTRIBUTES="$1" -- "$apps/owned_linked"
  expect_text native.out "^visibility: $2\$"
  preloaded shim CUDASIM_ATTRIBUTES="$1" -- "$apps/owned_linked"
  expect_same native shim
}
add_case "owned visibility" owned_visibility_case CONCURRENT_MANAGED_ACCESS=1 0
add_case "owned visibility without concurrent access" owned_visibility_case CONCURRENT_MANAGED_ACCESS=0 1
add_case "owned visibility without managed memory" owned_visibility_case \
  MANAGED_MEMORY=0,CONCURRENT_MANAGED_ACCESS=0 2

# What is served without the pool, and what is not recorded, is the same.
owned_option_case() {
  same_as_native "$1" -- "$apps/owned_linked"
}
for option in GPUSHIM_POOL=off GPUSHIM_FREE_SYNC=lazy GPUSHIM_TRACK=off GPUSHIM_ENABLE=off; do
  add_case "owned $option" owned_option_case "$option"
done

# No device: plain host memory alone works.
owned_none_case() {
  run_in native CUDASIM_DEVICES=0 -- "$apps/owned_$1" none
  expect_status native 0
  expect_count native.out '^(device|pinned|managed|in a stream|streams|ring|peers|file): gpushim is not active' 8
  expect_count native.out '^(host|resize|copy|free|free what failed): success$' 5
  preloaded shim CUDASIM_DEVICES=0 -- "$apps/owned_$1" none
  expect_same native shim
}
for way in shared linked dlsym; do
  add_case "owned without a device $way" owned_none_case "$way"
done

# Nor where there is no driver at all.
owned_no_driver_case() {
  mkdir empty
  run_in native LD_LIBRARY_PATH="$case_dir/empty" -- "$apps/owned_dlsym" none
  expect_status native 0
  expect_text native.out '^device: gpushim is not active'
  expect_text native.out '^host: success$'
  preloaded shim LD_LIBRARY_PATH="$case_dir/empty" -- "$apps/owned_dlsym" none
  expect_same native shim
}
add_case "owned without a driver" owned_no_driver_case

owned_peers_case() {
  same_as_native CUDASIM_DEVICES=3 -- "$apps/owned_linked" peers
  expect_clean shim.err
}
add_case "owned peers of three" owned_peers_case

# ---- in the order of streams --------------------------------------------------------------

# owned_hostile_case WAY MODE: what the schedule may reorder is not seen.
owned_hostile_case() {
  local seed

  need_file "$apps/owned_$1"
  for ((seed = 1; seed <= owned_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/owned_$1" "$2" "$seed"
    expect_status native 0
    expect_no_text native.err 'cudasim'
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" -- "$apps/owned_$1" "$2" "$seed"
    expect_same native shim
    expect_clean shim.err
    # Nor does anything rest on a free that waits.
    run_in unwaited CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" CUDASIM_FREE_WAITS=none -- \
      "$apps/owned_$1" "$2" "$seed"
    expect_same native unwaited
    expect_no_text unwaited.err 'cudasim'
  done
}
for way in $(ways_of owned); do
  add_case "owned staging $way" owned_hostile_case "$way" staging
  add_case "owned rings $way" owned_hostile_case "$way" rings
done
add_case "owned random hostile" owned_hostile_case linked random

# What of FILE: the lines that the program prints of it, by tools of the system alone.
file_lines() {
  need python3
  python3 -S - "$1" <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
for begin, length in (0, None), (4096, 12345), (4097, None), (1, 1):
    part = data[begin:] if length is None else data[begin:begin + length]
    total = int.from_bytes(part, "big") % 36028797018963913
    print(f"from {begin}: {len(part)} bytes, {total:016x}")
    whole = total if begin == 0 else whole
print(f"collected: {whole:016x}")
print("stopped: out of memory")
PY
}

# A file larger than the device's memory, through small chunks; its folder on a disk, where
# O_DIRECT works, or in memory, where it may not.
owned_file_case() {
  local folder=$2 seed

  mkdir -p "$folder"
  head -c "$3" /dev/urandom >"$folder/data.bin"
  file_lines "$folder/data.bin" >wanted
  for ((seed = 1; seed <= owned_seeds; seed++)); do
    run_in native CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" CUDASIM_MEMORY=2M -- \
      "$apps/owned_$1" file "$folder/data.bin" "$4"
    expect_status native 0
    diff -u wanted native.out || fail 'a checksum'
    preloaded shim CUDASIM_SCHEDULE=hostile CUDASIM_SEED="$seed" CUDASIM_MEMORY=2M -- \
      "$apps/owned_$1" file "$folder/data.bin" "$4"
    expect_same native shim
    expect_clean shim.err
  done
  rm -f "$folder/data.bin"
  [[ $folder == . ]] || rmdir "$folder"
}
for way in $(ways_of owned); do
  add_case "owned file $way" owned_file_case "$way" . 300001 32768
done
add_case "owned file larger than the device" owned_file_case linked . "$(sized 2200000 3000000)" 100000
[[ ! -d /dev/shm ]] ||
  add_case "owned file in memory" owned_file_case linked "/dev/shm/gpushim-owned-$$" 262144 65536

# It is read past the page cache where that can be, but from an offset that is none of a block.
owned_direct_case() {
  head -c 20480 /dev/urandom >data.bin
  dd if=data.bin of=/dev/null iflag=direct bs=4096 2>dd.log || skip 'no O_DIRECT here'
  native native "$apps/owned_linked" direct data.bin
  printf 'from %s: direct\n' '0, 8192 bytes' '8192, 8192 bytes' '16384, 4096 bytes' >wanted
  echo 'from 1, 10 bytes: through the page cache' >>wanted
  diff -u wanted native.out || fail 'how it is read'
  preloaded shim -- "$apps/owned_linked" direct data.bin
  expect_same native shim
}
add_case "owned file past the page cache" owned_direct_case

# ---- failures -----------------------------------------------------------------------------

# A fifth of the calls of a driver's function fail. The program checks its data and ends with
# what it allocated free; natively it has to have met failures.
owned_faults_case() {
  local what name

  for name in "$@"; do
    for what in $(sized 2 '2 999'); do
      run_in native CUDASIM_FAIL="$name:*%20=$what" CUDASIM_SEED=3 -- "$apps/owned_linked" faults 3
      expect_status native 0
      expect_text native.out '^faults: met$'
      preloaded shim CUDASIM_FAIL="$name:*%20=$what" CUDASIM_SEED=3 -- "$apps/owned_linked" faults 3
      expect_status shim 0
      expect_text shim.err 'SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations'
    done
  done
}
add_case "owned faults of memory" owned_faults_case cuMemAlloc cuMemHostAlloc cuMemAllocManaged \
  cuMemFree cuMemFreeHost cuCtxGetDevice
add_case "owned faults of work" owned_faults_case cuMemcpyAsync cuMemsetD8Async cuLaunchHostFunc \
  cuStreamSynchronize cuEventSynchronize cuEventRecord
add_case "owned faults of objects" owned_faults_case cuEventCreate cuStreamCreate cuStreamDestroy

# ---- C and C++ ----------------------------------------------------------------------------

# The headers alone, in each language, without a library.
owned_header_case() {
  local standard compiler source flags=(-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror -O2 -I "$sources/include")

  cat >user.c <<'C'
#include <gpushim_memory.h>
int main(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    return gpushim_buffer_create(&buffer, GPUSHIM_HOST, 10, 0, GPUSHIM_ZEROED) != GPUSHIM_OK ||
           gpushim_buffer_zero(&buffer, GPUSHIM_SYNC) != GPUSHIM_OK;
}
C
  cp user.c user.cpp
  cat >classes.cpp <<'CPP'
#include <gpushim.hpp>
int main()
{
    gpushim::scope scope("named");
    gpushim::buffer buffer(10, GPUSHIM_HOST);
    return buffer ? 0 : 1;
}
CPP
  for compiler in $(sized "${CC:-cc}" "${CC:-cc} clang"); do
    command -v "$compiler" >/dev/null || continue
    for standard in $(sized c99 'c99 c11 c17 c2x'); do
      if ! "$compiler" -std="$standard" "${flags[@]}" user.c -o c -ldl || ! ./c; then
        fail "$compiler, $standard"
      fi
    done
  done
  need "${CXX:-c++}"
  for compiler in $(sized "${CXX:-c++}" "${CXX:-c++} clang++"); do
    command -v "$compiler" >/dev/null || continue
    for standard in $(sized 17 '11 14 17 20'); do
      for source in user classes; do
        if ! "$compiler" -std="c++$standard" -Wold-style-cast "${flags[@]}" $source.cpp -o cpp -ldl || ! ./cpp; then
          fail "$compiler, C++$standard: $source"
        fi
      done
    done
  done
  if [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    cp user.cpp user.cu
    for standard in $(sized 17 '11 14 17 20'); do
      "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" -ccbin "${CXX:-c++}" -std="c++$standard" -Werror all-warnings \
        -I "$sources/include" -c user.cu -o user.o || fail "nvcc, C++$standard"
    done
  fi
  if ! "${CXX:-c++}" -std=c++17 -fno-exceptions "${flags[@]}" classes.cpp -o cpp -ldl || ! ./cpp; then
    fail 'without exceptions'
  fi
}
add_case "owned headers" owned_header_case

owned_raii_case() {
  need_file "$apps/raii_$1"
  same_as_native -- "$apps/raii_$1"
  expect_quiet native
  expect_clean shim.err
  preloaded leak -- "$apps/raii_$1" leak
  expect_text leak.err '^==[0-9]+== LEAK 1: 12.1 KiB in 1 allocation'
  expect_text leak.err '\[scope outer/inner\]'
}
for way in $(ways_of raii); do
  add_case "owned raii $way" owned_raii_case "$way"
done
