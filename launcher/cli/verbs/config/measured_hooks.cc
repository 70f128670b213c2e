#include "launcher/cli/verbs/config/measured_hooks.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/bounded_json.h"
#include "base/error.h"
#include "launcher/process/limited_command.h"

namespace hookline {
namespace {

constexpr CommandLimits kPatience{std::chrono::seconds(600), std::chrono::minutes(10)};

}  // namespace

void measure_hooks(const std::string& program, std::int64_t parameters, Detected& here) {
  std::vector<std::string> command = {"/proc/self/exe", "advise", "--json", "--set", "logging.level=error"};
  if (program.empty())
    command.insert(command.end(), {"--parameters", std::to_string(parameters)});
  else
    command.push_back(program);
  const LimitedOutput output = output_within(command, kPatience);
  const std::size_t start = output.text.find("[\n");
  const auto advice =
      json_or_discarded<nlohmann::json>(start == std::string::npos ? "" : output.text.substr(start));
  if (output.exit_code != 0 || !output.beyond_limit.empty() || !advice.is_array() || advice.empty())
    throw Error("hooks can't be measured here: " +
                (output.beyond_limit.empty() ? output.text : "hookline advise " + output.beyond_limit));
  const auto& model = advice[0];
  for (const auto& each : model.at("settings")) {
    if (each.contains("bucket_bytes")) continue;  // the wizard leaves buckets as they are
    const auto& seconds =
        each.at("measured_seconds").is_null() ? each.at("predicted_seconds") : each.at("measured_seconds");
    if (seconds.is_null()) continue;
    const auto [known, is_first] =
        here.hook_seconds.emplace(each.at("hook").get<std::string>(), seconds.get<double>());
    if (!is_first) known->second = std::min(known->second, seconds.get<double>());
  }
}

}  // namespace hookline
