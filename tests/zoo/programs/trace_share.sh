#!/usr/bin/env bash
# trace_share.sh COMMAND... - gpushim trace records as many allocations and frees of a program that runs as the program
# makes, and knows their lines of Python. The program is one of attach_share.sh's.

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

# count: allocations and frees of all kinds so far.
count() {
  "$BUILD/gpushim" stats --json "$pid" 2>>stats.log | python3 -Sc '
import json, sys
now = json.load(sys.stdin)
rows = now["devices"] + [now["pinned"]]
print(sum(row["allocs"] for row in rows), sum(row["frees"] for row in rows))'
}

env ZOO_WAITS="$PWD" LD_PRELOAD="$BUILD/libgpushim.so" GPUSHIM_REPORT_ON=off "$@" >program.out 2>program.err &
pid=$!
await ready
"$BUILD/gpushim" trace "$pid" trace >trace.log 2>&1 &
tracing=$!
await trace
before=$(count) # answered after the start
sleep 0.1
: >begin
await 'done'
after=$(count)
kill -INT "$tracing"
wait "$tracing" || fail 'no trace with call stacks'
: >end
wait "$pid" || fail "status $?"
wanted="$((${after% *} - ${before% *})) $((${after#* } - ${before#* }))"
found=$("$BUILD/gpushim" replay --to-csv trace | awk -F, '$1 > 0 && $2 == "a" { a++ } $1 > 0 && $2 == "f" { f++ } END { print a + 0, f + 0 }')
echo "allocations and frees: counted $wanted, recorded $found"
[[ ${wanted% *} -gt 9 && $wanted == "$found" ]] || fail 'not the same'
"$BUILD/gpushim" timeline --as=perfetto -o trace.json trace trace.state >timeline.log 2>&1 || fail 'no timeline'
grep -qs 'attach_share[.]py' trace.json || fail 'no line of the program'
