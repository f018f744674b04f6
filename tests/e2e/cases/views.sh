# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# views.sh - gpushim html: a report as one page. What the page shows is what the text report says;
# no text of a report gets out of its element; what is no report gives one line and no page.

uses families

# make_page [ARGUMENT...]: gpushim html, whose page run.html must say what it wrote.
make_page() {
  need_file "$build/gpushim"
  run_in made -- "$build/gpushim" html "$@"
  expect_status made 0
  expect_quiet made
  expect_count made.out '^gpushim: wrote run[.]html \([0-9.]+ [KM]iB\)$' 1
}

# take_page PAGE JSON: the page has this JSON, and loads nothing; leaves the folder `page`.
take_page() {
  need python3
  python3 -S "$here/page.py" "$1" "$2" page 2>problems && return
  cat problems
  fail "$1 is not a page of $2"
}

# show_page PREFIX [ACTION...]: what the page shows after the actions (page.js), in PREFIX.out.
show_page() {
  need node
  run_in "$1" -- node "$here/page.js" page "${@:2}"
  expect_status "$1" 0
}

# shown PREFIX NAME: the lines of that name.
shown() {
  sed -n "s/^$2: //p" "$1.out"
}

# run_for_page PROGRAM [SETTING...] [-- ARGUMENT...]: run.json, and the text report in run.err.
run_for_page() {
  local program=$1 settings=()

  shift
  need_file "$apps/$program"
  while [[ $# -gt 0 && $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json GPUSHIM_LEAK_MAX=1000 \
    "${settings[@]}" -- "$apps/$program" "${@:2}"
  [[ -s run.json ]] || fail "no report of $program"
}

# open_all PREFIX: with each call site opened; the last first, as each takes a row.
open_all() {
  local count i actions=()

  show_page "$1" view=0
  count=$(grep -c '^row: ' "$1.out")
  for ((i = count - 1; i >= 0; i--)); do
    actions+=("open=$i")
  done
  show_page "$1" view=0 "${actions[@]}"
}

# ---- What it shows -------------------------------------------------------------------

# views_words FILE: errors and leaks of a text report, line by line, without columns and what JSON lacks; the
# largest leak first, as in JSON.
views_words() {
  sed -nE 's/^==[0-9]+== +//; s/; it is in .*//; s/^(its context was destroyed or reset) at .*/\1/; /^(ERROR|LEAK|LIVE) [0-9]+: /,/^==[0-9]+==$/p' "$1" |
    sed -E '/^==[0-9]+==$/d; s/ +/ /g' | awk '
      /^(LEAK|LIVE) / { at = ++count }
      at { block[at] = block[at] $0 "\n"; next }
      { print }
      END { while (count > 0) printf "%s", block[count--] }'
}

# views_shown PREFIX: the same of a page, without what the text leaves out.
views_shown() {
  sed -nE 's/^(error|detail): //p' "$1.out" | sed -E 's/^ \| (no call stack.*|[.]{3} [0-9]+ frames? of .*)$/\1/' | grep -vE '^( \||Errors$)' |
    sed -E 's/^(#[0-9]+) \| (.*) \| (.*\/)?([^/]*)$/\1 \2 \4/; s/ +/ /g'
}

# Each error and each leak stands in the page as in the text, with its stack; and the summary.
views_same_case() {
  run_for_page "$@"
  make_page run.json
  take_page run.html run.json
  open_all found
  views_words run.err >wanted
  views_shown found >lines
  [[ -s wanted ]] || fail "nothing is compared"
  cmp -s wanted lines || { diff -u wanted lines | head -n 60 && fail "the page is not the report"; }
  expect_equal "summary" "$(sed -nE 's/^==[0-9]+== SUMMARY: gpushim: //p' run.err)" "$(shown found summary)"
}
for program in leaky_shared badfree_linked reset_linked graphmem_linked external_linked arrays_linked; do
  add_case "views same as the text $program" views_same_case "$program"
done
for mode in freed freed-inside freed-managed lost beyond inside before nowhere often; do
  add_case "views same as the text, use $mode" views_same_case badargs_linked GPUSHIM_CHECK=args -- "$mode"
done
for mode in live reset twice; do
  add_case "views same as the text, damage $mode" views_same_case overruns_linked GPUSHIM_CHECK=redzone:256 -- "$mode"
done
add_case "views same as the text, idle check" views_same_case past_linked \
  GPUSHIM_FREE_SYNC=verify,us:1000000 -- "$apps/past_part.so" known device
add_case "views same as the text, idle check without a stream" views_same_case past_linked \
  GPUSHIM_FREE_SYNC=verify,us:10000 -- "$apps/past_part.so" own device
views_budgets_case() {
  printf '%s\n' 'peak:^load_weights$ max_bytes=20M' 'peak: max_bytes=10M' 'deny:cu not_from=work' >rules
  views_same_case leaky_shared GPUSHIM_SUPPRESSIONS=rules
  expect_count lines '^ERROR [0-9]+: (budget exceeded|denied call): ' 7
}
add_case "views same as the text, budgets" views_budgets_case
add_case "views same as the text, damage late" views_same_case overruns_linked GPUSHIM_CHECK=fill:poison -- late
add_case "views same as the text, without stacks" views_same_case leaky_linked GPUSHIM_STACK=off
add_case "views same as the text, sampled" views_same_case churn_linked GPUSHIM_STACK=sample:64K -- 4000 1 keep 4096

# Inside a framework: the page folds what the text folds, and the graph has neither the allocator's frames
# nor those that a run folds. A click on a run shows its frames, the box and the key F show all.
views_folded_case() {
  torch_like leaks GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json GPUSHIM_LEAK_MAX=1000
  make_page run.json
  take_page run.html run.json
  open_all found
  views_words shim.err | grep -v '^Peak' >wanted
  views_shown found >lines
  grep -q '^[.]\{3\} [0-9]* frames of PyTorch' lines || fail "nothing is folded"
  cmp -s wanted lines || { diff -u wanted lines | head -n 60 && fail "the page is not the report"; }
  expect_text found.out '^row: 4[.]00 MiB [|] 1 [|] device [|] 0 [|] Block[.]forward [|] train[.]py:[0-9]+$'
  expect_text found.out '^frame: [0-9]+ .* frame y[0-2] [|] Block[.]forward$'
  expect_text found.out '^frame: [0-9]+ .* frame fold [|] [.]{3} PyTorch$'
  expect_no_text found.out '^(frame|detail): .*(torch_empty|_call_impl|cudaMalloc [|] )'
  # A run of the graph, found by the name of a frame in it; its frames have its place.
  show_page searched search=_call_impl
  expect_text searched.out '^frame: [0-9]+ .* frame fold hit [|] [.]{3} PyTorch$'
  expect_text searched.out '^sum: 1 of 3 call sites found: '
  show_page inner search=torch_empty
  expect_text inner.out '^sum: 3 of 3 call sites found: '
  show_page clicked 'zoom=... PyTorch' open=0
  expect_text clicked.out '^frame: [0-9]+ .* frame y[0-2] [|] Module[._a-z]*_call_impl$'
  expect_no_text clicked.out '^frame: .*torch_empty|^frame: .* fold '
  expect_no_text clicked.out '^detail: .*_call_impl'
  # A line of a stack; the other stacks stay as they are.
  show_page line open=1 open=0 fold=0
  expect_text line.out '^detail: #[0-9]+ [|] .*torch_empty'
  expect_equal "stacks that are folded" 1 "$(grep -c '^detail:  [|] [.]\{3\} [0-9]* frames\? of PyTorch' line.out)"
  show_page again open=0 fold=0 fold=0
  show_page plain open=0
  cmp -s again.out plain.out || { diff again.out plain.out && fail "the line does not fold again"; }
  for action in page=f tick=all; do
    show_page all open=0 "$action"
    expect_text all.out '^frame: [0-9]+ .* [|] .*torch_empty'
    expect_text all.out '^detail: #[0-9]+ [|] .*torch_empty'
    expect_no_text all.out '([.]{3} PyTorch|frames? of PyTorch)'
    show_page none open=0 "$action" "$action"
    cmp -s none.out plain.out || { diff none.out plain.out && fail "$action twice folds nothing"; }
  done
}
add_case "views folds the frames of frameworks" views_folded_case

# What is no leak is a list of its own, with the reason.
views_cached_case() {
  torch_like graph GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json
  make_page run.json
  take_page run.html run.json
  show_page found view=2 open=1 open=0
  expect_text found.out '^option: Cached or held, no leak [(]15[.]0 MiB[)]$'
  expect_text found.out '^detail: cudaMalloc, GPU 0, .*live at exit, cached by PyTorch$'
  expect_text found.out '^detail: tensor of PyTorch, .*live at exit, held by globals until Python ended$'
  expect_no_text found.out 'Suppressed'
}
add_case "views cached and held memory" views_cached_case

# Devices, peaks, what is live; and why not everything was recorded.
views_header_case() {
  run_for_page peaks_linked GPUSHIM_STACK=min:4K -- leak
  make_page run.json
  take_page run.html run.json
  show_page found view=1
  expect_text found.out '^memory: GPU 0 Simulated CUDA device [|] 4[.]00 MiB [|] 54[.]0 MiB [|] [0-9.]+ m?s [|] [0-9.]+ MiB$'
  expect_text found.out '^option: What leaked \(4[.]00 MiB\)$'
  expect_text found.out '^option: Peak of GPU 0 \(54[.]0 MiB\)$'
  expect_text found.out '^note: allocations of less than 4[.]00 KiB have no call stack \(GPUSHIM_STACK=min\)$'
  expect_text found.out '^sum: Peak of GPU 0: 54[.]0 MiB at [0-9.]+ [mu]?s, 50[.]0 MiB of it freed since; '
  expect_text found.out '^row: 48[.]0 MiB [|] 6 [|] device [|] 0 [|] activations [|] peaks[.]c:[0-9]+$'
  expect_text found.out '^frame: [0-9]+ 0[.]0 88[.]9 frame p[0-2] [|] activations$'
}
add_case "views header and peaks" views_header_case

# The graph's frames have their parts of the row; a click zooms, Escape goes back; the keys go from
# frame to frame; the search marks and sums; the table sorts.
views_actions_case() {
  run_for_page leaky_shared
  make_page run.json
  take_page run.html run.json
  show_page plain
  expect_text plain.out '^frame: 0 0[.]0 100[.]0 frame top [|] What leaked$'
  expect_text plain.out '^frame: 3 0[.]0 84[.]2 frame p[0-2] [|] load_weights$'
  expect_text plain.out '^frame: 3 84[.]2 10[.]5 frame p[0-2] [|] build_index$'
  expect_count plain.out '^frame: .* main$' 1
  show_page zoomed zoom=build_index
  expect_text zoomed.out '^frame: 3 0[.]0 100[.]0 frame p[0-2] [|] build_index$'
  expect_text zoomed.out '^frame: 2 0[.]0 100[.]0 frame p[0-2] above [|] main$'
  expect_no_text zoomed.out '^frame: .*load_weights'
  expect_text zoomed.out '^shown: build_index  /.*/leaky[.]c:[0-9]+: 3[.]00 MiB in 3 allocations \(10[.]5 % of leaked\)$'
  show_page back zoom=build_index key=Escape
  expect_text back.out '^focus: main$'
  expect_text back.out '^frame: 3 0[.]0 86[.]5 .*load_weights$'
  show_page keys zoom='What leaked' key=ArrowDown key=ArrowDown key=ArrowDown key=ArrowRight
  expect_text keys.out '^focus: build_index$'
  show_page entered zoom='What leaked' key=ArrowDown key=ArrowDown key=Enter
  expect_text entered.out '^frame: 2 0[.]0 100[.]0 frame p[0-2] [|] main$'
  show_page searched search=' BUILD_index'
  expect_text searched.out '^sum: 1 of 5 call sites found: 3[.]00 MiB in 3 allocations \(10[.]5 % of leaked\)$'
  expect_count searched.out '^frame: .* hit ' 1
  expect_text searched.out '^frame: .* hit [|] build_index$'
  expect_count searched.out '^row: ' 1
  show_page kinds search=cudaMallocHost
  expect_text kinds.out '^row: 256 KiB [|] 1 [|] pinned [|]  [|] stage_input '
  expect_count kinds.out '^row: ' 1
  show_page none search='no such function'
  expect_text none.out '^sum: 0 of 5 call sites found: 0 B in 0 allocations '
  show_page counts unit=count
  expect_text counts.out '^frame: 3 0[.]0 42[.]9 .* build_index$'
  expect_text counts.out '^heading: allocations .* descending$'
  show_page sorted sort=4
  expect_equal "by function" $'build_index\nload_weights\nqueue_scratch\nshare_state\nstage_input' \
    "$(shown sorted row | awk -F ' [|] ' '{ print $5 }')"
  show_page turned sort=4 sort=4
  expect_text turned.out '^heading: function .* descending$'
  expect_equal "the last" stage_input "$(shown turned row | awk -F ' [|] ' 'NR == 1 { print $5 }')"
  show_page closed open=0 open=0
  expect_no_text closed.out '^detail: '
}
add_case "views actions" views_actions_case

# Calls from several places of a function are one frame, with lines and without.
views_merged_case() {
  run_for_page leaky_shared GPUSHIM_SYMBOLIZE=off
  make_page run.json
  take_page run.html run.json
  show_page found zoom=main
  expect_count found.out '^frame: .* main$' 1
  expect_text found.out '^shown: main  leaky_shared: '
  show_page leaf zoom=build_index
  expect_text leaf.out '^shown: build_index  leaky_shared[+]0x[0-9a-f]+: '
}
add_case "views merge calls of a function" views_merged_case

# ---- From a state file ---------------------------------------------------------------

# The page of a killed program: what gpushim report says of it, and that it was killed.
views_killed_case() {
  preloaded shim GPUSHIM_STATE_FILE=run.state -- "$apps/killed_shared" kill
  expect_status shim 137
  make_page -o run.html run.state
  run_in text GPUSHIM_LEAK_MAX=1000 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- \
    "$build/gpushim" report run.state
  take_page run.html -
  # The options are the reader's own: here, that it writes JSON.
  python3 -S - <<'PYTHON' || fail "the page has another report"
import json
of_page, of_report = json.load(open("page/report.json")), json.load(open("run.json"))
for report in of_page, of_report:
    del report["options"]
assert of_page == of_report and of_page["leaks"]
PYTHON
  open_all found
  views_words text.out >wanted
  views_shown found >lines
  cmp -s wanted lines || { diff -u wanted lines | head -n 60 && fail "the page is not the report"; }
  expect_text found.out '^note: The process ended without a report[.] This is its memory at that moment[.]$'
  expect_text found.out '^detail: .*, live when it ended$'
}
add_case "views of a killed program" views_killed_case

# Of a program that the command saw killed, as of a report that says so in its ending alone: nothing leaked.
views_seen_killed_case() {
  need_file "$apps/killed_shared"
  run_in text RANK=3 GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json GPUSHIM_LEAK_MAX=1000 -- \
    "$build/gpushim" --watch=parent "$apps/killed_shared" kill
  [[ -s run.json ]] || fail "no report"
  sed '/"killed\(_by\)\?": /d' run.json >old.json
  ! cmp -s run.json old.json || fail "the report does not say that it was killed"
  for report in run old; do
    run_in made -- "$build/gpushim" html -o run.html "$report.json"
    take_page run.html "$report.json"
    open_all found
    views_words text.err >wanted
    views_shown found >lines
    cmp -s wanted lines || { diff -u wanted lines | head -n 60 && fail "the page is not the report"; }
    expect_text found.out '^detail: LIVE [1-9]: 6[.]00 MiB in 1 allocation \([0-9.]+ % of live\)$'
    expect_text found.out '^detail: .*, live when killed by SIGKILL \(rank 3\)$'
    expect_text found.out '^note: The process was killed[.] This is its memory at that moment[.]$'
    expect_text found.out '^option: What is live '
    expect_equal "summary" "$(sed -nE 's/^==[0-9]+== SUMMARY: gpushim: //p' text.err)" "$(shown found summary)"
  done
  # Of several processes, this one leaked nothing.
  run_for_page leaky_shared
  mv run.json other.json
  sed 's/"pid": [0-9]*/"pid": 1/' old.json >run.json
  run_in made -- "$build/gpushim" html -o run.html run.json other.json
  take_page run.html run.json
  show_page found
  expect_text found.out '^process: rank 3: [0-9.]+ MiB live when killed$'
  expect_text found.out '^process: process [0-9]+: 28[.]5 MiB leaked$'
}
add_case "views of a program that was seen killed" views_seen_killed_case

views_running_case() {
  local pid

  need_file "$build/gpushim"
  start_preloaded shim GPUSHIM_STATE_FILE=run.state -- timeout 100 "$apps/killed_linked" ask over
  pid=$!
  await 25 grep -q planted shim.out
  run_in made -- "$build/gpushim" html run.state
  echo 'leak:plant' >rules
  run_in ruled -- "$build/gpushim" html --suppressions=rules run.state -o -
  : >over
  wait "$pid"
  expect_status made 0
  expect_text made.out '^gpushim: wrote run[.]state[.]html '
  take_page run.state.html -
  show_page found open=0
  expect_text found.out '^summary: 0 errors so far, [0-9.]+ MiB live in .*; still running$'
  expect_text found.out '^option: What is live '
  expect_text found.out '^detail: LIVE 1: 6[.]00 MiB in 1 allocation \([0-9.]+ % of live\)$'
  expect_text found.out '^about: .*  runs$'
  expect_status ruled 0
  grep -q '"suppressed": \[$' ruled.out || fail "--suppressions has no effect"
}
add_case "views of a running program" views_running_case

# ---- Hostile names -------------------------------------------------------------------

# A program whose names end elements and begin comments: its own, its words', a function's.
views_hostile_case() {
  need gcc
  need objcopy
  mkdir '<'
  cat >leak.c <<'PROGRAM'
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, unsigned long);
__attribute__((noinline)) int function(void)
{
    unsigned long long memory;
    return cuMemAlloc_v2(&memory, 1000) + cuMemAlloc_v2(&memory, 1000);
}
int main(void)
{
    void *context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || function();
}
PROGRAM
  { gcc -g -O1 -c leak.c && objcopy --redefine-sym 'function=</script><img src=x onerror=alert(1)>' leak.o &&
    gcc -o '</script>' leak.o "$build/sim/libcuda.so.1"; } || fail "gcc cannot build the program"
  preloaded shim GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=run.json -- './</script>' '<!--' '<script>' '&lt;'
  expect_status shim 0
  grep -q '"function": "</script><img src=x onerror=alert(1)>"' run.json || fail "another name of the function"
  make_page run.json
  take_page run.html run.json
  show_page found open=0
  expect_text found.out '^command: [.]/</script> <!-- <script> &lt;$'
  expect_text found.out '^row: 1[.]95 KiB [|] 2 [|] device [|] 0 [|] </script><img src=x onerror=alert\(1\)> [|] '
  expect_text found.out '^frame: .* [|] </script><img src=x onerror=alert\(1\)>$'
}
add_case "views of a program with hostile names" views_hostile_case

# JSON with every text that could end the element, or break a script: all come back.
views_edited_case() {
  run_for_page leaky_linked
  need python3
  python3 -S - <<'PYTHON'
import json
report = json.load(open("run.json"))
names = ["</script><script>alert(1)</script>", "<!--<script>", "--><![CDATA[", "\u2028\u2029 a'b\"c\\u003c\\",
         "]]>&lt;&amp;&#60;", "__proto__", "\u202e\U0001f600\u0000\ufeff", "`${alert(1)}`"]
for i, frame in enumerate(report["frames"]):
    frame["function"] = frame["linkage"] = names[i % len(names)]
    frame["file"] = "/" + names[(i + 1) % len(names)]
report["leaks"][0]["call"] = "<b>call</b>"
report["leaks"][0]["fate"] = "</td></table>"
report["leaks"][0]["bytes"] = 2**64 - 1
report["devices"][0]["name"] = "</td><td>"
report["note"] = "<script>alert(2)</script>"
report["__proto__"] = {"leaks": []}
for text, path in (json.dumps(report), "ascii.json"), (json.dumps(report, ensure_ascii=False), "utf8.json"):
    open(path, "w", encoding="utf-8").write(text)
raw = json.dumps(report, ensure_ascii=False).encode().replace(b"`$", b"\xff\xc0`$")
open("raw.json", "wb").write(raw)
PYTHON
  for name in ascii utf8 raw; do
    run_in made -- "$build/gpushim" html "$name.json" -o run.html
    expect_status made 0
    take_page run.html "$name.json"
    show_page "$name" open=0
    expect_text "$name.out" '^note: <script>alert\(2\)</script>$'
    expect_text "$name.out" '^memory: GPU 0 </td><td> [|]'
    expect_text "$name.out" '^row: 16[.]0 EiB [|] '
    expect_text "$name.out" '^detail: <b>call</b>, GPU 0, .*</td></table>$'
    expect_count "$name.out" '^(row|detail|frame): .*(</script>|<!--|alert)' "$(grep -cE '^(row|detail|frame): .*(</script>|<!--|alert)' ascii.out)"
    grep -qE '^(row|detail|frame): .*(</script>|<!--|__proto__|-->)' "$name.out" || fail "no name is shown"
  done
}
add_case "views of edited JSON" views_edited_case

# ---- Bad input and output ------------------------------------------------------------

# expect_no_page TEXT [ARGUMENT...]: one line with this text, status 1, and no page.
expect_no_page() {
  run_in bad -- "$build/gpushim" html "${@:2}"
  expect_status bad 1
  [[ $(<bad.err) == "gpushim: "*"$1"* && $(wc -l <bad.err) -eq 1 ]] || { cat bad.err && fail "of ${*:2} not: $1"; }
  [[ ! -s bad.out && ! -e run.html ]] || fail "a page of ${*:2}"
  [[ -z $(find . -name '.gpushim*') ]] || fail "left behind: $(find . -name '.gpushim*')"
}

views_bad_input_case() {
  local length i word

  need_file "$build/gpushim"
  run_for_page leaky_shared GPUSHIM_STATE_FILE=whole.state
  mv run.json whole.json
  expect_no_page 'run.json: no such file or directory; no HTML written' run.json
  mkdir empty
  expect_no_page 'empty: no reports and no traces; no HTML written' empty -o run.html
  for word in '' ' ' 'words' '[{"schema": "gpushim-report", "version": 1}]' '"gpushim-report"' 1; do
    printf '%s' "$word" >run.json
    expect_no_page 'run.json: neither a report in JSON nor a state file; no HTML written' run.json
  done
  length=$(wc -c <whole.json)
  for ((i = 1; i <= 24; i++)); do
    head -c $((i * (length - 3) / 24)) whole.json >run.json
    expect_no_page 'run.json: its JSON is truncated; no HTML written' run.json
  done
  printf '{"a": 1, \0"b": 2}' >run.json
  expect_no_page 'run.json: not JSON; no HTML written' run.json
  for word in '{"a": 1} {}' '{}}' '{"schema": "gpushim-report", "version": 1}<'; do
    printf '%s' "$word" >run.json
    expect_no_page 'run.json: not JSON; no HTML written' run.json
  done
  for word in '{}' '{"version": 1}' '{"schema": "other", "version": 1}' \
    '{"a": {"schema": "gpushim-report", "version": 1}}' '{"a": "\"schema\": \"gpushim-report\""}' \
    '{"schema": "gpushim-reports", "version": 1}'; do
    printf '%s' "$word" >run.json
    expect_no_page 'run.json: JSON, but not a gpushim report; no HTML written' run.json
  done
  for word in 2 10; do
    sed "s/^  \"version\": 1,/  \"version\": $word,/" whole.json >run.json
    expect_no_page 'run.json: a report of a version that this gpushim cannot read; no HTML written' run.json
  done
  head -c 5000 whole.state >run.state
  expect_no_page 'run.state: ' run.state -o run.html
}
add_case "views of what is no report" views_bad_input_case

views_output_case() {
  run_for_page leaky_shared
  run_in page -- "$build/gpushim" html run.json -o -
  expect_status page 0
  expect_quiet page
  make_page run.json
  cmp -s page.out run.html || fail "another page on standard output"
  expect_equal "mode" 600 "$(stat -c %a run.html)"
  mv run.html old.html
  mv run.json 'a b.json'
  run_in made -- "$build/gpushim" html 'a b.json'
  cmp -s 'a b.html' old.html || fail "no page beside its report"
  mv 'a b.json' run.json
  mkdir folder
  expect_no_page 'no/run.html: no such file or directory; no HTML written' run.json -o no/run.html
  expect_no_page 'folder: is a directory; no HTML written' run.json -o folder
  expect_no_page '/dev/full: no space left; no HTML written' run.json -o /dev/full
  run_in full -- sh -c 'exec "$@" >/dev/full' sh "$build/gpushim" html run.json -o -
  expect_status full 1
  expect_text full.err '^gpushim: the HTML cannot be written to standard output$'
  (ulimit -f 4 && expect_no_page 'run.html: file too large; no HTML written' run.json) || exit
  run_in itself -- "$build/gpushim" html run.json -o ./run.json
  expect_status itself 2
  expect_text itself.err '^gpushim: ./run[.]json: the HTML would replace one of its input files$'
  take_page old.html run.json
}
add_case "views into each output" views_output_case

views_usage_case() {
  local words

  need_file "$build/gpushim"
  for words in '' '-o' 'a -o'; do
    # shellcheck disable=SC2086  # several words
    run_in bad -- "$build/gpushim" html $words
    expect_status bad 2
  done
  expect_text bad.err '^gpushim: -o needs a value'
  run_in bad -- "$build/gpushim" html --leakmax=1 run.json
  expect_status bad 2
  expect_text bad.err 'did you mean --leak-max[?]'
  run_in bad -- "$build/gpushim" html run.json --output run.html
  expect_status bad 2
  expect_text bad.err "^gpushim: --output: the page's file is -o PAGE"
  run_in help -- "$build/gpushim" html --help
  expect_status help 0
  expect_text help.out '^usage: gpushim .* html '
  run_in command -- "$build/gpushim" --print -- html
  expect_status command 127
  run_in bad -- "$build/gpushim" html -- -o
  expect_status bad 1
  expect_text bad.err '^gpushim: -o: no such file'
}
add_case "views usage" views_usage_case

# ---- Many call sites -----------------------------------------------------------------

# 100,000 call sites: the page has them all, the script ends, and draws what can be seen.
views_many_case() {
  need python3
  run_for_page leaky_linked
  python3 -S - <<'PYTHON'
import json, random
random.seed(1)
report = json.load(open("run.json"))
place, frame = report["leaks"][0], report["frames"][0]
report["frames"] = [dict(frame, function="function_%d" % i, file="/src/file_%d.c" % (i % 500), line=i + 1) for i in range(20000)]
report["leaks"] = []
for i in range(100000):
    stack = [i % 20000] + [random.randrange(3 ** level) for level in range(8, -1, -1)]
    report["leaks"].append(dict(place, bytes=200000 - i, count=1 + i % 7, stack=stack, full_stack=stack))
report["summary"]["places"] = 100000
json.dump(report, open("run.json", "w"))
PYTHON
  make_page run.json
  [[ $(stat -c %s run.html) -lt $(($(stat -c %s run.json) + 98304)) ]] || fail "the page is far larger than its report"
  take_page run.html run.json
  show_page found
  expect_count found.out '^row: ' 300
  expect_text found.out '^more: 99,700 more call sites: .*; search, or sort the other way$'
  [[ $(grep -c '^frame: ' found.out) -gt 100 && $(grep -c '^frame: ' found.out) -lt 10000 ]] ||
    fail "$(grep -c '^frame: ' found.out) frames are drawn"
  expect_text found.out '^frame: .* frame slim thin [|] $'
  show_page searched search=function_12345 sort=1
  expect_text searched.out '^sum: 5 of 100,000 call sites found: '
  expect_count searched.out '^row: ' 5
}
add_long_case "views of 100,000 call sites" views_many_case

# ---- A real browser ------------------------------------------------------------------

# The page in Chromium, from a file: what the script has made is there, and it logs nothing.
views_browser_case() {
  local browser program

  browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "chromium"
  for program in leaky_shared badfree_linked; do
    run_for_page "$program"
    make_page run.json
    run_in browser -- "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr \
      --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/run.html"
    expect_status browser 0
    expect_no_text browser.err 'CONSOLE'
    expect_text browser.out "<p id=\"summary\" class=\"bad\">$(sed -nE 's/^==[0-9]+== SUMMARY: gpushim: //p' run.err)</p>"
    expect_text browser.out 'role="treeitem"'
  done
}
add_case "views in a browser" views_browser_case

# The fault: a rule of a gate that matched nothing is only in the text.
views_rules_case() {
  printf '%s\n' 'peak:^laod_weights$ max_bytes=20M' 'deny:^cudaMallocFromPoolAsync$' >rules
  run_for_page leaky_shared GPUSHIM_SUPPRESSIONS=rules
  make_page run.json
  take_page run.html run.json
  show_page shown
  expect_count shown.out '^note: never matched: ' 1
  expect_text shown.out '^note: never matched: the peak has no memory of such a call site, by peak:.laod_weights'
}
add_case "views of rules that match nothing" views_rules_case
