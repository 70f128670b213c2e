// Modules whose parameters a sharded model gathers one module at a time.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallel/model/around_forward.h"

namespace hookline {

namespace detail {

/// What runs before and after the forward of a unit; it sees the inputs, too.
class AroundUnit : public AroundForward {
 public:
  /// Before before_forward. `inputs`: the tensors among forward's arguments; `are_all`: the arguments can't
  /// hold any others.
  virtual void take_inputs(const std::vector<at::Tensor>& inputs, bool are_all) = 0;
};

/// A module that may be a unit. Fsdp sets `around` when it shards the model that contains the module.
struct UnitModule {
  virtual ~UnitModule() = default;
  std::shared_ptr<AroundUnit> around;
};

/// Calls `forward()` of `module` with `args`: as that of a unit if the module is part of a sharded model,
/// else directly.
template <class Forward, class... Args>
auto forward_as_unit(const UnitModule& unit, const torch::nn::Module& module, Forward&& forward,
                     const Args&... args) {
  if (!unit.around) return forward();
  std::vector<at::Tensor> inputs;
  const auto look_into = [&]<class T>(T& argument) {
    visit_part(argument, [&](at::Tensor& tensor) { inputs.push_back(tensor); });
  };
  (look_into(const_cast<Args&>(args)), ...);  // which it does not change
  unit.around->take_inputs(inputs, (KnownOutput<Args> && ...));
  return forward_within(*unit.around, module, forward);
}

template <class T>
struct ImplOf {
  using type = T;
};
template <class Holder>
requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, Holder>
struct ImplOf<Holder> {
  using type = typename Holder::ContainedType;
};

template <class Module, class Arguments>
struct UnitWith;

/// The arguments of a pointer to a member function.
template <class... Args>
struct Arguments {};
template <class Function>
struct ArgumentsOf;
template <class Result, class Class, class... Args>
struct ArgumentsOf<Result (Class::*)(Args...)> {
  using type = Arguments<Args...>;
};
template <class Result, class Class, class... Args>
struct ArgumentsOf<Result (Class::*)(Args...) const> {
  using type = Arguments<Args...>;
};

/// True if `forward` can be called with fewer arguments than it declares: some have defaults.
template <class Impl, class Tried, class... Rest>
struct HasDefaults : std::false_type {};
template <class Impl, class... Tried, class Next, class... Rest>
    struct HasDefaults<Impl, Arguments<Tried...>, Next, Rest...> : std::bool_constant <
                                                                   requires(Impl& impl, Tried... tried) {
  impl.forward(std::forward<Tried>(tried)...);
} || HasDefaults<Impl, Arguments<Tried..., Next>, Rest...>::value > {};

struct AnyArguments {};

/// The arguments of Impl::forward if it is one function without defaults, else AnyArguments.
template <class Impl>
struct ForwardArguments {
  template <class... Args>
  static auto known(Arguments<Args...>)
      -> std::conditional_t<HasDefaults<Impl, Arguments<>, Args...>::value, AnyArguments, Arguments<Args...>>;
  template <class I>
  static auto find(int) -> decltype(known(typename ArgumentsOf<decltype(&I::forward)>::type{}));
  template <class I>
  static auto find(...) -> AnyArguments;
  using type = decltype(find<Impl>(0));
};

/// A unit whose forward has exactly these arguments, so that torch::nn::Sequential takes it.
template <class Impl, class... Args>
struct UnitWith<Impl, Arguments<Args...>> : Impl, UnitModule {
  using Impl::Impl;
  auto forward(Args... args) {
    return forward_as_unit(
        *this, *this, [&] { return Impl::forward(std::forward<Args>(args)...); }, args...);
  }
};

/// A unit whose module's forward is overloaded, a template, or has default arguments.
template <class Impl>
struct UnitWith<Impl, AnyArguments> : Impl, UnitModule {
  using Impl::Impl;
  template <class... Args>
  auto forward(Args&&... args) {
    return forward_as_unit(
        *this, *this, [&] { return Impl::forward(std::forward<Args>(args)...); }, args...);
  }
};

}  // namespace detail

/// The module type behind FsdpUnit: `Impl`, with a forward that gathers its parameters.
template <class Impl>
struct FsdpUnitImpl : detail::UnitWith<Impl, typename detail::ForwardArguments<Impl>::type> {
  using detail::UnitWith<Impl, typename detail::ForwardArguments<Impl>::type>::UnitWith;
};

/// Makes a module, given by its holder or its Impl, an FSDP unit of any sharded model that contains it:
///
///     struct NetImpl : torch::nn::Module {
///       NetImpl() : block(register_module("block", hookline::FsdpUnit<Block>(256))) {}
///       torch::Tensor forward(const torch::Tensor& x) { return block(x); }
///       hookline::FsdpUnit<Block> block;
///     };
///
/// With full_shard its parameters are unsharded only while its forward or its backward runs. Parameters
/// outside every FsdpUnit, and those that several units share, stay unsharded from the model's forward to the
/// end of the backward. All keep their names. In a model that is not sharded, the unit behaves like the
/// module alone.
///
/// Its forward must return every tensor that the loss depends on; it throws Error if one is a view of a
/// parameter. Every rank must run the same units in the same order, in an evaluation too; otherwise all ranks
/// throw RunFailed.
template <class Module>
class FsdpUnit : public torch::nn::ModuleHolder<FsdpUnitImpl<typename detail::ImplOf<Module>::type>> {
 public:
  using torch::nn::ModuleHolder<FsdpUnitImpl<typename detail::ImplOf<Module>::type>>::ModuleHolder;
  /// The type of the module that the holder holds.
  using Impl = FsdpUnitImpl<typename detail::ImplOf<Module>::type>;
};

}  // namespace hookline
