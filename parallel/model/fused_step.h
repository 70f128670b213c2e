// Optimizer steps in one pass over memory.
#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <string>

namespace hookline::detail {

/// Steps the optimizer that it was made for. False if it left everything as it was, and the optimizer has to
/// step by itself.
using FusedStep = std::function<bool()>;

/// The step of `optimizer` by at::_fused_sgd_, _fused_adam_ or _fused_adamw_; empty if it is none of
/// torch::optim's SGD, Adam and AdamW (a class derived from one of them may step differently), or if `choice`
/// is "no". `optimizer` must outlive it.
///
/// The state stays where the optimizer keeps it, so both can save, load and step it. Results are those of
/// torch's fused kernels, which round differently from torch's unfused steps. On the CPU, torch's kernels
/// compute the last elements of a tensor with different instructions; here those elements are computed like
/// all others, so an element's bits do not depend on its position, and a sharded model gets the same bits as
/// DDP.
///
/// The step changes nothing if a gradient is sparse, or differs from its parameter in memory layout, device
/// or dtype. With `choice` "auto" that is logged once; with "yes" it throws Error, as does `fused_step_of`
/// for an unsupported optimizer.
/// Source: torch.optim's `fused=True`.
FusedStep fused_step_of(torch::optim::Optimizer& optimizer, const std::string& choice);

}  // namespace hookline::detail
