// Looks for NaN and infinity without making the host wait for a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace hookline {

/// One for each thing that is checked once a step.
class FiniteCheck {
 public:
  /// Whether all of `tensor` is finite. For a tensor on a GPU the answer is that for the tensor of the
  /// previous call (true in the first call), which is known by now; its own is fetched while the GPU works.
  bool passes(const at::Tensor& tensor);

 private:
  at::Tensor answer_;  // on the host
  std::optional<c10::Event> answered_;
};

}  // namespace hookline
