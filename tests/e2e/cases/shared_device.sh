# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# shared_device.sh - processes that share a device's memory (CUDASIM_SHARED): what one holds or keeps idle, the others
# lack; what ends or is paused leaves its memory to them.

# device_hold WORD MIB [VAR=value...]: a process in the background that holds as much, or had it; its number is in
# `holder`.
device_hold() {
  rm -f held.out
  LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=64M CUDASIM_SHARED=$PWD/device GPUSHIM_LOG_FILE=$PWD/held.log \
    env "${@:3}" "$apps/group_linked" "$1" "$2" "$PWD/over" >held.out 2>&1 &
  holder=$!
  trap 'kill -9 "$holder" 2>/dev/null' EXIT # of a case that fails
  await 20 grep -qs "^$([[ $1 == idle ]] && echo gave || echo took)" held.out || { cat held.out && fail "$2 MiB are not held"; }
}

# device_take NAME TEXT [VAR=value...]: a process that takes what it can get, and what it says.
device_take() {
  run_in "$1" LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" GPUSHIM_LOG_FILE="$PWD/$1.log" \
    "${@:3}" -- "$apps/group_linked" take
  expect_equal "$1" "$2" "$(<"$1.out")"
}

all_free=$'before: 64 of 64 MiB free\ntook 64 MiB\nafter: 0 of 64 MiB free'

# With the library in either, in both, in none.
device_shared_case() {
  local holder mine=LD_PRELOAD=$1 theirs=LD_PRELOAD=$2

  need_file "$apps/group_linked"
  device_hold hold 40 "$mine"
  device_take beside $'before: 24 of 64 MiB free\ntook 24 MiB\nafter: 0 of 64 MiB free' "$theirs"
  kill -9 "$holder"
  wait "$holder"
  device_take after "$all_free" "$theirs"
}
add_case "shared device" device_shared_case "" ""
add_case "shared device, the library holds" device_shared_case "$shim" ""
add_case "shared device, the library takes" device_shared_case "" "$shim"
add_case "shared device, the library in both" device_shared_case "$shim" "$shim"

