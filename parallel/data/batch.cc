#include "parallel/data/batch.h"

#include <ATen/ops/stack.h>

#include <sstream>
#include "base/error.h"

namespace hookline::detail {
namespace {

at::Tensor stack(const std::vector<at::Tensor>& tensors, Indices indices, const char* part) {
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].sizes() == tensors[0].sizes()) continue;
    std::ostringstream message;
    message << "hookline::data_loader: samples " << indices[0] << " and " << indices[i]
            << " of the dataset can't be stacked: the shape of their " << part << " is " << tensors[0].sizes()
            << " and " << tensors[i].sizes()
            << "; make the shapes equal, or give the dataset a collation of its own (dataset.map(…))";
    throw Error(message.str());
  }
  return at::stack(tensors);
}

}  // namespace

LabelledExample collate(std::vector<LabelledExample> samples, Indices indices) {
  std::vector<at::Tensor> data;
  std::vector<at::Tensor> targets;
  data.reserve(samples.size());
  targets.reserve(samples.size());
  for (LabelledExample& sample : samples) {
    data.push_back(std::move(sample.data));
    targets.push_back(std::move(sample.target));
  }
  return {stack(data, indices, "data"), stack(targets, indices, "target")};
}

TensorExample collate(std::vector<TensorExample> samples, Indices indices) {
  std::vector<at::Tensor> data;
  data.reserve(samples.size());
  for (TensorExample& sample : samples) data.push_back(std::move(sample.data));
  return {stack(data, indices, "data")};
}

void throw_cannot_move_batch(c10::Device device) {
  throw Error("hookline::data_loader: batches of this dataset can't be moved to " + device.str() +
              ": give the batch type a member function `Batch to(torch::Device) const`");
}

void throw_no_batch() {
  throw Error(
      "hookline::data_loader: the iterator is at the end of its epoch and has no batch: compare it with "
      "end() before you use it");
}

}  // namespace hookline::detail
