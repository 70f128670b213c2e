// hookline replay: puts recorded gradients through a hook.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/folder_access.h"
#include "base/log.h"
#include "config/recording.h"
#include "config/resolve.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/libexec.h"
#include "launcher/launch/start_ranks.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

struct ReplayFlags {
  std::string input, output, comm_hook, comm_wrapper, bucket_cap_mb;
  std::vector<std::string> state_options, sets;
  bool json = false;
};

/// How many steps and ranks a folder of recorded gradients holds.
struct Recording {
  int steps = 0, ranks = 0;
};

Recording recording_in(const fs::path& folder) {
  expect_access(folder);
  std::error_code error;
  Recording recording;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto file = parse_recorded_name(name);
    if (!file || !file->rank) continue;
    recording.steps = std::max(recording.steps, file->step + 1);
    recording.ranks = std::max(recording.ranks, *file->rank + 1);
  }
  const std::string where = "--input '" + folder.string() + "'";
  if (error) throw UsageError(where + " can't be read: " + error.message());
  if (recording.steps == 0)
    throw UsageError(where + " holds no recorded gradients, which are called " + gradient_file_name(0, 0) +
                     "; record some with: hookline launch --set training.record_gradients=DIR ./train");
  for (int step = 0; step < recording.steps; ++step)
    for (int rank = 0; rank < recording.ranks; ++rank)
      if (!fs::exists(folder / gradient_file_name(step, rank), error))
        throw UsageError(where + " lacks " + gradient_file_name(step, rank) + ": its steps go from 0 to " +
                         std::to_string(recording.steps - 1) + ", its ranks from 0 to " +
                         std::to_string(recording.ranks - 1));
  return recording;
}

/// Refuses a folder with results: those of two hooks would be taken for those of one.
void expect_no_results_in(const fs::path& folder) {
  expect_access(folder);
  std::error_code none_yet;
  for (const auto& entry : fs::directory_iterator(folder, none_yet)) {
    const std::string name = entry.path().filename().string();
    const auto made = parse_recorded_name(name);
    if (made && !made->rank)
      throw UsageError("--output '" + folder.string() + "' already holds what a hook made (" + name +
                       "): name another folder, or remove those files");
  }
}

std::vector<Override> overrides_of(const ReplayFlags& flags, const Recording& recording) {
  std::vector<Override> overrides;
  const auto add = [&](const char* key, const std::string& value, const char* flag) {
    if (!value.empty()) overrides.push_back({key, value, flag});
  };
  add("launch.processes_per_node", std::to_string(recording.ranks), "--input");
  add("launch.nnodes", "1", "replay");
  add("training.checkpoint_every_steps", "none", "replay");
  add("training.resume", "no", "replay");
  add("training.max_steps", std::to_string(recording.steps),
      "--input");                         // a hook that starts after these steps does nothing
  add("launch.device", "cpu", "replay");  // gradients are read into CPU memory
  overrides.push_back({"logging.prefix_template", "", "replay"});
  add("logging.dir", (fs::path(flags.output) / "hookline-runs").string(), "--output");
  add("ddp.comm_hook", flags.comm_hook, "--comm-hook");
  add("ddp.comm_wrapper", flags.comm_wrapper, "--comm-wrapper");
  add("ddp.bucket_cap_mb", flags.bucket_cap_mb, "--bucket-cap-mb");
  for (Override& option : overrides_from_state_options(flags.state_options))
    overrides.push_back(std::move(option));
  for (Override& set : overrides_from_sets(flags.sets)) overrides.push_back(std::move(set));
  expect_each_key_once(overrides);
  return overrides;
}

}  // namespace

int replay(const Arguments& arguments) {
  ReplayFlags flags;
  VerbParser parser(
      "hookline replay --input DIR --output DIR [flags]",
      "Run recorded gradients through a hook, and show how near it comes to their mean, what it sends and "
      "how long it takes.",
      "hookline replay --input gradients --output replayed --comm-hook power_sgd --state-option "
      "matrix_approximation_rank=2 --state-option start_powerSGD_iter=2");
  parser.add_text("--input", flags.input, "DIR", "Folder of recorded gradients, one file per step and rank");
  parser.add_text("--output", flags.output, "DIR", "Folder for what the hook makes of the gradients");
  parser.add_text("--comm-hook", flags.comm_hook, "HOOK", "Gradient communication hook");
  parser.add_text("--comm-wrapper", flags.comm_wrapper, "WRAPPER",
                  "Precision that the hook communicates in: no, fp16, bf16");
  parser.add_text("--bucket-cap-mb", flags.bucket_cap_mb, "N", "Size of the buckets in MiB, or auto");
  parser.add_texts("--state-option", flags.state_options, "KEY=VALUE",
                   "An option of the hook, such as matrix_approximation_rank=2");
  parser.add_texts("--set", flags.sets, "KEY=VALUE",
                   "Any value of the config, such as ddp.gradient_as_bucket_view=true");
  parser.add_flag("--json", flags.json, "Print a JSON object per step");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);
  if (flags.input.empty()) throw UsageError("--input is missing: the folder of the recorded gradients");
  if (flags.output.empty())
    throw UsageError("--output is missing: the folder for what the hook makes of the gradients");

  const Recording recording = recording_in(flags.input);
  expect_no_results_in(flags.output);
  Sources sources;
  sources.environment = hookline_environment();
  sources.overrides = overrides_of(flags, recording);
  const CatalogOf hooks = catalog_of_libexec("replay_rank");
  sources.allow_program_hooks = false;
  sources.program_build = hooks.build;
  const Resolution resolution = resolve(sources, hooks.catalog);
  if (resolution.ok() && resolution.config.ddp.comm_hook == kAutoHook)
    throw UsageError("a replay trains nothing that auto could measure: name a hook, with --comm-hook");
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  Program program = libexec_rank("replay_rank", "replays on each rank");

  std::error_code error;
  fs::create_directories(flags.output, error);
  if (error) throw UsageError("--output '" + flags.output + "' can't be made: " + error.message());
  log::set_level(resolution.config.logging.level);
  for (const std::string& argument : {flags.input, flags.output, std::to_string(recording.steps)})
    program.arguments.push_back(argument);
  if (flags.json) program.arguments_here = {"--json"};
  return start_ranks(resolution.config, program);
}

}  // namespace hookline
