#!/usr/bin/env bash
# daemon.sh PROGRAM - a daemon that forked twice: what it read, and its report in a log file.
data=$PWD/data
"$1" "$data"
for ((i = 0; i < 200; i++)); do
  [[ -s $data ]] && break
  sleep 0.05
done
while pgrep -f "^$1 $data" >/dev/null; do sleep 0.05; done
cat "$data"
[[ ! -e report.txt ]] || cat report.txt >&2
