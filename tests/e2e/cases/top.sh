# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# top.sh - gpushim top: what running processes have, as plain text and as a screen with keys (in tmux);
# the terminal is as before, however top ends.

# start_programs COUNT [SETTING...]: each has 6 MiB and 256 KiB of host memory until the file `over` is
# there; their state files are in the folder `live`.
start_programs() {
  local i

  need_file "$build/gpushim"
  need_file "$apps/killed_linked"
  mkdir -p live
  for ((i = 0; i < $1; i++)); do
    rm -f "program$i.out"
    start_preloaded "program$i" GPUSHIM_STATE_FILE="$PWD/live/$i.state" GPUSHIM_LOG_FILE=/dev/null RANK="$i" "${@:2}" -- \
      timeout 100 "$apps/killed_linked" ask "$PWD/over"
  done
  for ((i = 0; i < $1; i++)); do
    await 25 grep -qs planted "program$i.out" || fail "the programs do not start"
  done
}

end_programs() {
  : >over
  wait
}

# top PREFIX ARGUMENT...: the plain text.
top() {
  run_in "$1" -- "$build/gpushim" top "${@:2}"
}

# ---- Plain text ----------------------------------------------------------------------

# A state file of a program without a pool. Only here: it has statistics of the pool, all of them 0.
top_no_pool_case() {
  start_programs 1 GPUSHIM_POOL=off
  top file live/0.state
  end_programs
  expect_text file.out '^ +[0-9]+ +0  6[.]01 MiB +-  6[.]01 MiB +- +[^ ]+  rank 0: '
}
add_case "top of a program without a pool" top_no_pool_case

# In a pipe: once. The figures are those of the report, for a folder and for a file.
top_plain_case() {
  start_programs 3
  top folder live
  top file --once live/1.state
  top rounds -d 0.2 -n 3 live
  (cd live && run_in ../here -- "$build/gpushim" top)
  run_in of_state GPUSHIM_STATE_FILE="$PWD/live/%p.state" -- "$build/gpushim" top
  run_in report -- "$build/gpushim" report live/1.state
  end_programs
  expect_status folder 0
  expect_quiet folder
  expect_text folder.out '^gpushim top  [0-9:]{8}  3 processes, 18[.]8 MiB live, [0-9.]+ MiB reserved$'
  expect_text folder.out '^ +PID +GPU +LIVE +RESERVED +PEAK +GROWTH +ALLOCS/S +COMMAND$'
  for i in 0 1 2; do
    expect_text folder.out "^ +[0-9]+ +0  6[.]01 MiB +[0-9.]+ MiB  6[.]01 MiB +- +0  rank $i: .*/killed_linked ask "
    expect_text folder.out "^ +[0-9]+ +host +256 KiB +- +256 KiB +- +0  rank $i: "
  done
  expect_text folder.out '^GPU 0: 18[.]0 MiB live, [0-9.]+ MiB reserved   host: 768 KiB live$'
  expect_count folder.out . 9
  expect_status file 0
  expect_count file.out . 5
  expect_text file.out ' rank 1: '
  expect_text report.out ' GPU 0 Simulated CUDA device: 6[.]01 MiB live at '
  expect_count rounds.out '^gpushim top ' 3
  # Without a name also those that answer, once each.
  for i in 0 1 2; do
    expect_count here.out "^ .* 0 +6[.]01 MiB .* rank $i: .*/killed_linked ask $PWD/over\$" 1
    expect_count of_state.out "^ .* 0 +6[.]01 MiB .* rank $i: .*/killed_linked ask $PWD/over\$" 1
  done
  # They have ended: a folder has none, a file that is named still tells.
  top over live
  expect_status over 0
  expect_text over.out '  0 processes, 0 B live, 0 B reserved, 3 ended and not shown$'
  expect_text over.out '^  no process with a state file runs in live: start programs with$'
  expect_text over.out '^  gpushim --state-file=FOLDER/%p[.]state, then gpushim top FOLDER$'
  expect_count over.out . 3
  top named live/1.state
  expect_text named.out ' 0 B +[0-9.]+ MiB +6[.]01 MiB +- +-  \(exit 0\) rank 1: '
}
add_case "top in a pipe" top_plain_case

