#!/usr/bin/env bash
# attach_share.sh COMMAND... - gpushim sees as many allocations and frees of a program that it attaches to as of the
# same program under the library. How much pinned memory JAX copies through depends on its threads.

# shellcheck source-path=SCRIPTDIR source=share_waits.sh
source "$(dirname "${BASH_SOURCE[0]}")/share_waits.sh"

# phase WAY COMMAND...: what is seen between ready and done, in `seen`.
phase() {
  local before='0 0' after settings=()
  way=$1
  shift

  rm -f ready begin 'done' end
  [[ $way == attached ]] || settings=(LD_PRELOAD="$BUILD/libgpushim.so" GPUSHIM_POOL=off GPUSHIM_REPORT_ON=off)
  env ZOO_WAITS="$PWD" "${settings[@]}" "$@" >"$way.out" 2>"$way.err" &
  pid=$!
  await ready
  if [[ $way == attached ]]; then
    "$BUILD/gpushim" attach "$pid" >"$way.log" 2>&1 || fail 'it does not attach'
  else
    before=$(count device)
  fi
  : >begin
  await 'done'
  after=$(count device)
  [[ $way != attached ]] || "$BUILD/gpushim" detach "$pid" >>"$way.log" 2>&1 || fail 'it does not detach'
  : >end
  wait "$pid" || fail "$way: status $?"
  set_seen "$before" "$after"
}

phase preloaded "$@"
wanted=$seen
phase attached "$@"
head -n 1 attached.log
echo "allocations and frees: under the library $wanted, attached $seen"
[[ ${wanted% *} -gt 9 && $wanted == "$seen" ]] || fail 'not the same'
cmp preloaded.out attached.out || fail 'other output'
