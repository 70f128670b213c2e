// A function and its state as a hook, for DistributedModule::register_comm_hook(state, hook).
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "hooks/comm_hook.h"

namespace hookline {

/// Calls `function(state, bucket)` for each bucket, as DistributedDataParallel.register_comm_hook does in
/// Python. The state is not saved in checkpoints.
template <typename State>
class FunctionHook : public CommHook {
 public:
  /// Follows the rules of CommHook::run.
  using Function = std::function<FuturePtr(State& state, GradBucket bucket)>;

  /// Made by DistributedModule::register_comm_hook(state, hook).
  FunctionHook(HookContext context, State state, Function function)
      : CommHook(std::move(context)), state_(std::move(state)), function_(std::move(function)) {}

  /// Calls the function.
  FuturePtr run(GradBucket bucket) override { return function_(state_, bucket); }
  std::string describe() const override { return "a hook of the program"; }

 private:
  State state_;
  Function function_;
};

}  // namespace hookline
