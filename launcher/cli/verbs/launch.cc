// hookline launch: checks everything, then runs a program on the ranks of this node.
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/folder_access.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/folder_lock.h"
#include "config/recording.h"
#include "config/resolve.h"
#include "config/schema/origin_text.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/node_setup.h"
#include "launcher/launch/scheduled.h"
#include "launcher/launch/start_ranks.h"
#include "launcher/process/exit_code.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {

/// A flag that is short for one key of the config.
struct KeyFlag {
  const char* flag;
  const char* key;
  const char* value_name;
  const char* help;
  std::string value = {};
};

struct Request {
  ConfigChoice config;
  std::vector<KeyFlag> keys = {
      {"--processes-per-node", "launch.processes_per_node", "N",
       "Ranks on this host, or auto: one per GPU, 1 on the CPU"},
      {"--comm-hook", "ddp.comm_hook", "HOOK", "Gradient communication hook (see: hookline hooks list)"},
      {"--comm-wrapper", "ddp.comm_wrapper", "WRAPPER",
       "Precision that the hook communicates in: no, fp16, bf16"},
      {"--max-steps", "training.max_steps", "N", "Optimizer steps after which should_stop() is true"},
  };
  std::vector<std::string> state_options;
  std::vector<std::string> sets;
  bool dry_run = false;
};

std::vector<Override> overrides_of(const Request& request) {
  std::vector<Override> overrides;
  for (const KeyFlag& flag : request.keys)
    if (!flag.value.empty()) overrides.push_back({flag.key, flag.value, flag.flag});
  for (Override& option : overrides_from_state_options(request.state_options))
    overrides.push_back(std::move(option));
  for (Override& set : overrides_from_sets(request.sets)) overrides.push_back(std::move(set));
  expect_each_key_once(overrides);
  return overrides;
}

/// Why there is no program: it may have been taken for the value of a flag that was given without one.
std::string missing_program(const Arguments& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::error_code ignored;
    if (arguments[i - 1].starts_with("--") && arguments[i].find('/') != std::string::npos &&
        std::filesystem::is_regular_file(arguments[i], ignored) && access(arguments[i].c_str(), X_OK) == 0) {
      return "the program to launch is missing: '" + arguments[i] + "' was taken for the value of " +
             arguments[i - 1];
    }
  }
  return "the program to launch is missing; for example: hookline launch --config run.toml ./train";
}

/// Refuses a folder with recordings: those of two runs in one folder would be replayed as one.
bool can_record_in(const RunConfig& config) {
  const std::filesystem::path folder = config.training.record_gradients;
  if (folder.empty()) return true;
  const std::string what = "record_gradients = '" + folder.string() + "' (" +
                           origin_text(config.origins.at("training.record_gradients")) + ")";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    const std::string access = access_problem(folder);
    log::error(what + ": " + (access.empty() ? "the folder can't be made: " + error.message() : access));
    return false;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!parse_recorded_name(name)) continue;
    log::error(what + " holds recorded gradients already (" + name +
               "): name another folder, or remove those files");
    return false;
  }
  return true;
}

/// The step of the checkpoint that `resume` names. Throws Error.
std::int64_t step_of_named(const std::string& resume) {
  try {
    return read_manifest(locate(resume)).step;
  } catch (const Error& error) {
    const auto inside = list_checkpoints(resume);
    throw Error(
        error.what() +
        (inside.empty()
             ? std::string(": resume is \"auto\", \"no\", or the folder of a checkpoint")
             : "; it holds some: resume = \"auto\" resumes from the newest in checkpoint_dir, or name "
               "one, such as '" +
                   inside.front().path.string() + "'"));
  }
}

/// Catches what would end the run at once, before anything starts; ranks check more closely. `dry`: create
/// nothing.
bool can_resume(const RunConfig& config, bool dry) {
  const TrainingConfig& training = config.training;
  std::string key = "resume";  // what the next check is about
  try {
    const std::int64_t from = training.resumes_by_name() ? step_of_named(training.resume) : 0;
    // A node may join a run late and find the checkpoints that this run has saved: the ranks know which
    // attempt it is.
    if (!training.checkpoint_every_steps || has_many_nodes(config.launch)) return true;
    key = "checkpoint_dir";
    // The ranks hold this lock as soon as they start. Ranks whose launcher was killed hold it a moment
    // longer.
    constexpr std::chrono::seconds kWaitForLock{3};
    if (!dry) FolderLock(training.checkpoint_dir, "checkpoint_dir", kWaitForLock);
    if (training.resumes_by_name()) expect_none_beyond(training.checkpoint_dir, from);
    if (training.resume == "no") expect_no_checkpoints(training.checkpoint_dir);
    return true;
  } catch (const Error& error) {
    log::error(error.what() + ("\n  " + key) + ": " + origin_text(config.origins.at("training." + key)));
    return false;
  }
}

}  // namespace

int launch(const Arguments& arguments) {
  Request request;
  VerbParser parser("hookline launch [flags] program [arguments]",
                    "Run a program on several ranks, on this host and on others. Arguments after the program "
                    "are passed to it unchanged.",
                    "hookline launch --config run.toml --processes-per-node 2 ./train --epochs 5");
  request.config.add_file_flag(parser);
  request.config.add_profile_flag(parser);
  for (KeyFlag& flag : request.keys) parser.add_text(flag.flag, flag.value, flag.value_name, flag.help);
  parser.add_texts("--state-option", request.state_options, "KEY=VALUE",
                   "An option of the hook, such as matrix_approximation_rank=2; may be repeated");
  parser.add_texts("--set", request.sets, "KEY=VALUE",
                   "Any value of the config, such as logging.level=debug; may be repeated");
  parser.add_flag("--dry-run", request.dry_run, "Print what each rank would get, and start nothing");
  if (!parser.parse(arguments, PlainArguments::end_flags)) return kSuccess;
  if (parser.plain().empty()) throw UsageError(missing_program(arguments));

  const std::vector<Override> overrides = overrides_of(request);
  const Program program = find_program(parser.plain(), search_path());
  const CatalogOf hooks = catalog_of(program.file);
  Sources sources = request.config.sources();
  sources.overrides = overrides;
  hooks.apply_to(sources);
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;

  RunConfig config = resolution.config;
  log::set_level(config.logging.level);
  tell_found_config(request.config, sources);
  if (!complete_by_scheduler(config)) return kBadInput;
  if (request.dry_run) return can_resume(config, /*dry=*/true) ? show_plan(config, program) : kBadInput;
  return can_record_in(config) && can_resume(config, /*dry=*/false) ? start_ranks(config, program)
                                                                    : kBadInput;
}

}  // namespace hookline
