// What comm_hook = "auto" chooses from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "hooks/catalog/catalog.h"
#include "hooks/catalog/option.h"

namespace hookline {

/// A hook, as the config names one.
struct HookSetting {
  std::string name;  // for people: "power_sgd(rank=2) in fp16"
  std::string hook, wrapper = "no";
  OptionMap options = {};         // others have their defaults
  bool between_hosts = false;     // the ranks of a host average exactly
  std::int64_t bucket_bytes = 0;  // bucket size limit; 0: the config's bucket_cap_mb
};

/// The most steps before the first choice; if steps are long, there are fewer.
inline constexpr int kStepsBeforeAChoice = 36;

/// True if the hook averages gradients, and is not "no".
bool may_be_chosen(const HookRow& hook);

/// The settings that `wanted` permits, the most exact first. "No hook" is not among them. "allreduce",
/// "batched_power_sgd" and hooks with unstated exactness are included only if `wanted` names them. PowerSGD
/// comes with ranks 4, 2 and 1, each in float32 and in fp16, with start_powerSGD_iter = 2, which means from
/// its first step on, since buckets are final by the time `auto` uses a hook.
std::vector<HookSetting> settings_for(const AutoHookConfig& wanted, const Catalog& catalog);

}  // namespace hookline
