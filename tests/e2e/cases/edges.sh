# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# edges.sh - corners where a pool and a driver part ways: calls that fail half-way, frees
# that are refused or come in another stream's order, a device filled to the brim, a free
# that must not wait, an end inside a signal handler.

# edge_case CORNER
edge_case() {
  local settings=(CUDASIM_MEMORY=64M CUDASIM_DEVICES=3)

  run_in native "${settings[@]}" -- "$apps/edges_linked" "$1"
  preloaded shim "${settings[@]}" -- "$apps/edges_linked" "$1"
  expect_same native shim
  expect_clean shim.err
}
for corner in refused_destroy marked freed_in_order freed_elsewhere freed_in_capture unrelated_device \
  range_handle; do
  add_case "edges $corner" edge_case "$corner"
done

# The refused free is no error of the books, and the block is not lost.
refused_free_case() {
  same_as_native -- "$apps/edges_linked" refused_free
  expect_clean shim.err
}
add_case "edges refused_free" refused_free_case

# What was freed serves the next call, whatever holds it and whatever runs: a request is
# given up at once only where the device could never serve it.
pitched_beside_work_case() {
  local -x CUDASIM_MEMORY=64M

  same_as_native GPUSHIM_REPORT_ON=oom "$@" -- "$apps/edges_linked" pitched_beside_work
}
for setting in GPUSHIM_FREE_SYNC=native GPUSHIM_FREE_SYNC=lazy GPUSHIM_CHECK=quarantine:64M; do
  add_case "edges pitched_beside_work $setting" pitched_beside_work_case "$setting"
done

# Whatever the handler interrupts, the process ends at once and with its own status.
handler_case() {
  local round

  for round in 1 2 3 4 5; do
    preloaded "shim$round" -- "$apps/edges_linked" handler
    expect_status "shim$round" 7
    expect_no_text "shim$round.err" 'SUMMARY'
    expect_text "shim$round.err" '^gpushim: no report: '
  done
}
add_case "edges handler" handler_case

# Two plug-ins, each with a runtime of its own version, loaded at the same place in turn.
reload_case() {
  local name

  need gcc
  for name in 12 13; do
    printf '%s\n' 'int cudaMalloc(void **, unsigned long); int cudaFree(void *);' \
      'int run(void) { void *p = 0; int r = cudaMalloc(&p, 1000); return r ? r : cudaFree(p); }' \
      >plug.c
    gcc -shared -fPIC -o "plug$name.so" plug.c "$build/sim/libcudart.so.$name" ||
      fail "gcc cannot build the plug-in"
  done
  printf '%s\n' '#include <dlfcn.h>' '#include <stdio.h>' 'int main(void) {' \
    'for (int i = 0; i < 6; i++) {' \
    'void *h = dlopen(i & 1 ? "./plug13.so" : "./plug12.so", RTLD_NOW);' \
    'if (!h) { puts(dlerror()); return 1; }' \
    'printf("%d\n", ((int (*)(void))dlsym(h, "run"))()); dlclose(h); } return 0; }' >main.c
  gcc -o reload main.c -ldl || fail "gcc cannot build the program"
  same_as_native -- ./reload
  expect_clean shim.err
}
add_case "edges plug-ins with two runtimes in turn" reload_case
