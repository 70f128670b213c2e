// The base of every gradient communication hook.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hooks/catalog/hook_cost.h"
#include "hooks/catalog/option.h"
#include "hooks/comm.h"
#include "hooks/future.h"
#include "hooks/grad_bucket.h"
#include "hooks/hook_state.h"

namespace hookline {

/// Everything that a hook is built with. For a hook of a model, use the model's ddp().hook_context().
struct HookContext {
  std::shared_ptr<Comm> comm;  ///< How the hook communicates; must not be null.
  /// True if the model's buckets will not change any more, so that a hook need not wait for that before it
  /// begins to compress.
  bool buckets_are_final = false;
};

/// The shapes of one bucket's parameters.
using BucketShapes = std::vector<std::vector<std::int64_t>>;

/// Largest relative error, in the 2-norm, that rounding may cause when ranks average vectors of `dtype`.
double tolerance_of_average(at::ScalarType dtype);

/// The base of a communication hook, which averages one bucket of gradients at a time: pack, communicate,
/// unpack.
///
/// A hook overrides run() and describe(), and what else it needs.
class CommHook : public c10d::CommHookInterface {
 public:
  /// Every hook has a context: pass on the one that your constructor gets.
  explicit CommHook(HookContext context) : context_(std::move(context)) {}

  /// Starts to average `bucket` over the ranks, and returns a future of the averaged gradients: one tensor
  /// with the bucket's size and dtype, equal on every rank. Called once for each bucket of a backward pass,
  /// in the same order on every rank.
  ///
  /// It must not wait, since it runs under a lock of the Reducer. What follows a collective goes into then(),
  /// which may run on another thread: capture tensors or shared state there, never the bucket or `this`. An
  /// exception ends the run: every rank throws.
  virtual FuturePtr run(GradBucket bucket) = 0;

  /// Name and options, such as "power_sgd(rank=2, start=10)": for the log, and to find the same hook in a
  /// checkpoint.
  virtual std::string describe() const = 0;

  /// Bytes that a rank hands to collectives in a step, from first_full_step() on, for buckets of these shapes
  /// whose gradients have `dtype`. The default is the bytes of the gradients.
  virtual std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const;

  /// The cost of a step with gradients of `buckets`, from first_full_step() on, by which `comm_hook = "auto"`
  /// chooses. The default is none: the hook is then timed on this rank alone. Override it for a hook that
  /// cannot run alone, because it waits in run() or communicates without its Comm, or that knows its cost
  /// better.
  virtual std::optional<HookCost> estimate_cost(const BucketParameters& /*buckets*/) const {
    return std::nullopt;
  }

  /// The step, from 0, at which the hook begins to compress.
  virtual std::int64_t first_full_step() const { return 0; }

  /// Largest relative error of the average, in the 2-norm over a bucket of `dtype`, that rounding may cause;
  /// for a hook that compresses, with gradients that its compression preserves. `hookline test` checks it.
  /// The default is that of an all-reduce.
  virtual double tolerance(at::ScalarType dtype) const { return tolerance_of_average(dtype); }

  /// Returns what the hook keeps from step to step, for a checkpoint. Called between two steps, on every
  /// rank. The default is no state. The tensors may be the hook's own; the caller copies them before the next
  /// step.
  virtual HookState save_state(const BucketParameters& /*buckets*/) const { return {}; }

  /// Restores `state`, which a hook with the same describe() has saved. Called between two steps, or before
  /// the first, on every rank. HookState::own is empty if the number of ranks has changed;
  /// `shared` and `own` are both empty if the buckets have changed. What is missing starts fresh. Throws
  /// HookError if the state does not fit the hook.
  virtual void load_state(const HookState& /*state*/, const BucketParameters& /*buckets*/) {}

  /// Returns what the hook has held back of this rank's gradients, such as error feedback, so that the hook
  /// that replaces it can send it: for each of `buckets` a floating-point tensor [numel], undefined if
  /// nothing is held back. Called between two steps.
  virtual std::vector<at::Tensor> held_back(const BucketParameters& buckets) const {
    return std::vector<at::Tensor>(buckets.size());
  }

  /// What the hook was built with, for a wrapper around it.
  const HookContext& context() const { return context_; }

  /// Called by the Reducer: run(), with an exception turned into an error of the future.
  FuturePtr runHook(c10d::GradBucket& bucket) final;
  /// Called by the Reducer: the tensor of a future's value.
  at::Tensor parseHookResult(const c10::IValue& result) final;

 protected:
  /// How the hook communicates.
  Comm& comm() const { return *context_.comm; }
  /// Number of ranks to average over; with `comm_scope = "between_hosts"`, of hosts.
  int world_size() const { return context_.comm->world_size(); }

 private:
  HookContext context_;
};

/// Number of elements of a tensor of this shape.
std::int64_t numel(const std::vector<std::int64_t>& shape);

}  // namespace hookline
