# shellcheck shell=bash disable=SC2154,SC2016
# SC2154: what lib.sh sets; SC2016: words for sed
#
# readme.sh - README.md and the other pages a visitor reads first: every command of README.md
# runs and prints what stands there, its pictures are what programs print now, and every link
# between pages leads somewhere. guide.sh compares the output.

uses library guide stages

# readme_section TITLE: the lines of a section.
readme_section() {
  awk -v title="## $1" '/^## / { inside = ($0 == title); next } inside' "$sources/README.md"
}

# Commands that no case runs as they stand, and why.
declare -gA readme_elsewhere=(
  [scripts/demo]='scripts/test runs it, in its stage tools'
  [scripts/test]='it runs this case'
)

# The folder in which a reader types: the programs, and files that the commands name.
readme_folder() {
  local name

  need python3
  python3 -S -c 'import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 15))' ||
    skip "CPython 3.8 to 3.14"
  need addr2line
  mkdir bin
  ln -s "$(command -v python3)" bin/python
  for name in leaky_shared interim_linked growing_shared badargs_shared hitpair_shared; do
    need_file "$apps/$name"
    ln -s "$apps/$name" .
  done
  ln -s leaky_shared app
  cp "$apps/model.py" model.py
  cp model.py train.py
  echo 'leak:leaky.c' >known.txt
}

# readme_run PREFIX COMMANDS: as a reader types them.
readme_run() {
  run_in "$1" PATH="$case_dir/bin:$sources/scripts:$PATH" GPUSHIM_LIBRARY="$shim" \
    CUDASIM_MEMORY=512M CUDASIM_DEVICES=1 -- bash -c "exec 2>&1; $2"
}

