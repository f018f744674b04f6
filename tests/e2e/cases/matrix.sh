# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# matrix.sh - every program in every way of reaching CUDA: standard output and status are
# the same with the library as without it, standard error has nothing but the report, and
# a program that frees all it allocates has a report of two lines.

# matrix_case PROGRAM EXPECT [ARGUMENT...]     EXPECT: clean, or any
matrix_case() {
  local program=$apps/$1 expect=$2

  shift 2
  need_file "$program"
  same_as_native -- "$program" "$@"
  expect_quiet native
  [[ -s native.out ]] || fail "the program printed nothing"
  if [[ $expect == clean ]]; then
    expect_clean shim.err
  else
    expect_only_report shim.err
  fi
}

for name in pipeline threads pinned managed async freewait sizes capture devices vmm churn goodargs transfers; do
  for way in $(ways_of "$name"); do
    add_case "matrix $name $way" matrix_case "${name}_$way" clean
  done
done
for name in leaky badfree referenced reset context rare fork vfork ipc oddities windows; do
  for way in $(ways_of "$name"); do
    add_case "matrix $name $way" matrix_case "${name}_$way" any
  done
done
# More managed memory than there is: never asked of a GPU.
if [[ $cuda_path == "$build/sim" ]]; then
  add_case "matrix rare linked, managed" matrix_case rare_linked any managed
fi
add_case "matrix lookup" matrix_case lookup clean
add_case "matrix ctor shared" matrix_case ctor_shared clean
add_case "matrix ctor static" matrix_case ctor_static clean

# The same programs with parts of the library switched off.
# switched_case PROGRAM VARIABLE
switched_case() {
  local program=$apps/$1

  same_as_native "$2" -- "$program"
  case $2 in
    GPUSHIM_ENABLE=off | GPUSHIM_TRACK=off) expect_quiet shim ;;
    *) expect_clean shim.err ;;
  esac
}

for setting in GPUSHIM_POOL=off GPUSHIM_STACK=off GPUSHIM_STACK=fp GPUSHIM_STACK=unwind \
  GPUSHIM_TRACK=off GPUSHIM_ENABLE=off; do
  for program in pipeline_shared threads_static pinned_linked async_proc sizes_static; do
    add_case "switched $setting $program" switched_case "$program" "$setting"
  done
done

# A thread and a context for each of several devices, with access to one another's memory.
# peers_case DEVICES [VARIABLE...]
peers_case() {
  run_in native CUDASIM_DEVICES="$1" -- "$apps/peers_linked"
  preloaded shim CUDASIM_DEVICES="$1" "${@:2}" -- "$apps/peers_linked"
  expect_same native shim
  expect_clean shim.err
}
for devices in 4 1; do
  add_case "matrix peers on $devices" peers_case "$devices"
  add_case "matrix peers on $devices lazy" peers_case "$devices" GPUSHIM_FREE_SYNC=lazy
  add_case "matrix peers on $devices, late work" peers_case "$devices" CUDASIM_SCHEDULE=hostile
done
add_case "matrix peers without a pool" peers_case 4 GPUSHIM_POOL=off
