# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for another shell
#
# recipes.sh - the commands of the pages that need another program than gpushim: ctest, pytest, Docker, Slurm,
# Kubernetes, systemd with logrotate. Each runs as it stands on the page, from a clean root; what is not on this
# machine is stood in for by a script that does what the command line asks. And no command of these pages is
# without a case.

uses readme

# page_block PAGE TITLE [NUMBER]: the lines of the first, or another, code block below a title.
page_block() {
  awk -v title="$2" -v wanted="${3:-1}" '/^#/ { inside = ($0 ~ "^#+ " title "$") }
    inside && /^```/ { if (open) { open = 0 } else { open = 1; n++; next } } inside && open && n == wanted' \
    "$sources/docs/$1" >"block"
  [[ -s block ]] || fail "docs/$1 has no such block below $2"
  cat block
}

# ---- ctest, pytest -------------------------------------------------------------------

recipes_ctest_case() {
  local command

  need cmake
  need ctest
  readme_folder
  command=$(grep -oE '`gpushim [^`]* ctest[^`]*`' "$sources/docs/guide.md" | tr -d '`')
  [[ -n $command ]] || fail 'docs/guide.md has no command with ctest'
  cat >CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(tests NONE)
enable_testing()
add_test(NAME leaks COMMAND $apps/leaky_shared)
add_test(NAME right COMMAND $apps/pipeline_shared)
CMAKE
  cmake -S . -B tests >cmake.log 2>&1 || { cat cmake.log && fail 'cmake'; }
  readme_run ctest "cd tests; ctest"
  expect_status ctest 0
  readme_run ctest "cd tests; $command"
  expect_status ctest 8
  expect_text ctest.out '^1/2 Test #1: leaks .*Failed '
  expect_text ctest.out '^==[0-9]+== LEAK 1: 24[.]0 MiB in 1 allocation '
  expect_text ctest.out '^2/2 Test #2: right .* Passed '
}
add_case "recipes ctest" recipes_ctest_case

# find_pytest: `pytest` is on PATH, or in bin, by the packages of tests/zoo.
find_pytest() {
  local packages

  command -v pytest >/dev/null && return
  packages=$(printf '%s:' "${REAL_DIR:-$sources/.real}"/pip/{pytest,pluggy,iniconfig,packaging,pygments}==*/site-packages)
  printf '#!/bin/sh\nPYTHONPATH=%q exec python3 -m pytest "$@"\n' "$packages" >bin/pytest
  chmod +x bin/pytest
  bin/pytest --version >/dev/null 2>&1 || skip 'pytest'
}

recipes_pytest_case() {
  local command

  readme_folder
  find_pytest
  command=$(grep -oE '`gpushim [^`]* pytest[^`]*`' "$sources/docs/guide.md" | tr -d '`')
  [[ -n $command ]] || fail 'docs/guide.md has no command with pytest'
  mkdir tests
  cat >tests/test_weights.py <<'PYTHON'
import ctypes

cuda = ctypes.CDLL("libcudart.so.13")


def load(megabytes):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(megabytes << 20)) == 0
    return block


def test_right():
    assert cuda.cudaFree(load(2)) == 0


def test_leaks():
    load(3)
PYTHON
  readme_run pytest "cd tests; $command -p no:cacheprovider; echo status \$?"
  expect_text pytest.out '2 passed'
  expect_text pytest.out '^status 3$'
  expect_count pytest.out '^==[0-9]+== LEAK [0-9]+: ' 1
  expect_text pytest.out '^==[0-9]+==     #0 +load +test_weights[.]py:8$'
  expect_text pytest.out '^==[0-9]+==     #1 +test_leaks +test_weights[.]py:17$'
}
add_case "recipes pytest" recipes_pytest_case

# ---- containers ----------------------------------------------------------------------

