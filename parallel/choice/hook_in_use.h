// Puts a setting that may be chosen to use in a model.
#pragma once

#include "config/checks/hook_settings.h"
#include "hooks/hook_state.h"
#include "parallel/ddp/ddp.h"
#include "parallel/world/world.h"

namespace hookline {

/// Can a hook work between hosts, while the ranks of a host average exactly?
bool has_scopes(const World& world);

/// Replaces the model's hook by that of `setting`, with `buckets` as the new buckets, or the current ones if
/// `buckets` is empty. Call it between two steps. A collective call.
void use_setting(World& world, Ddp& ddp, const HookSetting& setting, const BucketParameters& buckets);

}  // namespace hookline
