// A function and its state as a hook, for register_comm_hook(state, hook) by hand.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "hooks/comm_hook.h"

namespace hookline {

/// Calls `function(state, bucket)` for each bucket, as DistributedDataParallel.register_comm_hook does in Python.
template <typename State>
class FunctionHook : public CommHook {
 public:
  using Function = std::function<FuturePtr(State& state, GradBucket bucket)>;

  FunctionHook(HookContext context, State state, Function function)
      : CommHook(std::move(context)), state_(std::move(state)), function_(std::move(function)) {}

  FuturePtr run(GradBucket bucket) override { return function_(state_, bucket); }
  std::string describe() const override { return "a hook of the program"; }

 private:
  State state_;
  Function function_;
};

}  // namespace hookline
