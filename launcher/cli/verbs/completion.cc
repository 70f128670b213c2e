// hookline completion: a script for a shell, which asks `hookline complete-words` what may come next.
#include <iostream>
#include <map>

#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

// bash breaks words at '=' and ':' too: the script splits the line again at blanks only, and its replies
// leave out what precedes a break at '='.
constexpr const char* kBash = R"(_hookline() {
  local line=${COMP_LINE:0:COMP_POINT} word IFS=$' \t\n'
  local -a words
  read -ra words <<<"$line"
  [[ $line == *' ' ]] && words+=('')
  word=${words[-1]}
  local reply
  reply=$(hookline complete-words -- "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  if [[ $reply == ':files'* ]]; then
    compopt -o default 2>/dev/null
    return
  fi
  local head=
  [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && head=${word%=*}=
  local candidate
  while IFS=$'\t' read -r candidate _; do
    [[ -n $candidate && $candidate == "$word"* ]] && COMPREPLY+=("${candidate#"$head"}")
  done <<<"$reply"
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _hookline hookline
)";

constexpr const char* kZsh = R"(#compdef hookline
_hookline() {
  local reply line
  local -a candidates
  reply=$(hookline complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if [[ $reply == ':files'* ]]; then
    _files
    return
  fi
  for line in ${(f)reply}; do
    candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if [[ ${#candidates} -eq 1 && ${candidates[1]%%:*} == *= ]]; then
    compadd -S '' -- "${candidates[1]%%:*}"
  else
    _describe -V hookline candidates
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _hookline "$@"
else
  compdef _hookline hookline
fi
)";

constexpr const char* kFish = R"(function __hookline_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l reply (hookline complete-words -- $words[2..-1] 2>/dev/null)
    if string match -q ':files*' -- $reply[1]
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\n' $reply
end
complete -c hookline -f -a '(__hookline_complete)'
)";

}  // namespace

int completion(const Arguments& arguments) {
  VerbParser parser(
      "hookline completion bash|zsh|fish",
      "Print a script with which a shell completes verbs, flags, hooks, config keys and their values. bash: "
      "source it from ~/.bashrc; zsh: write it to a file _hookline in a folder of $fpath; fish: write it to "
      "~/.config/fish/completions/hookline.fish.",
      "source <(hookline completion bash)");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("shell", 1, 1);
  static const std::map<std::string, const char*> scripts = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  const auto script = scripts.find(parser.plain()[0]);
  if (script == scripts.end())
    throw UsageError("there is no completion for '" + parser.plain()[0] + "': choose bash, zsh or fish");
  std::cout << script->second << std::flush;
  return kSuccess;
}

}  // namespace hookline
