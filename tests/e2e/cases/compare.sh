# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# compare.sh - gpushim diff and gpushim merge: the same call site is recognised in another process and
# in a program that was rebuilt; what grew is told with a status for CI; many processes give one table.

# report_of NAME PROGRAM [SETTING...]: NAME.json and NAME.state of a run.
report_of() {
  need_file "$build/gpushim"
  need_file "$apps/${2%% *}"
  # shellcheck disable=SC2086  # the program's words
  preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE="$1.json" GPUSHIM_STATE_FILE="$1.state" "${@:3}" -- "$apps/"$2
  [[ -s $1.json ]] || fail "no report of $2"
}

# gpushim PREFIX ARGUMENT...
gpushim() {
  run_in "$1" -- "$build/gpushim" "${@:2}"
}

# expect_schema NAME FILE: the file is as docs/schema/NAME.json has it, without any member more. The fault: a member
# that is added, dropped or of another type, and of which the schema says nothing.
expect_schema() {
  local status=0

  need python3
  python3 -S "$here/report_json.py" validate "$sources/docs/schema/$1.json" "$2" >problems || status=$?
  [[ $status -eq 0 || $status -eq 77 ]] || { cat problems && fail "$2 is not as docs/schema/$1.json has it"; }
}

compare_schema_case() {
  local status=0

  need python3
  python3 -S "$here/report_json.py" schema "$sources/docs/schema/$1.json" >problems 2>&1 || status=$?
  [[ $status -ne 77 ]] || skip "python3's jsonschema"
  [[ $status -eq 0 ]] || { cat problems && fail "docs/schema/$1.json is no schema"; }
}
add_case "diff json has a schema" compare_schema_case diff-1
add_case "merge json has a schema" compare_schema_case merge-1

# ---- diff ----------------------------------------------------------------------------

# Two runs of a program are the same, by JSON, by state file, and by both; with lines and without.
diff_same_case() {
  local a b

  report_of a "$1"
  report_of b "$1"
  for a in a.json a.state; do
    for b in b.json b.state; do
      gpushim same diff --fail-on=new,grown "$a" "$b"
      expect_status same 0
      expect_quiet same
      expect_text same.out '^SUMMARY: gpushim diff: 0 new, 0 grown, 0 shrunk, 0 gone, [1-9][0-9]* unchanged$'
    done
  done
  gpushim same diff --symbolize=off --fail-on=new,grown a.json b.state
  expect_status same 0
  expect_text same.out ' 0 new, 0 grown, 0 shrunk, 0 gone, '
  gpushim same diff a.json ./a.json
  expect_text same.out '^Note: A and B are the same file$'
}
for program in leaky_shared leaky_linked reset_linked arrays_linked graphmem_linked; do
  add_case "diff same $program" diff_same_case "$program"
done
if [[ -x $apps/leaky_static ]]; then
  add_case "diff same leaky_static" diff_same_case leaky_static
fi

