# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for sed
#
# guide.sh - the commands of docs/guide.md still print what stands there: the same lines in
# the same order, but for numbers, names of hosts and what the page leaves out.

# guide_form: each number is N, each time T, each run of spaces one; no host, no path. What
# the programs print themselves comes where their buffers are written. Not each symbolizer says
# what is inlined. The largest call site keeps its number.
guide_form() {
  grep -vE '^(leaky|pipeline|growing|interim|killed|peaks): ' | sed -E 's/\b(LEAK|LIVE|PEAK) 1: /\1 one: /; s/host [^ ]+/host H/; s/[0-9a-f]{16}$/N/; s/0x[0-9a-f]+/N/g
    s/gpushim [0-9.]+: [^ ]*\//gpushim N: /
    s/[0-9]+([.,][0-9]+)*/N/g; s/\bN ?(ms|us|s|m|h)(N(ms|s|m))?\b/T/g; s/, (age|oldest) T(, newest T)?//; s/(KiB|MiB|GiB)/B/g
    s/ \(inlined\)$//; s/ +/ /g'
}

# guide_compare EXPECTED FOUND: each expected line comes, behind the one before it, at once
# where no "..." stands between them.
guide_compare() {
  awk -v expected="$1" '
    BEGIN { while ((getline line < expected) > 0) want[++n] = line; at = 1 }
    at <= n && want[at] == "..." { skipping = 1; at++ }
    at <= n && $0 == want[at] { at++; skipping = 0; started = 1; next }
    at <= n && !skipping && started { exit }
    END { if (at <= n && want[at] == "...") at++
          if (at <= n) { print "not found: " want[at]; exit 1 } }' "$2"
}

# One code block of the page at a time, in one folder.
guide_case() {
  local block=0 line

  need python3
  python3 -S -c 'import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 14))' ||
    skip "CPython 3.8 to 3.13"
  need addr2line
  grep -q '^CMAKE_C_COMPILER:.*clang' "$build/CMakeCache.txt" && skip "a build by gcc, which inlines as the guide shows"
  for line in interim_linked growing_shared killed_shared leaky_shared pipeline_shared \
    peaks_linked; do
    need_file "$apps/$line"
    ln -s "$apps/$line" .
  done
  sed -n '/^```python$/,/^```$/p' "$sources/docs/guide.md" | grep -v '^```' >model.py
  cmp model.py "$apps/model.py" || fail "the program on the page is not tests/apps/model.py"
  awk '/^```sh$/ { n++; inside = 1; next } /^```$/ { inside = 0 }
       inside { print > ("block" n) }' "$sources/docs/guide.md"
  # At a terminal, as a reader's is, the command waits for the report of a program that was killed.
  mkdir bin
  printf '#!/bin/sh\nexec %q --watch=parent "$@"\n' "$sources/scripts/gpushim" >bin/gpushim
  chmod +x bin/gpushim
  for block in block*; do
    sed -n 's/^\$ //p' "$block" >commands
    grep -v '^\$ ' "$block" | guide_form >expected
    run_in "$block" PATH="$case_dir/bin:$PATH" GPUSHIM_LIBRARY="$shim" CUDASIM_MEMORY=512M \
      CUDASIM_DEVICES=1 -- bash -c "exec 2>&1; . ./commands"
    guide_form <"$block.out" >found
    guide_compare expected found && continue
    cat "$block.out"
    fail "$block of docs/guide.md prints something else"
  done
  [[ $(echo block*) == *block9* ]] || fail "fewer blocks than the page has"
}
add_case "guide" guide_case

# What a reader types first, in a built tree.
guide_tree_case() {
  [[ -x $build/../scripts/gpushim && -x $build/../build/gpushim ]] || skip "a build folder in the sources"
  awk '/^```/ { if (inside) exit; inside = 1; next } inside' "$sources/docs/guide.md" >block
  expect_text block '^cd build/apps$'
  mkdir tree
  ln -s "$build" tree/build
  run_in tree LD_LIBRARY_PATH= -- bash -ec 'cd tree; . ../block; gpushim ./leaky_shared; gpushim ./interim_linked oom'
  expect_status tree 0
  sed '/interim_linked/,$d' tree.err >leaky.err
  expect_leaks leaky.err "$sources/tests/apps/leaky.c"
  expect_text tree.err 'failed, 12.0 MiB of 512 MiB free$'
}
add_case "guide in a built tree" guide_tree_case
