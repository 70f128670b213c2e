#include "parallel/ddp/guarded_hook.h"

#include <memory>
#include <string>
#include <utility>

namespace hookline {

GuardedHook::GuardedHook(std::shared_ptr<World> world, std::unique_ptr<CommHook> hook,
                         std::unique_ptr<GradientRecorder> recorder, std::unique_ptr<CompressionError> error)
    : world_(std::move(world)),
      hook_(std::move(hook)),
      recorder_(std::move(recorder)),
      error_(std::move(error)),
      name_(hook_->describe()) {}

FuturePtr GuardedHook::runHook(c10d::GradBucket& bucket) {
  const std::string what = "step " + std::to_string(step_) + " of " + name_;
  const bool is_measured = error_ && CompressionError::measures(step_ - first_);
  if (bucket.isLast()) ++step_;
  FuturePtr result = make_future();
  try {
    if (const auto failure = world_->watch().failure()) throw *failure;
    if (recorder_) recorder_->take(GradBucket(bucket));
    std::shared_ptr<CompressionError::Sample> sample;
    if (is_measured) sample = error_->sample(bucket.getBuffer(), bucket.getIndex() == 0);
    if (!carried_.empty()) {
      const at::Tensor& held_back = carried_.at(bucket.getIndex());
      if (held_back.defined()) bucket.getBufferRef().add_(held_back);
      if (bucket.isLast()) carried_.clear();
    }
    result = hook_->runHook(bucket);
    last_bucket_at_ = world_->step_clock()->now();
    if (sample) result = CompressionError::taken(result, std::move(sample));
  } catch (...) {
    result->setError(std::current_exception());
  }
  return world_->watch().guard(result, what);
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