# A leak that is planted, one that is larger, and one that is gone: each by its growth, with its stack.
diff_planted_case() {
  need python3
  report_of a leaky_shared
  report_of b leaky_shared
  python3 -S - <<'PYTHON'
import json
report = json.load(open("b.json"))
leaks = {report["frames"][leak["stack"][0]]["function"]: leak for leak in report["leaks"]}
leaks["load_weights"]["bytes"] *= 2
leaks["load_weights"]["count"] = 2
leaks["build_index"]["bytes"] -= 1 << 20
leaks["build_index"]["count"] = 2
leaks["stage_input"]["stack"] = leaks["queue_scratch"]["stack"][:1]
report["leaks"].remove(leaks["share_state"])
json.dump(report, open("b.json", "w"))
PYTHON
  gpushim changed diff a.state b.json
  expect_status changed 0
  expect_quiet changed
  sed -nE '/^(NEW|GROWN|SHRUNK|GONE|Leaked|SUMMARY)/,/^    #0/p' changed.out | sed 's/ \+/ /g; /^ cuda/d; /^$/d' >found
  cat >wanted <<'WANTED'
GROWN 1: +24.0 MiB: 24.0 MiB in 1 allocation, then 48.0 MiB in 2 allocations
 #0 load_weights leaky.c:39
NEW 2: +256 KiB in 1 allocation
 #0 queue_scratch leaky.c:64
GONE 3: -256 KiB in 1 allocation
 #0 stage_input leaky.c:47
GONE 4: -512 KiB in 1 allocation
 #0 share_state leaky.c:56
SHRUNK 5: -1.00 MiB: 3.00 MiB in 3 allocations, then 2.00 MiB in 2 allocations
 #0 build_index leaky.c:30
Leaked: 28.5 MiB in 7 allocations, then 51.0 MiB in 6 allocations
SUMMARY: gpushim diff: 1 new (+256 KiB), 1 grown (+24.0 MiB), 1 shrunk (-1.00 MiB), 2 gone (-768 KiB), 1 unchanged
WANTED
  diff -u wanted found || fail "another comparison"
  for words in new:3 grown:3 grown:99%:3 new,grown:50%:3 new:1M:0 grown:24M:0 grown:100%:0; do
    gpushim ci diff --fail-on="${words%:*}" a.state b.json
    expect_status ci "${words##*:}"
  done
  gpushim json diff --json --fail-on=new,grown --leak-max=1 a.state b.json
  expect_status json 3
  expect_schema diff-1 json.out
  gpushim peaks diff --json --of=peak a.json b.json
  expect_schema diff-1 peaks.out
  gpushim plain diff --json --symbolize=off a.state a.state
  expect_schema diff-1 plain.out
  python3 -S - <<'PYTHON' >found || fail "JSON that cannot be read"
import json
diff = json.load(open("json.out"))
for site in diff["call_sites"]:
    top = site["stack"][0]
    print(site["change"], site["before"]["bytes"], site["after"]["bytes"], site["before"]["count"], site["after"]["count"],
          top["function"], "%s:%d" % (top["file"].rsplit("/", 1)[1], top["line"]), len(site["stack"]))
print(diff["schema"], diff["before"]["bytes"], diff["after"]["bytes"], diff["failures"], diff["summary"]["gone"])
PYTHON
  cat >wanted <<'WANTED'
grown 25165824 50331648 1 2 load_weights leaky.c:39 2
new 0 262144 0 1 queue_scratch leaky.c:64 1
unchanged 786432 786432 1 1 queue_scratch leaky.c:64 2
gone 262144 0 1 0 stage_input leaky.c:47 2
gone 524288 0 1 0 share_state leaky.c:56 2
shrunk 3145728 2097152 3 2 build_index leaky.c:30 2
gpushim-diff 29884416 53477376 2 {'call_sites': 2, 'bytes': 786432}
WANTED
  diff -u wanted found || fail "another comparison in JSON"
  gpushim table diff --markdown --color=always --leak-max=2 a.state b.json
  sed -E '/^    [AB]: /d; s/main leaky[.]c:[0-9]+/main/; s/cuda?[MHA][A-Za-z]+, //' table.out >found
  cat >wanted <<'WANTED'
**gpushim diff**: 1 new (+256 KiB), 1 grown (+24.0 MiB), 1 shrunk (-1.00 MiB), 2 gone (-768 KiB), 1 unchanged

Leaked: 28.5 MiB in 7 allocations, then 51.0 MiB in 6 allocations

| | Growth | Before | After | Call site | Call |
| --- | ---: | ---: | ---: | --- | --- |
| grown | +24.0 MiB | 24.0 MiB in 1 | 48.0 MiB in 2 | `load_weights leaky.c:39 < main` | `device` |
| new | +256 KiB | - | 256 KiB in 1 | `queue_scratch leaky.c:64` | `pinned` |

3 more call sites changed (GPUSHIM_LEAK_MAX=N lists more)

WANTED
  diff -u wanted found || fail "another comparison in Markdown"
  gpushim few diff --leak-max=2 a.state b.json
  expect_text few.out '^3 more call sites changed [(]GPUSHIM_LEAK_MAX=N lists more[)]$'
  gpushim back diff --fail-on=grown:10% b.json a.json
  expect_status back 3
  expect_text back.err '^gpushim: --fail-on=grown:10%: 1 call site failed$'
  expect_text back.out '^GROWN 1: [+]1[.]00 MiB: '
}
add_case "diff of planted changes" diff_planted_case

