#include "launcher/schedulers/job_environment.h"

#include <algorithm>
#include <cstdlib>

#include "config/resolve.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {
namespace {

/// The parts of `text` between commas. Commas in single quotes do not count.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '\'')
      is_quoted = !is_quoted;
    else if (c == ',' && !is_quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// sbatch accepts ALL, NIL and NONE in upper or lower case.
bool is_word(const std::string& text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a >= 'a' && a <= 'z' ? a - 'a' + 'A' : a) == b; });
}

void set(Variables& variables, const std::string& name, const std::string& value) {
  std::erase_if(variables, [&](const auto& each) { return each.first == name; });
  variables.emplace_back(name, value);
}

/// `entry`: "NAME", for the value in `here`, or "NAME=VALUE".
void pass(const Variables& here, const std::string& entry, Variables& passed) {
  if (const auto equals = entry.find('='); equals != entry.npos)
    return set(passed, entry.substr(0, equals), entry.substr(equals + 1));
  for (const auto& [name, value] : here)
    if (name == entry) set(passed, name, value);
}

}  // namespace

Variables variables_for_jobs() {
  Variables variables = hookline_environment();
  for (const char* name : {"OMP_NUM_THREADS", "SBATCH_EXPORT"})
    if (const char* value = std::getenv(name)) variables.emplace_back(name, value);
  return variables;
}

std::optional<std::string> value_of(const Variables& variables, std::string_view name) {
  for (const auto& [key, value] : variables)
    if (key == name) return value;
  return std::nullopt;
}

Variables exported_by_sbatch(const Variables& here, const std::vector<std::string>& arguments) {
  const std::string outranking = value_of(here, "SBATCH_EXPORT").value_or("");
  const std::string choice = outranking.empty() ? export_option(arguments) : outranking;
  if (choice.empty()) return here;
  if (is_word(choice, "NONE") || is_word(choice, "NIL")) return {};
  const std::vector<std::string> entries = parts_of(choice);
  const bool is_all =
      std::any_of(entries.begin(), entries.end(), [](const auto& each) { return is_word(each, "ALL"); });
  Variables passed = is_all ? here : Variables();
  for (const std::string& entry : entries) pass(here, entry, passed);
  return passed;
}

Variables passed_by_mpirun(const Variables& here, const std::vector<std::string>& arguments) {
  Variables passed;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const std::string option = word->starts_with("--") ? word->substr(1) : *word;
    if (option == "-genvall") return here;
    const auto value = word + 1;
    if (value == arguments.end()) break;
    if (option == "-x") pass(here, *value, passed);
    if (option == "-genv" && value + 1 != arguments.end()) set(passed, *value, *(value + 1));
    if (option != "-genvlist") continue;
    for (const std::string& name : parts_of(*value)) pass(here, name, passed);
  }
  return passed;
}

std::vector<std::string> lost_variables(const Variables& here, const Variables& passed) {
  std::vector<std::string> lost;
  for (const auto& [name, value] : here)
    if (!value_of(passed, name) && sets_keys(name)) lost.push_back(name);
  return lost;
}

}  // namespace hookline