# Rates are those between two readings; threads of many shards are added up.
top_rates_case() {
  local rate pid

  need_file "$apps/churn_linked"
  need_file "$build/gpushim"
  start_preloaded churn GPUSHIM_STATE_FILE=churn.state GPUSHIM_LOG_FILE=/dev/null -- \
    timeout 100 "$apps/churn_linked" 2000000000 2
  pid=$!
  for ((i = 0; i < 200; i++)); do
    sleep 0.1
    top rates churn.state
    rate=$(sed -nE 's|^ +[0-9]+ +0 .* ([0-9.,kM-]+)  [^ ]*/churn_linked .*|\1|p' rates.out)
    [[ ! $rate =~ ^[0-9.,]+[kM]?$ || $rate == 0 ]] || break
  done
  kill "$pid"
  wait "$pid"
  [[ $rate =~ ^[0-9.,]+[kM]$ ]] || { cat rates.out && fail "a rate of $rate"; }
}
add_case "top rates" top_rates_case

# Of a folder, a state file that is damaged is named, and other files are counted; names cannot write to the terminal.
top_bad_input_case() {
  local i

  start_programs 1
  : >live/empty
  echo junk >live/junk
  head -c 3000 live/0.state.data >live/cut
  { head -c 8 live/0.state.data && printf '\1\2\3\4\5\6\7\10' && tail -c +17 live/0.state.data; } >live/other
  mkfifo live/pipe
  mkdir live/folder
  top bad live
  top missing nowhere
  top nothing live/folder
  top junk live/junk
  mkdir reports
  cp live/junk reports/run.json
  top reports reports
  top rounds -d 0.1 -n 3 reports
  for ((i = 0; i < 20; i++)); do
    # Damage in the header, and in the tracker behind it.
    cp live/0.state.data live/0.damaged
    head -c 300 /dev/urandom | dd of=live/0.damaged bs=1 seek=$((i < 10 ? 16 * i : 100000 * i)) conv=notrunc status=none
    top damaged live
    [[ $(<damaged.status) == [01] ]] || fail "status $(<damaged.status)"
    ! grep -q $'[\001-\010\013-\037\177]' damaged.out damaged.err || fail "a control character"
    expect_text damaged.out '6[.]01 MiB'
  done
  end_programs
  expect_status bad 1
  expect_text bad.out '  1 process, '
  expect_equal "what is said" 'gpushim: live/cut: cut short; and 1 more file; 2 files left out: no state files' "$(<bad.err)"
  expect_status reports 0
  expect_equal "beside none" 'gpushim: 1 file left out: no state file' "$(<reports.err)"
  cmp -s reports.err rounds.err || fail "said in each round"
  expect_status missing 1
  expect_text missing.err '^gpushim: nowhere: no such file or directory$'
  expect_status nothing 0
  expect_text nothing.out '  0 processes, '
  expect_status junk 1
  expect_text junk.err '^gpushim: live/junk: not a state file of gpushim$'
  expect_text junk.out '^  live/junk is not the state file of a running process: ' # not a folder where none runs
  for i in '-d' '-d x' '-d 0' '-d nan' '-n 0' '-n x' '-n -1' '-n x --once' '--once=x' '-x'; do
    # shellcheck disable=SC2086  # several words
    top usage $i live
    expect_status usage 2
  done
  top help --help
  expect_status help 0
  expect_text help.out '^usage: gpushim .* top '
}
add_case "top bad input" top_bad_input_case

