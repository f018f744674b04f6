# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for another shell
#
# clusters.sh - docs/clusters.md: what containers and launchers do to a process, as far as it
# can be done without them: ranks, a read-only root, no home, a user without a name, process
# number 1. The program answers as without the library, and the report comes.

uses readme

# clusters_ranks_case VARIABLE: eight processes at once, with the rank as a launcher says it:
# each has a file of its own by host and rank, with its own report.
clusters_ranks_case() {
  local rank host

  host=$(uname -n)
  native native "$apps/leaky_shared"
  run_in ranks GPUSHIM_LIBRARY="$shim" NAME="$1" -- bash -c '
    for rank in 0 1 2 3 4 5 6 7; do
      env "$NAME=$rank" "$1" --log-file=report.%h.%r "$2" &
    done
    wait' - "$build/gpushim" "$apps/leaky_shared"
  expect_quiet ranks
  expect_count ranks.out "^$(<native.out)$" 8
  expect_equal "reports" 8 "$(find . -name 'report.*' | wc -l)"
  for rank in 0 1 2 3 4 5 6 7; do
    expect_leaks "report.$host.$rank" "$sources/tests/apps/leaky.c"
    expect_count "report.$host.$rank" "^==[0-9]+== gpushim .*  rank $rank  .*  exit 0$" 1
  done
}
for variable in OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_PROCID RANK; do
  add_case "clusters ranks $variable" clusters_ranks_case "$variable"
done

# torchrun under srun: both say a rank, and a name says which of the two it means.
clusters_both_case() {
  for name in "%r" "%q{RANK}"; do
    run_in both SLURM_PROCID=0 RANK=5 -- "$build/gpushim" "--log-file=$name.txt" "$apps/leaky_shared"
    expect_status both 0
  done
  expect_leaks 0.txt "$sources/tests/apps/leaky.c"
  expect_leaks 5.txt "$sources/tests/apps/leaky.c"
}
add_case "clusters torchrun under Slurm" clusters_both_case

# write_pod: the script ./pod, which runs a command in a file system that is read-only but for
# ./volume; ./nobody, likewise as the user 65534, without a home, as process 1.
write_pod() {
  [[ $(id -u) -eq 0 ]] || skip "root, for a pod"
  unshare -mpf true 2>/dev/null || skip "name spaces of our own"
  need setpriv
  setpriv --reuid=65534 --clear-groups test -r "$shim" || skip "a build folder that other users may read"
  chmod 711 "$scratch" "$case_dir/.."
  mkdir -m 777 volume
  cat >pod <<'BASH'
mount --bind "$VOLUME" "$VOLUME" && mount -o remount,bind,ro / || exit 77
cd / && exec "$@"
BASH
  cat >nobody <<'BASH'
unset HOME
exec unshare -mpf --mount-proc --kill-child bash "$POD" setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
BASH
}

# in_pod pod|nobody PREFIX [VAR=value...] -- COMMAND...
in_pod() {
  local script=$1 prefix=$2 settings command

  split_settings "${@:3}"
  if [[ $script == pod ]]; then
    command=(unshare -m bash pod "${command[@]}")
  else
    command=(bash nobody "${command[@]}")
  fi
  run_in "$prefix" POD="$case_dir/pod" VOLUME="$case_dir/volume" "${settings[@]}" -- "${command[@]}"
  [[ $(<"$prefix.status") != 77 ]] || skip "a read-only root"
}

# Nothing can be written: a line for each file says why, the report goes to standard error, and
# the program ends as it does natively.
clusters_read_only_case() {
  write_pod
  in_pod pod native -- "$apps/leaky_shared"
  expect_text native.out '^leaky: checksum'
  in_pod pod shim -- "$build/gpushim" --log-file=report --state-file=state --output=json \
    "$apps/leaky_shared"
  expect_same native shim
  expect_count shim.err '^gpushim: GPUSHIM_[A-Z_]+[:=].*: read-only file system; ' 3
  grep -v '^gpushim: ' shim.err >report
  expect_leaks report "$sources/tests/apps/leaky.c"
}
add_case "clusters read-only root" clusters_read_only_case

