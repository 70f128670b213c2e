// Optimizer steps in one pass over memory.
#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <string>

namespace hookline::detail {

/// Steps the optimizer that it was made for. False if it left everything as it was, and the optimizer has to step by itself.
using FusedStep = std::function<bool()>;

/// The step of `optimizer` by at::_fused_sgd_, _fused_adam_ or _fused_adamw_; empty if it is none of torch::optim's SGD, Adam and
/// AdamW (a class derived from one of them may step differently), or if `choice` is "no". `optimizer` must outlive it.
///
/// State is kept where the optimizer keeps it, so that it may be saved, loaded and stepped by either. Results are those of torch's
/// fused kernels, which differ from tensor by tensor in rounding. On the CPU the elements at a tensor's end, which torch's
/// kernels compute with other instructions, take the way of all others: the bits of an element do not depend on where it lies, and
/// so a sharded model's are those of DDP.
///
/// A step leaves everything as it was if a gradient is sparse, or lies otherwise in memory, on another device or in another dtype
/// than its parameter. With `choice` "auto" that is logged once; with "yes" it throws Error, as does `fused_step_of` itself for
/// another optimizer.
/// Source: torch.optim's `fused=True`.
FusedStep fused_step_of(torch::optim::Optimizer& optimizer, const std::string& choice);

}  // namespace hookline::detail
