#include "launcher/launch/start_ranks.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/folder_access.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "base/text/printable.h"
#include "config/print.h"
#include "config/schema/log_display.h"
#include "config/schema/origin_text.h"
#include "config/visible_gpus.h"
#include "launcher/containment/pid_namespace.h"
#include "launcher/containment/run_bounds.h"
#include "launcher/containment/run_in_agent.h"
#include "launcher/launch/end_tracked_run.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/libexec.h"
#include "launcher/launch/node_setup.h"
#include "launcher/launch/unread_config.h"
#include "launcher/process/child.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/machine.h"
#include "launcher/process/own_environment.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/rank/rank_sockets.h"
#include "launcher/rank/run_folder.h"
#include "launcher/rendezvous/own_link.h"
#include "launcher/rendezvous/relay_link.h"
#include "launcher/supervise/supervisor.h"

namespace hookline {
namespace {

/// Logs an error and returns false if the run explicitly asks for GPUs that this machine does not have.
bool has_the_gpus(const RunConfig& config) {
  const int ranks = ranks_of(config.launch);
  const int gpus = visible_gpus();
  const auto origin = [&](const char* key) { return " (" + origin_text(config.origins.at(key)) + ")"; };
  const bool wants_nccl = config.launch.backend == "nccl";
  if (gpus == 0 && (config.launch.device == "cuda" || wants_nccl)) {
    log::error((wants_nccl ? "backend = \"nccl\"" + origin("launch.backend") + " connects GPUs"
                           : "device = \"cuda\"" + origin("launch.device") + " needs a GPU") +
               ", but " + why_no_gpu() + "\n  set " +
               (wants_nccl ? "backend = \"gloo\"" : "device = \"cpu\"") +
               ", or \"auto\" to use GPUs where there are any");
    return false;
  }
  if (wants_nccl && gpus < ranks) {
    log::error("backend = \"nccl\"" + origin("launch.backend") + too_few_gpus(gpus, ranks));
    return false;
  }
  return true;
}

/// Logs an error and returns false if the run asks for an isolation that this system does not grant.
bool has_the_isolation(const RunConfig& config) {
  if (config.launch.isolation != "pid") return true;
  const auto refusal = pid_namespace_refusal();
  if (!refusal) return true;
  log::error("isolation = \"pid\" (" + origin_text(config.origins.at("launch.isolation")) +
             ") needs a PID namespace, which can't be made here: " + refusal->why + "\n  " + refusal->remedy +
             "; or set isolation = \"none\"");
  return false;
}

/// Logs an error and returns false if ranks can't be started here as configured. Sets `nodes` for a run with
/// several.
bool can_start(const RunConfig& config, const Program& program, std::optional<NodeSetup>& nodes) {
  if (!has_the_gpus(config) || !node_rank_fits(config) || !has_the_isolation(config)) return false;
  if (!has_many_nodes(config.launch)) {
    drop_given_token();
    return true;
  }
  nodes = node_setup(config, program, ranks_of(config.launch));
  return nodes.has_value();
}

std::optional<RunFolder> make_run_folder(const RunConfig& config) {
  std::string reason;
  try {
    return RunFolder(config.logging.dir, {to_toml(config), to_json(config)});
  } catch (const std::system_error& error) {
    reason = access_problem(config.logging.dir);
    if (reason.empty()) reason = error.code().message();
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

StatusLine::Form status_form(const LoggingConfig& config) {
  if (config.status == "off" || config.level == "warning" || config.level == "error")
    return StatusLine::Form::none;
  if (config.status == "auto")
    return isatty(STDERR_FILENO) ? StatusLine::Form::live : StatusLine::Form::plain;
  return config.status == "live" ? StatusLine::Form::live : StatusLine::Form::plain;
}

/// The prefix for each line of a rank that is shown; none if no line is shown.
std::optional<std::string> prefix_of(const LoggingConfig& config, int rank, int local_rank) {
  if (config.show == "none" || !RankSet::parse(config.show_ranks)->holds(rank)) return std::nullopt;
  return expand_prefix(config.prefix_template, {{"rank", std::to_string(rank)},
                                                {"local_rank", std::to_string(local_rank)},
                                                {"role_name", "default"},
                                                {"host", host_name()}});
}

JobSpec job_of(const RunConfig& config, const Program& program, const RunFolder& folder,
               const RunBounds& bounds, const NodePlace& node, std::int64_t attempt, StoreSocket store) {
  RunPlace place = place_of(config, folder.path(), attempt);
  place.node = node;
  folder.make_attempt(attempt, place.ranks, node.first_rank);
  place.store_port = store.port;
  if (store.descriptor.is_open()) place.store_descriptor = store.descriptor.get();
  StatusSockets status = make_status_sockets();
  place.status_descriptor = status.of_ranks.get();
  JobSpec job;
  job.program = program.executable;
  job.arguments = program.argv();
  job.explained_exit = program.explained_exit;
  job.bounds = &bounds;
  const LoggingConfig& logging = config.logging;
  const std::vector<Cores> binding = binding_of(config.launch, place.ranks);
  const std::vector<std::string> base =
      program.library_folders.empty()
          ? own_environment()
          : own_environment_with(kLibraryPath, library_path(program.library_folders));
  for (int local = 0; local < place.ranks; ++local) {
    const int rank = node.first_rank + local;
    const auto prefix = prefix_of(logging, rank, local);
    job.ranks.push_back(
        {rank_environment(base, place, local), logging.show == "stderr" ? std::nullopt : prefix,
         logging.show == "stdout" ? std::nullopt : prefix, binding[static_cast<std::size_t>(local)],
         std::filesystem::path(place.log_folder) / std::to_string(rank)});
  }
  job.store = std::move(store.descriptor);
  job.status = std::move(status.ours);
  job.status_of_ranks = std::move(status.of_ranks);
  using Seconds = std::chrono::duration<double>;
  job.grace_period = Seconds(config.launch.grace_period_seconds);
  job.early_exit = Seconds(config.launch.early_exit_seconds);
  job.stall_timeout = Seconds(config.launch.stall_timeout_seconds);
  job.stall_stacks = config.launch.stall_stacks;
  job.holds_warnings = config.training.checkpoint_every_steps.has_value();
  job.status_form = status_form(config.logging);
  job.status_interval = Seconds(config.logging.status_interval_seconds);
  return job;
}

/// The agent's work: runs all attempts, and returns the exit code of the run.
int run_attempts(const RunConfig& config, const Program& program, const RunFolder& folder,
                 const RunBounds& bounds, Signals& signals, const NodeSetup& setup, NodeLink& link) {
  const int ranks = ranks_of(config.launch);
  log::info(count_text(ranks, "rank") + " of '" + printable(program.file.string()) + "'; logs in " +
            printable(folder.path().string()));
  // With several nodes, which all run the same program, only the first one warns.
  bool has_begun = false, speaks = false;
  const auto job = [&](const NodePlace& place, std::int64_t attempt, StoreSocket store) {
    speaks = place.node == 0;
    if (speaks && !std::exchange(has_begun, true)) warn_of_script(config, program);
    return job_of(config, program, folder, bounds, place, attempt, std::move(store));
  };
  try {
    const int code = run_nodes(setup, link, signals, job);
    if (speaks) warn_of_unread_config(config, program, folder.path(), code);
    return code;
  } catch (const SpawnError& error) {
    return report_spawn_error(error);
  }
}

}  // namespace

int show_plan(const RunConfig& config, const Program& program) {
  std::optional<NodeSetup> nodes;
  if (!can_start(config, program, nodes)) return kBadInput;
  warn_of_script(config, program);
  std::cout << plan_text(config, program) << std::flush;
  return kSuccess;
}

int start_ranks(const RunConfig& config, const Program& program) {
  std::optional<NodeSetup> nodes;
  if (!can_start(config, program, nodes)) return kBadInput;
  if (nodes && !take_own_token(*nodes)) return kBadInput;
  const std::optional<RunFolder> folder = make_run_folder(config);
  if (!folder) return kBadInput;
  // Must live until the last message is written: without it, SIGPIPE from a closed reader would end this
  // process.
  Signals signals;
  NodeSetup setup = nodes ? std::move(*nodes) : own_setup(config, program, ranks_of(config.launch));
  std::unique_ptr<NodeLink> link;
  try {
    // Outside of the agent, so that the link survives the agent, which ends with everything below it.
    if (nodes || setup.has_agent_store)
      link = std::make_unique<RelayLink>(libexec_program("node_relay"), setup.meeting, signals);
  } catch (const SpawnError& error) {
    log::error((nodes ? "the program through which nodes meet can't be started: "
                      : "the program that serves the ranks' store can't be started: ") +
               std::string(error.what()));
    return kFailure;
  }
  if (!link) link = std::make_unique<OwnLink>();
  forget(setup.meeting.secret);
  RunBounds bounds(config.launch.isolation == "pid");
  const int run_code = run_in_agent(signals, bounds, [&] {
    const int code = run_attempts(config, program, *folder, bounds, signals, setup, *link);
    if (signals.is_launcher_gone()) end_tracked_run(config, folder->path(), code, signals);
    return code;
  });
  end_tracked_run(config, folder->path(), run_code, signals);
  return run_code;
}

}  // namespace hookline
