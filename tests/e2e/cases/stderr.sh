# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# stderr.sh - where text goes when descriptor 2 is not what it was: never among the
# program's data, and along with what was sent elsewhere on purpose.

# other_stderr WAY HOW [VARIABLE...]: leaves what arrived without the library in
#   native.data, and with it in shim.data.
other_stderr() {
  local run i

  native native "$apps/otherstderr_$1" "$2" native.data
  preloaded shim "${@:3}" -- "$apps/otherstderr_$1" "$2" shim.data
  expect_same native shim
  for run in native shim; do
    [[ $2 == socket || $2 == pipe || $2 == fifo || $2 == piped || $2 == detached ]] || continue
    for ((i = 0; i < 100; i++)); do
      [[ -e $run.data.end ]] && break
      sleep 0.1
    done
    [[ -e $run.data.end ]] || fail "the reader of $run has not come to its end"
  done
}

# The program's data is not touched; what there is to say has a place if the user gave one.
# data_stays_case WAY HOW
data_stays_case() {
  other_stderr "$1" "$2"
  cmp native.data shim.data || fail "text among the program's data"
  expect_quiet shim
  rm -f ./*.data* # else the FIFO is there, and the file
  other_stderr "$1" "$2" GPUSHIM_LOG_FILE=log
  cmp native.data shim.data || fail "text among the program's data"
  expect_count log 'SUMMARY: gpushim: 0 errors, (100|200) B leaked' 1
}
for way in shared static linked proc; do
  for how in closed first socket pipe fifo detached; do
    add_case "stderr $how $way" data_stays_case "$way" "$how"
  done
done

# stderr_follows_case WAY HOW
stderr_follows_case() {
  other_stderr "$1" "$2"
  expect_quiet shim
  expect_count shim.data "^the program's own data\$" 1
  expect_count shim.data 'SUMMARY: gpushim: 0 errors, 100 B leaked' 1
}
for way in shared static linked proc; do
  for how in both piped errors; do
    add_case "stderr $how $way" stderr_follows_case "$way" "$how"
  done
done
