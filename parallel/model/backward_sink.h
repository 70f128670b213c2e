// Detects which forward passes a backward pass belongs to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace hookline {

/// The sink nodes of one model that still exist in autograd graphs.
class BackwardSinks {
 public:
  enum class Found { none, local, communicating };
  /// Which kind of sink the backward pass on this thread goes through; communicating if it goes through both
  /// kinds.
  Found in_this_pass() const;

  /// For a sink itself, when it begins and ends.
  void add(const torch::autograd::Node* sink, bool communicates);
  void remove(const torch::autograd::Node* sink);

 private:
  mutable std::mutex mutex_;  // a graph may end on any thread
  std::unordered_map<const torch::autograd::Node*, bool> communicates_;
};

/// Replaces each of `outputs` that requires a gradient by an alias of it, the same values in the same memory,
/// whose graph begins with a node that calls `begin` and passes gradients through: `begin` runs whenever a
/// backward pass, or torch::autograd::grad, goes through an output, before any gradient of what computed it.
///
/// `joint`: the outputs share one node, so that a backward pass through one of them goes through all of them,
/// the others with undefined gradients. Otherwise each has a node of its own. Outputs that share memory with
/// each other become copies, as all do in PyTorch: a change of one in place would be in the values of the
/// other, and not in its graph. `sinks` knows the nodes for as long as there are any, and whether they are of
/// a forward that communicates. Returns false if no output requires a gradient: then `begin` is never called.
/// `begin` may throw; the backward pass throws the same. It runs on the autograd engine's thread.
/// Source: torch.nn.parallel.distributed._DDPSink, which clones the outputs instead.
bool put_behind_sink(const std::vector<at::Tensor*>& outputs, bool joint,
                     const std::shared_ptr<BackwardSinks>& sinks, bool communicates,
                     const std::function<void()>& begin);

}  // namespace hookline
