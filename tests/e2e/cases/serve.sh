# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# serve.sh - gpushim serve: what Prometheus, go tool pprof and a browser get of running processes; who gets
# nothing; and that no client and no process keeps it from the others.
uses control metrics

# serve_start [OPTION...]: in the background. Its process is `server`, `url` its address, without the last slash.
serve_start() {
  need curl
  need_file "$build/gpushim"
  rm -f serve.out # an earlier one's line
  "$build/gpushim" serve --listen="${serve_at:-127.0.0.1:0}" "$@" >serve.out 2>serve.err </dev/null &
  server=$!
  pids+=("$server")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT # of a case that fails
  if ! await 10 grep -qs '^gpushim: serving ' serve.out; then
    ! grep -qE 'libmicrohttpd' serve.err || skip "libmicrohttpd, its header when the command was built, or itself"
    fail "it does not serve"
  fi
  url=$(sed -n 's,^gpushim: serving \(.*[^/]\)/*$,\1,p' serve.out)
}

# serve_end [SIGNAL]: it ends at once, with 0.
serve_end() {
  local status=0 i

  kill -"${1:-TERM}" "$server"
  wait "$server" || status=$?
  expect_equal "the server's status" 0 "$status"
  for i in "${!pids[@]}"; do
    [[ ${pids[i]} != "$server" ]] || unset "pids[i]"
  done
}

# get PREFIX PATH [CURL OPTION...]: leaves PREFIX.body, PREFIX.head and PREFIX.code.
get() {
  curl -sS --globoff --max-time 60 -o "$1.body" -D "$1.head" -w '%{http_code}' "${@:3}" "$url$2" >"$1.code" 2>"$1.curl" ||
    { cat "$1.curl" && fail "no answer to $2"; }
}

