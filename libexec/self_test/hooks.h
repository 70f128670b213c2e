// Each hook in each wrapper, on gradients whose mean is known and which every compression keeps whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hooks/catalog/catalog.h"
#include "hooks/catalog/option.h"
#include "libexec/self_test/checks.h"
#include "parallel/world/process_group.h"

namespace hookline {

/// A hook with options that are complete.
struct HookCase {
  const HookRow* hook = nullptr;
  const WrapperRow* wrapper = nullptr;
  OptionMap options;

  std::string name() const;  // "power_sgd in fp16"
};

/// Every hook that the registry can build, in every wrapper that it may have. Hooks begin to compress as early as they
/// can; the one that is called `configured` has `options` else.
std::vector<HookCase> hook_cases(const std::string& configured, const OptionMap& options);

/// Trains some steps; what the last one took. Throws Error if gradients are not what they have to be. A collective call.
HookTime try_hook(const std::shared_ptr<World>& world, const HookCase& each);

}  // namespace hookline
