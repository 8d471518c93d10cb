# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Completion of nvlf for bash: commands, options, and the names that the tool itself knows (fabrics, devices, topologies).

# Values of "$2" in a list "$1" of `nvlf ls`; nothing where it cannot be asked.
_nvlf_names() {
    "${words[0]}" ls "$1" --json 2>/dev/null | sed -n "s/^ *\"$2\": \"\\([^\"]*\\)\",*\$/\\1/p"
}

_nvlf() {
    local cur prev words cword
    _init_completion || return
    local i command=
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
        -*) ;;
        *) command=${words[i]}; break ;;
        esac
    done
    if [[ $command == run ]]; then
        for ((i = 2; i < cword; i++)); do
            if [[ ${words[i]} == -- ]]; then _command_offset $((i + 1)); return; fi
        done
    fi
    local names=
    case $prev in
    -f | --fabric) names=$(_nvlf_names fabrics fabric) ;;
    -t | --topology) _filedir toml; names=$(_nvlf_names topologies name) ;;
    -D | --device | --devices) names=$(_nvlf_names devices name) ;;
    -d | --dir) _filedir -d; return ;;
    --group) names=$(compgen -g) ;;
    --quota) return ;;
    *)
        case $command in
        '') names='up down status ls topo run check --help --version' ;;
        up) names='--fabric --dir --topology --group --quota --foreground --json --help' ;;
        down) names='--fabric --dir --force --help' ;;
        status) names='--fabric --dir --json --help' ;;
        ls) names='devices switches links clients fabrics topologies --fabric --dir --topology --json --help' ;;
        topo) names='--fabric --dir --topology --devices --full --json --help' ;;
        run) names='--fabric --dir --topology --device --help --' ;;
        check) _filedir toml; names="$(_nvlf_names topologies name) --json --help" ;;
        esac
        ;;
    esac
    COMPREPLY+=($(compgen -W "$names" -- "$cur"))
}
complete -F _nvlf nvlf
