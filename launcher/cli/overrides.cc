#include "launcher/cli/overrides.h"

#include <map>

#include "launcher/cli/arguments.h"

namespace hookline {

std::vector<Override> overrides_from_sets(const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  for (const std::string& text : sets) {
    const Assignment assignment = split_assignment(text, "--set", "ddp.comm_hook=fp16");
    overrides.push_back({assignment.key, assignment.value, "--set " + assignment.key});
  }
  return overrides;
}

std::vector<Override> overrides_from_state_options(const std::vector<std::string>& state_options) {
  std::vector<Override> overrides;
  for (const std::string& text : state_options) {
    const Assignment option = split_assignment(text, "--state-option", "matrix_approximation_rank=2");
    overrides.push_back(
        {"ddp.comm_state_option." + option.key, option.value, "--state-option " + option.key});
  }
  return overrides;
}

void expect_each_key_once(const std::vector<Override>& overrides) {
  std::map<std::string, std::string> where;
  for (const Override& each : overrides)
    for (const std::string& key : keys_of(each)) {
      const auto [first, is_first] = where.emplace(key, each.where);
      if (!is_first)
        throw UsageError(key + " is given twice: by " + first->second +
                         (first->second == each.where ? "" : " and by " + each.where));
    }
}

}  // namespace hookline