# A process that does not go on is marked: stopped by a signal, or paused by gpushim pause.
top_halted_case() {
  local pid

  start_programs 1
  top runs live
  pid=$(awk '$2 == "0" { print $1 }' runs.out)
  kill -STOP "$pid"
  await 10 grep -q '^State:.T' "/proc/$pid/status"
  top stopped live
  kill -CONT "$pid"
  mkdir -m 700 "gpushim-$(id -u)"
  : >"gpushim-$(id -u)/paused.$pid.$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20)"
  run_in paused TMPDIR="$PWD" -- "$build/gpushim" top live
  : >"gpushim-$(id -u)/paused.$pid.1"
  end_programs
  expect_no_text runs.out '[(]'
  expect_text stopped.out '  [(]stopped[)] rank 0: '
  expect_text paused.out '  [(]paused[)] rank 0: '
  expect_no_text paused.out '^GPU 0: '
}
add_case "top of what is paused" top_halted_case

# top_moved_on LINE: the screen's time is another than the line's.
top_moved_on() {
  on_screen '  as of [0-9:]{8}$' && [[ $(grep -E '  as of ' screen) != "$1" ]]
}

# What grows is told, and the page of call stacks goes with the program.
top_growth_case() {
  local pid first

  need_file "$apps/growing_linked"
  mkdir live
  start_preloaded program GPUSHIM_STATE_FILE="$PWD/live/state" GPUSHIM_LOG_FILE=/dev/null -- \
    timeout 100 "$apps/growing_linked" 1000
  pid=$!
  await 20 test -s live/state.data
  start_screen 120 30 -- -d 0.2 live
  expect_screen ' [+][0-9.]+ [KM]iB +[0-9.k]+  (.*/)?growing_linked '
  keys Enter
  expect_screen '  as of [0-9:]{8}$'
  first=$(grep -E '  as of ' screen)
  await 30 top_moved_on "$first" || fail "the page stays as it was"
  keys q q
  expect_restored 0
  kill "$pid"
  wait "$pid"
  expect_equal "status" 143 "$?"
}
add_case "top of what grows" top_growth_case

# 10,000 files of programs that have ended: one running program is found, in little memory.
top_many_case() {
  local i count

  count=$(sized 2000 10000)
  start_programs 1
  for ((i = 0; i < count; i++)); do
    echo "$i" >"live/file.$i"
  done
  run_in many -- bash -c 'ulimit -v 100000 && exec "$@"' bash "$build/gpushim" top -d 0.1 -n 5 live
  end_programs
  expect_status many 0
  expect_count many.out '6[.]01 MiB.* rank 0: ' 5
  expect_equal "what is said once" "gpushim: $count files left out: no state files" "$(<many.err)"
}
add_case "top of a folder with many files" top_many_case

# ---- The screen ----------------------------------------------------------------------

screens=0

# start_screen COLUMNS LINES [VAR=value...] -- ARGUMENT...: top in a shell in tmux.
start_screen() {
  local columns=$1 lines=$2 settings command

  need tmux
  split_settings "${@:3}"
  screens=$((screens + 1))
  socket=gpushim-top.$$.$BASHPID.$screens # a server that ends still listens on its own
  trap 'tmux -L "$socket" kill-server 2>/dev/null; : >over' EXIT
  tmux -L "$socket" -f /dev/null new-session -d -x "$columns" -y "$lines" \
    env "${settings[@]}" bash -c 'trap : INT; echo before; stty -a >stty.before; "$@"; echo "status $?"; stty -a >stty.after; : >ended; exec cat' \
    bash "$build/gpushim" top "${command[@]}"
  tmux -L "$socket" set -g escape-time 0 >/dev/null
}

# keys KEY...: to the screen.
keys() {
  tmux -L "$socket" send-keys "$@"
}

# on_screen REGEX: is on the screen, which is then in `screen`.
on_screen() {
  tmux -L "$socket" capture-pane -p >screen
  grep -qE -- "$1" screen
}

# expect_screen REGEX: comes on the screen.
expect_screen() {
  await 30 on_screen "$1" && return
  cat screen
  fail "not on the screen: $1"
}

