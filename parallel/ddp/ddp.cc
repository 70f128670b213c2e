#include "parallel/ddp/ddp.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "hooks/ddp/scatter_average.h"
#include "parallel/ddp/guarded_hook.h"
#include "parallel/ddp/reducer_factory.h"
#include "parallel/ddp/resumable_reducer.h"
#include "parallel/ddp/watched_group.h"
#include "parallel/model/backward_sink.h"
#include "parallel/model/wire_table.h"
#include "parallel/shards/gradient_shares.h"
#include "parallel/tensors/sizes.h"
#include "parallel/tensors/sparse_gradients.h"
#include "parallel/world/model_signature.h"

namespace hookline {
namespace {

class BeforeGradient : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeGradient(std::function<void(const at::Tensor& gradient)> action)
      : action_(std::move(action)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    action_(gradients.at(0));
    return gradients;
  }

 private:
  std::function<void(const at::Tensor& gradient)> action_;
};

void release(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (gradient.defined() && gradient.is_view()) gradient = gradient.variable_data();
  }
}

/// Runs `action` at the end of the current backward pass, after the Reducer, which also finishes in an engine
/// callback: a callback that is queued while callbacks run comes after all others.
void at_end_of_backward(std::function<void()> action) {
  auto& engine = torch::autograd::Engine::get_default_engine();
  engine.queue_callback(
      [&engine, action = std::move(action)]() mutable { engine.queue_callback(std::move(action)); });
}

}  // namespace

Ddp::Ddp(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module, const DdpOptions& options)
    : ParallelStrategy(world->step_clock()),
      world_(std::move(world)),
      module_(std::move(module)),
      prepared_(module_),
      options_(options),
      sinks_(std::make_shared<BackwardSinks>()) {
  for (const auto& parameter : module_->named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    names_.push_back(parameter.key());
    parameters_.push_back(parameter.value());
  }
  agree_on_signature(*world_, model_signature(*module_));
  refuse_sparse_gradients(*module_);
  if (parameters_.empty()) {
    throw Error("the model '" + module_->name() +
                "' has no parameter that requires a gradient: there is nothing to "
                "average between ranks; use it without preparing it");
  }
  std::vector<at::Tensor> state = module_->parameters();
  for (const at::Tensor& buffer : module_->buffers()) state.push_back(buffer);
  broadcast(state);
  build_comms();
  steps_ = std::make_shared<GradientSteps>(world_, elements_of(parameters_));
  group_ = c10::make_intrusive<WatchedGroup>(world_, comm_, steps_);
  if (!options_.record_gradients.empty())
    recorder_ = std::make_unique<GradientRecorder>(options_.record_gradients, options_.record_gradients_steps,
                                                   world_->rank(), names_, parameters_);
  build_reducer();
  begin_with_accumulators();
}

Ddp::~Ddp() = default;

void Ddp::broadcast(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> defined;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) defined.push_back(tensor);
  }
  world_->broadcast(defined);
}

void Ddp::build_reducer() {
  reducer_ = make_reducer(group_, parameters_, names_, options_);
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  logger_->set_construction_data_and_log(module_->name(), {}, -1, options_.broadcast_buffers, false,
                                         options_.static_graph);
  if (options_.static_graph) {
    reducer_->set_static_graph();
    logger_->set_static_graph();
  }
}

void Ddp::before_forward() {
  if (const auto failure = world_->watch().failure()) throw *failure;
  prepared_.expect_unchanged();
  // A forward without gradients does not begin the next step.
  if (at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled())
    if (const std::int64_t steps = steps_->count(); std::exchange(steps_that_ended_, steps) < steps) {
      if (last_hooked_step_ && *last_hooked_step_ < steps) exchange_hook({});
      if (after_each_step_) after_each_step_();
    }
  if (!hook_ && average_to_come_) attach_average();
  if (!hook_ && recorder_) attach(std::make_unique<NoHook>(HookContext{comm_}));
  if (!forward_begun_ && world_->rank() == 0)
    log::info(pipeline_line(communication_stats()) + " over " + world_->backend_name());
  forward_begun_ = true;
  {
    const std::lock_guard lock(begin_mutex_);
    awaits_inner_pass_ = {};  // left by a backward that threw
  }
  run_what_waits_for_the_first_forward();
  const bool recording = at::GradMode::is_enabled();
  if (recording && sync()) {
    logger_->set_runtime_stats_and_log();
    reducer_->prepare_for_forward();
  }
  if (recording) explain_unused_parameters([&] { rebuild_buckets(); });
  if (options_.broadcast_buffers && buffers_may_differ_) {
    broadcast(module_->buffers());
  }
}

