// What is known of a trial by its folder alone, so that another machine can run it: its plan, and its result.
#pragma once

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "launcher/sweep/trial_process.h"

namespace hookline {

inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kResultFile = "result.json";

/// A file that is there, and is not a result of its trial.
class UnreadableResult : public Error {
 public:
  using Error::Error;
};

struct TrialPlan {
  TrialSpec spec;
  std::filesystem::path folder;  // that its program runs in
};

/// The folder of the trial `id`, in that of its sweep.
std::filesystem::path folder_of_trial(const std::filesystem::path& sweep, const std::string& id);

/// Each of these files is whole or absent. Throws Error, naming the file, or the program's folder if its
/// name is not UTF-8.
void write_plan(const std::filesystem::path& trial, const TrialPlan& plan);
TrialPlan read_plan(const std::filesystem::path& trial);
void write_result(const std::filesystem::path& trial, const std::string& id, const TrialResult& result);

/// Nothing if there is none. Throws UnreadableResult, naming the file, for one that can't be read, or is
/// another trial's.
std::optional<TrialResult> read_result(const std::filesystem::path& trial, const std::string& id);

/// Renames the trial's folder to ID.1, ID.2, …, so that a new one can be made. Returns the new name; empty if
/// there was no folder. Throws Error.
std::filesystem::path set_aside(const std::filesystem::path& trial);

}  // namespace hookline