# Names that end a cell or its code: a reader of PyPI finds the table's cells, and the names in them.
diff_table_case() {
  need python3
  python3 -m venv readers >/dev/null 2>&1 || skip "python3 with venv"
  readers/bin/pip install --quiet --no-deps markdown-it-py mdurl >/dev/null 2>&1 || skip "markdown-it-py of PyPI"
  report_of a leaky_shared
  sed -E 's/"load_weights"/"operator|(A`|<b>**\\\\|_ä)"/; s/"bytes": 25165824/"bytes": 50331648/' a.json >b.json
  gpushim table diff --markdown a.json b.json
  readers/bin/python3 - <<'PYTHON' >found || fail "Markdown that cannot be read"
import markdown_it
rows = []
for token in markdown_it.MarkdownIt("gfm-like", {"linkify": False}).parse(open("table.out").read()):
    if token.type == "tr_open":
        rows.append([])
    if token.type == "inline" and rows:
        rows[-1].append("".join(child.content for child in token.children))
print(*((row[0], row[4].split(" ")[0], len(row)) for row in rows[1:]), sep="\n")
PYTHON
  expect_equal "the row" "('grown', \"operator|(A'|<b>**/|_ä)\", 6)" "$(<found)"
}
add_long_case "diff in Markdown by another reader" diff_table_case

# A program that was rebuilt with a line above its leaks: nothing is new; a leak of its own is.
diff_rebuilt_case() {
  need gcc
  need_file "$build/sim/libcuda.so.1"
  cat >a.c <<'PROGRAM'
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, unsigned long);
static unsigned long long memory;
__attribute__((noinline)) int load(void)
{
    return cuMemAlloc_v2(&memory, 1000) +
           cuMemAlloc_v2(&memory, 2000);
}
__attribute__((noinline)) int more(void)
{
    return cuMemAlloc_v2(&memory, 3000) * EXTRA;
}
int main(void)
{
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    return load() + (EXTRA ? more() : 0);
}
PROGRAM
  sed '3a static int unused[2] __attribute__((unused));' a.c >b.c
  mkdir one two three
  { gcc -g -O0 -DEXTRA=0 -Wl,--build-id -o one/program a.c "$build/sim/libcuda.so.1" &&
    gcc -g -O0 -DEXTRA=0 -Wl,--build-id -o two/program b.c "$build/sim/libcuda.so.1" &&
    gcc -g -O0 -DEXTRA=1 -Wl,--build-id -o three/program b.c "$build/sim/libcuda.so.1"; } || fail "gcc cannot build the program"
  for i in one two three; do
    preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=$i.json GPUSHIM_STATE_FILE=$i.state -- "./$i/program"
    expect_status run 0
  done
  for i in one.json one.state; do
    gpushim moved diff --fail-on=new,grown "$i" two.json
    expect_status moved 0
    expect_text moved.out '^Note: program of another build; where lines have moved, a function is one call site$'
    expect_text moved.out ' 0 new, 0 grown, 0 shrunk, 0 gone, 1 unchanged$'
    gpushim more diff --fail-on=new,grown "$i" three.state
    expect_status more 3
    expect_text more.out '^NEW 1: [+]2[.]93 KiB in 1 allocation$'
    expect_text more.out '^    #0 more '
    expect_text more.out ' 1 new [(][+]2[.]93 KiB[)], 0 grown, 0 shrunk, 0 gone, '
  done
}
add_case "diff of a program that was rebuilt" diff_rebuilt_case