# As process 1 of a user without name and home, with one folder to write to: report, JSON and
# state file are there, for their owner alone.
clusters_pod_case() {
  local name owned pid

  write_pod
  in_pod nobody native -- "$apps/leaky_shared"
  in_pod nobody shim -- "$build/gpushim" --log-file="$case_dir/volume/report.%h.%r" \
    --state-file="$case_dir/volume/state.%p" --output=json \
    --output-file="$case_dir/volume/report.json" "$apps/leaky_shared"
  expect_same native shim
  expect_quiet shim
  name=volume/report.$(uname -n).norank
  expect_leaks "$name" "$sources/tests/apps/leaky.c"
  expect_count "$name" '^==[0-9]+== gpushim .*  exit 0$' 1
  pid=$(sed -nE '1s/^==([0-9]+)==.*/\1/p' "$name") # the command is the child of process 1
  for name in "$name" "volume/state.$pid" volume/report.json; do
    owned=$(stat -c '%u %a' "$name")
    expect_equal "owner and mode of $name" '65534 600' "$owned"
  done
  run_in outside -- "$build/gpushim" report "volume/state.$pid"
  expect_leaks outside.out "$sources/tests/apps/leaky.c"
}
add_case "clusters pod" clusters_pod_case

# Process 1 stays the parent: what a child could not report itself comes from it, and the status is the
# command's.
clusters_pod_killed_case() {
  write_pod
  in_pod nobody native -- "$apps/ends_shared" raw9
  in_pod nobody shim GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" "$apps/ends_shared" raw9
  expect_same native shim
  expect_planted shim.err "$sources/tests/apps/ends.c"
  in_pod nobody killed GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" "$apps/ends_shared" kill
  expect_status killed 137
  expect_planted killed.err "$sources/tests/apps/ends.c"
}
add_case "clusters pod, killed" clusters_pod_killed_case

# The kernel keeps SIGTERM from a process 1 that does not handle it. With the report on SIGTERM
# the report comes, and the program goes on as it does natively.
clusters_term_case() {
  local way pid child

  write_pod
  for way in native shim; do
    (
      [[ $way == native ]] || set -- "$build/gpushim" --dump-on-term --log-file="$case_dir/volume/report"
      export LD_LIBRARY_PATH=$cuda_path POD=$case_dir/pod VOLUME=$case_dir/volume
      exec timeout 100 bash nobody "$@" "$apps/killed_shared" ask "$case_dir/$way.done"
    ) >"$way.out" 2>"$way.err" &
    pid=$!
    await 30 grep -q planted "$way.out"
    child=$(grep -lxE 'NSpid:\s+[0-9]+\s+1' /proc/[0-9]*/status 2>/dev/null | while read -r status; do
      [[ $(tr '\0' ' ' <"${status%status}cmdline") == *"$case_dir/$way.done "* ]] && cut -d/ -f3 <<<"$status"
    done)
    [[ $child =~ ^[0-9]+$ ]] || fail "no process 1 of the $way run: $child"
    kill -TERM "$child"
    [[ $way == native ]] || await 20 test -s volume/report
    sleep 0.2
    : >"$way.done"
    wait "$pid"
    echo $? >"$way.status"
  done
  cat shim.err
  expect_same native shim
  expect_text native.out '^killed: the end$'
  expect_count volume/report '^==1== gpushim .*  SIGTERM$' 1
  expect_planted volume/report "$sources/tests/apps/killed.c"
}
add_case "clusters process 1, SIGTERM" clusters_term_case

