#!/usr/bin/env bash
# share_waits.sh - read by attach_share.sh and trace_share.sh: waits for a program whose number is in `pid`, and counts
# what it allocates. The program makes the file ready, waits for begin, allocates and frees, makes done, and waits for
# end, in the folder ZOO_WAITS.

pid= # the reader sets it

# fail REASON
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
  fail "no $1"
}

# count device|pinned: allocations and frees of device memory so far; `pinned`: of pinned memory, too.
count() {
  "$BUILD/gpushim" stats --json "$pid" 2>>stats.log | python3 -Sc '
import json, sys
text = sys.stdin.read()
now = json.loads(text) if text else {"devices": []}  # it has no context
rows = now["devices"] + [now[kind] for kind in sys.argv[1:] if kind in now]
print(sum(row["allocs"] for row in rows), sum(row["frees"] for row in rows))' "$@"
}

# set_seen BEFORE AFTER: what was counted between, in `seen`.
set_seen() {
  # shellcheck disable=SC2034 # for the reader
  seen="$((${2% *} - ${1% *})) $((${2#* } - ${1#* }))"
}
