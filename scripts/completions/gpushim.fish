# fish completion for gpushim: its options, then the command's own completion.
set -g __gpushim_verbs help run report html timeline diff merge top stats dump owners set trace trim export release serve cdi attach detach pause resume replay advise

function __gpushim_options
    printf '%s\n' --summary --torch=tensors --nvtx --watch=parent --print --error-no-cuda --version --help
    gpushim --help=all | string match --regex --all -- '^  --[a-z-]+=?|, --no-[a-z-]+' | string replace --regex '^[ ,]*' ''
end

# Prints the first word that is no option, of those before the cursor; behind `run` is a command.
function __gpushim_word
    set -l words (commandline -opc)
    string match --invert --regex -- '^(-.*|run)$' $words[2..] | head -n 1
end

complete -c gpushim -n 'test -z (__gpushim_word)' -f -a '(__gpushim_options)'
complete -c gpushim -n 'test -z (__gpushim_word)' -f -a "$__gpushim_verbs"
complete -c gpushim -n 'test -z (__gpushim_word)' -a '(__fish_complete_command)'
complete -c gpushim -n 'contains -- (__gpushim_word) $__gpushim_verbs' -F
function __gpushim_command
    if contains -- run (commandline -opc)[2..]
        __fish_complete_subcommand --fcs-skip=2
    else
        __fish_complete_subcommand
    end
end

complete -c gpushim -n 'set -l word (__gpushim_word); and not contains -- $word $__gpushim_verbs' -x -a '(__gpushim_command)'
