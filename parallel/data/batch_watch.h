// Finds out whether a batch is still in use, without keeping it alive.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/data/example.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hookline::detail {

/// Sees the tensors of a batch that is a tensor or an Example; of batches of another type nothing.
class BatchWatch {
 public:
  BatchWatch() = default;
  template <class Batch>
  explicit BatchWatch(const Batch& batch) {
    add(batch);
  }

  /// The largest number of owners among the batch's tensors. The iterator that loaded it is one; each copy in
  /// the program is another.
  std::size_t owners() const {
    std::size_t most = 0;
    for (const auto& tensor : tensors_) most = std::max<std::size_t>(most, tensor.use_count());
    return most;
  }

 private:
  template <class Batch>
  void add(const Batch&) {}
  template <class Data, class Target>
  void add(const torch::data::Example<Data, Target>& example) {
    add(example.data);
    add(example.target);
  }
  template <class Data>
  void add(const torch::data::Example<Data, void>& example) {
    add(example.data);
  }
  void add(const at::Tensor& tensor) {
    if (tensor.defined()) tensors_.emplace_back(tensor.getIntrusivePtr());
  }

  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensors_;
};

}  // namespace hookline::detail
