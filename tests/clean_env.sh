# shellcheck shell=bash disable=SC2034  # settings and command are used by the callers
#
# clean_env.sh - how a program is run in an environment of its own: by the end-to-end tests
# (tests/e2e/lib.sh) and by gpu-check (tests/gpu/parts/compare.sh).

# clean_env HOME LIBRARIES [NAME...] -- [VAR=value...] -- COMMAND...: sets `settings`, the
# variables it has and no others: PATH, HOME, LC_ALL, LD_LIBRARY_PATH, the caller's of these
# names, those given; and `command`. Both are local to the caller.
clean_env() {
  settings=(PATH="$PATH" HOME="$1" LC_ALL=C LD_LIBRARY_PATH="$2")
  shift 2
  while [[ $1 != -- ]]; do
    settings+=("$1=${!1}")
    shift
  done
  shift
  while [[ $1 != -- ]]; do
    add_setting "$1"
    shift
  done
  shift
  command=("$@")
}

# add_setting VAR=value: adds it to `settings`. The items of some lists join those that are there, and replace those of
# the same word; what has no colon and is no switch is the list's one value without a word.
add_setting() {
  local name=${1%%=*} i

  for i in "${!settings[@]}"; do
    case ${settings[i]} in
      GPUSHIM_CHECK=* | GPUSHIM_STACK=* | GPUSHIM_SYMBOLIZE=* | GPUSHIM_FREE_SYNC=*)
        [[ ${settings[i]} != "$name"=* ]] || break
        ;;
    esac
    i=
  done
  if [[ ${i-} ]]; then
    join_items "${settings[i]#*=}" "${1#*=}"
    settings[i]=$name=$items
  else
    settings+=("$1")
  fi
}

# join_items OLD NEW: sets `items`.
join_items() {
  local IFS=, kept=() old new

  for old in $1; do
    for new in $2; do
      [[ $(word_of_item "$old") != "$(word_of_item "$new")" ]] || continue 2
    done
    kept+=("$old")
  done
  items="${kept[*]}${kept[*]:+,}$2"
}

word_of_item() {
  case $1 in
    *:* | args | transfers | free | python) echo "${1%%:*}" ;;
    *) echo ;;
  esac
}

# python_itself: lets PATH find the interpreter that python3 stands for. pyenv's python3 is a script that
# starts fifteen processes first, in twice the time the interpreter needs to start.
python_itself() {
  local interpreter

  interpreter=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)
  [[ ! -x $interpreter || $interpreter -ef $(command -v python3) ]] || PATH=${interpreter%/*}:$PATH
}

# default_signals COMMAND...: starts the command, the script itself, anew where a signal is ignored, by nohup or by
# a script that started the tests with `&`: so it would be in the programs, and some wait for it.
default_signals() {
  local ignored

  ignored=$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status 2>/dev/null)
  if (((16#0${ignored: -4} & 0x4007) != 0)) && env --default-signal true 2>/dev/null; then
    exec env --default-signal=HUP,INT,QUIT,TERM "$@"
  fi
}