# A process that makes no calls returns what it keeps idle, once that is old.
device_idle_case() {
  local holder

  need_file "$apps/group_linked"
  device_hold idle 40 LD_PRELOAD="$shim" GPUSHIM_POOL_TRIM=200ms
  for ((i = 0; i < 100; i++)); do
    sleep 0.1
    run_in free LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" -- "$apps/group_linked" take
    ! grep -q '^before: 64' free.out || break
  done
  expect_equal "once it is old" "$all_free" "$(<free.out)"
  : >over
  wait "$holder"
  expect_text held.log 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
add_case "shared device, idle memory goes back" device_idle_case

# A server frees much memory once and only serves from then on. Another process gets the device memory, and the machine
# the pinned and the managed memory: without a further free, and whatever the server waits for.
# device_server_case SHAPE [VAR=value...]
device_server_case() {
  local holder

  need_file "$apps/idleserver_linked"
  LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=64M CUDASIM_SHARED=$PWD/device GPUSHIM_LOG_FILE=$PWD/held.log \
    LD_PRELOAD=$shim GPUSHIM_POOL_TRIM=400ms env "${@:2}" "$apps/idleserver_linked" "$1" "$PWD/over" >held.out 2>&1 &
  holder=$!
  trap 'kill -9 "$holder" 2>/dev/null' EXIT # of a case that fails
  await 20 grep -qs "^freed" held.out || fail "the server does not free its memory"
  for ((i = 0; i < 60; i++)); do
    sleep 0.1
    run_in free LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" -- "$apps/group_linked" take
    ! grep -q '^before: 6' free.out || break
  done
  expect_text free.out '^took 6[0-9] MiB'
  sleep 0.3 # device memory goes back before the other kinds
  : >over
  wait "$holder" || fail "the server fails: $(<held.out)"
  expect_equal "the server" $'freed\nhost memory left: none' "$(<held.out)"
  expect_text held.log 'SUMMARY: gpushim: 0 errors, 0 B leaked'
}
for shape in stream blocking event query context legacy two late graph threads covered hot none; do
  add_case "shared device, a server by $shape" device_server_case "$shape"
done
add_case "shared device, a server that frees lazily" device_server_case late GPUSHIM_FREE_SYNC=lazy

# A process that makes no calls sees that others have taken the reserve, and gives back what it keeps idle, however young.
device_reserve_case() {
  local holder first

  need_file "$apps/group_linked"
  device_hold idle 40 LD_PRELOAD="$shim" GPUSHIM_POOL_RESERVE=4M GPUSHIM_POOL_TRIM=60s
  first=$holder
  device_hold hold 24
  for ((i = 0; i < 100; i++)); do
    sleep 0.1
    run_in free LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" -- "$apps/group_linked" take
    grep -q '^before: 0' free.out || break
  done
  expect_text free.out '^took [4-9]|^took [1-4][0-9]'
  : >over
  wait "$holder" "$first"
}
add_case "shared device, the reserve is for others" device_reserve_case

# A member of a group that lacks memory gets what another keeps idle, of a full device and of the group's limit, while
# that one makes no calls; without a group it does not.
device_group_case() {
  local holder way

  need_file "$apps/group_linked"
  for way in full limit; do
    local settings=(LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger.$way" GPUSHIM_POOL_TRIM=60s)
    [[ $way == full ]] || settings+=(GPUSHIM_MEM_LIMIT=48M)
    rm -f over
    device_hold idle 40 "${settings[@]}"
    for ((i = 0; i < 10; i++)); do # on a busy machine the others may answer too late
      run_in "$way" LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" GPUSHIM_LOG_FILE="$PWD/$way.log" \
        "${settings[@]}" -- "$apps/group_linked" take
      ! grep -q '^took \(48\|64\)' "$way.out" || break
    done
    : >over
    wait "$holder"
    expect_text held.log 'SUMMARY: gpushim: 0 errors, 0 B leaked'
  done
  expect_text full.out '^took 64 MiB$'
  expect_text limit.out '^took 48 MiB$'
  rm -f over
  device_hold idle 40 LD_PRELOAD="$shim" GPUSHIM_POOL_TRIM=60s GPUSHIM_POOL_RESERVE=0
  device_take alone $'before: 24 of 64 MiB free\ntook 24 MiB\nafter: 0 of 64 MiB free' LD_PRELOAD="$shim"
  : >over
  wait "$holder"
}
add_case "shared device, idle memory of a group" device_group_case

# How often the members of the group have asked: the words after the devices' keys and three words of each member.
ledger_requests() {
  od -An -v -w8 -t u8 -j $((8 * (1 + 64 + 3 * 512))) -N $((8 * 512)) ledger | awk '{ sum += $1 } END { print sum }'
}

# One that offers idle memory and does not give it: it is asked once, and not again for the next refusal.
device_group_refused_case() {
  local holder requests=0

  need_file "$apps/group_linked"
  device_hold idle 40 LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_POOL_TRIM=60s
  sleep 0.5 # it gives its memory back to the pool, whose thread looks for requests
  kill -STOP "$holder"
  run_in refused LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" GPUSHIM_LOG_FILE="$PWD/log" \
    LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" -- "$apps/group_linked" again
  expect_equal "refused" $'took 24 MiB\ntook 24 MiB' "$(<refused.out)"
  requests=$(ledger_requests)
  expect_equal "requests" 1 "$requests"
  kill -CONT "$holder"
  : >over
  wait "$holder"
}
add_case "shared device, a stopped member of a group" device_group_refused_case

# device_group_take NAME [VAR=value...] -- ARGUMENT...: a member of the group.
device_group_take() {
  local settings command

  split_settings "${@:2}"
  run_in "$1" LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" GPUSHIM_LOG_FILE="$PWD/log" \
    LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_POOL_TRIM=60s "${settings[@]}" -- \
    "$apps/group_linked" "${command[@]}"
}

# Also one that keeps memory idle itself, as it has not waited for its work; and one without the pool.
device_group_asks_case() {
  local holder

  need_file "$apps/group_linked"
  for ask in "large 54 6" "take"; do
    rm -f over ledger
    device_hold idle 30 LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_POOL_TRIM=60s
    for ((i = 0; i < 10; i++)); do # on a busy machine the other may answer too late
      # shellcheck disable=SC2086  # words
      device_group_take asks $([[ $ask == take ]] && echo GPUSHIM_POOL=off) -- $ask
      ! grep -Eq '^(got 54|took 6[24]) MiB' asks.out || break
    done
    expect_text asks.out '^(got 54|took 6[24]) MiB'
    : >over
    wait "$holder"
  done
}
add_case "shared device, whoever lacks memory asks" device_group_asks_case

# A call whose bytes are not known asks, too.
device_group_unknown_case() {
  local holder requests=0

  need_file "$apps/group_linked"
  device_hold idle 30 LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_POOL_TRIM=60s
  sleep 0.5 # its thread looks for requests
  run_in unknown LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=64M CUDASIM_SHARED="$PWD/device" GPUSHIM_LOG_FILE="$PWD/log" \
    LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" CUDASIM_FAIL=cuModuleLoadData:1 -- "$apps/pipeline_linked"
  requests=$(ledger_requests)
  [[ $requests -gt 0 ]] || fail "nobody was asked"
  : >over
  wait "$holder"
}
add_case "shared device, a module asks" device_group_unknown_case

# One that asks every half second, while the other becomes idle little by little, gets what it asks for in the end.
device_group_poll_case() {
  local holder

  need_file "$apps/group_linked"
  device_hold drain 52 LD_PRELOAD="$shim" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_POOL_TRIM=60s
  device_group_take polls -- large 54 40
  expect_text polls.out '^got 54 MiB'
  : >over
  wait "$holder"
}
add_long_case "shared device, one that asks again and again" device_group_poll_case

# Two that take the memory in turns, for longer than a row of requests in vain may last: each gets it each time.
device_group_turns_case() {
  local seed

  need_file "$apps/group_linked"
  for seed in 1 2; do
    LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=64M CUDASIM_SHARED=$PWD/device GPUSHIM_LOG_FILE=$PWD/log LD_PRELOAD=$shim \
      GPUSHIM_MEM_GROUP=$PWD/ledger GPUSHIM_POOL_TRIM=60s "$apps/group_linked" turns 50 "$seed" >"turns.$seed" 2>&1 &
  done
  trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT
  wait
  expect_equal "the first" "8 of 8 turns" "$(<turns.1)"
  expect_equal "the second" "8 of 8 turns" "$(<turns.2)"
}
add_long_case "shared device, two in turns" device_group_turns_case
