// Distributed data parallel training of a module, over c10d::Reducer.
#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hooks/comm_hook.h"
#include "parallel/ddp/bucketing.h"
#include "parallel/model/parallel_strategy.h"
#include "parallel/model/prepared_parameters.h"
#include "parallel/world/world.h"

namespace c10d {
class Logger;
}  // namespace c10d

namespace hookline {

class BackwardSinks;
class GradientRecorder;
class GradientShares;
class GradientSteps;
class GuardedHook;
class ResumableReducer;
class ScatterAverage;
class WatchedGroup;

/// How a Ddp works. The fields that DistributedDataParallel has, too, mean what they mean there.
struct DdpOptions {
  bool broadcast_buffers = true;  ///< Rank 0's buffers go to all ranks before each forward.
  BucketLimits bucket_limits = BucketLimits::from(std::nullopt);  ///< How many bytes a bucket may hold.
  bool find_unused_parameters = false;   ///< Some parameters take no part in some steps.
  bool gradient_as_bucket_view = false;  ///< Gradients share the buckets' memory.
  /// Folder for this rank's gradients of the first steps, as `hookline replay` reads them; empty: none.
  std::filesystem::path record_gradients = {};
  std::int64_t record_gradients_steps = 0;  ///< How many steps are recorded.
  bool static_graph = false;                ///< Every step uses the same parameters the same number of times.
  /// The ranks of a host average exactly, and the hook works between hosts.
  bool hook_between_hosts = false;
};

/// What a static graph's first step showed of each parameter, in the order of Ddp::parameters(); empty before
/// that step, and without static_graph.
struct LearntGraph {
  std::vector<int> times;  ///< How often its gradient arrives in a step of this rank.
  std::vector<int> used;   ///< Number of ranks on which it takes part.
};

/// A Ddp's own state in a checkpoint, apart from the module's and the hook's.
struct DdpState {
  bool rebuilt = false;  ///< True once buckets have taken the order in which gradients came.
  std::vector<std::vector<std::string>> buckets;  ///< The names of each bucket's parameters.
  LearntGraph learnt_graph;                       ///< With static_graph.
  BucketLimits bucket_limits{};                   ///< Those of DdpOptions.
  /// False after a forward without gradients or inside no_sync(): the next forward broadcasts no buffers.
  bool buffers_may_differ = true;
  std::int64_t reduced_steps = 0;  ///< Backward passes that communicated, those before a resume included.
};

/// Keeps the replicas of a module equal: broadcasts rank 0's parameters, and averages gradients during
/// backward.
///
/// The calls around each forward are made by DistributedModule. Every rank makes the same calls in the same
/// order. Keeps the module and the World alive. Not synchronised. Source:
/// torch.nn.parallel.DistributedDataParallel of torch 2.11.
class Ddp : public ParallelStrategy {
 public:
  /// Compares the ranks' parameters and buffers by name, shape, strides and dtype; then broadcasts rank 0's.
  /// Throws Error, on every rank and within seconds, if the ranks' models differ (it names the parameter and
  /// the rank), if no parameter requires a gradient, or if an embedding has sparse gradients.
  Ddp(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module, const DdpOptions& options);
  ~Ddp() override;
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  /// Makes `hook`, built on hook_context(), communicate the gradients. Call it before the first forward.
  /// With hook_between_hosts a run on one host has nothing for it to do: gradients are averaged exactly,
  /// and a warning says so. Throws Error for a second hook, after the first forward, and for a hook that
  /// was built without a context.
  void register_comm_hook(std::unique_ptr<CommHook> hook);