# expect_restored STATUS: top has ended, and the terminal is as before.
expect_restored() {
  await 30 test -e ended
  expect_screen "^status $1\$"
  grep -q '^before$' screen || { cat screen && fail "not the screen that was there before"; }
  diff stty.before stty.after || fail "other settings of the terminal"
  expect_equal "other screen, cursor, wrap" "0 1 1" "$(tmux -L "$socket" display -p '#{alternate_on} #{cursor_flag} #{wrap_flag}')"
}

# The scopes of a process with a state file, and of one that is asked. The fault: a page of call sites, or of nothing.
top_scopes_case() {
  need_file "$apps/scopestat_linked"
  start_preloaded program "$1" -- timeout 100 "$apps/scopestat_linked" ask "$PWD/over"
  await 25 grep -qs planted program.out || fail "the program does not start"
  start_screen 160 20 -- -d 0.2 "${@:2}"
  keys / 'scopestat_linked ask' Enter
  expect_screen ' 5[.]00 MiB .*[ /]scopestat_linked ask '
  keys m
  expect_screen '^process [0-9]+  (.*/)?scopestat_linked ask '
  expect_screen '^ +LIVE +PEAK ALLOCATED +ALLOCS +BEGUN  SCOPE [(]AND WITHIN[)]$'
  expect_screen '^ 5[.]00 MiB  5[.]00 MiB  5[.]00 MiB +2 +1  rank$'
  expect_screen '^ 1[.]00 MiB  1[.]00 MiB  1[.]00 MiB +1 +1  rank/batch$'
  keys q
  expect_screen '1 process, '
  keys q
  end_programs
  expect_restored 0
}
add_case "top of scopes, by state file" top_scopes_case GPUSHIM_STATE_FILE=one.state one.state
add_case "top of scopes, asked" top_scopes_case GPUSHIM_VERBOSE=1

# Each key does what the help says.
top_keys_case() {
  start_programs 3
  start_screen 100 20 -- -d 0.2 live
  expect_screen '^ +[0-9]+ +0  6[.]01 MiB .* rank 2: '
  expect_screen 'h help  q quit .* sort: live$'
  expect_equal "other screen" 1 "$(tmux -L "$socket" display -p '#{alternate_on}')"
  keys s s
  expect_screen ' sort: peak$'
  keys S r
  expect_screen ' sort: reserved, reversed$'
  expect_equal "the order" '2 2 1 1 0 0' "$(grep -oE 'rank [0-9]' screen | sort -k2r | tr -cd '0-9\n' | xargs)"
  keys r s s s
  expect_screen ' sort: pid$'
  keys / 'rank'
  expect_screen '^filter: rank_$'
  keys BSpace BSpace BSpace BSpace '1.state' Enter
  expect_screen '1 process, .* filter: 1[.]state$'
  expect_no_text screen 'rank [02]: '
  keys Enter
  expect_screen '^rank 1  runs  '
  expect_screen '^6[.]26 MiB live in 7 allocations, 3 call sites$'
  expect_screen '^    #0 keep_large +killed[.]c:[0-9]+$'
  keys Down
  expect_screen 'lines 2 to 20 of '
  keys End
  expect_screen '^    #0 keep_small '
  keys Home q
  expect_screen '1 process, '
  keys m
  expect_screen '^no scope was begun: '
  keys m
  expect_screen '1 process, '
  keys Escape
  expect_screen '3 processes, '
  keys h
  expect_screen '^Keys of gpushim top$'
  keys q
  expect_screen '3 processes, '
  keys q
  expect_restored 0
}
add_case "top keys" top_keys_case

