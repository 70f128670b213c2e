#include "config/checks/auto_hook_checks.h"

#include <string>

#include "base/suggest.h"
#include "config/checks/hook_settings.h"
#include "config/schema/link_text.h"
#include "config/schema/schema.h"

namespace hookline {
namespace {

const std::string kTable = kAutoHookTable;

void warn_of_unused_table(const Collected& collected, const RunConfig& config,
                          std::vector<Diagnostic>& diagnostics) {
  for (const std::string& name : key_names(kTable)) {
    const auto given = collected.keys.find(kTable + "." + name);
    if (given == collected.keys.end()) continue;
    diagnostics.push_back(
        without_effect(given->second.back(), "[ddp.auto] is for comm_hook = \"auto\", and comm_hook is " +
                                                 to_text(OptionValue(config.ddp.comm_hook))));
  }
}

/// Why `hook` can't be a candidate; empty if it can.
std::string obstacle_of(const std::string& hook, const Catalog& catalog, const AutoHookConfig& wanted) {
  const HookRow* const row = catalog.find_hook(hook);
  if (!row) {
    std::vector<std::string> names;
    for (const HookRow& each : catalog.hooks())
      if (may_be_chosen(each)) names.push_back(each.name);
    const auto near = nearest(hook, names);
    return "there is no such hook" +
           (near ? "; did you mean " + to_text(OptionValue(*near)) + "?" : ": see `hookline hooks list`");
  }
  if (row->name == "no") return "training without a hook is always considered: leave it out";
  if (!row->averages) return "it does not average gradients: leave it out";
  if (row->exactness == Exactness::unstated || row->exactness <= *exactness_of(wanted.allow)) return "";
  return "it is " + to_text(row->exactness) + ", and allow is " + to_text(OptionValue(wanted.allow)) +
         ": leave it out, or set allow = " + to_text(OptionValue(to_text(row->exactness)));
}

void warn_of_too_few_steps(const Collected& collected, const RunConfig& config,
                           std::vector<Diagnostic>& diagnostics) {
  const auto steps = config.training.max_steps;
  if (!steps || *steps > kStepsBeforeAChoice) return;
  diagnostics.push_back(
      diagnostic_at(collected.keys.at("training.max_steps").back().place, Severity::warning,
                    "max_steps " + std::to_string(*steps) + " may end the run before a hook is chosen",
                    "comm_hook \"auto\" needs up to " + std::to_string(kStepsBeforeAChoice) +
                        " steps before its first choice, and then more with each hook that it tries: set "
                        "max_steps to 300 or more, or name a hook"));
}

}  // namespace

void resolve_link(const Collected& collected, RunConfig& config, std::vector<Diagnostic>& diagnostics) {
  std::string& link = config.auto_hook.link;
  if (link == kMeasuredLink || config.ddp.comm_hook != kAutoHook) return;
  const Given& given = collected.keys.at(kTable + ".link").back();
  const auto report = [&](Severity severity, const std::string& message, const std::string& note) {
    diagnostics.push_back(diagnostic_at(given.place, severity, message, note));
  };
  try {
    const NamedLink named =
        names_link_report(link) ? link_in_report(path_given(link, given).string()) : link_of(link);
    if (named.latency_seconds == 0 && link.find(',') == link.npos)
      report(Severity::warning, "link '" + link + "' in [ddp.auto] names no latency",
             "predictions assume 0 s, which is too little between hosts; add it, as in 1gbit,0.2ms");
    link = to_text(named);
  } catch (const LinkTextError& error) {
    report(Severity::error, "bad value for 'link' in [ddp.auto]: " + error.problem(), error.why());
  }
}

void check_auto_hook(const Collected& collected, const Catalog& catalog, bool all_hooks_known,
                     const RunConfig& config, std::vector<Diagnostic>& diagnostics) {
  if (config.ddp.comm_hook != kAutoHook) return warn_of_unused_table(collected, config, diagnostics);
  const auto hooks = collected.keys.find(kTable + ".hooks");
  if (hooks != collected.keys.end() && all_hooks_known) {
    for (const std::string& hook : config.auto_hook.hooks) {
      const std::string obstacle = obstacle_of(hook, catalog, config.auto_hook);
      if (obstacle.empty()) continue;
      diagnostics.push_back(diagnostic_at(
          hooks->second.back().place, Severity::error,
          "hook " + to_text(OptionValue(hook)) + " in 'hooks' of [ddp.auto] can't be chosen", obstacle));
    }
  }
  warn_of_too_few_steps(collected, config, diagnostics);
  if (config.ddp.comm_scope == DdpConfig().comm_scope) return;
  diagnostics.push_back(diagnostic_at(
      collected.keys.at("ddp.comm_scope").back().place, Severity::error,
      "comm_scope " + to_text(OptionValue(config.ddp.comm_scope)) + " does not work with comm_hook \"auto\"",
      "auto tries its hook between hosts by itself: leave comm_scope out, or name a hook"));
}

}  // namespace hookline