void Ddp::rebuild_buckets() {
  if (reducer_->rebuild_buckets()) release_gradient_views();
}

/// Replaces the Reducer's error text, which refers to Python and to parameters by number.
void Ddp::explain_unused_parameters(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string mark = "did not receive grad for rank " + std::to_string(world_->rank()) + ": ";
    if (text.find("Expected to have finished reduction") == std::string::npos) throw;
    std::string unused;
    std::size_t count = 0;
    if (const auto at = text.find(mark); at != std::string::npos) {
      std::istringstream numbers(text.substr(at + mark.size()));
      for (std::size_t index = 0; numbers >> index;) {
        if (index < names_.size()) unused += (count++ == 0 ? "" : ", ") + ("'" + names_[index] + "'");
      }
    }
    const std::string missed = count == 0   ? "all parameters of the model"
                               : count == 1 ? "the parameter " + unused
                                            : "the parameters " + unused;
    throw Error("the previous backward did not reach " + missed + " on rank " +
                std::to_string(world_->rank()) + ", and the averages wait for " +
                (count == 1 ? "it: make it" : "them: make all of them") +
                " part of the loss, or set [ddp] find_unused_parameters = true");
  }
}

void Ddp::after_forward(const std::vector<at::Tensor*>& outputs) {
  if (!at::GradMode::is_enabled()) {
    buffers_may_differ_ = false;
    return;
  }
  const bool communicates = sync();
  buffers_may_differ_ = communicates;
  const bool joint = options_.find_unused_parameters && !options_.static_graph;
  outputs_are_known_ =
      put_behind_sink(outputs, joint, sinks_, communicates, [this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) begin_backward();
      });
  if (!needs_outputs().empty()) return;
  // The loss may be made of something that the module does not return, so gradients are averaged even if no
  // output leads to them.
  if (communicates)
    reducer_->prepare_for_backward({});
  else if (!outputs_are_known_)
    reducer_->begin_local_backward();
}

/// A loss may use parameters directly, after the forward. Their gradients come before the pass reaches an
/// output, so each gradient accumulator may begin the backward.
void Ddp::begin_with_accumulators() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::grad_accumulator(parameters_[i])
        ->add_pre_hook(std::make_unique<BeforeGradient>(
            [this, i, alive = std::weak_ptr(alive_)](const at::Tensor& gradient) {
              if (alive.expired()) return;
              refuse_sparse_gradient(gradient, names_[i]);
              begin_backward();
              if (averages_shares() && gradient.defined()) shares_->before_gradient(i);
            }));
}

void Ddp::begin_backward() {
  const int pass = torch::autograd::get_current_graph_task_id();
  const std::lock_guard lock(begin_mutex_);
  if (begun_passes_.contains(pass)) return;
  if (begun_passes_.empty()) backward_began_at_ = std::chrono::steady_clock::now();
  const BackwardSinks::Found found = sinks_->in_this_pass();
  if (found == BackwardSinks::Found::communicating) {
    const auto communication = std::make_shared<Communication>();
    end_with(communication);
    begin(*communication);
    // Activation checkpointing recomputes a part of the model, and reaches its parameters in a nested
    // backward pass.
    if (!communication->is_begun) awaits_inner_pass_ = {pass, communication};
  } else if (found == BackwardSinks::Found::local) {
    reducer_->begin_local_backward();
  } else if (awaits_inner_pass_.pass >= 0) {
    begin(*awaits_inner_pass_.communication);
    if (awaits_inner_pass_.communication->is_begun) awaits_inner_pass_ = {};
  } else if (!outputs_are_known_ && sync() && !reducer_->expects_gradients() && reducer_->is_reached()) {
    throw Error(
        "hookline can't tell which forward a backward belongs to: the gradients of the latest forward have "
        "been averaged already, and what forward returns is of a type that hookline can't look into. Return "
        "tensors, or define visit_tensors(Output&, visit) beside the type, which calls visit for each tensor "
        "in it");
  }
  if (averages_shares()) {
    // Also for a pass that goes through no output: the Reducer may communicate its gradients all the same.
    at_end_of_backward([this, alive = std::weak_ptr(alive_), sent = average_->bytes_sent()] {
      if (!alive.expired() && average_->bytes_sent() > sent) shares_->after_average();
    });
  }
  at_end_of_backward([this, pass, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const std::lock_guard at_end(begin_mutex_);
    begun_passes_.erase(pass);
    if (awaits_inner_pass_.pass == pass) awaits_inner_pass_ = {};
  });
  begun_passes_.insert(pass);
}

