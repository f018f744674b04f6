#!/usr/bin/env bash
# trace_share.sh COMMAND... - gpushim trace records as many allocations and frees of a program that runs as the program
# makes, and knows their lines of Python. The program is one of attach_share.sh's.

# shellcheck source-path=SCRIPTDIR source=share_waits.sh
source "$(dirname "${BASH_SOURCE[0]}")/share_waits.sh"

env ZOO_WAITS="$PWD" LD_PRELOAD="$BUILD/libgpushim.so" GPUSHIM_REPORT_ON=off "$@" >program.out 2>program.err &
pid=$!
await ready
"$BUILD/gpushim" trace "$pid" trace >trace.log 2>&1 &
tracing=$!
await trace
before=$(count pinned) # answered after the start
sleep 0.1
: >begin
await 'done'
after=$(count pinned)
kill -INT "$tracing"
wait "$tracing" || fail 'no trace with call stacks'
: >end
wait "$pid" || fail "status $?"
set_seen "$before" "$after"
found=$("$BUILD/gpushim" replay --to-csv trace | awk -F, '$1 > 0 && $2 == "a" { a++ } $1 > 0 && $2 == "f" { f++ } END { print a + 0, f + 0 }')
echo "allocations and frees: counted $seen, recorded $found"
[[ ${seen% *} -gt 9 && $seen == "$found" ]] || fail 'not the same'
"$BUILD/gpushim" timeline --as=perfetto -o trace.json trace trace.state >timeline.log 2>&1 || fail 'no timeline'
grep -qs 'attach_share[.]py' trace.json || fail 'no line of the program'