# The program is gone when its state files are read: addresses of the same build are enough.
diff_missing_case() {
  need_file "$apps/leaky_linked"
  cp "$apps/leaky_linked" program
  for i in a b; do
    preloaded run GPUSHIM_OUTPUT=json GPUSHIM_OUTPUT_FILE=$i.json GPUSHIM_STATE_FILE=$i.state -- ./program
  done
  rm program
  for i in 'a.state b.json' 'a.json b.state' 'a.state b.state'; do
    # shellcheck disable=SC2086  # two words
    gpushim same diff --fail-on=new,grown $i
    expect_status same 0
    expect_text same.out ' 0 new, 0 grown, 0 shrunk, 0 gone, 5 unchanged$'
  done
}
add_case "diff of a program that is missing" diff_missing_case

# Who had the memory at the peaks; other programs; a program that goes on.
diff_kinds_case() {
  report_of a leaky_shared
  report_of b "peaks_linked leak"
  gpushim peaks diff --of=peak a.json a.json
  expect_status peaks 0
  expect_text peaks.out '^At the peaks: 31[.]5 MiB in 9 allocations, then 31[.]5 MiB '
  gpushim none diff --of=peak a.json a.state
  expect_status none 1
  expect_text none.err '^gpushim: a[.]state: it does not say who had the memory at the peaks; nothing is compared$'
  gpushim none merge --of=peak a.state b.json
  expect_status none 1
  expect_text none.err '^gpushim: a[.]state: it does not say who had the memory at the peaks; left out$'
  expect_text none.out '^ *54[.]0 MiB +54[.]0 MiB +pid [0-9]+ |^48[.]0 MiB 48[.]0 MiB pid '
  gpushim other diff a.json b.json
  expect_status other 0
  expect_text other.out '^Note: different programs: leaky_shared and peaks_linked$'
  gpushim colors diff --color=always a.json b.json
  expect_text colors.out $'^\033[[]1;31mNEW 1\033[[]0m: '
  gpushim plain diff a.json b.json
  ! grep -q $'\033' plain.out || fail "colours in a file"
}
add_case "diff of peaks and of other programs" diff_kinds_case

# ---- merge and --summary -------------------------------------------------------------

