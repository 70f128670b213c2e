// The base of every gradient communication hook.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hooks/comm.h"
#include "hooks/future.h"
#include "hooks/grad_bucket.h"
#include "hooks/hook_cost.h"
#include "hooks/hook_state.h"
#include "hooks/option.h"

namespace hookline {

/// What a hook is built with.
struct HookContext {
  std::shared_ptr<Comm> comm;
};

/// The parameters of one bucket, by their shapes.
using BucketShapes = std::vector<std::vector<std::int64_t>>;

/// Largest relative error, in the 2-norm, that rounding may cause when vectors of `dtype` are averaged.
double tolerance_of_average(at::ScalarType dtype);

/// Communicates one bucket of gradients: pack, communicate, unpack.
///
/// `run` is called once a bucket and backward pass, in the same order of buckets on every rank, under a lock of the
/// Reducer. It must not wait; what follows a collective goes into `then`, which may run on another thread and must
/// capture tensors or shared state, never the bucket or `this`. The result's tensor has the bucket's size and dtype.
class CommHook : public c10d::CommHookInterface {
 public:
  explicit CommHook(HookContext context) : comm_(std::move(context.comm)) {}

  virtual FuturePtr run(GradBucket bucket) = 0;

  /// "power_sgd(rank=2, start=10)": for the log.
  virtual std::string describe() const = 0;

  /// Bytes that a rank hands to collectives in a step from first_full_step() on, for buckets of these shapes whose
  /// gradients have `dtype`. The default is what all-reducing them takes.
  virtual std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const;

  /// What a step takes from first_full_step() on, for gradients of `buckets`, which is what a hook is chosen by. By default nothing is
  /// known: the hook is run without other ranks, and timed. A hook overrides it that can't be run so, because it waits in `run` or
  /// sends without its Comm, or that knows better.
  virtual std::optional<HookCost> estimate_cost(const BucketParameters& /*buckets*/) const {
    return std::nullopt;
  }

  /// The step, counted from 0, from which the hook compresses.
  virtual std::int64_t first_full_step() const { return 0; }

  /// Largest relative error, in the 2-norm over a bucket of `dtype`, that rounding may cause: of the average, or, in a
  /// hook that compresses, of gradients that its compression keeps whole. The default is that of an all-reduce.
  virtual double tolerance(at::ScalarType dtype) const { return tolerance_of_average(dtype); }

  /// What the hook keeps from step to step, for a checkpoint; between two steps. A hook without such state has nothing to
  /// do. The tensors may be the hook's own, which the caller copies before the next step.
  virtual HookState save_state(const BucketParameters& /*buckets*/) const { return {}; }

  /// Goes on from `state`, which a hook with the same description saved, before the first step; `buckets` are those that
  /// it was saved with. Without HookState::own, which was of a rank that is no more, it starts that part afresh.
  /// Throws HookError if the state can't be this hook's.
  virtual void load_state(const HookState& /*state*/, const BucketParameters& /*buckets*/) {}

  /// What the hook has held back so far of this rank's gradients, such as error feedback, for the hook that takes its place: of each of
  /// `buckets` [numel], in a floating-point dtype; undefined where it has held back nothing. Between two steps.
  virtual std::vector<at::Tensor> held_back(const BucketParameters& buckets) const {
    return std::vector<at::Tensor>(buckets.size());
  }

  /// What the hook was built with, for a wrapper around it.
  HookContext context() const { return {comm_}; }

  /// What the Reducer calls: `run`, with an exception turned into the future's error.
  FuturePtr runHook(c10d::GradBucket& bucket) final;
  at::Tensor parseHookResult(const c10::IValue& result) final;

 protected:
  Comm& comm() const { return *comm_; }
  int world_size() const { return comm_->world_size(); }

 private:
  std::shared_ptr<Comm> comm_;
};

/// Number of elements of a shape.
std::int64_t numel(const std::vector<std::int64_t>& shape);

}  // namespace hookline