  /// Builds a hook with `context`, or returns null.
  using HookMaker = std::function<std::unique_ptr<CommHook>(const HookContext& context)>;
  /// Destroys the current hook and attaches the one that `make_hook` builds, from the next step on; no hook
  /// if `make_hook` is empty or returns null. Gradients that the old hook held back (CommHook::held_back) are
  /// added to the next step's; its other state is lost. The step count stays. Buckets stay too, unless
  /// `other_buckets` are given, which must hold each parameter once. Call it between two steps. A collective
  /// call. Throws Error with a sharded optimizer, and if `other_buckets` hold other parameters.
  void exchange_hook(const HookMaker& make_hook, const BucketParameters& other_buckets = {});
  /// True if shard_optimizer() was called: each rank steps its share of the parameters.
  bool shards_optimizer() const { return shares_ != nullptr; }

  /// After each backward that communicated, runs `action` once, right before the next forward with gradients:
  /// between two steps.
  void after_each_step(std::function<void()> action) { after_each_step_ = std::move(action); }

  /// For hookline itself, with sharded optimizers: `average` averages only this rank's shares of the
  /// gradients; if it is null, the hook averages whole gradients. If `is_default`, a hook that is registered
  /// before the first forward replaces `average`.
  void shard_optimizer(std::shared_ptr<GradientShares> gradients, std::unique_ptr<ScatterAverage> average,
                       bool is_default);

  /// What a hook of this model is built with; see register_comm_hook().
  HookContext hook_context() const { return {hook_comm_}; }
  /// For hookline itself: the context of a hook that works between hosts. Throws Error unless there are
  /// several hosts, whose ranks share memory.
  HookContext context_between_hosts();

  /// Throws Error, on the rank that it happens to, if a parameter was replaced after the model was prepared.
  void before_forward() override;
  /// Replaces `outputs` by aliases that show when a backward pass of this forward begins
  /// (parallel/model/backward_sink.h).
  void after_forward(const std::vector<at::Tensor*>& outputs) override;
  std::string_view needs_outputs() const override;

  /// After backward with gradient_as_bucket_view: hands out gradients that share the buckets' memory and yet
  /// can be detached, so that torch's own Optimizer::zero_grad works on them. Does nothing otherwise. Happens
  /// by itself at the end of a backward that begins at an output that after_forward was given.
  void release_gradient_views() override;
  void drop_gradients() override;

  /// The module's parameters that require a gradient, in its order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// Their names in the module.
  const std::vector<std::string>& parameter_names() const { return names_; }
  /// The bare module.
  torch::nn::Module& module() const { return *module_; }
  /// The ranks that train it.
  World& world() const { return *world_; }
  /// The hook that communicates; null if there is none, or if it is the plain average.
  CommHook* hook() const;
  /// The options that it was built with.
  const DdpOptions& options() const { return options_; }

  /// Returns this object's own state, for a checkpoint. A collective call: buckets that the next forward
  /// would rebuild are rebuilt first.
  DdpState save_state();
  /// Takes up a saved state. False, with buckets as they were, if `state` has other parameters or bucket
  /// limits, or the Reducer has other rebuilt buckets already.
  bool load_state(const DdpState& state);
  /// Runs `action` before the first forward, when whatever hook there will be has been registered; at once,
  /// if the first forward has begun.
  void before_first_forward(std::function<void()> action);
  /// Runs these actions now, in their order.
  void run_what_waits_for_the_first_forward();
  /// The parameters of each bucket, as communicated.
  BucketParameters buckets() const;
  /// The gradient of parameter `index`, for a checkpoint. With a sharded optimizer, a gradient that gives the
  /// same result when it is averaged over the ranks; see GradientShares::own_gradient().
  at::Tensor own_gradient(std::size_t index) const;
  /// Sets the gradients that a checkpoint saved, one for each of parameters(); undefined: none.
  void set_own_gradients(const std::vector<at::Tensor>& gradients);
  /// With find_unused_parameters: which parameters took part since gradients were last communicated, [number
  /// of parameters()], int32, 1 for those that did; undefined otherwise.
  at::Tensor used_parameters() const;
  /// `pipeline` describes the hook that is registered, or that the first forward attaches.
  CommunicationStats communication_stats() const override;
  std::int64_t bytes_sent() const override;
  /// When the latest backward pass began.
  std::chrono::steady_clock::time_point backward_began_at() const { return backward_began_at_; }
  std::optional<StepClock::Moment> only_waited_since(const StepClock::Moment& start) const override;
  std::optional<double> take_compression_error() override;
  /// The error that take_compression_error() returned last for the current hook; none if it has returned
  /// none.
  std::optional<double> latest_compression_error() const;