# Two devices that their processes call GPU 0, as with CUDA_VISIBLE_DEVICES. Would see two sums of one name.
top_same_number_case() {
  start_programs 1
  mv live known
  start_programs 1 CUDASIM_FAIL='cuDeviceGetPCIBusId:*=999'
  run_in top -- "$build/gpushim" top --once known live
  run_in one -- "$build/gpushim" top --once known
  end_programs
  expect_text top.out '^(GPU 0: .* reserved   )?GPU 0 [0-9a-f:.]+: [0-9.]+ MiB live, [0-9.]+ MiB reserved( |$)'
  expect_count top.out '^.*GPU 0: ' 1
  expect_text one.out '^GPU 0: '
}
add_case "top of devices with one number" top_same_number_case

# Would see a long path that pushes the names of program and script off the screen.
top_narrow_case() {
  start_programs 1
  start_screen 60 12 -- -d 0.2 live
  expect_screen ' rank 0: killed_linked ask over *$'
  keys q
  expect_restored 0
  tmux -L "$socket" kill-server
  rm ended
  start_screen 400 12 -- -d 0.2 live
  expect_screen ' rank 0: [^ ]*/apps/killed_linked ask [^ ]*/over *$'
  keys q
  end_programs
  expect_restored 0
}
add_case "top on a narrow screen" top_narrow_case

# The row that the keys choose is the one that Enter opens, and is on the screen however short the screen is.
top_rows_case() {
  local order=() key

  start_programs 3
  start_screen 100 20 -- -d 0.2 live
  expect_screen '^ +[0-9]+ +0  6[.]01 MiB .* rank 2: '
  keys s s s s
  expect_screen ' sort: pid$'
  mapfile -t order < <(grep -oE 'rank [0-9]' screen)
  expect_equal "rows, of a device and of pinned memory" 6 "${#order[@]}"
  for key in j:1 Down:2 j:3 k:2 Home:0 Up:0 End:5 PPage:0 NPage:5 j:5; do
    keys "${key%:*}" Enter
    expect_screen "^${order[${key#*:}]}  runs  "
    keys q
    expect_screen ' sort: pid$'
  done
  keys / 'nothing' Enter
  expect_screen '^  no process matches the filter$'
  keys j Escape
  expect_screen '3 processes, '
  keys s
  expect_screen ' sort: command$'
  keys / 'x'
  expect_screen '^filter: x_$'
  keys Escape
  expect_screen ' sort: command$'
  keys s
  expect_screen ' sort: growth$'
  keys q
  expect_restored 0
  tmux -L "$socket" kill-server
  rm ended
  start_screen 100 6 -- -d 0.2 live
  expect_screen ' sort: live$'
  keys s s s s
  expect_screen ' sort: pid$'
  keys End
  expect_screen "${order[5]}: "
  expect_no_text screen "${order[0]}: "
  keys Home
  expect_screen "${order[0]}: "
  expect_no_text screen "${order[5]}: "
  keys q
  expect_restored 0
}
add_case "top chosen row" top_rows_case

# A process without a state file is asked for its report, which the keys scroll.
top_asked_case() {
  local pid

  need_file "$apps/killed_linked"
  start_preloaded program GPUSHIM_LOG_FILE=/dev/null -- timeout 100 "$apps/killed_linked" ask "$PWD/over"
  await 25 grep -qs planted program.out || fail "the program does not start"
  pid=$(pgrep -f "^$apps/killed_linked ask $PWD/over\$")
  start_screen 100 20 -- -d 0.2
  expect_screen ' sort: live$'
  keys / "$pid" Enter
  expect_screen '  1 process, '
  keys Enter
  expect_screen "^==$pid== "
  expect_no_text screen '6[.]26 MiB live in 7 allocations, 3 call sites; still running$'
  keys Space
  expect_screen '6[.]26 MiB live in 7 allocations, 3 call sites; still running$'
  keys Home
  expect_screen ' lines 1 to '
  keys j j j k
  expect_screen ' lines 3 to '
  keys PPage
  expect_screen ' lines 1 to '
  keys q
  expect_screen ' sort: live$'
  keys q
  expect_restored 0
}
add_case "top of a process that is asked" top_asked_case

