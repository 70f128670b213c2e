// Must not compile: a torch loader's sampler is its own.
#include <torch/data/dataloader.h>
#include <torch/data/datasets/tensor.h>

#include "parallel/data/data_loader.h"

int main() {
  hookline::data_loader(
      torch::data::make_data_loader(torch::data::datasets::TensorDataset(at::zeros({3, 2}))));
}