# expect_code PREFIX CODE [REGEX]: with this sentence as the body.
expect_code() {
  expect_equal "$1: code" "$2" "$(<"$1.code")"
  [[ $# -lt 3 ]] || expect_text "$1.body" "$3"
}

# programs COUNT [VAR=value...]: programs that wait, all started; their numbers are in `pids`.
programs() {
  local i

  for ((i = 0; i < $1; i++)); do
    start_preloaded "program$i" GPUSHIM_LOG_FILE=/dev/null "${@:2}" -- "$apps/asked_linked" "$PWD/over" many
    pids+=("$!")
  done
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  for ((i = 0; i < $1; i++)); do
    await 300 grep -qs ready "program$i.out" || fail "program $i does not start"
  done
}

# ---- Metrics ---------------------------------------------------------------------------

# Both formats, read by others; the values are those of gpushim stats.
serve_metrics_case() {
  local python status

  need python3
  control_start program -- "$apps/asked_$1" "$PWD/over" idle
  serve_start
  get plain /metrics
  get open /metrics -H 'Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1'
  get head /metrics -I
  get never /metrics -H 'Accept: application/openmetrics-text;q=0, text/plain'
  ask json stats --json "$pid"
  expect_code plain 200
  expect_text plain.head '^Content-Type: text/plain; version=0[.]0[.]4; charset=utf-8'
  expect_text open.head '^Content-Type: application/openmetrics-text; version=1[.]0[.]0; charset=utf-8'
  expect_text never.head '^Content-Type: text/plain'
  expect_code head 200
  metrics_of check plain.body
  metrics_of check open.body
  cmp <(grep "pid=\"$pid\"" plain.body) <(grep "pid=\"$pid\"" open.body) || fail "two formats, two sets of samples"
  for name in live_bytes:live_bytes peak_bytes:peak_bytes allocations_total:allocs frees_total:frees; do
    expect_metric "$(json_figure json.out "report['devices'][0]['${name#*:}']")" \
      plain.body "gpushim_${name%:*}" "pid=$pid" device=0 memory=device
  done
  for name in hits_total:hits misses_total:misses reserved_bytes:reserved_bytes; do
    expect_metric "$(json_figure json.out "report['devices'][0]['pool']['${name#*:}']")" \
      plain.body "gpushim_pool_${name%:*}" "pid=$pid" device=0
  done
  expect_metric 1 plain.body gpushim_process_running "pid=$pid" "program=asked_$1"
  expect_metric 1048576 open.body gpushim_owner_live_bytes "pid=$pid" "owner=asked_$1" "program=asked_$1"
  if command -v promtool >/dev/null; then
    promtool check metrics <plain.body >said 2>&1 || { cat said && fail "promtool complains"; }
    [[ ! -s said ]] || { cat said && fail "promtool complains"; }
  fi
  serve_end
  control_end
  for python in python3 /usr/bin/python3; do
    "$python" "$here/openmetrics.py" client open.body >said 2>&1 && "$python" "$here/openmetrics.py" client plain.body >said 2>&1
    status=$?
    [[ $status -ne 77 && $status -ne 127 ]] && break
  done
  [[ $status -ne 77 && $status -ne 127 ]] || skip "python3's prometheus_client"
  [[ $status -eq 0 ]] || { cat said && fail "prometheus_client cannot read it"; }
}
for way in shared linked; do
  add_case "serve metrics $way" serve_metrics_case "$way"
done

# A real Prometheus scrapes it, and answers a query.
serve_prometheus_case() {
  local port name expression

  need prometheus
  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >token
  serve_start --token-file=token
  port=$(python3 -S -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >prometheus.yml <<END
global: {scrape_interval: 1s}
scrape_configs:
- job_name: gpushim
  authorization: {credentials_file: $PWD/token}
  static_configs: [{targets: ['${url#http://}']}]
- job_name: dcgm
  static_configs: [{targets: ['127.0.0.1:$((port + 1))']}]
rule_files: [$sources/monitoring/prometheus-rules.yml]
END
  # As dcgm-exporter writes it, of the first simulated device.
  mkdir dcgm
  for name in USED FREE; do
    printf '# TYPE DCGM_FI_DEV_FB_%s gauge\nDCGM_FI_DEV_FB_%s{gpu="0",UUID="%s",Hostname="n07"} 300\n' $name $name \
      GPU-63756461-7369-6d2d-6465-766963652d61
  done >dcgm/metrics
  python3 -S -m http.server --bind 127.0.0.1 --directory dcgm $((port + 1)) >dcgm.out 2>&1 &
  pids+=("$!")
  prometheus --config.file=prometheus.yml --storage.tsdb.path="$PWD/data" --web.listen-address="127.0.0.1:$port" \
    --log.level=warn >prometheus.out 2>&1 &
  pids+=("$!")
  # shellcheck disable=SC2317  # called by await
  asks_prometheus() {
    curl -sS -G "http://127.0.0.1:$port/api/v1/query" --data-urlencode "query=$1" >query 2>/dev/null && grep -q "$2" query
  }
  await 40 asks_prometheus "sum by (program) (gpushim_live_bytes{pid=\"$pid\"})" '"program":"asked_linked"' ||
    { cat query prometheus.out && fail "no answer"; }
  expect_text query '"1048576"'
  asks_prometheus 'up{job="gpushim"}' '"1"' || { cat query && fail "it is down"; }
  # Each panel of the dashboard has data.
  python3 -S - "$sources/monitoring/grafana-dashboard.json" <<'PYTHON' >expressions || fail "the dashboard is no JSON"
import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        print(target["expr"].replace("$instance", ".*"))
PYTHON
  [[ $(wc -l <expressions) -ge 10 ]] || fail "$(wc -l <expressions) expressions"
  while read -r expression; do
    await 40 asks_prometheus "$expression" '"status":"success".*"value":' || { cat query && fail "no data: $expression"; }
  done <expressions
  for _ in 1 2; do
    kill "${pids[-1]}"
    wait "${pids[-1]}"
    unset "pids[-1]"
  done
  serve_end
  control_end
}
add_case "serve to a Prometheus" serve_prometheus_case

# The alerts that are installed, over series of a run that grows, a device that fills, and some that do neither.
serve_alerts_case() {
  need promtool
  cp "$sources/monitoring/prometheus-rules.yml" "$here/serve_rules.yml" .
  promtool check rules prometheus-rules.yml >said 2>&1 || { cat said && fail "promtool complains"; }
  promtool test rules serve_rules.yml >said 2>&1 || { cat said && fail "other alerts"; }
}
add_case "serve alert rules" serve_alerts_case

# Names of the pod and its container, as the kubelet's links have them; else the ids of the control group.
serve_pod_case() {
  local root id group uid=0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f

  need python3
  for root in /sys/fs/cgroup/systemd /sys/fs/cgroup; do
    [[ -e $root/cgroup.procs ]] && break
  done
  printf -v id '%052x' "$$"
  id=1234567890ab$id
  group=$root/gpushim-test.$$/kubepods-pod${uid//-/_}.slice/cri-containerd-$id.scope
  [[ -e $root/cgroup.procs ]] || skip "control groups"
  mkdir -p "$group" 2>/dev/null || skip "a control group of our own"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  echo "$pid" >"$group/cgroup.procs" || skip "a control group of our own"
  mkdir logs
  serve_start --pod-logs="$PWD/logs"
  get ids /metrics
  ln -s /nowhere "logs/train-0.b_ml-team_main-$id.log"
  ln -s /nowhere "logs/other_default_main-${id//[0-9]/0}.log"
  : >logs/nonsense.log
  get names /metrics
  get table /
  serve_end
  control_end
  (cd "$root" && rmdir -p "${group#"$root/"}")
  expect_metric 1048576 ids.body gpushim_live_bytes "pid=$pid" "pod=$uid" container=1234567890ab
  expect_metric 1048576 names.body gpushim_live_bytes "pid=$pid" pod=train-0.b namespace=ml-team container=main
  metrics_of check names.body
  expect_text table.body "<td>pod $uid, container 1234567890ab<td>"
}
add_case "serve metrics of a pod" serve_pod_case

# A folder that is not there is said, and the rest is served.
serve_no_pod_logs_case() {
  serve_start --pod-logs=/nonexistent
  get health /healthz
  serve_end
  expect_text serve.err '^gpushim: --pod-logs=/nonexistent: no such file or directory; processes have no names of pods$'
}
add_case "serve without the links of pods" serve_no_pod_logs_case

# A stopped process, and one that ends, keep no other from the page.
serve_stopped_case() {
  local stopped began

  need python3
  control_start stopped -- "$apps/asked_linked" "$PWD/over"
  stopped=$pid
  control_start program -- "$apps/asked_linked" "$PWD/over"
  serve_start
  kill -STOP "$stopped"
  began=$SECONDS
  get metrics /metrics
  get table /
  get report "/process?pid=$stopped"
  [[ $((SECONDS - began)) -lt 5 ]] || fail "it waits for too long"
  kill -CONT "$stopped"
  get again /metrics
  metrics_of check metrics.body
  expect_metric 1048576 metrics.body gpushim_live_bytes "pid=$pid"
  expect_metric none metrics.body gpushim_live_bytes "pid=$stopped"
  [[ $(metrics_of sum metrics.body gpushim_serve_processes_unanswered why=stopped) -ge 1 ]] || fail "nothing stopped"
  expect_metric 1048576 again.body gpushim_live_bytes "pid=$stopped"
  expect_text table.body "<p>process $stopped: it is stopped"
  expect_code report 503 "^process $stopped: it is stopped, by a signal or a debugger\$"
  serve_end
  control_end
  get_gone
}
# After the end of all.
get_gone() {
  serve_start
  get gone "/process?pid=$pid"
  expect_code gone 404 "^process $pid: no such process\$"
  serve_end
}
add_case "serve metrics of what is stopped" serve_stopped_case

# Each process has its samples, in time for a Prometheus.
serve_many_case() {
  local count began

  count=$(sized 30 1000)
  need python3
  programs "$count"
  serve_start
  began=$EPOCHREALTIME
  get metrics /metrics -H 'X-Prometheus-Scrape-Timeout-Seconds: 10'
  echo "$count processes: $(((${EPOCHREALTIME/./} - ${began/./}) / 1000)) ms"
  [[ $((${EPOCHREALTIME/./} - ${began/./})) -lt 10000000 ]] || fail "too late for Prometheus"
  metrics_of check metrics.body
  printf '%s\n' "${pids[@]:0:count}" | sort >expected
  metrics_of label metrics.body gpushim_process_info pid | sort >found
  [[ -z $(comm -23 expected found) ]] || fail "$(comm -23 expected found | wc -l) processes are missing"
  serve_end
  control_end
}
add_case "serve metrics of many" serve_many_case

# ---- Profiles and pages ----------------------------------------------------------------

serve_pprof_case() {
  local own=counts-$BASHPID # a name that no program of a case beside this one has

  need go
  need_file "$apps/asked_shared"
  cp "$apps/asked_shared" "$own"
  control_start program -- "$apps/asked_linked" "$PWD/over"
  plain=$pid
  control_start counts GPUSHIM_OUTPUT=pprof GPUSHIM_OUTPUT_FILE=/dev/null -- "$PWD/$own" "$PWD/over" idle
  serve_start
  run_in heap HOME="$PWD" -- go tool pprof -top "$url/debug/pprof/heap?pid=$plain"
  run_in allocs HOME="$PWD" -- go tool pprof -top "$url/debug/pprof/allocs?name=$own"
  get uncounted "/debug/pprof/allocs?pid=$plain"
  get seconds "/debug/pprof/heap?pid=$plain&seconds=5"
  get several /debug/pprof/heap
  get word "/debug/pprof/heap?pid=1x"
  get nobody "/debug/pprof/heap?name=no-such-program"
  get foreign "/debug/pprof/heap?pid=$$"
  serve_end
  control_end
  expect_status heap 0
  expect_text heap.out '^Type: inuse_space'
  expect_text heap.out '^ +1MB .* hold$'
  expect_status allocs 0
  expect_text allocs.out '^Type: alloc_space'
  expect_text allocs.out '^ +40MB .* main$'
  expect_code uncounted 409 "^process $plain: it counts live allocations alone .*GPUSHIM_OUTPUT=pprof\$"
  expect_code seconds 400 '^seconds= '
  expect_code several 400 "^pid=$plain asked_linked\$"
  expect_code word 400
  expect_code nobody 404
  expect_code foreign 404 ': it runs without libgpushim.so [(]gpushim attach records it from now on[)]$'
}
add_case "serve profiles" serve_pprof_case

serve_page_case() {
  need python3
  cp "$apps/asked_linked" $'./<i>&"\n'
  start_preloaded program GPUSHIM_LOG_FILE=/dev/null -- $'./<i>&"\n' "$PWD/over"
  pid=$!
  pids+=("$pid")
  trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
  await 25 grep -qs ready program.out || fail "it does not start"
  serve_start
  get table /
  get page "/process?pid=$pid"
  get health /healthz
  serve_end
  control_end
  expect_text table.body '<th>Allocations in all<th>' # next to live bytes, they would be taken for live ones
  expect_text table.body "^<tr><td>$pid<td>0<td>1[.]00 MiB<td>2[.]00 MiB<td>.*<a href=\"/process[?]pid=$pid\">"
  expect_text table.body '<td>./&lt;i&gt;&amp;&quot;[? ]'
  expect_no_text table.body '<i>|src=|href="h'
  expect_text page.head '^Content-Type: text/html'
  expect_text page.head "^Content-Security-Policy: default-src 'none'"
  python3 -S - page.body "$pid" <<'PYTHON' || fail "the page has no report"
import json, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
report = json.loads(re.search(r'id="report">(.*?)</script>', text, re.S).group(1))
assert report["process"]["pid"] == int(sys.argv[2]) and report["process"]["running"] is True
assert report["leaks"][0]["bytes"] == 1048576
PYTHON
  expect_code health 200 '^ok$'
}
add_case "serve pages" serve_page_case

# What is not known is no 0: GPUSHIM_TRACK=off counts nothing, and yet its pool has memory.
serve_unknown_case() {
  programs 1 GPUSHIM_TRACK=off
  serve_start
  get table /
  serve_end
  control_end
  expect_text table.body '^<tr><td>[0-9]+<td>0<td>-<td>[1-9][0-9.]* MiB<td>-<td>-<td><a '
}
add_case "serve pages what is not known" serve_unknown_case

# ---- Who gets nothing ------------------------------------------------------------------

serve_refusal_case() {
  local long

  serve_start
  get post /metrics -X POST
  get delete /nothing -X DELETE
  get body /metrics -X GET -d x
  get path /nothing
  get up /../etc/passwd --path-as-is
  get host / -H 'Host: attacker.example'
  get port / -H 'Host: localhost:80'
  get six / -H 'Host: [::1]:19400'
  get numbers / -H 'Host: 127.0.0.1.attacker.example'
  get none / -H 'Host:' --http1.0
  printf -v long '%*s' 70000 ''
  get header /metrics -H "X-Long: ${long// /x}"
  get query "/metrics?${long// /x}"
  get after /healthz
  serve_end INT
  expect_code post 405 '^only GET and HEAD are possible$'
  expect_text post.head '^Allow: GET, HEAD'
  expect_code delete 405
  expect_code body 400 '^a request has no body here$'
  expect_code path 404 '^not found; there are /, /metrics, '
  expect_code up 404
  expect_code host 403 '^the host name must be 127[.]0[.]0[.]1, '
  expect_code port 200
  expect_code six 200
  expect_code numbers 403
  expect_code none 200
  [[ $(<header.code) == 4?? && $(<query.code) == 4?? ]] || fail "a request of 70,000 bytes: $(<header.code) $(<query.code)"
  expect_code after 200
}
add_case "serve refuses" serve_refusal_case

serve_token_case() {
  local token=0123456789abcdefXYZ

  echo "$token" >token
  serve_at=unix:$PWD/socket serve_start --token-file token
  expect_equal "the socket's mode" 600 "$(stat -c %a socket)"
  url=http://any
  get none /metrics --unix-socket socket
  get wrong / --unix-socket socket -H "Authorization: Bearer ${token}x"
  get less / --unix-socket socket -H "Authorization: Bearer ${token%Z}"
  get scheme / --unix-socket socket -H "Authorization: Basic $token"
  get empty / --unix-socket socket -H "Authorization: Bearer "
  get right / --unix-socket socket -H "Authorization: Bearer $token"
  run_in second -- "$build/gpushim" serve --listen="unix:$PWD/socket"
  kill -9 "$server"
  wait "$server"
  [[ -S socket ]] || fail "no stale socket"
  serve_at=unix:$PWD/socket serve_start
  url=http://any
  get stale / --unix-socket socket
  serve_end
  [[ ! -e socket ]] || fail "the socket stays"
  for name in none wrong less scheme empty; do
    expect_code "$name" 401 '^the token of --token-file is missing or wrong'
    expect_text "$name.head" '^WWW-Authenticate: Bearer'
  done
  expect_code right 200
  expect_code stale 200
  expect_status second 1
  expect_equal "what is said" "gpushim: serve: unix:$PWD/socket: another process listens there" "$(<second.err)"
}
add_case "serve with a token, at a Unix socket" serve_token_case

# Each bad option is one line, before anything starts.
serve_usage_case() {
  local i=0 word

  echo short >short
  echo 'with space 0123456789' >space
  echo old >precious
  serve_start
  for word in --listen=0.0.0.0:0 "--listen=[::]:0" --listen=example.com:80 --listen=127.0.0.1 --listen=127.0.0.1:99999 \
    --listen=127.0.0.1:http --listen=unix: --listen=::1:80 --listen= "--listen=unix:$(printf '%0200d' 0)" --listen=:80 \
    --token-file=none --token-file=short --token-file=space --token-file=. --output=json --listen-to=3 word; do
    run_in "bad$i" -- "$build/gpushim" serve "$word"
    expect_status "bad$i" 2
    expect_count "bad$i.err" '^gpushim: ' 1
    expect_no_text "bad$i.out" .
    i=$((i + 1))
  done
  run_in taken -- "$build/gpushim" serve --listen="${url#http://}"
  run_in file -- "$build/gpushim" serve --listen="unix:$PWD/precious"
  run_in folder -- "$build/gpushim" serve --listen="unix:$PWD/none/socket"
  for word in taken file folder; do
    expect_status "$word" 1
    expect_count "$word.err" '^gpushim: serve: ' 1
  done
  expect_text taken.err ': Address already in use$'
  expect_equal "a file" old "$(<precious)"
  serve_end
}
add_case "serve with bad options" serve_usage_case

# Without the library that speaks HTTP one line says so, and all else runs.
serve_missing_case() {
  local library

  need_file "$build/gpushim"
  library=$(ldconfig -p | sed -n 's/.*libmicrohttpd[.]so[.]12 .*=> //p' | head -n 1)
  [[ -n $library ]] || skip "libmicrohttpd, to be hidden"
  unshare -m true 2>/dev/null || skip "a mount name space of our own"
  # shellcheck disable=SC2016
  run_in none -- unshare -m bash -c 'mount --bind /dev/null "$1" && exec "$2" serve --listen=0' - "$library" "$build/gpushim"
  # shellcheck disable=SC2016
  run_in other -- unshare -m bash -c 'mount --bind /dev/null "$1" && exec "$2" --version' - "$library" "$build/gpushim"
  ! grep -q 'was built without' none.err || skip "microhttpd.h when the command was built"
  expect_status none 2
  expect_count none.err . 1
  expect_text none.err '^gpushim: serve needs libmicrohttpd[.]so[.]12, which is not installed'
  expect_status other 0
}
add_case "serve without its library" serve_missing_case

# ---- Hostile clients -------------------------------------------------------------------

# expect_alive [BEFORE]: it answers, and has no more descriptors than before.
expect_alive() {
  # shellcheck disable=SC2317  # called by await
  has_descriptors() { [[ $(find /proc/"$server"/fd -mindepth 1 | wc -l) -le $1 ]]; }
  get alive /healthz
  expect_code alive 200 '^ok$'
  await 60 has_descriptors "$1" || { ls -l /proc/"$server"/fd && fail "descriptors are left"; }
}

# Random requests, from the right ones to noise.
serve_fuzz_case() {
  local before

  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over" many
  serve_start
  get first /metrics
  before=$(find /proc/"$server"/fd -mindepth 1 | wc -l)
  python3 -S "$here/serve_fuzz.py" "${url#http://}" "$pid" "$1" "$(sized 2000 6000)" || fail "no answer to a good request"
  expect_alive "$before"
  get last /metrics
  metrics_of check last.body
  expect_metric 1048576 last.body gpushim_live_bytes "pid=$pid"
  serve_end
  control_end
}
add_case "serve random requests" serve_fuzz_case 1
for seed in 2 3 4; do
  add_long_case "serve random requests $seed" serve_fuzz_case "$seed"
done

# Clients that send a byte now and then, or read none, are ended; others are answered meanwhile.
serve_slow_case() {
  local before

  need python3
  serve_start
  get first /healthz
  before=$(find /proc/"$server"/fd -mindepth 1 | wc -l)
  python3 -S "$here/serve_fuzz.py" --slow "${url#http://}" 60 || fail "it waits for slow clients"
  expect_alive "$before"
  serve_end
}
add_long_case "serve slow clients" serve_slow_case

# The fault: more half requests than there may be connections, and nobody is answered until they have timed out.
serve_half_case() {
  need python3
  serve_start
  get first /healthz
  python3 -S - "${url#http://}" <<'EOF' || fail "no answer beside half requests"
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
clients = []
for _ in range(200):
    clients.append(socket.create_connection((host, int(port)), 5))
    clients[-1].sendall(b"GET / HTTP/1.1\r\n")
asking = socket.create_connection((host, int(port)), 5)
asking.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
sys.exit(not asking.recv(100).startswith(b"HTTP/1.1 200"))
EOF
  serve_end
}
add_case "serve half requests" serve_half_case

# It ends at once though a process is still asked.
serve_end_case() {
  need python3
  control_start program -- "$apps/asked_linked" "$PWD/over"
  serve_start
  kill -STOP "$pid"
  for _ in 1 2 3 4 5; do
    curl -s "$url/debug/pprof/heap?pid=$pid" >/dev/null &
  done
  sleep 0.05
  serve_end
  kill -CONT "$pid"
  control_end
}
add_case "serve ends" serve_end_case
