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
  std::int64_t bucket_bytes = 0;  // at which a bucket is full; 0: as the config's bucket_cap_mb says
};

/// Of which the first choice is made, at most: of long steps it takes fewer.
inline constexpr int kStepsBeforeAChoice = 36;

/// Does the hook average, in another way than without one?
bool may_be_chosen(const HookRow& hook);

/// What `wanted` permits, the most exact ones first; not to use a hook is none of them, and "allreduce" and "batched_power_sgd" only where they are named. A hook that does not say how exact it is counts
/// only where it is named. Of PowerSGD, ranks 4, 2 and 1, each in float32 and within fp16, compressing from its third step on.
std::vector<HookSetting> settings_for(const AutoHookConfig& wanted, const Catalog& catalog);

}  // namespace hookline
