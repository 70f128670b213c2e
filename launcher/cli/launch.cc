// hookline launch: checks everything, then runs a program on the ranks of this node.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

#include "config/print.h"
#include "config/resolve.h"
#include "hooks/log.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/supervise/child.h"
#include "launcher/supervise/environment.h"
#include "launcher/supervise/machine.h"
#include "launcher/supervise/program.h"
#include "launcher/supervise/report.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/supervise/store_socket.h"
#include "launcher/supervise/supervisor.h"

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
  std::string config_file;
  std::vector<KeyFlag> keys = {
      {"--processes-per-node", "launch.processes_per_node", "N",
       "Number of ranks, or auto: one a GPU, else 1"},
      {"--comm-hook", "ddp.comm_hook", "HOOK", "Gradient communication hook (see: hookline hooks list)"},
      {"--comm-wrapper", "ddp.comm_wrapper", "WRAPPER", "Precision that the hook works in: no, fp16, bf16"},
      {"--max-steps", "training.max_steps", "N", "Optimizer steps the run is meant to take"},
  };
  std::vector<std::string> state_options;
  std::vector<std::string> sets;
};

std::vector<Override> overrides_of(const Request& request) {
  std::vector<Override> overrides;
  for (const KeyFlag& flag : request.keys)
    if (!flag.value.empty()) overrides.push_back({flag.key, flag.value, flag.flag});
  for (const std::string& text : request.state_options) {
    const Assignment option = split_assignment(text, "--state-option", "matrix_approximation_rank=2");
    overrides.push_back(
        {"ddp.comm_state_option." + option.key, option.value, "--state-option " + option.key});
  }
  for (Override& set : overrides_from_sets(request.sets)) overrides.push_back(std::move(set));
  expect_each_key_once(overrides);
  return overrides;
}

int ranks_of(const LaunchConfig& config) {
  if (config.processes_per_node) return static_cast<int>(*config.processes_per_node);
  return std::max(1, visible_gpus());
}

std::optional<RunFolder> make_run_folder(const RunConfig& config, int ranks) {
  std::string reason;
  try {
    return RunFolder(config.logging.dir, ranks, to_toml(config));
  } catch (const std::system_error& error) {
    reason = error.code().message();
  }
  log::error("can't make a run folder in '" + config.logging.dir + "': " + reason +
             "\n  choose another with: --set logging.dir=DIR");
  return std::nullopt;
}

int report_spawn_error(const SpawnError& error) {
  std::string hint;
  if (error.in_exec() && error.error_number() == ENOEXEC)
    hint = "\n  a script needs a first line that names its interpreter, such as #!/bin/sh";
  if (error.in_exec() && error.error_number() == ENOENT)
    hint = "\n  the file is there: the interpreter that it names is not";
  log::error(error.what() + hint);
  return error.in_exec() ? kNotExecutable : kFailure;
}

int run(const RunConfig& config, const Program& program) {
  const int ranks = ranks_of(config.launch);
  const std::optional<RunFolder> folder = make_run_folder(config, ranks);
  if (!folder) return kBadInput;

  StoreSocket store = bind_store_socket();
  RunPlace place;
  place.ranks = ranks;
  place.store_port = store.port;
  place.store_descriptor = store.descriptor.get();
  place.run_folder = folder->path();
  const char* threads = std::getenv("OMP_NUM_THREADS");
  place.omp_num_threads = omp_num_threads(
      config, threads ? std::optional<std::string>(threads) : std::nullopt, usable_cores(), ranks);
  JobSpec job;
  job.program = program.executable;
  job.arguments = program.arguments;
  for (int rank = 0; rank < ranks; ++rank)
    job.ranks.push_back({rank_environment(own_environment(), place, rank), folder->of_rank(rank)});
  job.store = std::move(store.descriptor);
  job.prefix = config.logging.prefix;
  job.grace_period = std::chrono::duration<double>(config.launch.grace_period_seconds);

  try {
    // Lives until the last message is out: without it, a reader that is gone would end us by SIGPIPE.
    Supervisor supervisor(std::move(job));
    log::info(std::to_string(ranks) + (ranks == 1 ? " rank of '" : " ranks of '") + program.file.string() +
              "'; logs in " + folder->path().string());
    const RunResult result = supervisor.run();
    if (const auto& cause = result.state.root_cause)
      log::error(failure_report(*cause, result.last_error_lines, folder->of_rank(cause->rank)));
    else if (result.state.stopped_by)
      log::info("stopped by " + signal_name(*result.state.stopped_by));
    return exit_code(result.state);
  } catch (const SpawnError& error) {
    return report_spawn_error(error);
  }
}

}  // namespace

int launch(const Arguments& arguments) {
  Request request;
  VerbParser parser(
      "hookline launch [flags] program [arguments]",
      "Run a program on several ranks of this machine. What follows the program is the program's own.",
      "hookline launch --config run.toml --processes-per-node 2 ./train --epochs 5");
  parser.app().add_option("--config", request.config_file, "TOML file to read")->type_name("FILE");
  for (KeyFlag& flag : request.keys)
    parser.app().add_option(flag.flag, flag.value, flag.help)->type_name(flag.value_name);
  parser.add_assignments("--state-option", request.state_options,
                         "An option of the hook, such as matrix_approximation_rank=2");
  parser.add_assignments("--set", request.sets, "Any value of the config, such as logging.level=debug");
  if (!parser.parse(arguments, PlainArguments::end_flags)) return kSuccess;
  if (parser.plain().empty())
    throw UsageError(
        "the program to launch is missing; for example: hookline launch --config run.toml ./train");

  const Program program = find_program(parser.plain(), search_path());
  const CatalogOf hooks = catalog_of(program.file);
  Sources sources;
  if (!request.config_file.empty()) sources.file = request.config_file;
  sources.environment = hookline_environment();
  sources.overrides = overrides_of(request);
  sources.allow_program_hooks = hooks.hooks_may_follow;
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;

  log::set_level(resolution.config.logging.level);
  return run(resolution.config, program);
}

}  // namespace hookline