# Three ranks, one of them killed, by JSON and state files in a folder: a line for each call site.
merge_case() {
  local rank

  need python3
  mkdir ranks
  for rank in 0 1; do
    report_of "ranks/$rank" leaky_shared RANK=$rank
    cp run.err "ranks/$rank.text" # as --log-file writes beside them
  done
  preloaded run RANK=2 GPUSHIM_STATE_FILE=ranks/2.state -- "$apps/killed_shared" kill
  echo no report >ranks/readme
  printf 'gpushim: GPUSHIM_POOL: a message\n' >ranks/2.text
  mkdir ranks/folder texts
  cp ranks/?.text texts
  gpushim texts merge texts
  expect_status texts 1
  expect_equal "texts alone" "gpushim: texts: no reports: a report as text, not JSON or a state file" "$(<texts.err)"
  gpushim all merge ranks
  expect_status all 0
  expect_equal "files left out" \
    "gpushim: ranks: 1 of 4 files left out; the first: readme: neither a report in JSON nor a state file" "$(<all.err)"
  expect_text all.out '^48[.]0 MiB 24[.]0 MiB rank 0 +0 B 24[.]0 MiB +2 of 3  load_weights leaky[.]c:39 < main leaky[.]c:[0-9]+, cudaMalloc \(device\)$'
  expect_text all.out '^6[.]00 MiB 6[.]00 MiB rank 2 +0 B 6[.]00 MiB +1 of 3  keep_large killed[.]c:[0-9]+ < '
  expect_text all.out '^gpushim: +[0-9]+ +1 +30[.]3 MiB +- +28[.]5 MiB +[0-9]+ +0  exit 0 +/.*leaky_shared$'
  expect_text all.out '^gpushim: +[0-9]+ +2 +[0-9.]+ MiB +[0-9.]+ MiB +- +[0-9,]+ +0  ended without a report /.*killed_shared kill$'
  expect_equal "columns of the commands" 1 "$(awk '/^gpushim: .*_shared/ { print index($0, "/") }' all.out | sort -u | wc -l)"
  expect_text all.out '^gpushim: +all +[0-9.]+ MiB +57[.]0 MiB +[0-9,]+ +0$'
  expect_text all.out '^gpushim: live when killed: [0-9.]+ MiB in 1 process$'
  expect_text all.out '^gpushim: GPU 0000:01:00[.]0 Simulated CUDA device: at most [0-9.]+ MiB at once, by 3 processes$'
  # JSON and state files have the same call sites, and state files the same with the summary.
  gpushim json merge ranks/0.json ranks/1.json
  gpushim states merge ranks/0.state ranks/1.state
  expect_same json states
  gpushim summary report --summary ranks/0.state ranks/1.json
  expect_equal "processes" "$(grep '^gpushim' json.out)" "$(<summary.out)"
  gpushim sums merge --json ranks
  expect_status sums 0
  expect_schema merge-1 sums.out
  gpushim peaks merge --json --of=peak ranks
  expect_schema merge-1 peaks.out
  python3 -S - <<'PYTHON' >found || fail "JSON that cannot be read"
import json
merge = json.load(open("sums.out"))
site = merge["call_sites"][0]
print(merge["schema"], site["bytes"], site["most_bytes"], site["most_at"], site["least_bytes"], site["processes"], site["kind"],
      *("%s %s" % (frame["function"], frame["file"].rsplit("/", 1)[1]) for frame in site["stack"]))
print(merge["all"]["processes"], merge["all"]["leaked_bytes"], merge["devices"][0]["processes"],
      *sorted((each["rank"], each["live_bytes"] is None, each["leaked_bytes"]) for each in merge["processes"]))
PYTHON
  cat >wanted <<'WANTED'
gpushim-merge 50331648 25165824 rank 0 0 2 device load_weights leaky.c main leaky.c
3 59768832 3 (0, True, 29884416) (1, True, 29884416) (2, False, None)
WANTED
  diff -u wanted found || fail "other sums in JSON"
  # With the most of a rank before the sum of others.
  gpushim same merge ranks/0.json ranks/0.json ranks/0.state ranks/1.state
  expect_status same 0
  expect_equal "the same again" $'gpushim: ranks/0.json: its process is counted already; left out\ngpushim: ranks/0.state: its process is counted already; left out' \
    "$(<same.err)"
  cmp -s same.out json.out || fail "a process is counted twice"
  gpushim peak merge --of=peak ranks/0.json ranks/1.json
  expect_text peak.out '^ +peak +most at '
  gpushim few merge --leak-max=1 ranks
  expect_text few.out '^[0-9]+ more call sites with less \(GPUSHIM_LEAK_MAX=N lists more\)$'
}
add_case "merge of ranks" merge_case

