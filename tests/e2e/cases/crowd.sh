# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# crowd.sh - many threads on a device that is full most of the time, while streams capture
# and contexts come and go: nothing breaks, and the library refuses no more than the device
# alone does. Who is refused depends on who comes first, so sums of several runs are laid
# side by side, with room for luck.

crowd_seeds=$(sized 1 4)

# crowd_refused NAME: what the run NAME was refused, from its line on stderr.
crowd_refused() {
  sed -n 's/^crowd: [0-9]* asked, \([0-9]*\) refused.*/\1/p' "$1.err"
}

crowd_case() {
  local program=$1 mode=$2 device=0 library=0 seed
  shift 2

  need_file "$apps/$program"
  for ((seed = 1; seed <= crowd_seeds; seed++)); do
    run_in native CUDASIM_MEMORY=48M -- "$apps/$program" "$seed" 16 300 "$@"
    expect_status native 0
    preloaded shim CUDASIM_MEMORY=48M GPUSHIM_REPORT_ON=oom GPUSHIM_FREE_SYNC="$mode" -- \
      "$apps/$program" "$seed" 16 300 "$@"
    expect_status shim 0
    device=$((device + $(crowd_refused native)))
    library=$((library + $(crowd_refused shim)))
  done
  ((library * 3 <= device * 4)) || fail "$library refused, without the library $device"
}
for mode in native lazy wait; do
  add_case "crowd linked $mode" crowd_case crowd_linked "$mode"
  add_case "crowd linked $mode, captures" crowd_case crowd_linked "$mode" captures infos contexts
done
add_case "crowd shared, captures" crowd_case crowd_shared native captures infos contexts