void Ddp::begin(Communication& communication) {
  explain_unused_parameters([&] { communication.is_begun = reducer_->begin_backward(); });
  if (!communication.is_begun) return;
  communication.learns = reducer_->learns();
  if (averages_shares()) shares_->before_average();
}

void Ddp::end_with(const std::shared_ptr<const Communication>& communication) {
  torch::autograd::Engine::get_default_engine().queue_callback([communication, reducer = reducer_] {
    if (communication->learns) reducer->delay_all_reduce();
  });
  if (options_.gradient_as_bucket_view)
    at_end_of_backward([communication, parameters = parameters_] {
      if (communication->is_begun) release(parameters);
    });
}

void Ddp::drop_gradients() {
  if (shares_) shares_->drop();
}

at::Tensor Ddp::own_gradient(std::size_t index) const {
  return averages_shares() ? shares_->own_gradient(index) : parameters_[index].grad();
}

void Ddp::set_own_gradients(const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
  if (shares_) shares_->forget();
}

void Ddp::release_gradient_views() {
  if (options_.gradient_as_bucket_view) release(parameters_);
}

std::string_view Ddp::needs_outputs() const {
  const bool needs = options_.find_unused_parameters || options_.static_graph;
  return needs ? "find_unused_parameters and static_graph need" : "";
}

DdpState Ddp::save_state() {
  explain_unused_parameters([&] { rebuild_buckets(); });
  DdpState state;
  state.rebuilt = reducer_->has_rebuilt();
  for (const auto& bucket : reducer_->layout()) {
    auto& names = state.buckets.emplace_back();
    for (const std::size_t index : bucket) names.push_back(names_[index]);
  }
  state.learnt_graph = reducer_->learnt_graph();
  state.bucket_limits = options_.bucket_limits;
  state.buffers_may_differ = buffers_may_differ_;
  state.reduced_steps = steps_->count();
  return state;
}

bool Ddp::load_state(const DdpState& state) {
  buffers_may_differ_ = state.buffers_may_differ;
  steps_->start_at(state.reduced_steps);
  resumed_steps_ = state.reduced_steps;
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < names_.size(); ++i) index_of[names_[i]] = i;
  std::vector<std::vector<std::size_t>> buckets;
  std::size_t found = 0;
  for (const auto& names : state.buckets) {
    auto& bucket = buckets.emplace_back();
    for (const std::string& name : names) {
      const auto index = index_of.find(name);
      if (index == index_of.end()) return false;
      bucket.push_back(index->second);
      ++found;
    }
  }
  if (found != names_.size() || state.bucket_limits != options_.bucket_limits) return false;
  if (reducer_->has_rebuilt()) return state.rebuilt && buckets == reducer_->layout();
  const bool learnt = state.learnt_graph.times.size() == parameters_.size();
  if (options_.static_graph && state.rebuilt && !learnt) return false;
  if (options_.static_graph && learnt) {
    reducer_->restore_learnt_graph(state.learnt_graph);
  }
  if (state.rebuilt) reducer_->restore_rebuilt(std::move(buckets));
  return true;
}

void Ddp::run_what_waits_for_the_first_forward() {
  for (const auto& action : std::exchange(before_first_forward_, {})) action();
}

void Ddp::before_first_forward(std::function<void()> action) {
  if (forward_begun_) return action();
  before_first_forward_.push_back(std::move(action));
}

BucketParameters Ddp::buckets() const {
  BucketParameters buckets;
  for (const auto& indices : reducer_->layout()) {
    auto& bucket = buckets.emplace_back();
    for (const std::size_t index : indices) bucket.push_back(parameters_[index]);
  }
  return buckets;
}

at::Tensor Ddp::used_parameters() const {
  return options_.find_unused_parameters ? reducer_->used_parameters() : at::Tensor();
}

/// The time since which this rank has only waited: since its last bucket was handed over. What a hook
/// computes before it starts a collective is not waiting.
std::optional<StepClock::Moment> Ddp::only_waited_since(const StepClock::Moment& start) const {
  const StepClock::Moment& last = steps_->last_bucket_at();
  return last.is_after(start) ? std::optional(last) : std::nullopt;
}

}  // namespace hookline
