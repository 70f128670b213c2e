// A communication hook for a model of Python's DistributedDataParallel.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooks/comm_hook.h"
#include "parallel/ddp/compression_error.h"

namespace hookline {

/// The parameters of each bucket, as their positions in the model's list.
using BucketPositions = std::vector<std::vector<std::size_t>>;

/// A hook's state and the buckets that it belongs to.
struct SavedHook {
  std::string hook;  // as it describes itself
  int world_size = 0;
  std::vector<std::vector<std::int64_t>> shapes;  // of the model's parameters
  BucketPositions buckets;
  HookState state;
};

/// A hook and the groups that it communicates over. The constructor, run(), save(), load() and the destructor
/// are called without Python's lock: `make_group` takes it itself.
class HookHandle {
 public:
  /// Builds `hook` inside `wrapper`, as Registry::build does. `parameters` are those that the Reducer
  /// reduces, in its order. Collective: `make_group` is called for each group that the hook communicates
  /// over, and never later; not at all if it throws HookError because of the hook's name or options.
  HookHandle(const std::string& hook, const std::string& wrapper, const OptionMap& options,
             std::vector<at::Tensor> parameters, int rank, int world_size, const GroupFactory& make_group);

  /// Averages a bucket of the Reducer's: CommHook::run, with an exception as the future's error.
  FuturePtr run(c10d::GradBucket& bucket);

  std::string describe() const { return hook_->describe(); }
  std::int64_t bytes_sent() const { return comm_->bytes_sent(); }
  std::vector<StageBytes> bytes_by_stage() const { return comm_->bytes_by_stage(); }

  /// CompressionError::take() of this hook; none for one that sends as many bytes as the gradients have.
  std::optional<double> take_compression_error() { return error_ ? error_->take() : std::nullopt; }

  /// Copies of what the hook keeps from step to step. Call it between two steps.
  SavedHook save() const;
  /// Restores what save() returned, and gives `reducer` the buckets that it belongs to. Call it on every rank
  /// before the model's first forward. Throws HookError if it is of another hook or another model.
  void load(const SavedHook& saved, c10d::Reducer& reducer);

 private:
  BucketParameters parameters_of(const BucketPositions& buckets) const;
  std::vector<std::vector<std::int64_t>> shapes() const;
  /// Throws HookError unless `saved` can be this model's and this hook's.
  void expect_own(const SavedHook& saved) const;

  std::vector<at::Tensor> parameters_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> positions_;  // of parameters_
  std::shared_ptr<Comm> comm_;
  std::unique_ptr<CommHook> hook_;
  std::unique_ptr<CompressionError> error_;  // null for a hook that sends as many bytes as the gradients have
  std::int64_t steps_ = 0;                   // begun with this hook
  int world_size_;
  std::mutex mutable mutex_;
  BucketPositions buckets_, buckets_of_step_;  // of the last whole step, and of the one in progress
};

/// The same as the hook of a Reducer, without Python in between.
class HandleAsHook : public c10d::CommHookInterface {
 public:
  explicit HandleAsHook(std::shared_ptr<HookHandle> handle) : handle_(std::move(handle)) {}
  FuturePtr runHook(c10d::GradBucket& bucket) override { return handle_->run(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  std::shared_ptr<HookHandle> handle_;
};

}  // namespace hookline
