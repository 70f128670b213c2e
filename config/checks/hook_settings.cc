#include "config/checks/hook_settings.h"

#include <algorithm>
#include <cstdint>

namespace hookline {
namespace {

constexpr std::int64_t kFirstCompressedStep = 2;  // the least that error feedback and warm start allow
constexpr std::int64_t kRanks[] = {4, 2, 1};

/// Hooks that are tried only if [ddp.auto] hooks names them. allreduce does the same as no hook;
/// batched_power_sgd, if it compresses from the first steps on, prevents some models from learning.
bool only_by_name(const HookRow& hook) {
  return hook.name == "allreduce" || hook.name == "batched_power_sgd";
}

bool has_option(const HookRow& hook, const std::string& name) {
  return std::any_of(hook.options.begin(), hook.options.end(),
                     [&](const OptionRow& option) { return option.name == name; });
}

void add_in_both_precisions(const HookRow& hook, const std::string& name, const OptionMap& options,
                            std::vector<HookSetting>& settings) {
  settings.push_back({name, hook.name, "no", options});
  if (hook.wrappable) settings.push_back({name + " in fp16", hook.name, "fp16", options});
}

void add(const HookRow& hook, std::vector<HookSetting>& settings) {
  if (hook.exactness != Exactness::low_rank) return settings.push_back({hook.name, hook.name, "no", {}});
  OptionMap options;
  if (has_option(hook, "start_powerSGD_iter")) options["start_powerSGD_iter"] = kFirstCompressedStep;
  if (!has_option(hook, "matrix_approximation_rank"))
    return add_in_both_precisions(hook, hook.name, options, settings);
  for (const std::int64_t rank : kRanks) {
    options["matrix_approximation_rank"] = rank;
    add_in_both_precisions(hook, hook.name + "(rank=" + std::to_string(rank) + ")", options, settings);
  }
}

}  // namespace

bool may_be_chosen(const HookRow& hook) { return hook.averages && hook.name != "no"; }

std::vector<HookSetting> settings_for(const AutoHookConfig& wanted, const Catalog& catalog) {
  std::vector<const HookRow*> hooks;
  const Exactness least = exactness_of(wanted.allow).value_or(Exactness::half);
  for (const HookRow& hook : catalog.hooks()) {
    if (!may_be_chosen(hook)) continue;
    const bool is_named = std::any_of(wanted.hooks.begin(), wanted.hooks.end(), [&](const std::string& name) {
      return catalog.find_hook(name) == &hook;
    });
    const bool is_permitted = hook.exactness <= least && (!wanted.hooks.empty() || !only_by_name(hook));
    const bool is_unstated = hook.exactness == Exactness::unstated;
    if (wanted.hooks.empty() ? is_permitted : is_named && (is_permitted || is_unstated))
      hooks.push_back(&hook);
  }
  std::stable_sort(hooks.begin(), hooks.end(),
                   [](const HookRow* a, const HookRow* b) { return a->exactness < b->exactness; });
  std::vector<HookSetting> settings;
  for (const HookRow* hook : hooks) add(*hook, settings);
  return settings;
}

}  // namespace hookline
