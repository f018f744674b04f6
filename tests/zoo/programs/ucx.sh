#!/usr/bin/env bash
#
# ucx.sh - UCX's own benchmark over memory of the device, managed memory and the host's, within one process and
# between two (cuda_ipc). UCX is the package's folder. Prints the rounds that each test says it has done.
# zoo: prints one process: tag_bw cuda,cuda 300
# zoo: prints one process: ucp_get host,cuda-managed 300
# zoo: prints two processes: tag_bw cuda 300
set -u

bin=$UCX/libucx/bin
export LD_LIBRARY_PATH=$UCX/libucx/lib:$LD_LIBRARY_PATH
log=(sed -n 's/^Final: *\([0-9]*\) .*/\1/p; /UCX *\(ERROR\|WARN\)/s/.*UCX/UCX/p')
rounds=(-n 300 -w 20)

one() {
  echo "one process: $1 $2 $("$bin/ucx_perftest" -l -t "$1" -m "$2" -s "$3" "${rounds[@]}" | "${log[@]}")"
}

# two TEST MEMORY BYTES: the server takes the first port that is free.
two() {
  local port server

  : >server.out
  for port in {13400..13460}; do
    "$bin/ucx_perftest" -p "$port" >server.out 2>server.err &
    server=$!
    for _ in {1..100}; do
      grep -q Waiting server.out && break
      kill -0 "$server" 2>/dev/null || continue 2
      sleep 0.1
    done
    break
  done
  echo "two processes: $1 $2 $("$bin/ucx_perftest" 127.0.0.1 -p "$port" -t "$1" -m "$2" -s "$3" "${rounds[@]}" | "${log[@]}")"
  wait "$server"
  cat server.err >&2
}

for memory in cuda,cuda host,cuda-managed; do
  for test in tag_bw ucp_put_bw ucp_get ucp_am_bw stream_bw; do
    one "$test" "$memory" 70000
  done
  one tag_bw "$memory" 3000000
done
for test in tag_bw ucp_put_bw ucp_get; do
  two "$test" cuda 200000
done
two tag_bw cuda-managed 200000
