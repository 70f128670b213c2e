#include "python/bindings/hook_handle.h"

#include <map>
#include <utility>

#include "hooks/registry/registry.h"

namespace hookline {
namespace {

std::map<std::string, at::Tensor> copies(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.detach().clone());
  return result;
}

}  // namespace

HookHandle::HookHandle(const std::string& hook, const std::string& wrapper, const OptionMap& options,
                       std::vector<at::Tensor> parameters, int rank, int world_size,
                       const GroupFactory& make_group)
    : parameters_(std::move(parameters)),
      make_group_(std::make_shared<GroupFactory>(make_group)),
      comm_(std::make_shared<Comm>(rank, world_size,
                                   [maker = make_group_](const std::string& name) {
                                     if (!*maker)
                                       throw HookError(
                                           "the hook opens its channel '" + name +
                                           "' after it was built: open channels in its constructor");
                                     return (*maker)(name);
                                   })),
      hook_(Registry::instance().build(hook, wrapper, options, {comm_})),
      world_size_(world_size) {
  // It calls Python, which may be gone when the last group ends.
  *make_group_ = nullptr;
  if (!hook_)
    throw HookError(
        "comm_hook 'no' without a wrapper is what DistributedDataParallel does by itself: "
        "leave the registration out");
}

FuturePtr HookHandle::run(c10d::GradBucket& bucket) {
  {
    const std::lock_guard lock(mutex_);
    if (bucket.getIndex() == 0) buckets_of_step_.clear();
    std::vector<std::size_t>& positions = buckets_of_step_.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters())
      for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (parameters_[i].is_same(parameter)) positions.push_back(i);
    if (bucket.isLast()) buckets_ = buckets_of_step_;
  }
  return hook_->runHook(bucket);
}

BucketParameters HookHandle::parameters_of(const BucketPositions& buckets) const {
  BucketParameters result;
  for (const std::vector<std::size_t>& positions : buckets) {
    auto& bucket = result.emplace_back();
    for (const std::size_t position : positions) {
      if (position >= parameters_.size())
        throw HookError("the saved state of the hook names parameter " + std::to_string(position) +
                        ", and the model has " + std::to_string(parameters_.size()) +
                        ": it is of another model");
      bucket.push_back(parameters_[position]);
    }
  }
  return result;
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
  return {describe(), world_size_, buckets, std::move(state)};
}

void HookHandle::load(const SavedHook& saved, c10d::Reducer& reducer) {
  if (saved.hook != describe())
    throw HookError("the saved state is of the hook " + saved.hook + ", and this is " + describe() +
                    ": register the same hook with the same options");
  const BucketParameters buckets = parameters_of(saved.buckets);
  HookState state = saved.state;
  if (saved.world_size != world_size_) state.own.clear();
  if (!saved.buckets.empty()) reducer.initialize_buckets(saved.buckets);
  hook_->load_state(state, buckets);
  const std::lock_guard lock(mutex_);
  buckets_ = saved.buckets;
}

}  // namespace hookline
