// Must not compile: a torch data loader can no longer be split between ranks.
#include <torch/data/dataloader.h>
#include <torch/data/datasets/tensor.h>

#include "parallel/accelerator.h"

auto prepare(hookline::Accelerator& accelerator) {
  return accelerator.prepare(
      torch::data::make_data_loader(torch::data::datasets::TensorDataset(std::vector<at::Tensor>{})));
}