# write_image: the folder `image`, a root with a program that leaks, the machine's C library and addr2line, and the
# simulated driver; bin/docker, which does of `docker run` what the pages use. /opt is a folder of the case.
write_image() {
  [[ $(id -u) -eq 0 ]] || skip "root, for containers"
  unshare -mpf true 2>/dev/null || skip "name spaces of our own"
  need_file "$apps/leaky_shared"
  mkdir -p bin image/{proc,dev,tmp,cuda,lib,lib64,hostbin,usr,opt/app,var/log/app} opt
  ln -s hostbin image/bin
  cp "$apps/leaky_shared" image/app
  cat >bin/docker <<'BASH'
#!/bin/bash
# docker run OPTION... IMAGE COMMAND..., in the folder that has the image; --init or not, process 1 is the command.
[[ $1 == run ]] || exit 125
mounts=() variables=()
for ((shift_by = 1; shift_by; )); do
  shift "$shift_by"
  case $1 in
    --gpus) shift_by=2 ;;
    --init) shift_by=1 ;;
    -v) mounts+=("$2") shift_by=2 ;;
    -e) variables+=("$2") shift_by=2 ;;
    -*) echo "unknown flag: $1" && exit 125 ;;
    *) shift_by=0 ;;
  esac
done
shift
exec unshare -mpf --kill-child bash -ec '
  while [[ $1 != -- ]]; do
    IFS=: read -r from to mode <<<"$1"
    mkdir -p "$from" "image$to"
    mount --bind "$from" "image$to"
    [[ $mode != ro ]] || mount -o remount,bind,ro "image$to"
    shift
  done
  mount --rbind /usr/lib image/lib
  [[ ! -d /usr/lib64 ]] || mount --rbind /usr/lib64 image/lib64
  mount --rbind /usr/bin image/hostbin
  mount --bind "$CUDA" image/cuda
  mount --rbind /dev image/dev
  mount -t proc proc image/proc
  exec chroot image /hostbin/env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH=/cuda CUDASIM_DEVICES=1 "${@:2}"' \
  bash "${mounts[@]}" -- "${variables[@]}" "$@"
BASH
  chmod +x bin/docker
}

# install_below FOLDER: an installation, with the library where the pages have it.
install_below() {
  need cmake
  cmake --install "$build" --prefix "$1" >install.log 2>&1 || { cat install.log && fail "cmake --install"; }
}

# in_image PREFIX COMMANDS
in_image() {
  run_in "$1" PATH="$case_dir/bin:$PATH" CUDA="$cuda_path" -- \
    unshare -m bash -ec "mount --bind '$case_dir/opt' /opt; $2"
  cat "$1.err"
}

# expect_container_leaks FOLDER: its one report, of the host and a process.
expect_container_leaks() {
  local report

  report=$(find "$1" -maxdepth 1 -name 'report.*')
  [[ $report == "$1/report.$(uname -n)".[0-9]* ]] || fail "reports: $report"
  sed -n '/^==/p' "$report" >leaks
  expect_leaks leaks "$sources/tests/apps/leaky.c"
}

recipes_docker_case() {
  local command

  write_image
  install_below "$case_dir/opt/gpushim"
  [[ -e opt/gpushim/lib/gpushim/libgpushim.so ]] || skip "a build whose libraries are in lib"
  command=$(page_block clusters.md 'Docker and Podman')
  [[ $command == 'docker run '* ]] || fail "no command of Docker: $command"
  in_image docker "$command"
  expect_status docker 0
  expect_text docker.out '^leaky: checksum'
  expect_container_leaks reports
  # Docker's own command, without a daemon, refuses flags that it does not know.
  command -v docker >/dev/null || return 0
  run_in client HOME="$case_dir" DOCKER_HOST=unix:///nowhere -- bash -c "${command/IMAGE/image}"
  cat client.err
  expect_text client.err '[Cc]annot connect|failed to connect'
  run_in client HOME="$case_dir" DOCKER_HOST=unix:///nowhere -- bash -c "${command/--init/--inid}"
  expect_text client.err 'unknown flag: --inid'
}
add_case "recipes Docker" recipes_docker_case

