# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# host_pools.sh - pinned and managed memory from the pool (docs/host-memory.md): the same
# output as without it, no driver call in the steady state, and what is held goes back.

uses hostile

# in_rounds FILE CALL: how often the driver was called between the program's two lines.
in_rounds() {
  sed -n '/^rounds/,/^end of rounds/p' "$1" | grep -cE "^cudasim: ($2)( |\$)"
}
host_calls='cuMemHostAlloc|cuMemAllocHost_v2|cuMemFreeHost'

# both PROGRAM MODE ROUNDS [VARIABLE...]: without the library and with it; the same output.
both() {
  local -x CUDASIM_LOG=2

  need_file "$apps/$1"
  same_as_native "${@:4}" -- "$apps/$1" "$2" "$3"
  expect_status native 0
}

# host_pinned_case WAY
host_pinned_case() {
  both "hostpools_$1" pinned 10
  [[ $(in_rounds native.err "$host_calls") -eq 180 ]] || fail "natively each call is the driver's"
  expect_equal "driver calls in the rounds" 0 "$(in_rounds shim.err "$host_calls")"
}
# host_managed_case WAY
host_managed_case() {
  both "hostpools_$1" managed 10
  # Of five sizes the three beyond a page go back to the driver each time.
  expect_equal "driver calls for managed ranges" 30 "$(in_rounds shim.err cuMemAllocManaged)"
  expect_equal "and natively" 50 "$(in_rounds native.err cuMemAllocManaged)"
}
# No owner of a range sees the bytes of the one before.
host_fresh_case() {
  both "hostpools_$1" fresh 3
  expect_text shim.out '^hostpools: 0 bytes of managed memory not zero$'
  [[ $(in_rounds shim.err cuMemAllocManaged) -le 15 ]] || fail "small ranges are not kept"
}
# host_clean_case WAY MODE
host_clean_case() {
  need_file "$apps/hostpools_$1"
  same_as_native -- "$apps/hostpools_$1" "$2" 200
  expect_clean shim.err
}
# Each wrong free gets its native code, and is named.
host_bad_case() {
  same_as_native -- "$apps/hostpools_$1" bad
  expect_only_report shim.err
  expect_text shim.err '^==[0-9]+== SUMMARY: gpushim: [1-9][0-9]* errors, 0 B leaked'
}
# host_fork_case WAY
host_fork_case() {
  same_as_native -- "$apps/hostpools_$1" fork 3
  expect_text shim.out '^hostpools: the child ended with 0$'
}
# A new owner finds pages as the driver maps them, whatever the last one did to its own:
# host_pages_case MODE [VARIABLE...]
host_pages_case() {
  same_as_native "${@:2}" -- "$apps/hostpools_linked" "$1"
  expect_status native 0
}
# Managed and pinned memory that the program has protected, or set guards in, when it frees it: the next owner's zeros
# are not the first to fault there. Alone sees a signal within cudaMallocManaged, or cudaMallocHost of a large block.
host_protected_case() {
  need gcc
  cat >protected.c <<'C'
#include <stdio.h>
#include <sys/mman.h>
extern int cudaMallocManaged(void **, size_t, unsigned), cudaFree(void *), cudaMallocHost(void **, size_t),
    cudaFreeHost(void *);
int main(void)
{
    for (int change = 0; change < 4; change++) {
        size_t bytes[] = {4096, (size_t)4 << 20};
        for (int pinned = 0; pinned < 2; pinned++) {
            void *block = NULL;
            int made = pinned ? cudaMallocHost(&block, bytes[pinned]) : cudaMallocManaged(&block, bytes[pinned], 1);
            if (change < 2)
                mprotect(block, bytes[pinned], change ? PROT_READ : PROT_NONE);
            else
                madvise(block, bytes[pinned], change == 2 ? 102 /* MADV_GUARD_INSTALL */ : MADV_DONTNEED);
            printf("%d: %d %d", change, made, pinned ? cudaFreeHost(block) : cudaFree(block));
            made = pinned ? cudaMallocHost(&block, bytes[pinned]) : cudaMallocManaged(&block, bytes[pinned], 1);
            printf(", then %d %d\n", made, pinned ? cudaFreeHost(block) : cudaFree(block));
            fflush(stdout);
        }
    }
    return 0;
}
C
  gcc protected.c -o protected -L"$build/sim" -lcudart || fail "gcc"
  same_as_native -- ./protected
  expect_clean shim.err
}
add_case "host pools, memory that its owner has protected" host_protected_case

