// Finds the commands of a script that start a launcher, and launchers that can't be imported.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "launcher/import/launch_line.h"

namespace hookline {
namespace {

constexpr int kDeepestCommand = 10;  // levels of text that is run as a command

std::string name_of(const std::string& word) { return word.substr(word.rfind('/') + 1); }

/// The text inside "$(…)", "`…`" or "<(…)".
std::string inside_of(const std::string& text) {
  const std::size_t begin = text.starts_with('`') ? 1 : text.find('(') + 1;
  return begin == 0 || text.size() <= begin ? "" : text.substr(begin, text.size() - begin - 1);
}

/// The program that a word names, even as `$(which torchrun)`.
std::string program_of(const ShellWord& word) {
  if (!word.is_open || (!word.text.starts_with("$(") && !word.text.starts_with('`'))) return word.text;
  std::istringstream words(inside_of(word.text));
  std::string command, name, more;
  words >> command >> name;
  if (command == "command" && name == "-v")
    words >> name;
  else if (command != "which")
    return word.text;
  return name.empty() || words >> more ? word.text : name;
}

/// Is the name at `begin` only an argument of the words before it, which do not start it?
bool only_mention(const std::vector<ShellWord>& words, std::size_t begin) {
  static const std::set<std::string> kNames = {
      "echo", "printf", "which", "type",     "alias",   "man",      "grep",     "pkill", "pgrep", "killall",
      "pip",  "pip3",   "[",     "[[",       "test",    "ls",       "find",     "ln",    "cp",    "mv",
      "rm",   "cat",    "chmod", "basename", "dirname", "realpath", "readlink", "ps",    "pidof", "hash"};
  static const std::set<std::string> kWithRun = {"conda", "mamba", "micromamba", "poetry", "pixi"};
  if (begin == 0) return false;
  const std::string first = name_of(words[0].text);
  if (first == "command") return words[1].text.starts_with("-v") || words[1].text.starts_with("-V");
  if (!kWithRun.contains(first)) return kNames.contains(first);
  return std::none_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin),
                      [](const ShellWord& word) { return word.text == "run"; });
}

/// Where the words of a command name a launcher: from, to, and which one.
struct Named {
  std::size_t begin = 0, end = 0;
  std::string launcher;
};

std::optional<Named> launcher_in(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = program_of(words[i]);
    const bool is_torch_module = word == "torch.distributed.run" || word == "torch.distributed.launch";
    const bool is_accelerate_module = word == "accelerate.commands.launch";
    const bool is_torchrun = is_program(word, "torchrun");
    Named named{i, i + 1, is_torchrun || is_torch_module ? "torchrun" : "accelerate launch"};
    if (is_program(word, "accelerate") && i + 1 < words.size() && words[i + 1].text == "launch")
      ++named.end;
    else if (!is_torchrun && !is_program(word, "accelerate-launch") && !is_torch_module &&
             !is_accelerate_module)
      continue;
    std::size_t begin = i;  // may start earlier: "python -u -m MODULE", "python /usr/bin/torchrun"
    while (begin > 0 && words[begin - 1].text.starts_with("-")) --begin;
    const bool has_python = begin > 0 && is_python(program_of(words[begin - 1]));
    if (has_python || is_torch_module || is_accelerate_module) named.begin = begin - (has_python ? 1 : 0);
    return named;
  }
  return std::nullopt;
}

/// Commands that affect what later commands find.
bool prepares(const std::string& first) {
  static const std::set<std::string> kNames = {"cd",    "pushd",      "source", ".",     "module", "conda",
                                               "mamba", "micromamba", "ulimit", "umask", "eval"};
  return kNames.contains(first);
}

std::string text_of(const ShellCommand& command) {
  std::string text;
  for (const ShellWord& word : command.words) text += (text.empty() ? "" : " ") + word.as_written;
  return text;
}

/// The index of a program in `words` that runs text as a command; their size if there is none.
std::size_t text_runner_in(const std::vector<ShellWord>& words) {
  static const std::set<std::string> kNames = {"bash", "sh",     "zsh",  "dash",   "ksh",    "ash",  "su",
                                               "ssh",  "sbatch", "tmux", "screen", "script", "watch"};
  return static_cast<std::size_t>(
      std::find_if(words.begin(), words.end(),
                   [](const ShellWord& word) { return kNames.contains(name_of(word.text)); }) -
      words.begin());
}

bool starts_a_launch(const std::string& text, int depth);

