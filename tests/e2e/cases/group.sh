# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# group.sh - GPUSHIM_MEM_GROUP: several processes have GPUSHIM_MEM_LIMIT together. Each simulated device
# is its process's own, so that nothing but the ledger holds them to it.

# group_run NAME [VAR=value...] -- ARGUMENT...: a member of the case's own group, without the pool, so that
# every block counts by itself.
group_run() {
  local settings command

  split_settings "${@:2}"
  preloaded "$1" GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_MEM_LIMIT=300M GPUSHIM_POOL=off \
    "${settings[@]}" -- "$apps/group_$way" "${command[@]}"
}

# group_hold MIB [VAR=value...]: a member in the background that has as much; its number is in `holder`.
group_hold() {
  LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=512M LD_PRELOAD=$shim GPUSHIM_MEM_GROUP=$PWD/ledger GPUSHIM_MEM_LIMIT=300M \
    GPUSHIM_POOL=off GPUSHIM_LOG_FILE=/dev/null env "${@:2}" "$apps/group_$way" hold "$1" "$PWD/over" >"hold.$1" 2>&1 &
  holder=$!
  await 20 grep -q "^took $1 MiB" "hold.$1" || { cat "hold.$1" && fail "$1 MiB are not held"; }
}

# What one has, another does not get, and it is told so; once it is killed, its memory is there again.
group_shares_case() {
  local way=$1 holder

  need_file "$apps/group_$way"
  group_hold 200
  group_run beside -- take
  expect_equal "beside 200 MiB" $'before: 100 of 300 MiB free\ntook 100 MiB\nafter: 0 of 300 MiB free' "$(<beside.out)"
  expect_text beside.err ' at GPUSHIM_MEM_LIMIT=300M \(200 MiB used by other processes in the group\), 0 B of 300 MiB free$'
  expect_text beside.err 'Try: GPUSHIM_MEM_LIMIT=300M is reached, but GPU 0 has 412 MiB free: raise the limit$'
  expect_no_text beside.err 'Try: LIVE'
  kill -9 "$holder"
  wait "$holder"
  group_run after -- take
  expect_equal "once it was killed" $'before: 300 of 300 MiB free\ntook 300 MiB\nafter: 0 of 300 MiB free' "$(<after.out)"
}
for way in $(ways_of group); do
  add_case "group of processes $way" group_shares_case "$way"
done

# A program that becomes another has nothing any more; neither has a child what its parent has.
group_exec_case() {
  local way=linked

  need_file "$apps/group_$way"
  group_run exec -- exec 200
  expect_equal "after exec" $'took 200 MiB\nbefore: 300 of 300 MiB free\ntook 300 MiB\nafter: 0 of 300 MiB free' "$(<exec.out)"
  group_run fork -- fork 300
  expect_equal "child and parent" $'took 300 MiB\ntook 300 MiB' "$(<fork.out)"
}
add_case "group after exec and fork" group_exec_case

# What is no CUDA program any more has nothing; a program that could not become another has what it had.
group_become_case() {
  local way=linked holder

  need_file "$apps/group_$way"
  echo "no program" >no_program
  chmod +x no_program
  LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=512M LD_PRELOAD=$shim GPUSHIM_MEM_GROUP=$PWD/ledger GPUSHIM_MEM_LIMIT=300M \
    GPUSHIM_POOL=off GPUSHIM_LOG_FILE=/dev/null "$apps/group_$way" become 200 /bin/sleep 20 >become.out 2>&1 &
  holder=$!
  trap 'kill -9 "$holder" 2>/dev/null' EXIT
  await 20 grep -aq '^/bin/sleep' "/proc/$holder/cmdline" || fail "it is no other program"
  group_run beside -- take
  expect_text beside.out '^took 300 MiB$'
  kill "$holder"
  group_run failed GPUSHIM_TRACK=off -- become 200 "$PWD/no_program"
  expect_equal "what could not" $'took 200 MiB\ntook 100 MiB' "$(<failed.out)"
}
add_case "group after exec of any program" group_become_case

