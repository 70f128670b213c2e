// A module wrapped for distributed data parallel training: what prepare() makes of a model.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooks/function_hook.h"
#include "parallel/ddp.h"
#include "parallel/module_outputs.h"

namespace hookline {

namespace detail {
[[noreturn]] void throw_outputs_unknown(const std::string& module);
[[noreturn]] void throw_no_outputs(const std::string& module);
}  // namespace detail

/// `Module`, a torch::nn::Module with a forward of any signature, kept equal on all ranks.
///
/// Used as a pointer, like torch's module holders: model->forward(x), model->train(). Copies share one module and one
/// engine. The bare module is module(): save and load that one; its parameters have the names they always had.
template <class Module>
class DistributedModule {
 public:
  DistributedModule(std::shared_ptr<World> world, std::shared_ptr<Module> module, const DdpOptions& options)
      : module_(module), ddp_(std::make_shared<Ddp>(std::move(world), std::move(module), options)) {}

  /// Calls the module's forward. In training mode with gradients enabled, the backward that follows averages them.
  template <class... Args>
  auto forward(Args&&... args) {
    ddp_->before_forward();
    if constexpr (std::is_void_v<decltype(module_->forward(std::forward<Args>(args)...))>) {
      if (ddp_->needs_outputs()) detail::throw_no_outputs(module_->name());
      module_->forward(std::forward<Args>(args)...);
      ddp_->after_forward({});
    } else {
      auto output = module_->forward(std::forward<Args>(args)...);
      std::vector<at::Tensor*> tensors;
      if constexpr (KnownOutput<decltype(output)>) {
        detail::visit_part(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
      } else if (ddp_->needs_outputs()) {
        detail::throw_outputs_unknown(module_->name());
      }
      ddp_->after_forward(tensors);
      return output;
    }
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
  }

  /// Runs `body` without communication: gradients of its backward passes add up locally.
  template <class Body>
  void no_sync(Body&& body) {
    struct Restore {
      Ddp& ddp;
      bool before;
      ~Restore() { ddp.set_sync(before); }
    } restore{*ddp_, ddp_->sync()};
    ddp_->set_sync(false);
    std::forward<Body>(body)();
  }

  /// Registers a hook by hand: `hook(state, bucket)` is called for each bucket, where the state is often a
  /// HookContext from ddp().hook_context(), or holds one. See CommHook::run for what it may do.
  template <class State, class Hook>
  void register_comm_hook(State state, Hook hook) {
    ddp_->register_comm_hook(
        std::make_unique<FunctionHook<State>>(ddp_->hook_context(), std::move(state), std::move(hook)));
  }
  void register_comm_hook(std::unique_ptr<CommHook> hook) { ddp_->register_comm_hook(std::move(hook)); }

  Ddp& ddp() { return *ddp_; }
  const Ddp& ddp() const { return *ddp_; }
  const std::shared_ptr<Ddp>& ddp_ptr() const { return ddp_; }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<Ddp> ddp_;
};

}  // namespace hookline
