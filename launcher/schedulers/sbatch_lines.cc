#include "launcher/schedulers/sbatch_lines.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace hookline {
namespace {

/// The words of all arguments. One argument may hold several options, as a line of a script may: "--gpus 4
/// --mem=1G".
std::vector<std::string> words_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    std::istringstream in(argument);
    for (std::string word; in >> word;) words.push_back(word);
  }
  return words;
}

bool names_any(const std::string& word, const auto& options) {
  return std::any_of(options.begin(), options.end(),
                     [&](std::string_view option) { return names_option(word, option); });
}

bool is_short(const std::string& word, char letter) {
  return word.size() > 1 && word[0] == '-' && word[1] == letter;
}

bool asks_for_cpus(const std::string& word) {
  static constexpr std::array<std::string_view, 2> kOptions = {"--cpus-per-task", "--cpus-per-gpu"};
  return is_short(word, 'c') || names_any(word, kOptions);
}

bool asks_for_gpus(const std::string& word) {
  static constexpr std::array<std::string_view, 4> kOptions = {"--gpus", "--gpus-per-node", "--gpus-per-task",
                                                               "--gpus-per-socket"};
  return is_short(word, 'G') || names_any(word, kOptions);
}

/// Options that ask for a resource by name. Of each, sbatch uses only the last one.
bool asks_by_name(const std::string& word) {
  static constexpr std::array<std::string_view, 2> kOptions = {"--gres", "--tres-per-task"};
  return names_any(word, kOptions);
}

/// Does `whole`, such as "--tres-per-task=gres/gpu:4,cpu:3", ask for a resource whose name begins with
/// `name`?
bool lists_resource(const std::string& whole, std::string_view name) {
  for (auto at = whole.find(name); at != whole.npos; at = whole.find(name, at + 1))
    if (at > 0 && (whole[at - 1] == '=' || whole[at - 1] == ',' || whole[at - 1] == ' ')) return true;
  return false;
}

}  // namespace

std::vector<LayoutOption> layout_options(const std::vector<std::string>& arguments) {
  static constexpr std::array<std::string_view, 1> kNodes = {"--nodes"};
  static constexpr std::array<std::string_view, 2> kTasks = {"--ntasks-per-node", "--ntasks"};
  std::vector<LayoutOption> options;
  const std::vector<std::string> words = words_of(arguments);
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_of_nodes = is_short(*word, 'N') || names_any(*word, kNodes);
    if (!is_of_nodes && !is_short(*word, 'n') && !names_any(*word, kTasks)) continue;
    const std::size_t value = word->starts_with("--") ? word->find('=') : 1;
    const bool is_alone = value == word->npos || value + 1 == word->size();
    options.push_back({*word, is_of_nodes,
                       !is_alone                 ? word->substr(value + 1)
                       : word + 1 != words.end() ? *(word + 1)
                                                 : ""});
  }
  return options;
}

std::string log_option(const std::vector<std::string>& arguments) {
  static constexpr std::array<std::string_view, 2> kLogs = {"--output", "--error"};
  for (const std::string& word : words_of(arguments))
    if (is_short(word, 'o') || is_short(word, 'e') || names_any(word, kLogs)) return word;
  return "";
}

std::string export_option(const std::vector<std::string>& arguments) {
  constexpr std::string_view kExport =
      "--export";  // sbatch refuses abbreviations, which could be --export-file too
  std::string value;
  const std::vector<std::string> words = words_of(arguments);
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == kExport && word + 1 != words.end()) value = *(word + 1);
    if (word->starts_with(std::string(kExport) + "=")) value = word->substr(kExport.size() + 1);
  }
  return value;
}

bool names_option(std::string_view argument, std::string_view option) {
  constexpr std::size_t kLeast = 4;
  const std::string_view name = argument.substr(0, argument.find('='));
  return name.size() >= kLeast && option.starts_with(name);
}

SbatchLines sbatch_lines(const NodeResources& needed, const std::vector<std::string>& arguments) {
  SbatchLines lines;
  bool cpus_are_asked_for = false;
  std::string without_gpus;
  const std::vector<std::string> words = words_of(arguments);
  for (auto word = words.begin(); word != words.end(); ++word) {
    cpus_are_asked_for = cpus_are_asked_for || asks_for_cpus(*word);
    lines.user_asks_for_gpus = lines.user_asks_for_gpus || asks_for_gpus(*word);
    if (!asks_by_name(*word)) continue;
    const bool is_alone = word->find('=') == word->npos && word + 1 != words.end();
    const std::string whole = is_alone ? *word + " " + *(word + 1) : *word;
    if (!word->starts_with("--g") && lists_resource(whole, "cpu")) cpus_are_asked_for = true;
    if (whole.find("gpu") != whole.npos)
      lines.user_asks_for_gpus = true;
    else if (word->starts_with("--g"))
      without_gpus = whole;
  }
  for (const std::string& argument : arguments)
    lines.arguments += (lines.arguments.empty() ? "" : "\n") + ("#SBATCH " + argument);
  if (!cpus_are_asked_for) lines.cpus = "#SBATCH --cpus-per-task=" + std::to_string(needed.cpus);
  if (needed.gpus == 0 || lines.user_asks_for_gpus) return lines;
  const std::string gpus = "gpu:" + std::to_string(needed.gpus);
  if (without_gpus.empty())
    lines.gpus = "#SBATCH --gres=" + gpus;
  else
    lines.warning = "the job asks Slurm for no GPU, though its ranks use " + std::to_string(needed.gpus) +
                    " on a node: '" + without_gpus + "' takes the place of --gres=" + gpus + "; add " + gpus +
                    " to it";
  return lines;
}

}  // namespace hookline