# Three ranks' scopes by path: the rank whose peak is the highest, the sums, and a scope that one rank lacks. The fault: a
# sum of the peaks of other paths, or a rank without the scope that is left out of the least.
merge_scopes_case() {
  local rank

  need python3
  mkdir ranks
  for rank in 2 3 4; do
    report_of "ranks/$rank" "scopestat_linked rank $rank" RANK=$rank
  done
  gpushim all merge ranks/?.json
  expect_status all 0
  expect_text all.out '^ +peak at +least +live +allocated +allocs +processes  scope$'
  expect_text all.out '^5[.]00 MiB rank 4 +3[.]00 MiB  11[.]0 MiB   11[.]0 MiB +5 +3 of 3  rank$'
  expect_text all.out '^1[.]00 MiB rank 2 +0 B  2[.]00 MiB   2[.]00 MiB +2 +2 of 3  rank/batch$'
  gpushim states merge ranks/?.state
  expect_same all states
  gpushim few merge --leak-max=1 ranks/?.json
  expect_text few.out '^1 more scope with lower peaks [(]GPUSHIM_LEAK_MAX=N lists more[)]$'
  gpushim table merge --markdown ranks/?.json
  expect_status table 0
  expect_text table.out '^[|] 5[.]00 MiB [|] rank 4 [|] 3[.]00 MiB [|] 11[.]0 MiB [|] 11[.]0 MiB [|] 5 [|] 3 of 3 [|] .rank. [|]$'
  expect_text table.out '^[|] Leaked [|] Most [|] At [|] Least [|] Processes [|] Call site [|]$'
  expect_text table.out '^    gpushim: +all +'
  gpushim sums merge --json ranks/?.json
  expect_schema merge-1 sums.out
  python3 -S - <<'PYTHON' >found || fail "JSON that cannot be read"
import json
for each in json.load(open("sums.out"))["scopes"]:
    print(each["path"], each["most_peak_bytes"] >> 20, each["most_at"], each["least_peak_bytes"] >> 20, each["processes"],
          each["peak_bytes"] >> 20, each["live_bytes"] >> 20, each["allocs"], each["begun"])
PYTHON
  printf '%s\n' 'rank 5 rank 4 3 3 11 11 5 3' 'rank/batch 1 rank 2 0 2 2 2 2 2' >wanted
  diff -u wanted found || fail "other scopes in JSON"
  report_of ranks/none "leaky_shared"
  gpushim none merge --json ranks/none.json
  expect_schema merge-1 none.out
  gpushim plain merge ranks/none.json
  expect_no_text plain.out 'scope'
}
add_case "merge of scopes" merge_scopes_case

# 10,000 files of a folder, in little memory.
merge_many_case() {
  need python3
  report_of a leaky_shared RANK=0
  mkdir many
  python3 -S - "$(sized 1000 10000)" <<'PYTHON'
import re, sys
text = open("a.json").read()
count = int(sys.argv[1])
for i in range(count):
    if i == 7:
        continue
    one = re.sub(r'"pid": \d+,\n', '"pid": %d,\n' % (i + 1), text, count=1).replace('"rank": 0', '"rank": %d' % i)
    if i in (0, count - 1):
        one = re.sub(r'"allocs": \d+', '"allocs": %d' % (500 + i), one, count=1)
    with open("many/%d.json" % i, "w") as file:
        file.write(one)
PYTHON
  run_in many -- bash -c 'ulimit -v 100000 && exec "$@"' bash "$build/gpushim" merge many
  expect_status many 0
  expect_quiet many
  expect_text many.out " $(sized 999 9999) of $(sized 999 9999)  load_weights leaky[.]c:39 < "
  # Equal processes are one line; the first and the last differ, and the file of rank 7 is missing.
  expect_count many.out '^gpushim: +[0-9]+ +[0-9]+ ' 3
  expect_text many.out "^gpushim: +and $(($(sized 1000 10000) - 4)) more: ranks 2-6, 8-$(($(sized 1000 10000) - 2))\$"
  expect_text many.out '^gpushim: +all +'
  run_in each -- "$build/gpushim" --verbose=2 merge many
  expect_count each.out '^gpushim: +[0-9]+ +[0-9]+ ' "$(($(sized 1000 10000) - 1))"
  expect_no_text each.out ' more'
  # Up to 24 processes have a line each, and those without a rank are counted.
  mkdir few norank
  for name in {100..123}; do
    cp "many/$name.json" few
    sed 's/"rank": [0-9]*/"rank": null/' "many/$name.json" >"norank/$name.json"
  done
  cp few/100.json few/copy.json # a process that is counted already
  sed 's/"pid": 101,/"pid": 99,/' norank/100.json >norank/other.json
  run_in few -- "$build/gpushim" merge few
  expect_count few.out '^gpushim: +[0-9]+ +1[0-9]+ ' 24
  run_in norank -- "$build/gpushim" merge norank
  expect_count norank.out '^gpushim: +and 24 more$' 1
}
add_case "merge of many files" merge_many_case

# ---- Bad input -----------------------------------------------------------------------

