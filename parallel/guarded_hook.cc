#include "parallel/guarded_hook.h"

#include <string>
#include <utility>

namespace hookline {

GuardedHook::GuardedHook(std::shared_ptr<World> world, std::unique_ptr<CommHook> hook)
    : world_(std::move(world)), hook_(std::move(hook)) {}

FuturePtr GuardedHook::runHook(c10d::GradBucket& bucket) {
  const std::string what = "step " + std::to_string(step_) + " of " + hook_->describe();
  if (bucket.isLast()) ++step_;
  if (const std::string failure = world_->watch().failure(); !failure.empty()) {
    FuturePtr failed = make_future();
    failed->setError(std::make_exception_ptr(RunFailed(failure)));
    return failed;
  }
  return world_->watch().guard(hook_->runHook(bucket), what);
}

at::Tensor GuardedHook::parseHookResult(const c10::IValue& result) { return hook_->parseHookResult(result); }

FuturePtr NoHook::run(GradBucket bucket) {
  return comm().all_reduce(bucket.buffer().mul_(1.0 / world_size()));
}

}  // namespace hookline
