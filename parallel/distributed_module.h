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
#include "parallel/model/engine.h"

namespace hookline {

namespace detail {
/// Throws Error if `engine` is another.
Ddp& ddp_of(Engine& engine, const torch::nn::Module& module);
}  // namespace detail

/// `Module`, a torch::nn::Module with a forward of any signature, kept equal on all ranks or sharded between them.
///
/// Used as a pointer, like torch's module holders: model->forward(x), model->train(). Copies share one module and one
/// engine. The bare module is module(): save that one, and load it before it is prepared; its parameters have the names they
/// always had.
template <class Module>
class DistributedModule {
 public:
  DistributedModule(std::shared_ptr<World> world, std::shared_ptr<Module> module, const DdpOptions& options)
      : module_(module), engine_(std::make_shared<Ddp>(std::move(world), std::move(module), options)) {}
  DistributedModule(std::shared_ptr<Module> module, std::shared_ptr<Engine> engine)
      : module_(std::move(module)), engine_(std::move(engine)) {}

  /// Calls the module's forward. In training mode with gradients enabled, the backward that follows averages them.
  template <class... Args>
  auto forward(Args&&... args) {
    const TimedPhase timed(engine_->step_clock(),
                           at::GradMode::is_enabled() ? &PhaseSeconds::forward : nullptr);
    return detail::forward_within(*engine_, *module_,
                                  [&] { return module_->forward(std::forward<Args>(args)...); });
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  DistributedModule* operator->() { return this; }
  const DistributedModule* operator->() const { return this; }

  /// The bare module.
  const std::shared_ptr<Module>& module() const { return module_; }

  std::vector<at::Tensor> parameters() const { return module_->parameters(); }
  auto named_parameters() const { return module_->named_parameters(); }
  std::vector<at::Tensor> buffers() const { return module_->buffers(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  bool is_training() const { return module_->is_training(); }

  /// Drops gradients; unlike the module's own, also with gradient_as_bucket_view.
  void zero_grad() {
    for (at::Tensor& parameter : module_->parameters()) parameter.mutable_grad().reset();
    engine_->drop_gradients();
  }

  /// Runs `body` without communication: gradients of its backward passes add up locally.
  template <class Body>
  void no_sync(Body&& body) {
    struct Restore {
      Engine& engine;
      bool before;
      ~Restore() { engine.set_sync(before); }
    } restore{*engine_, engine_->sync()};
    engine_->set_sync(false);
    std::forward<Body>(body)();
  }

  /// Runs `body` with every parameter whole, on every rank, also of a sharded model: to save the bare module, say. What `body`
  /// does to parameters stays if every rank does it: of a sharded model's each keeps its own part. A collective call.
  template <class Body>
  void summon_full_parameters(Body&& body) {
    engine_->summon_full_parameters(std::forward<Body>(body));
  }

  /// Registers a hook by hand: `hook(state, bucket)` is called for each bucket, where the state is often a
  /// HookContext from ddp().hook_context(), or holds one. See CommHook::run for what it may do.
  template <class State, class Hook>
  void register_comm_hook(State state, Hook hook) {
    register_comm_hook(
        std::make_unique<FunctionHook<State>>(ddp().hook_context(), std::move(state), std::move(hook)));
  }
  void register_comm_hook(std::unique_ptr<CommHook> hook) { ddp().register_comm_hook(std::move(hook)); }

  /// Throws Error if the model is sharded.
  Ddp& ddp() { return detail::ddp_of(*engine_, *module_); }
  const Ddp& ddp() const { return detail::ddp_of(*engine_, *module_); }
  Engine& engine() { return *engine_; }
  const std::shared_ptr<Engine>& engine_ptr() const { return engine_; }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<Engine> engine_;
};

}  // namespace hookline
