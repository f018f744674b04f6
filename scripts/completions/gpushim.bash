# bash completion for gpushim: its options, then the command's own completion.
_gpushim() {
  local cur=${COMP_WORDS[COMP_CWORD]} i word

  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word != run ]] || continue # behind it is a command
    if [[ $word == @(help|report|html|timeline|diff|merge|top|stats|dump|owners|set|trace|trim|export|release|serve|cdi|attach|detach|pause|resume|replay|advise) && ${COMP_WORDS[i - 1]} != -- ]]; then
      if [[ $cur != -* ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
      fi
    elif [[ $word == -- || $word != [-=]* && ${COMP_WORDS[i - 1]} != = ]]; then
      [[ $word != -- ]] || ((i++))
      if declare -F _command_offset >/dev/null; then
        _command_offset "$i"
      fi
      return
    fi
  done
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "--summary --torch=tensors --nvtx --watch=parent --print --error-no-cuda --version --help $(
      gpushim --help=all | grep -oE '^  --[a-z-]+=?|, --no-[a-z-]+' | sed 's/^, //'
    )" -- "$cur" | sort -u)
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
  else
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -c -f -W "help run report html timeline diff merge top stats dump owners set trace trim export release serve cdi attach detach pause resume replay advise" -- "$cur" | sort -u)
  fi
}
complete -F _gpushim gpushim
