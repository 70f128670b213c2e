#include "python/bindings/hook_handle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hooks/registry/registry.h"
#include "parallel/ddp/bucketing.h"
#include "parallel/tensors/sizes.h"

namespace hookline {
namespace {

std::map<std::string, at::Tensor> copies(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.detach().clone());
  return result;
}

/// A Comm for a hook that is built to find its mistakes, and then dropped.
HookContext without_groups(int rank, int world_size) {
  return {std::make_shared<Comm>(rank, world_size, [](const std::string&) { return ProcessGroupPtr(); })};
}

void expect_buildable(const std::string& hook, const std::string& wrapper, const OptionMap& options,
                      const HookContext& context) {
  if (!Registry::instance().build(hook, wrapper, options, context))
    throw HookError(
        "comm_hook 'no' without a wrapper is what DistributedDataParallel does by itself: leave the "
        "registration out");
}

}  // namespace

HookHandle::HookHandle(const std::string& hook, const std::string& wrapper, const OptionMap& options,
                       std::vector<at::Tensor> parameters, int rank, int world_size,
                       const GroupFactory& make_group)
    : parameters_(std::move(parameters)), world_size_(world_size) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) positions_[parameters_[i].unsafeGetTensorImpl()] = i;
  expect_buildable(hook, wrapper, options, without_groups(rank, world_size));
  const auto maker = std::make_shared<GroupFactory>(make_group);
  const GroupFactory while_built = [maker](const std::string& name) {
    if (!*maker)
      throw HookError("the hook opens its channel '" + name +
                      "' after it was built: open channels in its constructor");
    return (*maker)(name);
  };
  comm_ = std::make_shared<Comm>(rank, world_size, while_built);
  hook_ = Registry::instance().build(hook, wrapper, options, {comm_});
  const std::int64_t sent =
      hook_->bytes_per_step(expected_buckets(parameters_, BucketLimits()), parameters_[0].scalar_type());
  if (sent < bytes_of(parameters_))
    error_ = std::make_unique<CompressionError>(std::make_shared<Comm>(rank, world_size, while_built));
  *maker = nullptr;  // it calls Python, which may be gone when the last group ends
}

FuturePtr HookHandle::run(c10d::GradBucket& bucket) {
  bool is_measured = false;
  {
    const std::lock_guard lock(mutex_);
    if (bucket.getIndex() == 0) {
      buckets_of_step_.clear();
      ++steps_;
    }
    is_measured = error_ && CompressionError::measures(steps_ - 1);
    std::vector<std::size_t>& positions = buckets_of_step_.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters()) {
      const auto position = positions_.find(parameter.unsafeGetTensorImpl());
      if (position == positions_.end())
        throw HookError(
            "a bucket has a parameter that was frozen when the hook was registered: register the hook right "
            "after the model is wrapped");
      positions.push_back(position->second);
    }
    if (bucket.isLast()) buckets_ = buckets_of_step_;
  }
  const auto run_hook = [&] { return hook_->runHook(bucket); };
  return is_measured ? error_->run(bucket, run_hook) : run_hook();
}

BucketParameters HookHandle::parameters_of(const BucketPositions& buckets) const {
  BucketParameters result;
  for (const std::vector<std::size_t>& positions : buckets) {
    auto& bucket = result.emplace_back();
    for (const std::size_t position : positions) bucket.push_back(parameters_[position]);
  }
  return result;
}

std::vector<std::vector<std::int64_t>> HookHandle::shapes() const {
  std::vector<std::vector<std::int64_t>> result;
  for (const at::Tensor& parameter : parameters_) result.push_back(parameter.sizes().vec());
  return result;
}

void HookHandle::expect_own(const SavedHook& saved) const {
  if (saved.hook != describe())
    throw HookError("the saved state is of the hook " + saved.hook + ", and this is " + describe() +
                    ": register the same hook with the same options");
  std::vector<std::size_t> named;
  for (const std::vector<std::size_t>& positions : saved.buckets)
    named.insert(named.end(), positions.begin(), positions.end());
  std::sort(named.begin(), named.end());
  bool is_each_once = saved.buckets.empty() || named.size() == parameters_.size();
  for (std::size_t i = 0; i < named.size(); ++i) is_each_once = is_each_once && named[i] == i;
  if (saved.shapes != shapes() || !is_each_once)
    throw HookError("the saved state of the hook " + saved.hook +
                    " is of another model: its parameters have other shapes, or others of them are frozen");
}

SavedHook HookHandle::save() const {
  BucketPositions buckets;
  {
    const std::lock_guard lock(mutex_);
    buckets = buckets_;
  }
  HookState state = hook_->save_state(parameters_of(buckets));
  state.shared = copies(state.shared);
  state.own = copies(state.own);
  return {describe(), world_size_, shapes(), buckets, std::move(state)};
}

void HookHandle::load(const SavedHook& saved, c10d::Reducer& reducer) {
  expect_own(saved);
  const BucketParameters buckets = parameters_of(saved.buckets);
  HookState state = saved.state;
  if (saved.world_size != world_size_) state.own.clear();
  hook_->load_state(state, buckets);
  if (!saved.buckets.empty()) reducer.initialize_buckets(saved.buckets);
  const std::lock_guard lock(mutex_);
  buckets_ = saved.buckets;
}

}  // namespace hookline
