// Which hook a model has: registering it, exchanging it, and what it sends.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "hooks/ddp/no_hook_name.h"
#include "hooks/ddp/scatter_average.h"
#include "parallel/ddp/between_hosts.h"
#include "parallel/ddp/bucketing.h"
#include "parallel/ddp/ddp.h"
#include "parallel/ddp/guarded_hook.h"
#include "parallel/ddp/resumable_reducer.h"
#include "parallel/shards/gradient_shares.h"
#include "parallel/tensors/sizes.h"

namespace hookline {
namespace {

/// A Comm of all ranks whose stages are groups of their own, with names that begin with `prefix`.
std::shared_ptr<Comm> stages_of_hook(const std::shared_ptr<World>& world, const std::string& prefix) {
  return std::make_shared<Comm>(world->rank(), world->size(), [world, prefix](const std::string& name) {
    return world->make_stage_group(prefix + name);
  });
}

}  // namespace

void Ddp::build_comms() {
  comm_ = stages_of_hook(world_, "");
  hook_comm_ = comm_;
  if (options_.hook_between_hosts && !world_->layout().is_one_host())
    hook_comm_ = context_between_hosts().comm;
}

HookContext Ddp::context_between_hosts() {
  if (comm_between_hosts_) return {comm_between_hosts_};
  const int hosts = static_cast<int>(world_->layout().hosts.size());
  if (hosts == 1) throw Error("nothing goes between hosts: this run has one");
  if (world_->uses_nccl() || !world_->uses_shared_memory())
    throw Error(
        "[ddp] comm_scope = \"between_hosts\" needs the ranks of a host to share memory, and this run "
        "communicates over " +
        world_->backend_name() +
        ": set [launch] device = \"cpu\" and backend = \"auto\", or leave comm_scope out");
  comm_between_hosts_ = std::make_shared<Comm>(
      world_->rank(), hosts,
      [world = world_](const std::string& name) { return world->make_group(name, SumScope::between_hosts); });
  return {comm_between_hosts_};
}

void Ddp::register_comm_hook(std::unique_ptr<CommHook> hook) {
  if (hook_) {
    throw Error(
        "the model has a communication hook already, '" + hook_->hook().describe() +
        "': a second can't be registered; name one hook in [ddp] comm_hook, or register one by hand with "
        "comm_hook = \"no\"");
  }
  if (forward_begun_) throw Error("a communication hook must be registered before the model's first forward");
  if (!hook->context().comm) {
    throw Error("the communication hook '" + hook->describe() +
                "' was built without a context: build it with the model's ddp().hook_context()");
  }
  if (options_.hook_between_hosts) {
    if (world_->layout().is_one_host()) {
      if (world_->rank() == 0)
        log::warning("the hook '" + hook->describe() +
                     "' is not used: [ddp] comm_scope = \"between_hosts\" leaves it only what goes from host "
                     "to host, and this run has one host");
      return;
    }
    hook = std::make_unique<BetweenHosts>(*world_, std::move(hook));
  }
  attach(std::move(hook));
}

void Ddp::shard_optimizer(std::shared_ptr<GradientShares> gradients, std::unique_ptr<ScatterAverage> average,
                          bool is_default) {
  shares_ = std::move(gradients);
  average_to_come_ = std::move(average);
  if (average_to_come_ && !is_default) attach_average();
}

void Ddp::attach_average() {
  average_ = average_to_come_.get();
  attach(std::move(average_to_come_));
}

void Ddp::attach(std::unique_ptr<CommHook> hook) {
  std::unique_ptr<CompressionError> error;
  const std::int64_t sent = hook->bytes_per_step(expected_buckets(parameters_, options_.bucket_limits),
                                                 parameters_[0].scalar_type());
  if (sent < bytes_of(parameters_) && !averages_shares()) {
    if (!comm_of_errors_) comm_of_errors_ = stages_of_hook(world_, "compression-error-");
    error = std::make_unique<CompressionError>(comm_of_errors_, [world = world_](const FuturePtr& average) {
      return world->watch().watched(average, "the exact average of gradients");
    });
  }
  auto guarded =
      std::make_unique<GuardedHook>(steps_, std::move(hook), std::move(recorder_), std::move(error));
  hook_ = guarded.get();
  reducer_->register_comm_hook(std::move(guarded));
}

/// The parameters' names in `buckets`. Throws Error unless these hold each of the model's parameters exactly
/// once.
std::vector<std::vector<std::string>> Ddp::names_in(const BucketParameters& buckets) const {
  std::map<const c10::TensorImpl*, std::string> name_of;
  for (std::size_t i = 0; i < names_.size(); ++i) name_of[parameters_[i].unsafeGetTensorImpl()] = names_[i];
  std::vector<std::vector<std::string>> names;
  for (const auto& bucket : buckets) {
    auto& of_bucket = names.emplace_back();
    for (const at::Tensor& parameter : bucket) {
      auto name = name_of.extract(parameter.unsafeGetTensorImpl());
      if (name.empty())
        throw Error("buckets hold a tensor twice, or one that is not a parameter of the model");
      of_bucket.push_back(std::move(name.mapped()));
    }
  }
  if (!name_of.empty()) throw Error("the parameter '" + name_of.begin()->second + "' is in no bucket");
  return names;
}

// A Reducer accepts only one hook, so this makes a new Reducer.
void Ddp::exchange_hook(const HookMaker& make_hook, const BucketParameters& other_buckets) {
  if (shares_)
    throw Error("the communication hook can't be replaced by another while the optimizer is sharded");
  DdpState state = save_state();
  if (!other_buckets.empty()) {
    if (options_.static_graph && state.learnt_graph.times.empty())
      throw Error("a static graph's buckets can't be cut anew before its first step is over");
    state.buckets = names_in(other_buckets);
    state.rebuilt = true;
  }
  const std::int64_t resumed_steps = resumed_steps_;
  release_gradient_views();  // views into the old Reducer's buckets
  std::vector<at::Tensor> held_back;
  if (hook_) {
    recorder_ = hook_->take_recorder();
    held_back = hook_->hook().held_back(buckets());
    if (!other_buckets.empty()) held_back = in_other_buckets(held_back, buckets(), other_buckets);
    const bool has_any = std::any_of(held_back.begin(), held_back.end(),
                                     [](const at::Tensor& each) { return each.defined(); });
    if (!has_any) held_back.clear();
  }
  hook_ = nullptr;
  logger_.reset();  // which holds the Reducer
  reducer_.reset();
  build_reducer();
  hook_comm_->release_channels();
  if (comm_between_hosts_ && comm_between_hosts_ != hook_comm_) comm_between_hosts_->release_channels();
  if (make_hook)
    if (auto hook = make_hook(hook_context())) attach(std::move(hook));
  last_hooked_step_.reset();
  if (!hook_ && !held_back.empty()) {
    last_hooked_step_ = state.reduced_steps;
    attach(std::make_unique<NoHook>(HookContext{comm_}));
  }
  if (hook_) {
    hook_->carry(std::move(held_back));
    hook_->came_at(state.reduced_steps);
  }
  load_state(state);
  resumed_steps_ = resumed_steps;
}

CommHook* Ddp::hook() const {
  const bool is_any = hook_ && dynamic_cast<NoHook*>(&hook_->hook()) == nullptr;
  return is_any ? &hook_->hook() : nullptr;
}

const CommHook* Ddp::hook_to_come() const { return hook_ ? &hook_->hook() : average_to_come_.get(); }

std::optional<double> Ddp::take_compression_error() {
  return hook_ ? hook_->take_compression_error() : std::nullopt;
}

std::optional<double> Ddp::latest_compression_error() const {
  return hook_ ? hook_->latest_compression_error() : std::nullopt;
}

const Comm& Ddp::comm_of_gradients() const { return hook_ ? *hook_->hook().context().comm : *comm_; }

std::int64_t Ddp::bytes_sent() const {
  std::int64_t bytes = comm_of_gradients().bytes_sent();
  if (average_) bytes += average_->bytes_sent();
  if (shares_) bytes += shares_->gathered_bytes;
  return bytes;
}

CommunicationStats Ddp::communication_stats() const {
  CommunicationStats report;
  report.parameters = elements_of(parameters_);
  report.gradient_bytes = bytes_of(parameters_);
  report.steps = steps_->count() - resumed_steps_;
  report.bytes_sent = bytes_sent();
  report.stages = comm_of_gradients().bytes_by_stage();
  if (average_) report.stages.at(0).bytes += average_->bytes_sent();
  if (const CommHook* const hook = hook_to_come()) {
    report.pipeline = hook->describe();
    report.bytes_per_step = hook->bytes_per_step(expected_buckets(parameters_, options_.bucket_limits),
                                                 parameters_[0].scalar_type());
    report.first_full_step = hook->first_full_step();
  } else {
    report.pipeline = kNoHook;
    report.bytes_per_step = report.gradient_bytes;
  }
  if (const ScatterAverage* const average = hook_ ? average_ : average_to_come_.get()) {
    report.bytes_per_step = 0;  // each parameter counts with its own dtype
    for (const at::Tensor& parameter : parameters_)
      report.bytes_per_step += average->bytes_of(parameter.numel(), parameter.scalar_type());
  }
  if (shares_) {
    report.pipeline += ", sharded optimizer";
    report.bytes_per_step += report.gradient_bytes / 2;
    report.stages.push_back({"parameters", shares_->gathered_bytes});
  }
  return report;
}

}  // namespace hookline