# A file that the program has mapped over its pinned memory is as the program left it: zeros for the next owner end
# in it otherwise, or with SIGBUS behind its end.
# host_mapped_over_case BYTES: of the file
host_mapped_over_case() {
  need gcc
  cat >over.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
extern int cudaMallocHost(void **, size_t), cudaFreeHost(void *);
int main(void)
{
    const size_t bytes = 2 << 20;
    void *first, *next;
    int file = open("data", O_RDWR);
    if (cudaMallocHost(&first, bytes) ||
        mmap(first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != first)
        return 2;
    printf("free %d\n", cudaFreeHost(first));
    printf("allocate %d\n", cudaMallocHost(&next, bytes));
    memset(next, 'x', bytes);
    return 0;
}
C
  gcc over.c -o over -L"$build/sim" -lcudart || fail "gcc"
  head -c "$1" /dev/zero | tr '\0' d >made
  cp made data
  run_in native -- ./over
  expect_status native 0
  cmp made data || fail "natively the file has changed"
  run_in shim LD_PRELOAD="$shim" -- ./over
  cmp made data || fail "the file has changed"
  expect_same native shim
}
add_case "host pools, a file mapped over" host_mapped_over_case 3000000
add_case "host pools, a short file mapped over" host_mapped_over_case 10000

for mode in pages spliced; do
  add_case "host pools $mode" host_pages_case $mode
  add_case "host pools $mode, not zeroed" host_pages_case $mode GPUSHIM_HOST_CLEAR=off
done
for way in shared static ptds linked dlsym proc; do
  add_case "host pools $way pinned" host_pinned_case "$way"
  add_case "host pools $way managed" host_managed_case "$way"
  add_case "host pools $way fresh" host_fresh_case "$way"
  add_case "host pools $way threads" host_clean_case "$way" threads
  add_case "host pools $way wrong frees" host_bad_case "$way"
  add_case "host pools $way fork" host_fork_case "$way"
done

# ---- Questions, and what rules reuse out ----------------------------------------------

# host_calls_case MODE
host_calls_case() {
  same_as_native -- "$apps/hostcalls_linked" "$1"
}
for mode in questions contexts attributes beyond; do
  add_case "host pools $mode" host_calls_case "$mode"
done
host_spoiled_case() {
  both hostcalls_linked spoiled 0
  expect_equal "each is the driver's" 7 "$(in_rounds shim.err cuMemAllocManaged)"
  expect_equal "and goes back to it" 7 "$(in_rounds shim.err cuMemFree_v2)"
  both hostcalls_linked plain 0
  expect_equal "of plain ones, the first is" 1 "$(in_rounds shim.err cuMemAllocManaged)"
}
add_case "host pools managed, spoiled" host_spoiled_case

# ---- Options ----------------------------------------------------------------------------

# host_off_case MODE CALL NATIVE VARIABLE: every call is the driver's again.
host_off_case() {
  both hostpools_linked "$1" 10 "$4"
  expect_equal "driver calls" "$(in_rounds native.err "$2")" "$(in_rounds shim.err "$2")"
  expect_equal "as many as the program makes" "$3" "$(in_rounds native.err "$2")"
}
add_case "host pools pinned off" host_off_case pinned "$host_calls" 180 GPUSHIM_POOL=device,managed
add_case "host pools managed off" host_off_case managed cuMemAllocManaged 50 GPUSHIM_POOL=device,pinned
add_case "host pools pool off" host_off_case pinned "$host_calls" 180 GPUSHIM_POOL=off

# Nothing is kept beyond the limit: large blocks go straight back.
host_release_case() {
  both hostpools_linked pinned 10 GPUSHIM_HOST_RELEASE=1M
  [[ $(in_rounds shim.err "$host_calls") -ge 20 ]] || fail "memory beyond the limit was kept"
  both hostpools_linked managed 10 GPUSHIM_HOST_RELEASE=1M
  [[ $(in_rounds shim.err cuMemAllocManaged) -ge 10 ]] || fail "a range beyond the limit was kept"
}
add_case "host pools limit of idle memory" host_release_case

# host_age_case: what has been idle for long goes back, by a synchronize alone.
host_age_case() {
  both hostpools_linked kept 12 GPUSHIM_POOL_TRIM=200ms
  [[ $(in_rounds shim.err cuMemFreeHost) -ge 5 ]] || fail "idle pinned memory was kept"
  both hostpools_linked kept 3 GPUSHIM_POOL_TRIM=0
  expect_equal "kept for ever" 0 "$(in_rounds shim.err cuMemFreeHost)"
}
add_case "host pools age" host_age_case

# What was pinned before is zero for its next owner where that is asked for; the pattern
# of the test is not, so that a block of the pool's shows it.
host_clear_case() {
  both hostpools_linked pinned 3 GPUSHIM_HOST_CLEAR=all
  both hostpools_linked pinned 3 GPUSHIM_HOST_CLEAR=off
}
add_case "host pools clear" host_clear_case

# For those who ask, the hits.
host_say_case() {
  preloaded shim GPUSHIM_VERBOSE=2 -- "$apps/hostpools_linked" pinned
  expect_text shim.err '^gpushim: pinned memory: 9[0-9] of 99 requests to the pool were served without'
  preloaded shim GPUSHIM_VERBOSE=2 -- "$apps/hostpools_linked" managed
  expect_text shim.err '^gpushim: managed memory: 2[0-9] of 55 requests were served without'
}
add_case "host pools hits" host_say_case

# ---- Out of memory ------------------------------------------------------------------------

# The driver is out of pinned memory: it is asked again with the caches emptied, then with
# what is idle given back, pinned and managed, and works.
host_full_case() {
  local before

  preloaded plain CUDASIM_LOG=2 -- "$apps/hostpools_linked" full
  expect_status plain 0
  expect_equal "without need nothing goes back" 0 "$(in_rounds plain.err cuMemFreeHost)"
  before=$(sed '/^rounds/,$d' plain.err | grep -cE '^cudasim: cuMemHostAlloc$')
  preloaded shim CUDASIM_LOG=2 \
    CUDASIM_FAIL="cuMemHostAlloc:$((before + 1)),cuMemHostAlloc:$((before + 2))" -- \
    "$apps/hostpools_linked" full
  expect_same plain shim
  # Three calls, and the lines that two of them fail.
  expect_equal "the driver is asked again" 5 "$(in_rounds shim.err cuMemHostAlloc)"
  [[ $(in_rounds shim.err cuMemFreeHost) -ge 2 ]] || fail "idle pinned memory was kept"
  # With an answer that stays, the program sees the driver's own.
  preloaded refused CUDASIM_LOG=2 CUDASIM_FAIL="cuMemHostAlloc:$((before + 1))+" -- \
    "$apps/hostpools_linked" full
  [[ $(<refused.status) == 2 ]] || fail "the driver's refusal did not reach the program"
  expect_text refused.err 'error 2 from gpu_host_alloc'
  expect_equal "device and managed memory went back, too" 2 \
    "$(sed -n '/^rounds/,$p' refused.err | grep -c '^cudasim: cuMemFree_v2')"
}
add_case "host pools driver out of pinned memory" host_full_case

# ---- Order ----------------------------------------------------------------------------------

add_case "hostile order pools." hostile_order_case pools.
for program in hostpools_linked hostpools_shared hostpools_ptds; do
  add_case "hostile $program" hostile_case "$program"
done
