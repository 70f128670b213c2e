#include "launcher/sweep/trial_files.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/replace_durably.h"
#include "config/toml/source_text.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of both files
constexpr std::uint64_t kLargestBytes = 64 << 20;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Value>
std::optional<Value> unless_null(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<Value>());
}

Json parsed(const fs::path& file) {
  InputFile in(file, kLargestBytes);
  const std::string text = in.read_all();
  if (in.problem() != FileProblem::none) throw Error(in.why());
  const Json json = json_or_discarded<Json>(text);
  if (!json.is_object()) throw Error("it is no JSON object");
  if (json.value("format", 0) != kFormat) throw Error("it was written by another version of hookline");
  return json;
}

/// Calls `act`, and names the file in its errors.
template <class Act>
auto named(const fs::path& file, const Act& act) {
  try {
    return act();
  } catch (const std::exception& error) {  // including JSON errors
    throw Error("'" + file.string() + "' can't be used: " + error.what());
  }
}

TrialResult result_in(const Json& json, const std::string& id) {
  if (json.at("id") != id) throw Error("it belongs to the trial " + json.at("id").dump());
  TrialResult result;
  const std::string status = json.at("status").get<std::string>();
  const bool is_done = status == name_of(TrialStatus::done);
  if (!is_done && status != name_of(TrialStatus::failed))
    throw Error("its status is '" + status + "', neither 'done' nor 'failed'");
  result.status = is_done ? TrialStatus::done : TrialStatus::failed;
  result.reason = json.at("reason").get<std::string>();
  result.seconds = json.at("seconds").get<double>();
  result.judged_by = json.at("judged_by").get<std::string>();
  result.metric = unless_null<double>(json.at("metric"));
  result.ran_well = json.at("ran_well").get<bool>();
  result.step = unless_null<std::int64_t>(json.at("step"));
  result.measures = json.at("measures").dump();
  return result;
}

}  // namespace

fs::path folder_of_trial(const fs::path& sweep, const std::string& id) { return sweep / "trials" / id; }

void write_plan(const fs::path& trial, const TrialPlan& plan) {
  const PlannedTrial& planned = plan.spec.planned;
  if (first_invalid_byte(plan.folder.string()))
    throw Error("the folder '" + plan.folder.string() +
                "', in which trials are to run, has a name that is not UTF-8, and their plans can't hold it: "
                "rename it, or start the sweep from another one");
  const Json json = {{"format", kFormat},
                     {"id", planned.id},
                     {"folder", plan.folder.string()},
                     {"program", planned.program},
                     {"values", planned.values},
                     {"config", planned.point.config},
                     {"own_folders", planned.point.own_folders},
                     {"grace_seconds", planned.point.grace_seconds},
                     {"trial_limit_seconds", or_null(plan.spec.limit_seconds)},
                     {"metric", plan.spec.by.metric},
                     {"goal", plan.spec.by.goal},
                     {"metric_value", plan.spec.by.metric_value}};
  replace_durably(trial / kPlanFile, json.dump(2) + "\n");
}

TrialPlan read_plan(const fs::path& trial) {
  const fs::path file = trial / kPlanFile;
  return named(file, [&] {
    const Json json = parsed(file);
    TrialPlan plan;
    PlannedTrial& planned = plan.spec.planned;
    planned.id = json.at("id").get<std::string>();
    plan.folder = json.at("folder").get<std::string>();
    planned.program = json.at("program").get<std::vector<std::string>>();
    planned.values = json.at("values").get<Assignments>();
    planned.point.config = json.at("config").get<std::string>();
    planned.point.own_folders = json.at("own_folders").get<std::map<std::string, std::string>>();
    planned.point.grace_seconds = json.at("grace_seconds").get<double>();
    plan.spec.limit_seconds = unless_null<double>(json.at("trial_limit_seconds"));
    plan.spec.by = {json.at("metric").get<std::string>(), json.at("goal").get<std::string>(),
                    json.at("metric_value").get<std::string>()};
    return plan;
  });
}

void write_result(const fs::path& trial, const std::string& id, const TrialResult& result) {
  const Json json = {{"format", kFormat},
                     {"id", id},
                     {"status", name_of(result.status)},
                     {"reason", result.reason},
                     {"seconds", result.seconds},
                     {"judged_by", result.judged_by},
                     {"metric", or_null(result.metric)},
                     {"ran_well", result.ran_well},
                     {"step", or_null(result.step)},
                     {"measures", Json::parse(result.measures)}};
  // Text that a program has written may not be valid UTF-8.
  replace_durably(trial / kResultFile, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<TrialResult> read_result(const fs::path& trial, const std::string& id) {
  const fs::path file = trial / kResultFile;
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  try {
    return named(file, [&] { return std::optional(result_in(parsed(file), id)); });
  } catch (const Error& problem) {
    throw UnreadableResult(problem.what());
  }
}

fs::path set_aside(const fs::path& trial) {
  std::error_code error;
  if (!fs::exists(trial, error)) return {};
  const FolderLock not_in_use(trial, "the trial's folder");
  fs::path kept;
  int n = 0;
  do {
    kept = trial.string() + "." + std::to_string(++n);
  } while (fs::exists(kept, error));
  fs::rename(trial, kept, error);
  if (error) throw Error("'" + trial.string() + "' can't be renamed: " + error.message());
  return kept;
}

}  // namespace hookline
