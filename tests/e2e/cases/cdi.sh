# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for another shell
#
# cdi.sh - gpushim cdi: what it writes and refuses, and containers of Podman and Docker that are started with its devices:
# an image with Debian's C library, one with musl, and one that has a static program and nothing else.

uses readme recipes

# cdi_write PREFIX ARGUMENT...
cdi_write() {
  run_in "$1" GPUSHIM_LIBRARY="$shim" -- "$build/gpushim" cdi "${@:2}"
}

# ---- what is written -----------------------------------------------------------------

# In the container: the path of the library, and the folder where it is on the machine.
cdi_specification_case() {
  local minor prefix

  need python3
  need objdump
  minor=$(objdump -p "$shim" | sed -n 's/.* GLIBC_2[.]\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
  mkdir folder rules
  echo 'leak:f' >rules/known
  echo 'leak:g' >folder/known
  cdi_write whole --name=leak --folder="$case_dir/folder" --leak-scan --error-exitcode=3 --check-args --check-redzone=256 \
    --suppressions="$case_dir/rules/known:$case_dir/folder/known" --output=json --nvtx
  expect_status whole 0
  cdi_write plain
  expect_status plain 0
  for prefix in whole plain; do
    expect_equal "what $prefix says" "gpushim: programs do not start in images whose glibc is older than 2.$minor" \
      "$(<$prefix.err)"
  done
  # It is so: the dynamic linker leaves out a library that it cannot preload, but not one that is too new.
  sed "s/GLIBC_2[.]$minor/GLIBC_9.$minor/" "$shim" >later.so
  run_in older LD_PRELOAD="$case_dir/later.so" -- /bin/true
  expect_text older.err "version .GLIBC_9[.]$minor' not found"
  [[ $(<older.status) != 0 ]] || fail "the program starts"
  python3 -S - "$case_dir" "$shim" "$build" <<'PYTHON' || fail "another specification"
import json, os, sys

case_dir, shim, build = sys.argv[1:]
library = "/opt/gpushim/lib/gpushim/libgpushim.so"

def mount(host, container, access):
    return {"hostPath": host, "containerPath": container, "options": [access, "nosuid", "nodev", "bind"]}

def expect(path, kind, env, mounts):
    found = json.load(open(path))
    expected = {"cdiVersion": "0.3.0", "kind": kind,
                "devices": [{"name": "on", "containerEdits": {"env": [f"LD_PRELOAD={library}"]}},
                            {"name": "file", "containerEdits": {"mounts": [
                                mount(os.path.realpath(f"{build}/ld.so.preload"), "/etc/ld.so.preload", "ro")]}}],
                "containerEdits": {"env": env, "mounts": [mount(os.path.realpath(shim), library, "ro"), *mounts]}}
    for edits in (found["containerEdits"], expected["containerEdits"]):
        edits["env"] = sorted(edits["env"])
    assert found == expected, f"{found}\n{expected}"

folder, rules = f"{case_dir}/folder", f"{case_dir}/rules/known"
expect("plain.out", "gpushim.dev/default", [], [])
expect("whole.out", "gpushim.dev/leak",
       ["GPUSHIM_LEAK_SCAN=on", "GPUSHIM_ERROR_EXITCODE=3", "GPUSHIM_CHECK=args,redzone:256", "GPUSHIM_OUTPUT=json",
        f"GPUSHIM_SUPPRESSIONS={rules}:{folder}/known", f"NVTX_INJECTION64_PATH={library}",
        f"GPUSHIM_LOG_FILE={folder}/report.%h.%p", f"GPUSHIM_STATE_FILE={folder}/state.%h.%p",
        f"GPUSHIM_OUTPUT_FILE={folder}/output.%h.%p"],
       [mount(folder, folder, "rw"), mount(rules, rules, "ro")])
assert open(f"{build}/ld.so.preload").read() == f"{library}\n"
PYTHON
  # Options may name the files; a path with quotes stays what it is; a folder may come later, with a line.
  cdi_write named --folder="$case_dir/fol\"der" --log-file=/var/log/%p
  expect_status named 0
  expect_equal "a folder that is missing" \
    "gpushim: --folder=$case_dir/fol\"der: no such file or directory; containers do not start without it" \
    "$(grep -v glibc named.err)"
  python3 -S -c 'import json, sys
edits = json.load(open("named.out"))["containerEdits"]
assert "GPUSHIM_LOG_FILE=/var/log/%p" in edits["env"] and edits["mounts"][1]["hostPath"].endswith("fol\"der"), edits' ||
    fail "named"
}
add_case "cdi specification" cdi_specification_case

# One clear line, status 2, and nothing that a runtime could read.
cdi_refuses_case() {
  local words said

  mkdir folder
  echo x >file
  while IFS='|' read -r words said; do
    words=${words//@/$case_dir}
    printf -v words '%b' "$words"
    cdi_write refused "$words"
    expect_status refused 2
    expect_equal "output of $words" '' "$(<refused.out)"
    expect_text refused.err "^gpushim: $said"
    expect_equal "lines of $words" 1 "$(grep -vc '^usage: ' refused.err)"
  done <<'END'
--name=|--name=: a name has up to 63 letters, digits, - and _, begins with a letter, and ends with a letter or digit$
--name=9lives|--name=9lives: a name has
--name=a.b|--name=a[.]b: a name has
--name=a/b|--name=a/b: a name has
--name=a-|--name=a-: a name has
--name=a=b|--name=a=b: a name has
--name=a23456789a123456789b123456789c123456789d123456789e123456789f1234|--name=a2.*: a name has
--folder=folder|--folder=folder: not a whole path$
--folder=|--folder=: not a whole path$
--folder=/|--folder=/: it would hide the container's own files$
--folder=/../|--folder=/../: it would hide
--folder=@/file|--folder=.*/file: not a folder$
--folder=/a%b|--folder=/a%b: a percent sign
--folder=/a\xff|--folder=/a[?]: not UTF-8$
--log-file=report|--log-file=report: not a whole path, which a container needs$
--state-file=./state|--state-file=[.]/state: not a whole path
--suppressions=file|--suppressions=file: not a whole path
--suppressions=/none|--suppressions: cannot read /none: no such file or directory$
--log-file=/a\xff|GPUSHIM_LOG_FILE=/a[?]: not UTF-8$
--leak-scann|unknown option --leak-scann: did you mean --leak-scan[?]
--stack=none|--stack=none: not one of
--summary|--summary has no effect: the command gpushim is not in the container$
--watch=off|--watch has no effect
--print|--print has no effect
--error-no-cuda|--error-no-cuda has no effect
leak|cdi takes only options, not leak$
END
  run_in library -- "$build/gpushim" cdi --library=/none
  expect_status library 2
  expect_text library.err '^gpushim: /none: no such file'
}
add_case "cdi refuses" cdi_refuses_case

# Without the file beside the library there is one device less.
cdi_alone_case() {
  need python3
  cp "$shim" alone.so
  run_in alone -- "$build/gpushim" cdi --library="$case_dir/alone.so"
  expect_status alone 0
  expect_text alone.err '^gpushim: .*/ld[.]so[.]preload: no such file or directory; the device "file" is left out$'
  expect_equal "devices" on "$(python3 -S -c 'import json
print(*(each["name"] for each in json.load(open("alone.out"))["devices"]))')"
}
add_case "cdi of a library alone" cdi_alone_case

# ---- with Podman ---------------------------------------------------------------------

# cdi_podman WORDS...: with the case's images and devices. /run and its locks are the case's own. The kernel may forbid
# root a network and larger limits: containers are started without.
cdi_podman() {
  unshare -m bash -ec '
    mount -t tmpfs none /run
    mkdir /run/cdi
    cp -r "$1"/. /run/cdi
    shift
    exec "$podman" --root "$STORE/images" --runroot "$STORE/run" --storage-driver vfs --cgroup-manager cgroupfs \
      --events-backend none "$@"' bash "$case_dir/devices" "$@"
}

# cdi_start PREFIX IMAGE DEVICE [OPTION...]: runs the image's /app, or what `words` has; DEVICE may be none.
cdi_start() {
  local device=()

  [[ $3 == none ]] || device=(--device "gpushim.dev/$3")
  cdi_podman --runtime "$runtime" run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
    "${device[@]}" "${@:4}" "$2" "${words[@]:-/app}" >"$1.out" 2>"$1.err"
  echo $? >"$1.status"
  cat "$1.err"
}

# cdi_quiet: what Podman leaves to clean up has ended; the case's folder goes next.
cdi_quiet() {
  # shellcheck disable=SC2317 # called by await
  has_ended() { ! pgrep -f "$STORE" >/dev/null; }
  await 25 has_ended || fail "Podman still works on $STORE"
}

# cdi_fill FOLDER FILE...: files of the machine, with the libraries that they need.
cdi_fill() {
  local file

  for file in "${@:2}" $(LD_LIBRARY_PATH=$cuda_path ldd "${@:2}" 2>/dev/null | grep -oE '/[^ ]+' | grep -v ':$' | sort -u); do
    [[ $file == "$cuda_path"/* || $file == "$apps"/* ]] || install -D "$file" "$1$file"
  done
}

# cdi_debian: the files of the image debian, and a folder for reports.
cdi_debian() {
  mkdir -p devices folder debian/{cuda,tmp}
  cp -L "$cuda_path"/libcuda*.so* debian/cuda
  cp "$apps/leaky_shared" debian/app
  cp "$apps/growing_shared" "debian/growing.$BASHPID" # a name that no other process has
  install -D "$(realpath "$(command -v addr2line)")" debian/usr/bin/addr2line
  cdi_fill debian "$apps/leaky_shared" "$(realpath "$(command -v addr2line)")"
}

# cdi_images: debian, musl and static, and `devices` for the programs in them. Sets `runtime`.
cdi_images() {
  local image

  [[ $(id -u) -eq 0 ]] || skip "root, for containers"
  need podman
  podman=$(command -v podman)
  export podman
  need musl-gcc
  need addr2line
  STORE=$(mktemp -d /tmp/gs-cdi.XXXXXX) || fail "no folder" # a path of at most 50 characters
  trap 'rm -rf "$STORE"' EXIT
  export STORE XDG_RUNTIME_DIR=$case_dir HOME=$case_dir CONTAINERS_CONF=$case_dir/containers.conf
  printf '[engine]\nlock_type = "file"\n' >containers.conf
  cdi_debian
  mkdir -p musl/lib static
  printf '#include <stdio.h>\nint main(void) { puts("hello"); return 7; }\n' >hello.c
  printf '#include <unistd.h>\n__attribute__((constructor)) static void say(void) { (void)!write(2, "own\\n", 4); }\n' >own.c
  gcc -static -o static/app hello.c || skip "a static C library"
  musl-gcc -o musl/app hello.c || fail "musl-gcc"
  cp -L /lib/ld-musl-*.so.1 musl/lib
  gcc -shared -fPIC -o debian/own.so own.c || fail "gcc"
  for image in debian musl static; do
    tar -C "$image" -c . | cdi_podman import --change 'ENV LD_LIBRARY_PATH=/cuda' --change 'ENV LD_PRELOAD=/own.so' \
      - "$image" >import.log 2>&1 || { cat import.log && fail "podman import"; }
  done
  for runtime in crun runc; do
    cdi_start works static none
    [[ $(<works.status) != 7 ]] || return 0
  done
  skip "a kernel on which Podman runs containers: $(tail -n 1 works.err)"
}

# cdi_page: the two commands of the page, as they stand but for folders of the case. The image has a variable of its own.
cdi_page() {
  local command

  command=$(page_block clusters.md 'Docker and Podman' 2)
  [[ $command == 'gpushim cdi '*'>/etc/cdi/'*'podman run --device gpushim.dev/leak=on IMAGE ./app' ]] || fail "the page: $command"
  mkdir bin
  cat >bin/podman <<'BASH'
#!/bin/bash
[[ $1 == run ]] || exit 125
cdi_podman --runtime "$runtime" run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "${@:2}"
BASH
  chmod +x bin/podman
  command=${command//\/etc\/cdi/$case_dir\/devices}
  command=${command//\/var\/log\/gpushim/$case_dir\/folder}
  (
    export runtime GPUSHIM_LIBRARY=$shim
    export -f cdi_podman
    PATH=$case_dir/bin:$build:$PATH bash -ec "${command/IMAGE/debian}"
  ) >page.out 2>page.err || { cat page.err && fail "the page's commands"; }
  cat page.err
}

cdi_podman_case() {
  local device image

  need_file "$apps/leaky_shared"
  cdi_images
  cdi_page
  expect_text page.out '^leaky: checksum'
  cat folder/report.* >report || fail "no report"
  expect_text report '^==1== SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked in 7 allocations, 5 call sites$'
  rm folder/* devices/*
  cdi_write leak --name=leak --folder="$case_dir/folder" --error-exitcode=3 --leak-max=50
  cp leak.out devices/leak.json
  # The image's own LD_PRELOAD is replaced by one device, and stays with the other.
  for device in on file; do
    cdi_start "native_$device" debian none
    expect_status "native_$device" 0
    cdi_start "$device" debian "leak=$device" -e GPUSHIM_ERROR_EXITCODE=9
    cmp "native_$device.out" "$device.out" || fail "another output"
    expect_status "$device" 3
    cat folder/report.* >report || fail "no report"
    expect_leaks report "$sources/tests/apps/leaky.c"
    run_in state -- "$build/gpushim" --sysroot="$case_dir/debian" report "$(echo folder/state.*)"
    expect_leaks state.out "$sources/tests/apps/leaky.c"
    rm folder/*
  done
  expect_equal "the image's own library, without a device" own "$(<native_on.err)"
  expect_equal "the image's own library, =on" '' "$(<on.err)"
  expect_equal "the image's own library, =file" own "$(<file.err)"
  # In these nothing can be preloaded: they run as without, and say nothing.
  for image in musl static; do
    for device in on file; do
      cdi_start other "$image" "leak=$device"
      expect_status other 7
      expect_equal "output of $image" hello "$(<other.out)"
      expect_equal "errors of $image" '' "$(<other.err)"
    done
  done
  expect_equal "files of these" '' "$(ls folder)"
  # A device that there is not, a folder that is missing: Podman says so, and does not start.
  cdi_start missing static leak=off
  expect_text missing.err 'unresolvable CDI devices? gpushim.dev/leak=off'
  rmdir folder
  cdi_start nowhere static leak=on
  [[ $(<nowhere.status) == 12[5-7] ]] || fail "started without its folder"
  cdi_quiet
}
add_case "cdi with podman" cdi_podman_case

cdi_has_state() {
  [[ -n $(find folder -name 'state.*' -size +0) ]]
}

# What runs in a container answers the machine's command, and its state file outlives it.
cdi_running_case() {
  local pid verb name=growing.$BASHPID words

  need_file "$apps/leaky_shared"
  need_file "$apps/growing_shared"
  cdi_images
  cdi_write leak --name=leak --folder="$case_dir/folder"
  cp leak.out devices/leak.json
  words=("/$name" 600)
  cdi_start running debian leak=on &
  trap 'pkill -KILL -fx "/$name 600"; wait; rm -rf "$STORE"' EXIT
  await 60 cdi_has_state || fail "no state file"
  pid=$(pgrep -fx "/$name 600" | tail -n 1)
  # shellcheck disable=SC2317 # called by await
  answers() { "$build/gpushim" stats "$pid" 2>&1 | grep -q ' [1-9][0-9]* allocations'; }
  await 60 answers || fail "the process does not answer"
  for verb in stats dump; do
    run_in "$verb" -- "$build/gpushim" "$verb" "$pid"
    expect_status "$verb" 0
  done
  expect_text stats.out "^$pid: container [0-9a-f]{12}: /$name 600$"
  expect_text stats.out '^  GPU 0 .* live, peak '
  expect_text dump.out '^==1==     #0 +keep_session '
  run_in top -- "$build/gpushim" top --once
  expect_text top.out "^ +$pid +0 .* container [0-9a-f]{12}: /$name 600$"
  kill -KILL "$pid"
  wait
  expect_status running 137
  run_in state -- "$build/gpushim" --sysroot="$case_dir/debian" report folder/state.*[0-9]
  expect_text state.out '^==1==     #0 +keep_session +growing[.]c:[0-9]+$'
  expect_text state.out '^==1== SUMMARY: gpushim: 0 errors, .* MiB live '
  cdi_quiet
}
add_case "cdi with podman, running" cdi_running_case

# ---- with Docker ---------------------------------------------------------------------

# cdi_docker_start: a daemon of the case's own, without a network. Sets DOCKER_HOST, and `daemon`.
cdi_docker_start() {
  local version

  [[ $(id -u) -eq 0 ]] || skip "root, for containers"
  need docker
  need dockerd
  need addr2line
  version=$(dockerd --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
  [[ ${version:-0} -ge 25 ]] || skip "Docker 25 or later"
  STORE=$(mktemp -d /tmp/gs-cdi.XXXXXX) || fail "no folder"
  trap 'kill "$daemon"; wait; umount "$STORE"/exec/netns/* 2>/dev/null; rm -rf "$STORE"' EXIT
  export DOCKER_HOST=unix://$STORE/socket
  printf '{"features": {"cdi": true}, "cdi-spec-dirs": ["%s"], "iptables": false, "ip6tables": false, "bridge": "none"}' \
    "$case_dir/devices" >daemon.json
  cdi_debian
  dockerd --config-file "$PWD/daemon.json" --host "$DOCKER_HOST" --data-root "$STORE/data" --exec-root "$STORE/exec" \
    --pidfile "$STORE/pid" --storage-driver vfs >dockerd.log 2>&1 &
  daemon=$!
  # shellcheck disable=SC2317 # called by await
  answers() { docker info >/dev/null 2>&1; }
  await 60 answers || skip "a kernel on which Docker starts: $(tail -n 1 dockerd.log)"
  tar -C debian -c . | docker import --change 'ENV LD_LIBRARY_PATH=/cuda' - debian >import.log || fail "docker import"
}

# cdi_docker PREFIX WORD...: docker run; without a network, if the words name none.
cdi_docker() {
  local network=(--network none)

  [[ " ${*:2} " != *" --network "* ]] || network=()
  docker run "${network[@]}" --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "${@:2}" >"$1.out" 2>"$1.err"
  echo $? >"$1.status"
  cat "$1.err"
}

cdi_docker_case() {
  local device pid name=growing.$BASHPID

  need_file "$apps/leaky_shared"
  need_file "$apps/growing_shared"
  cdi_docker_start
  cdi_write leak --name=leak --folder="$case_dir/folder" --error-exitcode=3 --leak-max=50
  cp leak.out devices/leak.json
  cdi_docker native --rm debian /app
  [[ $(<native.status) == 0 ]] || skip "a kernel on which Docker runs containers: $(tail -n 1 native.err)"
  for device in on file; do
    cdi_docker "$device" --rm --device "gpushim.dev/leak=$device" debian /app
    cmp native.out "$device.out" || fail "another output"
    expect_status "$device" 3
    cat folder/report.* >report || fail "no report"
    expect_leaks report "$sources/tests/apps/leaky.c"
    rm folder/*
  done
  cdi_docker missing --rm --device gpushim.dev/leak=off debian /app
  expect_text missing.err 'unresolvable CDI devices? gpushim.dev/leak=off'
  # A container of a user's, without the library, that runs already.
  cdi_docker running --detach --init debian "/$name" 600
  pid=$(pgrep -fx "/$name 600") || fail "it does not run"
  run_in attach -- "$build/gpushim" attach --for=1 "$pid"
  expect_text attach.out "^$pid: attached: .* what it allocates from now on is recorded$"
  expect_text attach.out '^==[0-9]+==     #0 keep_session +growing[.]c:[0-9]+$'
  run_in top -- "$build/gpushim" top --once
  expect_text top.out "^ +$pid +0 .* container [0-9a-f]{12}: /$name 600$"
  docker rm --force "$(<running.out)" >rm.log || fail "docker rm"
}
add_case "cdi with docker" cdi_docker_case

# ---- the example for Kubernetes, with Docker -----------------------------------------

# kubernetes_start KEY NAME [OPTION...]: starts that container of the example, which is in example.yml, as it says.
kubernetes_start() {
  local words

  mapfile -d '' -t words < <(python3 - "$1" <<'PYTHON'
import os, sys, yaml

pod = yaml.safe_load(open("example.yml"))["spec"]["template"]["spec"]
container, = pod[sys.argv[1]]
folders = {each["name"]: each["hostPath"]["path"] if "hostPath" in each else os.path.abspath("secret") for each in pod["volumes"]}
rights = container["securityContext"]
command = container["command"] + container.get("args", [])
words = ["--pid=host"] * pod["hostPID"] + ["--read-only"] * rights["readOnlyRootFilesystem"]
words += ["--security-opt=no-new-privileges"] * (not rights.get("allowPrivilegeEscalation", True))
words += [f"--user={rights['runAsUser']}", f"--entrypoint={command[0]}"]
words += [f"--cap-drop={word}" for word in rights["capabilities"]["drop"]]
words += [f"--cap-add={word}" for word in rights["capabilities"].get("add", [])]
words += [f"--volume={folders[each['name']]}:{each['mountPath']}{':ro' if each.get('readOnly') else ''}"
          for each in container["volumeMounts"]]
print(*words, container["image"], *command[1:], sep="\0", end="\0")
PYTHON
  )
  [[ ${#words[@]} -gt 8 ]] || fail "the example is not what it was"
  cdi_docker "$2" "${@:3}" "${words[@]}"
}

kubernetes_case() {
  local port=$((20000 + BASHPID % 10000)) name=growing.$BASHPID pid

  need_file "$apps/leaky_shared"
  need_file "$apps/growing_shared"
  need python3
  need curl
  python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml"
  cdi_docker_start
  mkdir -p node reports logs image/{tmp,etc/{cdi,gpushim},opt,var/log/{gpushim,containers}}
  mkdir secret
  echo 0123456789abcdef >secret/token
  # The node's folders are the case's, at the same path in the containers.
  sed -e "s|/opt/gpushim-node|$case_dir/node|; s|path: /etc/cdi|path: $case_dir/devices|; s|path: /var/log/containers|path: $case_dir/logs|" \
    -e "s|/var/log/gpushim|$case_dir/reports|; s|19400|$port|; s|image: IMAGE|image: gpushim|" \
    "$sources/monitoring/kubernetes.yml" >example.yml
  DESTDIR=$PWD/image cmake --install "$build" --prefix /opt/gpushim >install.log 2>&1 || { tail -n 3 install.log && fail "cmake --install"; }
  cdi_fill image /bin/{bash,cp,mv,rm,chmod} "$(ldconfig -p | sed -n 's/.*libmicrohttpd[.]so[.]12 .*=> //p' | head -n 1)"
  ln -s bash image/bin/sh
  tar -C image -c . | docker import - gpushim >import.log || fail "docker import"
  cdi_docker native --rm debian /app
  [[ $(<native.status) == 0 ]] || skip "a kernel on which Docker runs containers: $(tail -n 1 native.err)"
  for _ in once again; do
    kubernetes_start initContainers install --rm
    expect_status install 0
  done
  expect_equal "versions on the node" "$("$build/gpushim" --version)" "gpushim $(ls node)"
  # A pod's program, as the user nobody.
  cdi_docker pod --rm --user 65534 --device gpushim.dev/leak=on debian /app
  expect_status pod 0
  cmp native.out pod.out || fail "another output"
  cat reports/report.* >report || fail "no report"
  expect_leaks report "$sources/tests/apps/leaky.c"
  # One that runs is on the page of the node's processes.
  cdi_docker running --detach --user 65534 --device gpushim.dev/leak=on debian "/$name" 600
  pid=$(pgrep -fx "/$name 600") || fail "it does not run"
  kubernetes_start containers serve --detach --network host
  # shellcheck disable=SC2317 # called by await
  has_pod() {
    curl -sS -H 'Authorization: Bearer 0123456789abcdef' "http://127.0.0.1:$port/metrics" >metrics 2>curl.err &&
      grep -q "^gpushim_live_bytes{.*pid=\"$pid\".*} [1-9]" metrics
  }
  await 60 has_pod || { docker logs "$(<serve.out)" && head -n 20 metrics curl.err; fail "the pod is not in the metrics"; }
  docker rm --force "$(<running.out)" "$(<serve.out)" >rm.log || fail "docker rm"
}
add_case "example for Kubernetes" kubernetes_case