/// Does text that a command runs, as in `bash -c "torchrun …"` or in a here-document of `ssh`, start a
/// launcher? `named`: where the command's own words name one.
bool has_launch_in_text(const ShellScript& script, std::size_t i, std::size_t runner,
                        const std::optional<Named>& named, int depth) {
  const std::vector<ShellWord>& words = script.commands[i].words;
  bool has_command_option = false;
  for (std::size_t at = runner + 1; at < words.size(); ++at) {
    const std::string& text = words[at].text;
    if (named && named->begin == at) return has_command_option;
    has_command_option =
        has_command_option || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'));
    constexpr std::string_view kWrap = "--wrap=";
    if (text.find_first_of(" \t\n;") != text.npos &&
        starts_a_launch(text.starts_with(kWrap) ? text.substr(kWrap.size()) : text, depth))
      return true;
  }
  std::vector<std::string> texts = script.commands[i].here_documents;
  if (i > 0 && script.commands[i - 1].into_pipe)
    texts.insert(texts.end(), script.commands[i - 1].here_documents.begin(),
                 script.commands[i - 1].here_documents.end());
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return starts_a_launch(text, depth); });
}

/// The variables that are exported when the script reaches a command.
std::vector<std::pair<std::string, ShellWord>> exported_at(const ShellScript& script, std::size_t command) {
  std::map<std::string, ShellWord> exported;
  for (const ShellExport& change : script.exports) {
    if (change.command > command) break;
    if (change.value)
      exported[change.name] = *change.value;
    else
      exported.erase(change.name);
  }
  return {exported.begin(), exported.end()};
}

std::vector<LaunchLine> lines_in(const ShellScript& script, int depth) {
  for (const auto& [line, text] : script.substitutions)
    if (starts_a_launch(inside_of(text), depth))
      throw ImportError("line " + std::to_string(line) +
                        ": a launcher runs inside $(...), which a config can't replace: write its command on "
                        "a line of its own");
  std::vector<LaunchLine> lines;
  std::vector<std::string> preparations;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    const auto named = launcher_in(command.words);
    if (command.words[0].text == "eval" && (named || text_of(command).find("torchrun") != std::string::npos ||
                                            text_of(command).find("accelerate") != std::string::npos))
      throw ImportError(
          "line " + std::to_string(command.line) +
          ": eval runs text as a command, and an import runs nothing: write the command itself in its place");
    const std::size_t runner = text_runner_in(command.words);
    if (runner < command.words.size() && (!named || runner < named->begin) &&
        !only_mention(command.words, runner) && has_launch_in_text(script, i, runner, named, depth))
      throw ImportError(
          "line " + std::to_string(command.line) + ": " + name_of(command.words[runner].text) +
          " runs text as a command, and an import runs nothing: write the command itself in its place");
    if (!named && prepares(command.words[0].text)) preparations.push_back(text_of(command));
    if (!named || only_mention(command.words, named->begin)) continue;
    LaunchLine line;
    line.launcher = named->launcher;
    line.line = command.line;
    if (lines.empty()) {
      line.environment = exported_at(script, command.in_function ? script.commands.size() : i);
      line.preparations = preparations;
    }
    line.environment.insert(line.environment.end(), command.assignments.begin(), command.assignments.end());
    const auto words = command.words.begin();
    line.before.assign(words, words + static_cast<std::ptrdiff_t>(named->begin));
    line.arguments.assign(words + static_cast<std::ptrdiff_t>(named->end), command.words.end());
    line.empty_defaults = command.empty_defaults;
    line.redirections = command.redirections;
    line.into_pipe = command.into_pipe;
    line.in_background = command.in_background;
    line.cut_at_line = command.cut_at_line;
    line.inside = command.inside;
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Does the text start a launcher? If it can't be parsed: may it?
bool starts_a_launch(const std::string& text, int depth) {
  if (text.find("torch") == text.npos && text.find("accelerate") == text.npos) return false;
  if (depth == kDeepestCommand) return true;
  try {
    return !lines_in(read_shell_script(text), depth + 1).empty();
  } catch (const ImportError&) {
    return text.find("torchrun") != text.npos || text.find("accelerate") != text.npos;
  }
}

}  // namespace

bool is_python(const std::string& word) {
  const std::string name = name_of(word);
  return name.starts_with("python") || name == "pypy3";
}

std::vector<LaunchLine> launch_lines_in(const ShellScript& script) { return lines_in(script, 0); }

}  // namespace hookline