 private:
  void build_comms();
  void build_reducer();
  void attach(std::unique_ptr<CommHook> hook);
  void attach_average();
  /// The hook that there is, or that the first forward attaches; null: none.
  const CommHook* hook_to_come() const;
  /// Each rank gets the averages of its shares of gradients alone.
  bool averages_shares() const { return average_ != nullptr; }
  void rebuild_buckets();
  std::vector<std::vector<std::string>> names_in(const BucketParameters& buckets) const;
  /// Called by a backward pass, before it goes through an output of a forward or into a parameter's gradient.
  /// The first time it decides what the pass communicates, from all that the pass goes through.
  void begin_backward();
  /// What a backward pass that communicates has begun.
  struct Communication {
    bool is_begun = false;
    bool learns = false;  // how often each parameter's gradient comes, of a static graph
  };
  /// Begins to communicate if the pass that runs, perhaps an inner one, reaches parameters.
  void begin(Communication& communication);
  /// Queues the rest of the work for the end of the backward pass that is running.
  void end_with(const std::shared_ptr<const Communication>& communication);
  void begin_with_accumulators();
  void explain_unused_parameters(const std::function<void()>& call);
  void broadcast(const std::vector<at::Tensor>& tensors);

  std::shared_ptr<World> world_;
  std::shared_ptr<torch::nn::Module> module_;
  PreparedParameters prepared_;
  DdpOptions options_;
  std::vector<std::string> names_;      // of parameters_
  std::vector<at::Tensor> parameters_;  // those that require a gradient
  const Comm& comm_of_gradients() const;

  std::shared_ptr<Comm> comm_;                // of the gradients without a hook
  std::shared_ptr<Comm> hook_comm_;           // of a hook: the same, unless it works between hosts
  std::shared_ptr<Comm> comm_between_hosts_;  // null until it is asked for
  std::shared_ptr<Comm> comm_of_errors_;      // of CompressionError; null until the first
  std::shared_ptr<GradientSteps> steps_;
  c10::intrusive_ptr<WatchedGroup> group_;
  std::shared_ptr<ResumableReducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  GuardedHook* hook_ = nullptr;             // owned by the Reducer, if there is one
  std::shared_ptr<GradientShares> shares_;  // of a sharded optimizer
  std::unique_ptr<ScatterAverage> average_to_come_;
  ScatterAverage* average_ = nullptr;  // once it is the hook
  bool forward_begun_ = false;
  std::vector<std::function<void()>> before_first_forward_;
  bool buffers_may_differ_ = true;  // false in the forward after one without gradients or inside no_sync()
  std::shared_ptr<BackwardSinks> sinks_;
  bool outputs_are_known_ = true;  // of the latest forward
  std::mutex begin_mutex_;         // autograd has a thread for each device; guards the next two
  std::set<int> begun_passes_;     // by autograd's number; passes may be nested, and one that throws stays
  struct {
    int pass = -1;
    std::shared_ptr<Communication> communication;
  } awaits_inner_pass_;  // a pass through an output that reaches parameters only in an inner pass
  std::function<void()> after_each_step_;
  // Set if there is a hook for this one step only, which also averages what the hook before it held back.
  std::optional<std::int64_t> last_hooked_step_;
  std::int64_t steps_that_ended_ = 0;  // and after which before_forward() has acted already
  std::chrono::steady_clock::time_point backward_began_at_{};
  std::unique_ptr<GradientRecorder> recorder_;              // until a hook has it
  std::int64_t resumed_steps_ = 0;                          // reduced steps of the run that this one resumes
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // a graph may be kept longer than this
};

}  // namespace hookline
