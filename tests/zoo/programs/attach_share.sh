#!/usr/bin/env bash
# attach_share.sh COMMAND... - gpushim sees as many allocations and frees of a program that it attaches to as of the
# same program under the library. The program makes the file ready, waits for begin, allocates and frees, makes done,
# and waits for end, in the folder ZOO_WAITS.

fail() {
  echo "$1"
  tail -qn 9 ./*.out ./*.err ./*.log
  kill "$pid" 2>/dev/null
  exit 1
}

# await FILE
await() {
  local i
  for ((i = 0; i < 1200; i++)); do
    [[ ! -e $1 ]] || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  fail "$way: no $1"
}

# count: allocations and frees of all kinds so far.
count() {
  "$BUILD/gpushim" stats --json "$pid" 2>>"$way.log" | python3 -Sc '
import json, sys
text = sys.stdin.read()
now = json.loads(text) if text else {"devices": []}  # it has no context
rows = now["devices"] + [now.get("pinned", {"allocs": 0, "frees": 0})]
print(sum(row["allocs"] for row in rows), sum(row["frees"] for row in rows))'
}

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
    before=$(count)
  fi
  : >begin
  await 'done'
  after=$(count)
  [[ $way != attached ]] || "$BUILD/gpushim" detach "$pid" >>"$way.log" 2>&1 || fail 'it does not detach'
  : >end
  wait "$pid" || fail "$way: status $?"
  seen="$((${after% *} - ${before% *})) $((${after#* } - ${before#* }))"
}

phase preloaded "$@"
wanted=$seen
phase attached "$@"
head -n 1 attached.log
echo "allocations and frees: under the library $wanted, attached $seen"
[[ ${wanted% *} -gt 9 && $wanted == "$seen" ]] || fail 'not the same'
cmp preloaded.out attached.out || fail 'other output'