# The pod's containers, one after the other: names that belong together, and what they run.
recipes_kubernetes_case() {
  need python3
  python3 -c 'import yaml' 2>/dev/null || skip "PyYAML"
  write_image
  install_below "$case_dir/opt/gpushim"
  [[ -e opt/gpushim/lib/gpushim/libgpushim.so ]] || skip "a build whose libraries are in lib"
  page_block clusters.md Kubernetes >pod.yaml
  python3 - >commands <<'PYTHON' || fail "the pod is none"
import os, shlex, yaml

spec = yaml.safe_load(open("pod.yaml"))["spec"]
assert set(spec) == {"initContainers", "containers", "volumes"}, set(spec)
volumes = {volume["name"]: volume for volume in spec["volumes"]}
assert all(set(volume) == {"name", "emptyDir"} for volume in volumes.values()), volumes

def docker(container, image, command):
    words = ["docker", "run"]
    for mount in container["volumeMounts"]:
        assert set(mount) == {"name", "mountPath"} and mount["name"] in volumes, mount
        words += ["-v", f"{os.getcwd()}/volumes/{mount['name']}:{mount['mountPath']}"]
    for variable in container.get("env", ()):
        assert set(variable) == {"name", "value"} and isinstance(variable["value"], str), variable
        words += ["-e", f"{variable['name']}={variable['value']}"]
    print(shlex.join(words + image + command))

for container in spec["initContainers"]:
    assert set(container) == {"name", "image", "command", "volumeMounts"}, set(container)
    # An image that has an installation.
    docker(container, ["-v", "/opt/gpushim:/opt/gpushim:ro", container["image"]], container["command"])
for container in spec["containers"]:
    assert set(container) <= {"name", "env", "volumeMounts"}, set(container)
    docker(container, ["IMAGE"], ["./app"])
PYTHON
  in_image pod "$(<commands)"
  expect_status pod 0
  expect_text pod.out '^leaky: checksum'
  expect_container_leaks volumes/gpushim
  run_in outside -- "$build/gpushim" report volumes/gpushim/state.*[0-9]
  expect_text outside.out '^==1== Note: functions are missing: /app is not there [(]of a container: GPUSHIM_SYSROOT=ITS_ROOT[)]$'
  run_in state -- "$build/gpushim" --sysroot="$case_dir/image" report volumes/gpushim/state.*[0-9]
  expect_leaks state.out "$sources/tests/apps/leaky.c"
}
add_case "recipes Kubernetes" recipes_kubernetes_case

# ---- Slurm ---------------------------------------------------------------------------

# srun that starts two tasks at once, with Slurm's variables.
recipes_slurm_case() {
  readme_folder
  cat >bin/srun <<'BASH'
#!/bin/bash
for rank in 0 1; do
  SLURM_JOB_ID=77 SLURM_PROCID=$rank "$@" &
done
wait
BASH
  chmod +x bin/srun
  readme_run srun "$(page_block clusters.md Slurm)"
  expect_status srun 0
  expect_equal reports "report.77.0 report.77.1" "$(echo report.*)"
  expect_leaks report.77.0 "$sources/tests/apps/leaky.c"
  expect_leaks report.77.1 "$sources/tests/apps/leaky.c"
}
add_case "recipes Slurm, its variables" recipes_slurm_case

# ---- systemd, logrotate --------------------------------------------------------------

# write_unit: a root with somebody's unit, and with the page's lines over it.
write_unit() {
  local unit=image/etc/systemd/system

  write_image
  install_below "$case_dir/image/usr"
  need_file "$apps/growing_shared"
  cp "$apps/growing_shared" image/opt/app/growing
  printf '#!/bin/sh\nexec /opt/app/growing 600\n' >image/opt/app/server
  chmod +x image/opt/app/server
  mkdir -p "$unit/app.service.d"
  printf '[Unit]\nDescription=A server\n[Service]\nExecStart=/opt/app/server\n' >"$unit/app.service"
  page_block clusters.md systemd >"$unit/app.service.d/gpushim.conf"
}

