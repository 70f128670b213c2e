// Finding out, in a backward pass, which forward passes it belongs to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hookline {

/// Replaces each of `outputs` that requires a gradient by an alias of it, the same values in the same memory, whose graph
/// begins with a node that calls `begin` and passes gradients through: `begin` runs whenever a backward pass, or
/// torch::autograd::grad, goes through an output, before any gradient of what computed it.
///
/// `joint`: the outputs share one node, so that a backward pass through one of them goes through all of them, the others
/// with undefined gradients. Otherwise each has a node of its own.
/// Returns false if no output requires a gradient: then `begin` is never called.
/// `begin` may throw; the backward pass throws the same. It runs on the autograd engine's thread.
/// Source: torch.nn.parallel.distributed._DDPSink, which clones the outputs instead.
bool put_behind_sink(const std::vector<at::Tensor*>& outputs, bool joint, const std::function<void()>& begin);

}  // namespace hookline
