# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for another shell
#
# slurm.sh - srun --gpushim with Slurm itself, its daemons on this machine: each task has a report, and the job's output
# ends with their sum, of tasks that were killed, too. Steps without the option stay as they are.

uses readme recipes

# slurm_start: a cluster of this machine alone, with eight processors, in the folder `cluster`. Its daemons end with the
# case.
slurm_start() {
  local host port

  need_file "$build/spank_gpushim.so"
  [[ $(id -u) -eq 0 ]] || skip "root, for Slurm's daemons"
  PATH=$PATH:/usr/sbin:/sbin
  need slurmctld
  need slurmd
  need sbatch
  need srun
  host=$(uname -n)
  port=$((20000 + RANDOM % 10000))
  mkdir -p cluster/{spool,state}
  cat >cluster/slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$case_dir/cluster/state
SlurmdSpoolDir=$case_dir/cluster/spool
SlurmctldPidFile=$case_dir/cluster/controller
SlurmdPidFile=$case_dir/cluster/node
SlurmctldLogFile=$case_dir/cluster/controller.log
SlurmdLogFile=$case_dir/cluster/node.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
PlugStackConfig=$case_dir/cluster/plugstack.conf
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP
CONF
  echo 'CgroupAutomount=no' >cluster/cgroup.conf
  echo "optional $build/spank_gpushim.so command=$build/gpushim" >cluster/plugstack.conf
  export SLURM_CONF=$case_dir/cluster/slurm.conf
  trap slurm_end EXIT
  slurmctld -f "$SLURM_CONF" >daemons 2>&1 && slurmd -f "$SLURM_CONF" >>daemons 2>&1
  await 60 slurm_is_idle || { cat daemons cluster/*.log && skip "a machine on which Slurm starts"; }
}

# They write to their folder until they have ended.
slurm_end() {
  local pids pid

  pids=$(cat cluster/controller cluster/node 2>/dev/null)
  # shellcheck disable=SC2086  # two numbers
  [[ -z $pids ]] || kill $pids 2>/dev/null
  for pid in $pids; do
    await 20 test ! -e "/proc/$pid" || kill -KILL "$pid"
  done
}

slurm_is_idle() {
  [[ $(sinfo -h -o %t 2>/dev/null) == idle ]]
}

# slurm_job PREFIX: the script on standard input as a job; leaves its output in PREFIX.out and its status.
slurm_job() {
  {
    printf '#!/bin/bash\nunset SLURM_EXPORT_ENV\nexport LD_LIBRARY_PATH=%q CUDASIM_DEVICES=1\n' "$cuda_path"
    cat
  } >"$1.sh"
  timeout 100 sbatch -W -n 8 --export=PATH -o "$1.out" "$1.sh" >"$1.err" 2>&1
  echo $? >"$1.status"
  cat "$1.out" "$1.err"
}

slurm_tasks_case() {
  need_file "$apps/leaky_shared"
  need_file "$apps/ends_shared"
  slurm_start
  printf 'case $SLURM_PROCID in 2) exec %q abort ;; 5) exec %q kill ;; *) exec %q ;; esac\n' \
    "$apps/ends_shared" "$apps/ends_shared" "$apps/leaky_shared" >task
  LD_LIBRARY_PATH=$cuda_path CUDASIM_DEVICES=1 timeout 60 srun -n 8 /bin/bash task >native.out 2>&1
  slurm_job job <<<"srun --gpushim='--leak-max=20 --full-paths --error-exitcode=3' /bin/bash task | sort; ls -d gpushim.*"
  expect_count job.out '^leaky: checksum' 6
  expect_equal "output of tasks" "$(grep ^leaky native.out)" "$(grep ^leaky job.out)"
  # One table for the step, and nothing else of the library.
  expect_count job.out '^ *sum +most at ' 1
  expect_text job.out '^ *144 MiB 24[.]0 MiB rank 0 +0 B 24[.]0 MiB +6 of 8  load_weights .*/leaky[.]c:39 < '
  expect_text job.out '^6[.]00 MiB 3[.]00 MiB rank 2 +0 B 3[.]00 MiB +2 of 8  keep .*/ends[.]c:[0-9]+ < '
  expect_count job.out '^gpushim: +[0-9]+ +[013467] +30[.]3 MiB .*  exit 0 +/.*leaky_shared$' 6
  expect_count job.out '^gpushim: +[0-9]+ +[25] +3[.]00 MiB +3[.]00 MiB .*  ended without a report /.*ends_shared (abort|kill)$' 2
  expect_count job.out '^gpushim: live when killed: 6[.]00 MiB in 2 processes$' 1
  expect_no_text job.out '^==[0-9]+==|left out|no CUDA'
  expect_count job.out '^gpushim[.][0-9]+[.]0$' 1
  expect_equal "reports as text" 6 "$(find gpushim.*.0 -name 'report.[013467].*' | wc -l)"
  expect_equal "state files" 8 "$(find gpushim.*.0 -name 'state.[0-7].*[0-9]' | wc -l)"
  expect_equal "mode of the folder" 700 "$(stat -c %a gpushim.*.0)"
}
add_case "slurm tasks, killed ones too" slurm_tasks_case

# Nothing of the submitter's environment goes to the tasks; the folder is there already; no task calls CUDA; no option is given.
slurm_steps_case() {
  need_file "$apps/leaky_shared"
  slurm_start
  # An installation: the plug-in finds the command.
  install -D "$build/spank_gpushim.so" opt/lib/gpushim/spank_gpushim.so
  install -D "$build/gpushim" opt/bin/gpushim
  cp "$shim" opt/lib/gpushim
  echo "optional $case_dir/opt/lib/gpushim/spank_gpushim.so" >cluster/plugstack.conf
  slurm_job job <<JOB
mkdir gpushim.\$SLURM_JOB_ID.0
srun -n 2 --export=NONE --gpushim /usr/bin/env LD_LIBRARY_PATH=$cuda_path $apps/leaky_shared
ls -d gpushim.*
ln -s $apps/leaky_shared app
$(page_block clusters.md Slurm 2)
echo --- no CUDA
srun -n 2 --gpushim=--stack=fp /usr/bin/printenv GPUSHIM_STACK
echo --- no option
srun -n 2 /bin/bash -c 'echo "<\$LD_PRELOAD\${!GPUSHIM_@}>"'
ls -d gpushim.*
JOB
  sed '/^--- no CUDA/,$d' job.out >requeued
  expect_count requeued '^gpushim: +[0-9]+ +[01] +30[.]3 MiB .* exit 0 +/.*/leaky_shared$' 2
  expect_count requeued '^gpushim[.][0-9]+[.]0([.]1)?$' 2
  expect_text requeued '^gpushim: +[0-9]+ +0 +30[.]3 MiB .* exit 0 +/.*/app$' # the page's command
  sed '1,/^--- no CUDA/d; /^--- no option/,$d' job.out >no_cuda
  expect_count no_cuda '^fp$' 2
  expect_count no_cuda 'gpushim: no task called CUDA$' 1
  expect_no_text no_cuda '^gpushim'
  sed '1,/^--- no option/d' job.out >plain
  expect_count plain '^<>$' 2
  expect_count plain '^gpushim[.][0-9]+[.](0|0[.]1|1)$' 3
  expect_equal "other lines" 5 "$(grep -vc "^srun: " plain)" # it says where it has to wait for a node
}
add_case "slurm steps" slurm_steps_case

# A job that is requeued while its tasks run: what they had is in the first folder, and the second start sums its own tasks.
# This test alone has Slurm itself start a job again.
slurm_requeue_case() {
  local job

  need_file "$apps/growing_shared"
  need_file "$apps/leaky_shared"
  slurm_start
  slurm_job job <<JOB &
program="$apps/growing_shared 600"
[[ \${SLURM_RESTART_COUNT:-0} == 0 ]] || program=$apps/leaky_shared
srun -n 2 --gpushim \$program
ls -d gpushim.*
JOB
  # shellcheck disable=SC2317 # called by await
  runs() { [[ $(find . -path './gpushim.*' -name 'state.[01].*[0-9]' -size +0 | wc -l) == 2 ]]; }
  await 60 runs || fail "the first start"
  job=$(find . -maxdepth 1 -name 'gpushim.*.0' | cut -d. -f3)
  scontrol requeue "$job" || fail "scontrol requeue"
  wait
  expect_status job 0
  expect_equal "folders" "gpushim.$job.0 gpushim.$job.0.1" "$(grep '^gpushim[.]' job.out | xargs)"
  expect_count job.out '^gpushim: +[0-9]+ +[01] +30[.]3 MiB .* exit 0 +/.*/leaky_shared$' 2
  expect_no_text job.out growing
  run_in first -- "$build/gpushim" merge "gpushim.$job.0"
  expect_count first.out '^gpushim: +[0-9]+ +[01] .* /.*/growing_shared 600$' 2
}
add_case "slurm job that is requeued" slurm_requeue_case

# slurm_srun PREFIX ARGUMENT...: a job of one step; leaves its output in PREFIX.out and its status.
slurm_srun() {
  timeout 60 srun -n 2 "${@:2}" >"$1.out" 2>&1
  echo $? >"$1.status"
  cat "$1.out"
}

# Wrong options end srun before a task begins; a command that is missing costs a line.
slurm_wrong_case() {
  local words said

  slurm_start
  while IFS='|' read -r words said; do
    slurm_srun refused --gpushim="$words" /bin/echo begun
    expect_text refused.out "gpushim: $said"
    [[ $(<refused.status) != 0 ]] || fail "status 0 with $words"
    expect_no_text refused.out '^begun'
  done <<'END'
--leak-maxx=3|unknown option --leak-maxx: did you mean --leak-max[?]
leak-scan|leak-scan: not an option of the form --NAME or --NAME=VALUE$
--leak-scan --stack=none|--stack=none: not one of
--summary|--summary has no effect with srun$
--error-exitcode=3 --error-no-cuda|--error-no-cuda has no effect with srun$
END
  echo "optional $build/spank_gpushim.so command=/none" >cluster/plugstack.conf
  slurm_srun gone --gpushim /bin/echo begun
  expect_count gone.out '^begun$' 2
  expect_status gone 0
  expect_text gone.out 'gpushim: /none cannot be run here: options are not checked$'
  expect_count gone.out 'gpushim: /none: status 127, the task runs without it$' 2
  echo "optional $build/spank_gpushim.so commando=/none" >cluster/plugstack.conf
  slurm_srun odd /bin/echo begun
  expect_text odd.out 'gpushim: plugstack.conf: commando=/none is not command=/PATH/OF/gpushim'
  expect_count odd.out '^begun$' 2
}
add_case "slurm wrong options" slurm_wrong_case
