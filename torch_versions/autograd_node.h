// Autograd's nodes, which torch up to some version holds by std::shared_ptr, and later ones by
// c10::intrusive_ptr.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace hookline::torch_versions {

/// Shares the ownership of a node.
using NodePtr = decltype(torch::autograd::Edge::function);

/// Makes a node of type `Node`, which derives from torch::autograd::Node. Deleting a long chain of nodes does
/// not overflow the stack.
template <class Node, class... Arguments>
NodePtr make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    // Not std::make_shared: torch::autograd::deleteNode unlinks the chain first. Later versions lack it:
    // `auto` delays its lookup until this branch is instantiated.
    return NodePtr(new Node(std::forward<Arguments>(arguments)...), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace hookline::torch_versions