# A bad setting is told before the screen begins, not in it.
top_settings_case() {
  start_programs 1
  start_screen 100 14 GPUSHIM_LEAK_MAX=many -- -d 0.2 live
  expect_screen 'h help'
  keys Enter
  expect_screen '^    #0 keep_large '
  expect_no_text screen 'LEAK_MAX'
  keys q
  expect_screen 'h help'
  keys q
  expect_restored 0
  expect_text screen '^gpushim: GPUSHIM_LEAK_MAX=many: '
}
add_case "top with a bad setting" top_settings_case

# A process that ends is marked, then leaves; a new one comes. The window changes its size.
top_ends_case() {
  start_programs 1
  start_screen 100 14 -- -d 0.2 live
  expect_screen '  1 process, '
  expect_screen '^ +[0-9]+ +0  6[.]01 MiB .* rank 0: '
  echo junk >live/junk
  expect_screen '^1 file left out: no state file$'
  tmux -L "$socket" resize-window -x 40 -y 9
  expect_screen '^ +PID +GPU +LIVE +COMMAND$'
  expect_equal "lines" 9 "$(wc -l <screen)"
  expect_no_text screen '.{41}'
  tmux -L "$socket" resize-window -x 100 -y 5
  expect_screen '^ +PID +GPU +LIVE +RESERVED '
  tmux -L "$socket" resize-window -x 10 -y 2
  tmux -L "$socket" resize-window -x 100 -y 14
  expect_screen '  1 process, '
  : >over
  expect_screen '^ +[0-9]+ +0 .*\(exit 0\) rank 0: '
  sleep 2
  tmux -L "$socket" capture-pane -p >screen
  expect_text screen '^ +[0-9]+ +0 .*\(exit 0\) rank 0: '
  expect_screen '  0 processes, 0 B live, 0 B reserved, 1 ended and not shown$'
  expect_screen '^  no process with a state file runs in live: '
  rm over
  start_programs 1
  expect_screen '  1 process, '
  keys q
  expect_restored 0
}
add_case "top of a process that ends" top_ends_case

# However it ends.
top_restored_case() {
  local pid

  start_programs 1
  start_screen 90 12 -- live
  expect_screen 'h help'
  case $1 in
  C-c) keys C-c ;;
  *)
    pid=$(pgrep -f "^$build/gpushim top live\$" -P "$(tmux -L "$socket" display -p '#{pane_pid}')")
    kill "-$1" "$pid"
    ;;
  esac
  expect_restored "$2"
}
add_case "top restores the terminal at Ctrl-C" top_restored_case C-c 130
add_case "top restores the terminal at SIGTERM" top_restored_case TERM 143
add_case "top restores the terminal at SIGHUP" top_restored_case HUP 129
add_case "top restores the terminal at a fault" top_restored_case SEGV 139

# A terminal without a screen gets plain text.
top_dumb_case() {
  local term

  start_programs 1
  for term in dumb ''; do
    rm -f ended
    start_screen 120 30 "TERM=$term" -- -d 0.2 -n 3 live
    expect_restored 0
    expect_count screen '^gpushim top ' 3
    expect_no_text screen 'h help'
    tmux -L "$socket" kill-server
  done
}
add_case "top on a dumb terminal" top_dumb_case

# A command line with escape sequences is shown, not executed.
top_hostile_case() {
  start_programs 1
  mkdir other
  cp "$apps/killed_linked" $'other/\033[2Jx\033]0;owned\007\302\233m'
  start_preloaded hostile GPUSHIM_STATE_FILE="$PWD/live/hostile" GPUSHIM_LOG_FILE=/dev/null -- \
    timeout 100 $'other/\033[2Jx\033]0;owned\007\302\233m' ask "$PWD/over"
  start_screen 110 14 -- -d 0.2 live
  expect_screen '  2 processes, '
  expect_screen ' other/[ ?]\[2Jx[ ?]\]0;owned[ ?]'
  expect_screen '^gpushim top '
  keys q
  expect_restored 0
}
add_case "top of hostile names" top_hostile_case
