#include "config/resolve.h"

#include <algorithm>

#include "config/checks/auto_hook_checks.h"
#include "config/checks/hook_checks.h"
#include "config/checks/plugins.h"
#include "config/checks/sharding_checks.h"
#include "config/schema/node_count.h"
#include "config/schema/schema.h"
#include "config/sources/collect.h"

namespace hookline {
namespace {

void warn_of_no_effect(const Collected& collected, const RunConfig& config,
                       std::vector<Diagnostic>& diagnostics) {
  const auto warn = [&](const std::string& key, const std::string& note) {
    diagnostics.push_back(without_effect(collected.keys.at(key).back(), note));
  };
  if (config.ddp.dim != 0)
    warn("ddp.dim", "it is there for Accelerate's sake; hookline, like PyTorch, ignores it");
  if (config.ddp.find_unused_parameters && config.ddp.static_graph)
    warn("ddp.find_unused_parameters", "static_graph finds unused parameters by itself, in the first step");
  const bool has_hook = config.ddp.comm_hook != "no" || config.ddp.comm_wrapper != "no";
  if (config.ddp.comm_scope != DdpConfig().comm_scope && !has_hook &&
      config.fsdp.sharding_strategy == FsdpConfig().sharding_strategy)
    warn("ddp.comm_scope", "it is the scope of a hook, and no hook is set: set comm_hook");
  if (config.launch.stall_stacks && config.launch.stall_timeout_seconds == 0)
    warn("launch.stall_stacks", "nothing counts as a stall without stall_timeout_seconds");
  const bool is_default = config.training.record_gradients_steps == TrainingConfig().record_gradients_steps;
  if (!is_default && config.training.record_gradients.empty())
    warn("training.record_gradients_steps", "nothing is recorded without record_gradients");
  if (config.ddp.check_reduction)
    warn("ddp.check_reduction", "it is there for Accelerate's sake; hookline, like PyTorch, ignores it");
}

/// NCCL moves data between GPUs only, and shared memory between processes of one host.
void check_backend(const Collected& collected, const RunConfig& config,
                   std::vector<Diagnostic>& diagnostics) {
  const auto refuse = [&](const std::string& message, const std::string& note, const std::string& other) {
    const Given& given = collected.keys.at("launch.backend").back();
    diagnostics.push_back(
        diagnostic_at(given.place, Severity::error, message,
                      note + "; " + other + " is set at " + config.origins.at("launch." + other).where));
  };
  const LaunchConfig& launch = config.launch;
  if (launch.backend == "nccl" && launch.device == "cpu")
    refuse("backend \"nccl\" does not work with device \"cpu\"",
           "NCCL connects GPUs: set device = \"cuda\", or backend = \"gloo\"", "device");
  if (launch.backend == "shm" && launch.device == "cuda")
    refuse("backend \"shm\" does not work with device \"cuda\"",
           "it shares the memory of CPUs: set device = \"cpu\", or backend = \"nccl\" or \"gloo\"", "device");
  const auto nodes = NodeCount::parse(launch.nnodes);
  if (launch.backend == "shm" && nodes && nodes->total() > 1)
    refuse("backend \"shm\" does not work with several hosts",
           "ranks share memory on one host only: set nnodes = 1, or backend = \"auto\" or \"gloo\"",
           "nnodes");
}

/// With comm_scope = "between_hosts", the ranks of a host average through shared memory.
void check_scope(const Collected& collected, const RunConfig& config, std::vector<Diagnostic>& diagnostics) {
  if (config.ddp.comm_scope != "between_hosts") return;
  const auto refuse = [&](const std::string& key, const std::string& value, const std::string& instead) {
    const Given& given = collected.keys.at("ddp.comm_scope").back();
    diagnostics.push_back(diagnostic_at(
        given.place, Severity::error,
        "comm_scope \"between_hosts\" does not work with " + key + " " + to_text(value),
        "the ranks of a host average through memory that they share: set " + key + " = " + instead +
            "; launch." + key + " is set at " + config.origins.at("launch." + key).where));
  };
  const LaunchConfig& launch = config.launch;
  if (launch.backend == "gloo" || launch.backend == "nccl") refuse("backend", launch.backend, "\"auto\"");
  if (launch.device == "cuda") refuse("device", launch.device, "\"cpu\"");
}

void check_form(const KeyRow& row, const Given& given, const OptionValue& value,
                std::vector<Diagnostic>& diagnostics) {
  if (!row.form.fits || row.form.fits(std::get<std::string>(value))) return;
  diagnostics.push_back(
      diagnostic_at(given.place, Severity::error,
                    "bad value " + to_text(value) + " for '" + row.option.name + "' in [" + row.table + "]",
                    row.form.note));
}

/// The given value, with a boolean replaced by the string that it stands for.
Given as_text_of_row(Given given, const KeyRow& row) {
  if (!row.form.booleans) return given;
  const auto word = [&](bool value) {
    return value ? row.form.booleans->if_true : row.form.booleans->if_false;
  };
  if (given.value) {
    if (const auto* value = std::get_if<bool>(&*given.value)) given.value = word(*value);
  } else if (given.typed_text == "true" || given.typed_text == "false") {
    given.typed_text = word(given.typed_text == "true");
  }
  return given;
}

void resolve_key(const KeyRow& row, const std::vector<Given>& values, RunConfig& config,
                 std::vector<Diagnostic>& diagnostics) {
  for (const Given& given : values) {
    const auto value = checked_value(as_text_of_row(given, row), row.option, row.table, diagnostics);
    if (!value) continue;
    check_form(row, given, *value, diagnostics);
    row.set(config, *value);
    config.origins[row.key()] = given.origin();
  }
}

/// Keys that resolve_hook sets, since a hook and its wrapper are more than strings.
bool is_hook_choice(const KeyRow& row) {
  return row.table == "ddp" && (row.option.name == "comm_hook" || row.option.name == "comm_wrapper");
}

/// Sorts the diagnostics of the file by line, those of the whole file first. All others follow in their
/// order.
void sort_as_read(std::vector<Diagnostic>& diagnostics, const std::string& file) {
  const auto is_of_file = [&](const Diagnostic& each) { return !file.empty() && each.source == file; };
  const auto others = std::stable_partition(diagnostics.begin(), diagnostics.end(), is_of_file);
  std::stable_sort(diagnostics.begin(), others, [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
}

Collected collect(const Sources& sources, const Catalog& catalog) {
  Collected collected;
  if (sources.resolved) {
    collect_resolved(*sources.resolved, collected);
    return collected;
  }
  collect_files(sources, catalog, collected);
  collect_environment(sources.environment, catalog, collected);
  collect_overrides(sources.overrides, catalog, collected);
  return collected;
}

}  // namespace

bool Resolution::ok() const {
  return std::none_of(diagnostics.begin(), diagnostics.end(),
                      [](const Diagnostic& each) { return each.severity == Severity::error; });
}

std::string Resolution::report() const {
  std::string text;
  for (const Diagnostic& each : diagnostics) text += render(each);
  return text;
}

Resolution resolve(const Sources& sources, const Catalog& built_in_and_program) {
  Collected collected = collect(sources, built_in_and_program);
  const Plugins plugins = read_plugins(collected, sources, built_in_and_program);
  const Catalog& catalog = plugins.catalog;
  // Keys and hooks that are unknown so far may be from plug-ins: collect again, knowing their hooks.
  if (!plugins.files.empty()) collected = collect(sources, catalog);

  Resolution resolution;
  RunConfig& config = resolution.config;
  resolution.diagnostics = collected.problems;
  resolution.files = collected.files;
  resolution.profiles = collected.profiles;
  for (const KeyRow& row : schema()) {
    config.origins[row.key()] = Origin{};
    const auto given = collected.keys.find(row.key());
    if (given != collected.keys.end() && !is_hook_choice(row))
      resolve_key(row, given->second, config, resolution.diagnostics);
  }
  config.ddp.plugins = plugins.files;
  for (const Diagnostic& problem : plugins.problems) resolution.diagnostics.push_back(problem);
  const bool all_hooks_known = plugins.problems.empty();
  resolve_hook(collected, catalog, {sources.allow_program_hooks, all_hooks_known}, config,
               resolution.diagnostics);
  if (sources.reads_link_report) resolve_link(collected, config, resolution.diagnostics);
  check_auto_hook(collected, catalog, all_hooks_known, config, resolution.diagnostics);
  check_backend(collected, config, resolution.diagnostics);
  check_scope(collected, config, resolution.diagnostics);
  check_sharding(collected, catalog, config, resolution.diagnostics);
  warn_of_no_effect(collected, config, resolution.diagnostics);
  sort_as_read(resolution.diagnostics, sources.file ? sources.file->string() : "");
  return resolution;
}

}  // namespace hookline