# The commands of the pages that call a launcher, as they stand but for "..." and what explains them.
# clusters_launcher_case NAME [FOLDER]: FOLDER has it where PATH has not.
clusters_launcher_case() {
  local command tool

  tool=$(command -v "$1" || command -v "${2:-.}/$1") || skip "$1"
  readme_folder
  {
    tr '\n' ' ' <"$sources/docs/guide.md" | grep -oE '`[^`]*\b(mpirun|torchrun) [^`]*`' | tr -d '`'
    grep -hE '^(gpushim .*)?(mpirun|torchrun) ' "$sources/docs/clusters.md" | sed 's/   .*//'
  } | grep -w "$1" | sed -E 's/gpushim [.]{3}/gpushim --log-file=report.%r/; s/ [.]{3} / --nproc-per-node 2 /' >commands
  [[ $(wc -l <commands) -ge 2 ]] || fail "fewer commands than the pages have"
  while read -r command; do
    rm -f report.*
    # Open MPI takes root, and more processes than processors, only where it is told to.
    run_in launched PATH="$case_dir/bin:$sources/scripts:${tool%/*}:$PATH" GPUSHIM_LIBRARY="$shim" OMPI_ALLOW_RUN_AS_ROOT=1 \
      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
      PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe -- bash -c "$command"
    cat launched.err
    expect_status launched 0
    expect_ranks "$(grep -oE '(-n|--nproc-per-node) [0-9]+' <<<"$command" | cut -d' ' -f2)" "$command"
  done <commands
}

# expect_ranks COUNT COMMAND: each process has its report, or its line in the summary.
expect_ranks() {
  local rank leaked='==[0-9]+== SUMMARY: gpushim: 0 errors, [1-9]'

  if [[ $2 == *--summary* ]]; then
    expect_count launched.err ' exit 0 +(.*/)?app$' "$1"
    return
  fi
  expect_equal "reports of $2" "$1" "$(find . -name 'report.*' | wc -l)"
  for ((rank = 0; rank < $1; rank++)); do
    expect_count "$(find . -name "report*.$rank")" "$leaked" 1
    expect_text "$(find . -name "report*.$rank")" "^==[0-9]+== gpushim .*  rank $rank  .*  exit 0$"
  done
}
add_long_case "clusters with mpirun" clusters_launcher_case mpirun
add_long_case "clusters with torchrun" clusters_launcher_case torchrun "${REAL_DIR:-$sources/.real}/venv/bin"

# One rank aborts and its launcher ends the others: each has its line with what was live, and the summary names the rank
# that was first.
clusters_aborted_case() {
  need "$1"
  need_file "$apps/growing_shared"
  need_file "$apps/ends_shared"
  cat >rank <<'BASH'
[[ ${OMPI_COMM_WORLD_RANK-${PMI_RANK-}} == 2 ]] || exec "$1/growing_shared" 100
until [[ -s state.0 && -s state.1 && -s state.3 ]]; do sleep 0.1; done
sleep 1
exec "$1/ends_shared" abort
BASH
  run_in launched GPUSHIM_LIBRARY="$shim" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 -- "$build/gpushim" --summary --state-file=state.%r "$1" -n 4 bash rank "$apps"
  cat launched.err
  [[ $(<launched.status) != 0 ]] || fail "the job's status"
  expect_count launched.err '^gpushim: +[0-9]+ +[013] .* killed by SIG(TERM|KILL) +/.*growing_shared 100$' 3
  expect_count launched.err '^gpushim: +[0-9]+ +2 +3[.]00 MiB +3[.]00 MiB .* killed by SIGABRT +/.*ends_shared abort$' 1
  expect_count launched.err "^gpushim: first to fail: rank 2 of $(uname -n), killed by SIGABRT\$" 1
  expect_count launched.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, .* live when killed by SIG(TERM|KILL|ABRT) ' 4
}
add_long_case "clusters aborted rank, Open MPI" clusters_aborted_case mpirun.openmpi
add_long_case "clusters aborted rank, MPICH" clusters_aborted_case mpirun.mpich
