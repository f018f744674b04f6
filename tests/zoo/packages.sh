# shellcheck shell=bash
#
# packages.sh - what the rows of zoo.txt need: Debian's packages, commands, packages of the Python package index,
# and do-nothing math libraries. Sourced by run, which sets sources, here, build, zoo and work.
#
# Each Python package is unpacked once, into ZOO/pip/NAME==VERSION/site-packages, without what it names as
# needed. A row's Python is a virtual environment, ZOO/env/KEY, that reads the folders of its packages.

: "${sources:?set by run}" "${here:?}" "${zoo:?}" "${work:?}" "${build:?}"
pip_cache=(--no-cache-dir)
[[ -z ${PIP_CACHE_DIR-} ]] || pip_cache=()

# shellcheck source=tests/headers/fetch.sh
source "$sources/tests/headers/fetch.sh"
# shellcheck source=tests/zoo/recipes.sh
source "$here/recipes.sh"

reason_in() { { grep -im 1 error "$1" || tail -n 1 "$1" | grep . || echo "no reason given, or out of time"; } | cut -c1-150; }

# pip_into FOLDER PACKAGE...: the packages alone. Fails with the reason in `lacks`.
pip_into() {
  local folder=$1

  shift
  [[ ! -e $folder/had ]] || return 0
  rm -rf "$folder" && mkdir -p "$folder" || return
  if ! python3 -m pip install -q "${pip_cache[@]}" --no-deps --retries 2 --only-binary=:all: --no-compile \
    --target "$folder/site-packages" "$@" >"$work/pip.log" 2>&1; then
    lacks="the Python package $*: $(reason_in "$work/pip.log")"
    rm -rf "$folder"
    return 1
  fi
  : >"$folder/had"
}

# find_python WORD...: sets `env` to the environment of these packages (`pip:` and `make:`).
find_python() {
  local word folders=() folder key

  for word in "$@"; do
    case $word in
      pip:*)
        folder=$zoo/pip/${word#pip:}
        pip_into "$folder" "${word#pip:}" || return
        ;;
      make:*)
        folder=$zoo/made/${word#make:}
        [[ -e $folder/had ]] || "make_${word#make:}" "$folder" || return
        ;;
      *) continue ;;
    esac
    folders+=("$folder/site-packages")
  done
  key=$(printf '%s\n' "${folders[@]}" | cksum | cut -d' ' -f1)
  env=$zoo/env/$key
  if [[ -e $env/had ]]; then # of another checkout, maybe
    ln -sfn "$sources/include/python/gpushim" "$(echo "$env"/lib/python3*/site-packages)/gpushim"
    return 0
  fi
  rm -rf "$env"
  if ! python3 -m venv --without-pip "$env" 2>"$work/venv.log"; then
    lacks="Python with venv: $(reason_in "$work/venv.log")"
    return 1
  fi
  folder=$(echo "$env"/lib/python3*/site-packages)
  # Frames of gpushim's own module are a package's, not the program's.
  ln -s "$sources/include/python/gpushim" "$folder/gpushim"
  printf 'import site; site.addsitedir("%s")\n' "${folders[@]}" >"$folder/zoo.pth"
  : >"$env/had"
}

# find_stubs WORD...: do-nothing math libraries of what these packages need, in $env/stubs.
find_stubs() {
  local word folders=()

  [[ ! $env/stubs/had -nt $here/stubs.py ]] || return 0
  for word in "$@"; do
    [[ $word != pip:* ]] || folders+=("$zoo/pip/${word#pip:}")
  done
  if ! python3 -S "$here/stubs.py" "$env/stubs" "${folders[@]}" >"$work/stubs.log" 2>&1; then
    lacks="stubs.py: $(tail -n 1 "$work/stubs.log")"
    return 1
  fi
  : >"$env/stubs/had"
}

# find_words WORD...: what a row needs is there, or `lacks` says what is not; sets `env` and `libraries`.
find_words() {
  local word folder

  env='' libraries='' lacks=''
  for word in "$@"; do
    case $word in
      deb:*)
        [[ $(dpkg-query -W -f '${db:Status-Status}' "${word#deb:}" 2>/dev/null) == installed ]] ||
          lacks="the package ${word#deb:} (scripts/setup --zoo)"
        ;;
      cmd:*) command -v "${word#cmd:}" >/dev/null || lacks=${word#cmd:} ;;
      file:*) [[ -e $build/${word#file:} ]] || lacks="${word#file:} in ${build##*/}" ;;
      src:*) compile "${word#src:}" ;;
      made:*) [[ -e $zoo/made/${word#made:}/had ]] || "make_${word#made:}" "$zoo/made/${word#made:}" ;;
      systemd) [[ -d /run/systemd/system ]] || lacks="systemd as the first process" ;;
      pip:* | make:* | python | stubs) ;;
      *) lacks="a meaning of the word $word in zoo.txt" ;;
    esac
    [[ -z $lacks ]] || return
  done
  [[ " $* " == *' pip:'* || " $* " == *' make:'* || " $* " == *' python '* ]] || return 0
  find_python "$@" || return
  if [[ " $* " == *' stubs '* ]]; then
    find_stubs "$@" || return
    libraries=:$env/stubs
  fi
  for word in "$@"; do
    for folder in "$zoo/pip/${word#pip:}"/site-packages/nvidia/*/lib; do
      [[ ! -d $folder ]] || libraries+=:$folder
    done
  done
}