recipes_unit_case() {
  need systemd-analyze
  [[ -e /lib/systemd/system/sysinit.target ]] || skip "systemd's units"
  write_unit
  mkdir -p image/usr/lib/systemd units
  cp -r /lib/systemd/system image/usr/lib/systemd/
  run_in verified -- systemd-analyze verify --man=no --root="$case_dir/image" app.service
  cat verified.err
  expect_status verified 0
  expect_no_text verified.err 'app[.]service|gpushim[.]conf'
  # Without the line that ends the unit's own command.
  sed -i '/^ExecStart=$/d' image/etc/systemd/system/app.service.d/gpushim.conf
  run_in wrong -- systemd-analyze verify --man=no --root="$case_dir/image" app.service
  expect_text wrong.err 'more than one ExecStart='
}
add_case "recipes systemd's unit" recipes_unit_case

# run_unit COMMANDS: starts what the unit starts, with SIGTERM to all of its processes once the file `stop` is there.
run_unit() {
  local command

  command=$(sed -n 's/^ExecStart=//p' image/etc/systemd/system/app.service.d/gpushim.conf | tail -n 1)
  rm -f image/stop image/ended
  in_image unit "docker run IMAGE /bin/bash -c '$command & until [[ -e /stop ]]; do /bin/sleep 0.05; done
    kill -TERM -1; wait; while /bin/pgrep -x \"gpushim-watch|growing\"; do /bin/sleep 0.05; done >/tmp/left'" &
  "$@"
  touch image/stop
  wait
  expect_status unit 0
}

# rotate_twice LOGROTATE FILE: while the program runs.
rotate_twice() {
  for _ in 1 2; do
    await 30 grep -qs 'GROWING 1' "$2" || fail 'no report in the file'
    run_in rotated -- "$1" -s "$case_dir/rotated" conf
    cat rotated.err
    expect_status rotated 0
  done
  await 30 grep -qs 'GROWING 1' "$2" || fail 'no report in the new file'
}

recipes_logrotate_case() {
  local log=image/var/log/app/gpushim.log logrotate

  write_unit
  logrotate=$(PATH=$PATH:/usr/sbin command -v logrotate) || skip logrotate
  run_unit sleep 2
  expect_count "$log" '^==[0-9]+== SUMMARY: gpushim: 0 errors, [0-9.]+ MiB live when killed by SIGTERM ' 1
  # With reports so often that the test sees them.
  sed -i 's/--stats-interval=1h/--stats-interval=500ms/' image/etc/systemd/system/app.service.d/gpushim.conf
  printf '%s {\n  rotate 2\n  size 1\n}\n' "$case_dir/$log" >conf
  run_unit rotate_twice "$logrotate" "$log"
  expect_text "$log" '^==[0-9]+== SUMMARY: gpushim: 0 errors, [0-9.]+ MiB live when killed by SIGTERM '
  cat "$log" "$log".* >all
  expect_count all 'SUMMARY: gpushim' 2
  expect_no_text unit.err '^gpushim: '
}
add_case "recipes systemd with logrotate" recipes_logrotate_case

# ---- all of them ---------------------------------------------------------------------

