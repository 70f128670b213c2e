// Puts a setting that may be chosen to use in a model.
#pragma once

#include "config/checks/hook_settings.h"
#include "hooks/hook_state.h"
#include "parallel/ddp/ddp.h"
#include "parallel/world/process_group.h"

namespace hookline {

/// Can a hook work between hosts, while the ranks of a host average exactly?
bool has_scopes(const World& world);

/// Between two steps: `setting` takes the place of the model's hook, in `buckets`; in those that there are if these are empty. A
/// collective call.
void use_setting(World& world, Ddp& ddp, const HookSetting& setting, const BucketParameters& buckets);

}  // namespace hookline