compare_bad_input_case() {
  local length i word

  report_of a leaky_shared
  mkdir empty
  length=$(wc -c <a.json)
  : >none
  printf 'not JSON' >words
  sed 's/^  "version": 1,/  "version": 2,/' a.json >later
  for i in 1 2 5 50 90 99; do
    head -c $((i * (length - 3) / 100)) a.json >"cut.$i"
  done
  head -c 5000 a.state >cut.state
  # Of another build: its layout is another.
  { head -c 8 a.state && printf '\1\2\3\4\5\6\7\10' && tail -c +17 a.state; } >other.state
  for word in none words later cut.{1,2,5,50,90,99} cut.state other.state . empty missing; do
    gpushim bad diff a.json "$word"
    expect_status bad 1
    expect_equal "lines of $word" 1 "$(wc -l <bad.err)"
    expect_text bad.err "^gpushim: $word: .*; nothing is compared\$"
    [[ ! -s bad.out ]] || fail "a comparison with $word"
    gpushim bad merge a.json "$word"
    [[ $word == . ]] || expect_status bad 1
    expect_text bad.err "^gpushim: $word: "
    expect_text bad.out '^gpushim: +[0-9]+ +- +30[.]3 MiB '
  done
  gpushim bad merge empty
  expect_status bad 1
  expect_equal "an empty folder" "gpushim: empty: no reports" "$(<bad.err)"
  [[ ! -s bad.out ]] || fail "a table of nothing"
  run_in full -- sh -c 'exec "$@" >/dev/full' sh "$build/gpushim" diff a.json a.state
  expect_status full 1
  expect_text full.err '^gpushim: standard output cannot be written: no space left$'
}
add_case "compare bad input" compare_bad_input_case

# Numbers, stacks and names that no run has: no crash, and no escape sequence.
compare_hostile_case() {
  need python3
  report_of a leaky_shared
  python3 -S - <<'PYTHON'
import json, random
random.seed(1)
odd = [None, -1, 0, 1, 2**64 - 1, 2**64, 1.5, True, "", "x", "\x1b[31m\x07\r\n", "\u009b2J", [], {}, [[]], "0x" + "f" * 40]
for number in range(60):
    report = json.load(open("a.json"))
    def change(value):
        if random.random() < 0.08:
            return random.choice(odd)
        if isinstance(value, dict):
            return {key: change(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [change(inner) for inner in value]
        return value
    report = {key: change(value) if key not in ("schema", "version") else value for key, value in report.items()}
    json.dump(report, open("strange.%d" % number, "w"))
PYTHON
  for ((i = 0; i < 60; i++)); do
    gpushim odd diff a.json "strange.$i"
    expect_status odd 0
    ! grep -q $'[\001-\010\013-\037\177]' odd.out odd.err || fail "a control character of strange.$i"
  done
  gpushim odd merge strange.*
  expect_status odd 0
  ! grep -q $'[\001-\010\013-\037\177]' odd.out odd.err || fail "a control character"
}
add_case "compare hostile reports" compare_hostile_case

compare_usage_case() {
  local words

  need_file "$build/gpushim"
  for words in diff 'diff a' 'diff a b c' merge 'diff --fail-on a' 'merge --of=x a' 'diff --of=x a b' 'diff --fail-on=gone a b' \
    'diff --fail-on=grown:1% --fail-on= a b' 'diff --fail-on=new:200% a b' 'diff -o x a b' 'merge --fail-on=new a' \
    'diff --json --markdown a b' 'diff --json=x a b' 'merge --json --markdown a'; do
    # shellcheck disable=SC2086  # several words
    gpushim bad $words
    expect_status bad 2
    expect_text bad.err '^(gpushim: --?[a-z]|usage: |gpushim: unknown option)'
  done
  gpushim bad diff --fail-om=new a b
  expect_text bad.err 'did you mean --fail-on[?]'
  for words in diff merge; do
    gpushim help "$words" --help
    expect_status help 0
    expect_text help.out "^usage: gpushim .* $words "
  done
}
add_case "compare usage" compare_usage_case