# The section Use: each block prints the lines below its command.
readme_use_case() {
  local block

  readme_folder
  readme_section Use | sed -E 's/^  //' | awk '/^```sh$/ { n++; inside = 1; next }
    /^```$/ { inside = 0 } inside { print > ("block" n) }'
  [[ -e block7 ]] || fail "fewer blocks than the section has"
  for block in block*; do
    readme_run "$block" "$(sed -n 's/^\$ //p' "$block")"
    expect_text "$block.out" '^==[0-9]+== SUMMARY: gpushim: '
    grep -v '^\$ ' "$block" | guide_form >expected
    guide_form <"$block.out" >found
    guide_compare expected found && continue
    cat "$block.out"
    fail "$block of README.md prints something else"
  done
}
add_case "readme use" readme_use_case

# The table: each option is one, does what it needs to, and leaves the program as it is.
readme_goals_case() {
  local command number=0

  readme_folder
  readme_section 'I want to ...' | grep '^|' | grep -oE '`gpushim [^`]+`' | tr -d '`' >commands
  [[ $(wc -l <commands) -ge 10 ]] || fail "fewer commands than the table has"
  native native ./app
  while read -r command; do
    number=$((number + 1))
    if [[ $command == *' html '*.trace* ]]; then # what the command before it recorded
      readme_run "$number" "$command"
      expect_text "$number.out" '^gpushim: wrote app[.]trace[.]html '
      continue
    elif [[ $command == *' html '* ]]; then
      cp gpushim.*.json "${command##* }"
      readme_run "$number" "$command"
      expect_text "$number.out" '^gpushim: wrote gpushim[.]4711[.]html '
      continue
    elif [[ $command == *' diff '* ]]; then
      cp gpushim.4711.json main.json
      cp gpushim.4711.json branch.json
      readme_run "$number" "$command"
      expect_text "$number.out" '^SUMMARY: gpushim diff: 0 new, 0 grown, 0 shrunk, 0 gone, [1-9]'
      continue
    elif [[ $command == *' top' ]]; then
      readme_run "$number" "$command"
      expect_text "$number.out" '^gpushim top .* [0-9]+ process(es)?, .* live, ' # other tests' programs answer
      continue
    elif [[ $command == *' attach PID' ]]; then
      sleep 60 &
      readme_run "$number" "${command/PID/$!}"
      expect_text "$number.out" "^$!: attached: no CUDA driver is loaded yet"
      kill $!
      continue
    elif [[ $command == *' '@(pause|dump)' PID' ]]; then # what they do to a program: pause.sh, control.sh
      readme_run "$number" "${command/PID/$$}"
      expect_text "$number.out" "^gpushim: process $$: it (does not use CUDA|runs without libgpushim.so [(]gpushim attach .*)\$"
      continue
    fi
    readme_run "$number" "$command; echo status \$?"
    expect_text "$number.out" "^status $([[ $command == *exitcode* ]] && echo 3 || echo 0)$"
    [[ $command == *--verbose* ]] || expect_no_text "$number.out" '^gpushim: '
    [[ $command == *' report '* || $command == *python* ]] || expect_text "$number.out" "^$(<native.out)$"
    [[ $command == *log-file* ]] && cat report.* >"$number.out"
    expect_text "$number.out" '^==[0-9]+== SUMMARY: gpushim: '
  done <commands
  expect_count 2.out '^==[0-9]+== Suppressed: 7 allocations' 1
  [[ -n $(echo gpushim.*.json) && -n $(echo gpushim.*.pb) ]] || fail 'no files for machines'
}
add_case "readme goals" readme_goals_case

# What users look for is in one line with what they need for it, in README.md or --help. Both are short: a
# reader finds a line by its first words.
readme_tasks_case() {
  local words command

  run_in help -- "$build/gpushim" --help
  sed -n '/^## Install/,$p' "$sources/README.md" >page
  while IFS='|' read -r words command; do
    grep -hE "$words" page help.out >found || fail "no line has: $words"
    grep -qF -- "$command" found || fail "no $command where README.md or --help have: $words"
  done <<'END'
fail CI|gpushim --error-exitcode=3 ./app
fail CI|--error-exitcode=NUMBER
ctest, pytest|docs/guide.md#ctest-and-pytest
grows|gpushim --stats-interval=1m ./app
grows|--stats-interval=TIME
kill -9|gpushim report run.state
kill -9|--state-file=FILE
PyTorch|gpushim python train.py
cap the GPU memory|gpushim --mem-limit=8G ./app
cap the GPU memory|--mem-limit=SIZE
Docker|docs/clusters.md#docker-and-podman
systemd|docs/clusters.md#systemd
the peak|gpushim --verbose=2 ./app
the peak|--verbose=2
over time|gpushim html app.trace app.state
Uninstall|docs/faq.md#how-do-i-uninstall-it
CMake|docs/api.md#cmake-and-pkg-config
NVTX|gpushim --nvtx ./app
editors|--full-paths
Ctrl-C|gpushim ./app
END
  [[ $(wc -w <"$sources/README.md") -le 900 ]] || fail 'README.md has more than 900 words'
  sed -n '/^| ---/,/^$/p' page | cut -d'|' -f2 >goals
  [[ $(wc -w <goals) -le 90 ]] || fail "the goals' first column has more than 90 words"
}
add_case "readme tasks" readme_tasks_case

# Commands within the text.
readme_inline_case() {
  local command number=0

  readme_folder
  grep -v '^|' "$sources/README.md" | grep -oE '`gpushim [^`]+`' | tr -d '`' >commands
  [[ $(wc -l <commands) -ge 2 ]] || fail "fewer commands than the page has"
  readme_run record 'gpushim --trace-file=trace ./app'
  while read -r command; do
    number=$((number + 1))
    readme_run "$number" "$command"
    expect_status "$number" 0
    expect_text "$number.out" .
    expect_no_text "$number.out" '^gpushim: '
  done <commands
}
add_case "readme inline" readme_inline_case

# Every variable in README.md is an option, and every command outside the sections above is
# one that readme_elsewhere knows.
readme_words_case() {
  local word

  sed 's/-DGPUSHIM_[A-Z]*//' "$sources/README.md" | grep -oE 'GPUSHIM_[A-Z_]+' | sort -u >words
  [[ -s words ]] || fail 'no variables'
  while read -r word; do
    grep -q "^- \*\*\`$word\`\*\*" "$sources/docs/options.md" || fail "no option: $word"
  done <words
  sed '/^## Install$/,$d' "$sources/README.md" | sed -n '/^```$/,/^```$/p' | grep -v '^```' |
    awk '{ print $1 }' >first
  [[ -s first ]] || fail 'no commands'
  while read -r word; do
    [[ -n ${readme_elsewhere[$word]-} && -x $sources/$word ]] || fail "nothing runs $word"
    echo "$word: ${readme_elsewhere[$word]}"
  done <first
}
add_case "readme words" readme_words_case

# There is one version: that of CMakeLists.txt.
readme_version_case() {
  local version

  version=$(sed -n 's/^project(gpushim VERSION \([0-9.]*\).*/\1/p' "$sources/CMakeLists.txt")
  run_in launcher -- "$build/gpushim" --version
  expect_text launcher.out "gpushim $version$"
  preloaded shim -- "$apps/leaky_shared"
  expect_text shim.err "^==[0-9]+== gpushim $version: "
  expect_equal 'CHANGELOG.md' "$version" \
    "$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$sources/CHANGELOG.md" | head -n 1)"
  expect_text "$sources/README.md" "^Version ${version}[, ]"
  expect_text "$sources/include/python/gpushim/__init__.py" "^__version__ = \"$version\""
}
add_case "readme version" readme_version_case

# Every setting on the pages for newcomers is one: the library has nothing to say about it.
readme_settings_case() {
  local setting number=0

  grep -ohE '\bGPUSHIM_[A-Z_]+=[^` ;]+' "$sources"/README.md \
    "$sources"/docs/{faq,limits,comparison,migration,clusters}.md | sort -u |
    grep -vE '_(FILE|LIBRARY)=' >settings
  [[ $(wc -l <settings) -ge 20 ]] || fail "fewer settings than the pages have"
  native native "$apps/pipeline_shared"
  while read -r setting; do
    number=$((number + 1))
    preloaded "$number" GPUSHIM_OUTPUT_FILE=out.%p "$setting" -- "$apps/pipeline_shared"
    expect_same native "$number"
    expect_no_text "$number.err" "^gpushim: .*${setting%%=*}"
  done <settings
}
add_case "readme settings" readme_settings_case

# The wheel is installed: it finds a leak, Python finds its module, and it goes without a trace.
# `before` lists what the environment had without it.
use_wheel() {
  find_leak "$case_dir/venv/bin/gpushim"
  run_in python -- "$case_dir/venv/bin/gpushim" "$case_dir/venv/bin/python3" -B -c \
    'import gpushim; print("from Python,", gpushim.version())'
  expect_text python.out '^from Python, [0-9]+[.][0-9]+[.][0-9]+$'
  run_in module -- "$case_dir/venv/bin/python3" -m gpushim --version
  expect_text module.out '^gpushim [0-9.]+$'
  venv/bin/pip uninstall --quiet -y gpushim >pip.log 2>&1 || { cat pip.log && fail 'pip uninstall'; }
  find venv ! -name '*.pyc' | sort | cmp -s - before || fail 'pip uninstall left something behind'
}

# The variables that the command prints work without it, wherever this system's libraries are installed.
without_command() {
  local command

  command=$("$1" --print "$apps/leaky_shared")
  run_in printed -- sh -c "$command"
  expect_text printed.err '^==[0-9]+== SUMMARY: gpushim: 0 errors, 28[.]5 MiB leaked'
}

# uninstall_by WORD: the command of docs/faq.md that begins with it.
uninstall_by() {
  local command

  command=$(grep -oE "\`$1 [^\`]*\`" "$sources/docs/faq.md" | tr -d '`')
  [[ -n $command ]] || fail "docs/faq.md has no $1"
  (cd tree && PATH=$case_dir/bin:$PATH bash -ec "$command") >uninstall.log 2>&1 ||
    { cat uninstall.log && fail "ends otherwise: $command"; }
}

# The uninstallation of docs/faq.md leaves nothing of what was installed. The package was made in between, and
# has a list of files of its own.
uninstall() {
  uninstall_by xargs
  [[ -z $(find .local ! -type d) ]] || { find .local ! -type d && fail 'files remain'; }
  [[ -e root/usr/bin/gpushim ]] || fail 'the package is gone'
  command -v apt >/dev/null || return 0
  uninstall_by sudo
  [[ -z $(find root ! -type d ! -path 'root/var/*') ]] || { find root ! -type d && fail 'files of the package remain'; }
}

# write_sudo: bin/sudo, by which dpkg and apt take the folder `root` for the machine's root.
write_sudo() {
  mkdir -p bin root/var/lib/dpkg/{info,updates} root/var/lib/apt/lists root/var/cache/apt/archives root/var/log/apt
  : >root/var/lib/dpkg/status
  cat >bin/sudo <<SH
#!/bin/sh
root=$(printf %q "$case_dir/root")
SH
  cat >>bin/sudo <<'SH'
program=$1
shift
[ "$program" = apt ] || exec "$program" --root="$root" --force-depends --force-not-root "$@"
exec apt -y -o Dir::State="$root/var/lib/apt" -o Dir::State::status="$root/var/lib/dpkg/status" \
  -o Dir::Cache="$root/var/cache/apt" -o Dir::Log="$root/var/log/apt" -o DPkg::Options::=--root="$root" \
  -o DPkg::Options::=--force-depends -o DPkg::Options::=--force-not-root "$@"
SH
  chmod +x bin/sudo
}

# readme_install_case build|wheel: the commands of the section Install as they stand, in a copy
# of the sources and a home of their own. sudo installs the package below a folder.
readme_install_case() {
  local line

  need cpack
  need dpkg
  copy_sources tree
  write_sudo
  [[ ! -e $sources/.cuda ]] || ln -s "$sources/.cuda" tree/.cuda
  if [[ $1 == wheel ]]; then
    python3 -m venv venv >/dev/null 2>&1 || skip 'python3 with venv'
    venv/bin/pip download --quiet --no-deps -d probe wheel >/dev/null 2>&1 || skip 'PyPI'
    find venv ! -name '*.pyc' | sort >before
  fi
  readme_section Install | sed -n 's/^\$ //p' >commands
  [[ $(wc -l <commands) -ge 6 ]] || fail "fewer commands than the section has"
  while read -r line; do
    [[ $1 == wheel ]] || [[ $line != *scripts/wheel* ]] || continue
    [[ $1 == build ]] || [[ $line == *scripts/wheel* ]] || continue
    echo "\$ $line"
    (cd tree && HOME=$case_dir PATH=$case_dir/venv/bin:$case_dir/bin:$PATH bash -ec "$line") \
      >install.log 2>&1 </dev/null || { tail -n 30 install.log && fail "ends otherwise: $line"; }
  done <commands
  if [[ $1 == wheel ]]; then
    use_wheel
  else
    find_leak "$case_dir/.local/bin/gpushim"
    find_leak "$case_dir/root/usr/bin/gpushim"
    without_command "$case_dir/.local/bin/gpushim"
    [[ -n $(find root -name report.svg) ]] || fail 'the package has no pictures'
    [[ ! -e /etc/debian_version || -e root/usr/share/zsh/vendor-completions/_gpushim ]] ||
      fail 'the package has no completion where zsh looks'
    uninstall
  fi
}
add_long_case "readme install" readme_install_case build
add_long_case "readme wheel" readme_install_case wheel

# The pictures are what the programs print today. Without optimization their stacks have more frames.
readme_pictures_case() {
  need python3
  need addr2line
  grep -qE '^CMAKE_BUILD_TYPE:[A-Z]+=(Release|RelWithDebInfo)$' "$build/CMakeCache.txt" ||
    skip "an optimized build"
  run_in check -- "$sources/scripts/pictures" --check "$build"
  cat check.out check.err
  expect_status check 0
}
add_case "readme pictures" readme_pictures_case

# Every link of a page to a file or to a title leads there, in the sources and where they are installed.
readme_links_case() {
  local pages=$sources

  need python3
  if [[ $1 == installed ]]; then
    need cmake
    cmake --install "$build" --prefix "$case_dir/prefix" >install.log 2>&1 ||
      { cat install.log && fail "cmake --install"; }
    pages=$(dirname "$(find prefix -name SECURITY.md)")
  fi
  cat >links.py <<'PYTHON'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
pages = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("docs/results/*.md")]

def prose(page):
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)

def anchors(page):
    for title in re.findall(r"^#+ (.*)$", prose(page), flags=re.M):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")

links = 0
for page in pages:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        links += 1
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            sys.exit(f"{page.relative_to(root)}: no file: {link}")
        if anchor and anchor not in anchors(target):
            sys.exit(f"{page.relative_to(root)}: no title: {link}")
print(links, "links")
sys.exit(0 if links > 100 else "fewer links than there are")
PYTHON
  run_in links -- python3 -S links.py "$pages"
  cat links.err
  expect_status links 0
}
add_case "readme links" readme_links_case sources
add_case "readme links, installed" readme_links_case installed