# Memory of graphs is not the limit's.
group_captured_case() {
  local way=linked

  need_file "$apps/group_$way"
  preloaded limit GPUSHIM_MEM_LIMIT=48M -- "$apps/group_$way" captured 30
  expect_text limit.out '^captured 30 MiB$'
  expect_text limit.err 'SUMMARY: gpushim: 0 errors'
}
add_case "group counts no node of a graph" group_captured_case

# The same through the pool, whose segments count; and another group, and none, have all of it.
group_pool_case() {
  local way=linked holder took

  need_file "$apps/group_$way"
  group_hold 200 GPUSHIM_POOL=on
  group_run pool GPUSHIM_POOL=on -- take
  took=$(sed -nE 's/^took ([0-9]+) MiB$/\1/p' pool.out)
  [[ $took -ge 60 && $took -le 100 ]] || { cat pool.out && fail "$took MiB beside 200 of 300"; }
  group_run other GPUSHIM_MEM_GROUP="$PWD/other" -- take
  expect_text other.out '^took 300 MiB$'
  group_run alone GPUSHIM_MEM_GROUP= -- take
  expect_text alone.out '^took 300 MiB$'
  group_run whole GPUSHIM_MEM_LIMIT=100% -- take
  expect_text whole.out '^before: 3(12|1[01]|0[0-9]) of 512 MiB free$'
  : >over
  wait "$holder"
}
add_case "group through the pool" group_pool_case

# A name is a file in shared memory, of this user alone. The report names the limit as the group's.
group_name_case() {
  local way=linked name=test.$$.$BASHPID file

  need_file "$apps/group_$way"
  file=/dev/shm/gpushim.$(id -u).$name.group
  # shellcheck disable=SC2064  # the variable is gone by then
  trap "rm -f '$file'" EXIT
  group_run name GPUSHIM_MEM_GROUP="$name" -- take
  expect_text name.out '^took 300 MiB$'
  expect_equal "mode" 600 "$(stat -c %a "$file")"
  expect_text name.err ' of 2[.]00 MiB on GPU 0 failed at GPUSHIM_MEM_LIMIT=300M \(0 B used by other processes in the group\), 0 B of 300 MiB free$'
}
add_case "group by name" group_name_case

# Processes that take and give back, and are killed: in the end all of it can be had.
group_storm_case() {
  local way=linked count children=() victim

  need_file "$apps/group_$way"
  count=$(sized 12 64)
  for ((i = 0; i < count; i++)); do
    LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=512M LD_PRELOAD=$shim GPUSHIM_MEM_GROUP=$PWD/ledger GPUSHIM_MEM_LIMIT=300M \
      GPUSHIM_LOG_FILE=/dev/null GPUSHIM_REPORT_ON=exit "$apps/group_$way" storm "$i" >/dev/null 2>>storm.err &
    children+=($!)
  done
  sleep 1
  for victim in "${children[@]}"; do
    kill -9 "$victim"
    sleep 0.03
  done
  wait
  [[ ! -s storm.err ]] || { cat storm.err && fail "a member said something"; }
  group_run end -- take
  expect_text end.out '^took 300 MiB$'
}
add_case "group under kill -9" group_storm_case

# A file of another user is told by its owner's number.
group_other_user_case() {
  local way=linked

  need_file "$apps/group_$way"
  [[ $(id -u) -eq 0 ]] || skip "needs root"
  group_run first -- take
  chown 12345 ledger
  group_run bad -- take
  expect_text bad.err '^gpushim: GPUSHIM_MEM_GROUP=.*/ledger: belongs to another user [(]12345[)]; GPUSHIM_MEM_LIMIT counts this process alone$'
}
add_case "group of another user" group_other_user_case

# container COMMAND...: becomes a command in PID and user namespaces of its own; the time of its clocks is another's, too.
container() {
  exec unshare -Urpf --mount-proc -T --monotonic 100000 --boottime 100000 "$@"
}

