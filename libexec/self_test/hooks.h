// Tries each hook in each wrapper, on gradients whose mean is known and which every compression reproduces
// exactly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hooks/catalog/catalog.h"
#include "hooks/catalog/option.h"
#include "libexec/self_test/checks.h"
#include "parallel/world/world.h"

namespace hookline {

/// A hook, its wrapper, and all its options.
struct HookCase {
  const HookRow* hook = nullptr;
  const WrapperRow* wrapper = nullptr;
  OptionMap options;

  std::string name() const;  // "power_sgd in fp16"
};

/// Every hook that the registry can build, in every wrapper that it allows. Hooks compress as early as they
/// can. All other options have their defaults or, for the hook `configured`, the values in `options`.
std::vector<HookCase> hook_cases(const std::string& configured, const OptionMap& options);

/// Trains for some steps, and returns the figures of the last one. Throws Error if the gradients are not as
/// expected. A collective call.
HookTime try_hook(const std::shared_ptr<World>& world, const HookCase& each);

}  // namespace hookline
