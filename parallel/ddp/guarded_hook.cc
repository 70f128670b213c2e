#include "parallel/ddp/guarded_hook.h"

#include <memory>
#include <string>
#include <utility>

namespace hookline {

GuardedHook::GuardedHook(std::shared_ptr<GradientSteps> steps, std::unique_ptr<CommHook> hook,
                         std::unique_ptr<GradientRecorder> recorder, std::unique_ptr<CompressionError> error)
    : steps_(std::move(steps)),
      hook_(std::move(hook)),
      recorder_(std::move(recorder)),
      error_(std::move(error)),
      name_(hook_->describe()) {}

FuturePtr GuardedHook::runHook(c10d::GradBucket& bucket) {
  const bool is_measured = error_ && CompressionError::measures(steps_->count() - first_);
  return steps_->reduce(bucket.getBuffer().numel(), name_, [&] {
    if (recorder_) recorder_->take(GradBucket(bucket));
    const auto run_hook = [&] {
      if (!carried_.empty()) {
        const at::Tensor& held_back = carried_.at(bucket.getIndex());
        if (held_back.defined()) bucket.getBufferRef().add_(held_back);
        if (bucket.isLast()) carried_.clear();
      }
      return hook_->runHook(bucket);
    };
    return is_measured ? error_->run(bucket, run_hook) : run_hook();
  });
}

std::optional<double> GuardedHook::take_compression_error() {
  const auto error = error_ ? error_->take() : std::nullopt;
  if (error) latest_error_ = error;
  return error;
}

at::Tensor GuardedHook::parseHookResult(const c10::IValue& result) { return hook_->parseHookResult(result); }

FuturePtr NoHook::run(GradBucket bucket) {
  return comm().all_reduce(bucket.buffer().mul_(1.0 / world_size()));
}

}  // namespace hookline