# Every command of these pages, in a block ($) or within the text (`), is one that a case runs as it stands.
recipes_all_case() {
  local page command words case unused

  need python3
  cat >table <<'END'
README.md|[$`] scripts/(demo|test)|readme words
README.md|\$ (scripts/setup|cmake .*|\(cd build-release && cpack\) .*)|readme install
README.md|\$ scripts/wheel && pip install .*|readme wheel
README.md|\$ gpushim .*|readme use
README.md|` gpushim .*|readme goals
README.md|` gpushim (--help|--print \./app|advise trace)|readme inline
docs/faq.md|` gpushim --print \./app|readme inline
docs/faq.md|` (sudo apt remove gpushim|xargs .*)|readme install
docs/faq.md|` pip uninstall gpushim|readme wheel
docs/guide.md|\$ (cd build/apps|export PATH=.*)|guide in a built tree
docs/guide.md|\$ (gpushim .*|RANK=3 gpushim .*|cat report\.3)|guide
docs/guide.md|` gpushim --trace-file=app\.trace --state-file=app\.state \./app|readme goals
docs/guide.md|` gpushim (html app\.trace app\.state|dump PID|top)|readme goals
docs/guide.md|` gpushim diff|diff of planted changes
docs/guide.md|` gpushim merge|merge of ranks
docs/guide.md|` gpushim .* ctest .*|recipes ctest
docs/guide.md|` gpushim .* pytest|recipes pytest
docs/guide.md|` (gpushim [.]{3} )?mpirun .*|clusters with mpirun
docs/guide.md|` torchrun .*|clusters with torchrun
docs/clusters.md|\$ (gpushim --summary )?mpirun .*|clusters with mpirun
docs/clusters.md|\$ srun gpushim .*|recipes Slurm, its variables
docs/clusters.md|\$ srun --gpushim.*|slurm steps
docs/clusters.md|\$ torchrun .*|clusters with torchrun
docs/clusters.md|\$ docker run .*|recipes Docker
docs/clusters.md|\$ (gpushim cdi|podman run) .*|cdi with podman
docs/clusters.md|\$ gpushim serve.*|serve metrics of a pod
docs/gpushim.1|\$ gpushim .*|readme goals
docs/gpushim.1|\$ pytest --gpushim|pytest restart
END
  cat >words.py <<'PYTHON'
import re, sys

starts = re.compile(r"^(gpushim|sudo|pip|xargs|apt|apt-get|docker|podman|srun|sbatch|mpirun|torchrun|kubectl|systemctl|logrotate"
                    r"|cmake|make|scripts/\S+|cd|export|cat|\(cd|[A-Z_]+=\S+ [a-z]+) ")
page = open(sys.argv[1], encoding="utf-8").read()
if sys.argv[1].endswith(".1"):
    for line in re.findall(r"^\.B (gpushim .*)$", page.split(".SH EXAMPLES")[1].split("\n.SH ")[0], flags=re.M):
        print(*("$ " + command for command in line.replace("\\", "").split(", ")), sep="\n")
    sys.exit()
for head, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", page, flags=re.M | re.S):
    lines = re.sub(r"\\\n *", "", re.sub(r"^  (?=\$ |==)", "", block, flags=re.M)).splitlines()
    typed = [line[2:] for line in lines if line.startswith("$ ")]
    if not typed and head in ("", "sh") and not any(re.match(r"==\d+==|\[", line) for line in lines):
        typed = [line for line in lines if line.strip()]
    for line in typed:
        print("$", re.split(r"  +|; echo ", line)[0])
text = " ".join(re.sub(r"^ *```.*?^ *```", "", page, flags=re.M | re.S).split())
for span in re.findall(r"`([^`]+)`", text):
    if starts.match(span + " ") and span not in ("gpushim", "pip", "cat", "srun torchrun", "docker stop", "systemctl stop",
                                                 "systemctl edit app", "kubectl logs", "kubectl cp",
                                                 "sbatch --signal=USR1@60"):
        print("`", span)
PYTHON
  while IFS='|' read -r page words case; do
    grep -qE "^ *add_(long_)?case \"$case\" |add_(long_)?case \"$case\" " "$here"/cases/*.sh || fail "no case: $case"
  done < <(sed -E 's/^([^|]*)\|(.*)\|([^|]*)$/\1|\3|\3/' table)
  : >used
  for page in README.md docs/{faq,guide,clusters,python}.md docs/gpushim.1; do
    python3 -S words.py "$sources/$page" | sort -u >commands
    while read -r command; do
      sed -nE "s#^$page\|(.*)\|[^|]*\$#\1#p" table >rows
      : >found
      while read -r words; do
        ! grep -qxE -- "$words" <<<"$command" || echo "$page|$words" >>found
      done <rows
      [[ -s found ]] || fail "$page: no case runs: $command"
      cat found >>used
    done <commands
  done
  unused=$(sed 's/|[^|]*$//' table | grep -vFxf used)
  [[ -z $unused ]] || fail "no command is: $unused"
}
add_case "recipes all have a case" recipes_all_case
