// A module that trains on many ranks: what prepare() makes of a model.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "hooks/function_hook.h"
#include "parallel/ddp/ddp.h"
#include "parallel/model/around_forward.h"
#include "parallel/model/parallel_strategy.h"

namespace hookline {

namespace detail {
/// Throws Error if `strategy` is not a Ddp.
Ddp& ddp_of(ParallelStrategy& strategy, const torch::nn::Module& module);
}  // namespace detail

/// A model as prepare() returns it: `Module`, a torch::nn::Module with a forward of any signature, kept equal
/// on all ranks (DDP) or sharded between them.
///
/// Used like torch's module holders: model->forward(x), model->train(). Copies share one module. The bare
/// module is module(), whose parameters keep their names: save that one, and load weights into it before
/// prepare().
template <class Module>
class DistributedModule {
 public:
  /// Wraps `module` in DDP without an Accelerator. Collective; throws as the constructor of Ddp does.
  DistributedModule(std::shared_ptr<World> world, std::shared_ptr<Module> module, const DdpOptions& options)
      : module_(module), strategy_(std::make_shared<Ddp>(std::move(world), std::move(module), options)) {}
  /// Made by Accelerator::prepare().
  DistributedModule(std::shared_ptr<Module> module, std::shared_ptr<ParallelStrategy> strategy)
      : module_(std::move(module)), strategy_(std::move(strategy)) {}

  /// Calls the module's forward with `args` and returns its result. With gradients enabled, a backward
  /// through the result averages gradients over the ranks, except inside no_sync(). Collective, in an
  /// evaluation too if the model is sharded or has buffers. Throws Error if a parameter was replaced after
  /// prepare(), and RunFailed if the run has failed.
  template <class... Args>
  auto forward(Args&&... args) {
    const TimedPhase timed(strategy_->step_clock(),
                           at::GradMode::is_enabled() ? &PhaseSeconds::forward : nullptr);
    return detail::forward_within(*strategy_, *module_,
                                  [&] { return module_->forward(std::forward<Args>(args)...); });
  }
  /// Calls forward(): model(x).
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  /// Makes it usable like a module holder: model->forward(x).
  DistributedModule* operator->() { return this; }
  /// The same for a const model.
  const DistributedModule* operator->() const { return this; }

  /// The bare module, shared with all copies.
  const std::shared_ptr<Module>& module() const { return module_; }

  /// The bare module's parameters; of a sharded model this rank's pieces, except inside forward, backward and
  /// summon_full_params().
  std::vector<at::Tensor> parameters() const { return module_->parameters(); }
  /// The same with their names, which prepare() does not change, as a torch::OrderedDict.
  auto named_parameters() const { return module_->named_parameters(); }
  /// The bare module's buffers.
  std::vector<at::Tensor> buffers() const { return module_->buffers(); }
  /// Puts the bare module into training mode, or with false into evaluation mode.
  void train(bool on = true) { module_->train(on); }
  /// Puts the bare module into evaluation mode.
  void eval() { module_->eval(); }
  /// True if the bare module is in training mode.
  bool is_training() const { return module_->is_training(); }

  /// Drops all gradients; they are undefined afterwards. Also right with gradient_as_bucket_view and for a
  /// sharded model, unlike the bare module's.
  void zero_grad() {
    for (at::Tensor& parameter : module_->parameters()) parameter.mutable_grad().reset();
    strategy_->drop_gradients();
  }

  /// Runs `body` without averaging gradients: this rank adds up those of its backward passes, and the next
  /// backward outside of no_sync() averages the sum. Every rank calls it alike.
  template <class Body>
  void no_sync(Body&& body) {
    struct Restore {
      ParallelStrategy& strategy;
      bool before;
      ~Restore() { strategy.set_sync(before); }
    } restore{*strategy_, strategy_->sync()};
    strategy_->set_sync(false);
    std::forward<Body>(body)();
  }

  /// Runs `body` with all parameters unsharded, for example to save the bare module. Changes that every rank
  /// makes to parameters inside it persist. Collective; for a model that is not sharded it just runs `body`.
  template <class Body>
  void summon_full_params(Body&& body) {
    strategy_->summon_full_params(std::forward<Body>(body));
  }

  /// Registers a function as communication hook, as in Python: `hook(state, bucket)` is called for each
  /// bucket and follows the rules of CommHook::run. The state is often the HookContext of
  /// ddp().hook_context(), or holds it. Throws as the other overload does.
  template <class State, class Hook>
  void register_comm_hook(State state, Hook hook) {
    register_comm_hook(
        std::make_unique<FunctionHook<State>>(ddp().hook_context(), std::move(state), std::move(hook)));
  }
  /// Registers a hook that was built with ddp().hook_context(); on every rank, before the first forward.
  /// Throws Error for a second hook, after the first forward, for a hook without a context, and if the model
  /// is sharded.
  void register_comm_hook(std::unique_ptr<CommHook> hook) { ddp().register_comm_hook(std::move(hook)); }

  /// The model's DDP, for its hook context and hook. Throws Error if the model is sharded.
  Ddp& ddp() { return detail::ddp_of(*strategy_, *module_); }
  /// The same for a const model.
  const Ddp& ddp() const { return detail::ddp_of(*strategy_, *module_); }
  /// For hookline itself: what communicates for the model.
  ParallelStrategy& strategy() { return *strategy_; }
  /// For hookline itself: the same as a shared pointer.
  const std::shared_ptr<ParallelStrategy>& strategy_ptr() const { return strategy_; }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<ParallelStrategy> strategy_;
};

}  // namespace hookline