# Members in containers that share the path: what each has counts for all, and what it had comes back at any end.
group_containers_case() {
  local way=linked round rounds holder

  need_file "$apps/group_$way"
  (container true) 2>unshare.err || skip "no namespaces: $(<unshare.err)"
  rounds=$(sized 8 100)
  for ((round = 0; round < rounds; round++)); do
    rm -f hold.*
    (container env LD_LIBRARY_PATH="$cuda_path" CUDASIM_MEMORY=512M GPUSHIM_MEM_GROUP="$PWD/ledger" GPUSHIM_MEM_LIMIT=300M \
      GPUSHIM_POOL=off GPUSHIM_LOG_FILE=/dev/null LD_PRELOAD="$shim" "$apps/group_$way" hold 200 "$PWD/over") >hold.out 2>&1 &
    holder=$!
    await 20 grep -q "^took 200 MiB" hold.out || { cat hold.out && fail "200 MiB are not held"; }
    group_run here -- take
    expect_text here.out '^took 100 MiB$'
    if ((round % 2)); then
      kill -9 "$(pgrep -P "$holder")"
    else
      : >over
    fi
    wait "$holder"
    rm -f over
    await 5 group_is_free || { cat free.out && fail "round $round: what the container had is lost"; }
  done
}
group_is_free() {
  group_run free -- take
  grep -q '^took 300 MiB$' free.out
}
add_case "group across containers" group_containers_case

# A file that is emptied or removed while it is in use ends no member, and has one line.
group_file_ends_case() {
  local way=linked how

  need_file "$apps/group_$way"
  for how in truncate rm; do
    rm -f over ledger
    LD_LIBRARY_PATH=$cuda_path CUDASIM_MEMORY=512M LD_PRELOAD=$shim GPUSHIM_MEM_GROUP=$PWD/ledger GPUSHIM_MEM_LIMIT=300M \
      GPUSHIM_LOG_FILE=$PWD/$how.log "$apps/group_$way" idle 200 "$PWD/over" >"$how.out" 2>&1 &
    holder=$!
    await 20 grep -q "^took 200 MiB" "$how.out" || fail "200 MiB are not held"
    if [[ $how == rm ]]; then rm ledger; else : >ledger; fi
    sleep 0.5
    : >over
    wait "$holder" || fail "$how: status $?"
    expect_text "$how.log" 'SUMMARY: gpushim: 0 errors'
  done
  expect_count truncate.log 'GPUSHIM_MEM_GROUP=.*: was shortened while in use; from now on GPUSHIM_MEM_LIMIT counts this process alone$' 1
}
add_case "group whose file is emptied or removed" group_file_ends_case

# What is no ledger is told in one line, stays as it is, and the limit counts the process alone.
group_bad_case() {
  local way=linked

  need_file "$apps/group_$way"
  echo precious >file
  head -c 800 /dev/zero >zeros
  : >empty
  mkdir folder
  ln -s ledger link
  # group_alone NAME LINE
  group_alone() {
    group_run bad GPUSHIM_MEM_GROUP="$1" -- take
    expect_text bad.out '^took 300 MiB$'
    expect_count bad.err "^gpushim: GPUSHIM_MEM_GROUP=$2\$" 1
    expect_count bad.err '^gpushim: ' 1
    expect_no_text bad.err 'of the group'
  }
  group_alone 'a b' 'a b: not a path, nor a name of at most 64 letters, digits and [.] _ -; ignored'
  group_alone "$PWD/file" ".*/file: .*/file: not the file of a group; not changed; GPUSHIM_MEM_LIMIT counts this process alone"
  group_alone "$PWD/zeros" ".*/zeros: .*/zeros: not the file of a group; not changed; GPUSHIM_MEM_LIMIT counts this process alone"
  group_alone "$PWD/empty" ".*/empty: .*/empty: not the file of a group; not changed; GPUSHIM_MEM_LIMIT counts this process alone"
  group_alone "$PWD/folder" '.*: is a directory; GPUSHIM_MEM_LIMIT counts this process alone'
  group_alone "$PWD/none/ledger" '.*: no such file or directory; GPUSHIM_MEM_LIMIT counts this process alone'
  group_alone "$PWD/link" '.*: a symbolic link is in the way; GPUSHIM_MEM_LIMIT counts this process alone'
  expect_equal "the files" "precious 800 0" "$(<file) $(stat -c %s zeros empty | paste -sd ' ')"
  [[ ! -e ledger ]] || fail "a file behind a link"
}
add_case "group that is none" group_bad_case
