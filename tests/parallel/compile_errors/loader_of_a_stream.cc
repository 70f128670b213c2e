// Must not compile: a stream dataset has no indices to split.
#include "parallel/data/data_loader.h"

struct Stream : torch::data::datasets::StreamDataset<Stream> {
  std::vector<torch::data::Example<>> get_batch(std::size_t) override { return {}; }
  std::optional<std::size_t> size() const override { return std::nullopt; }
};

int main() { hookline::data_loader(Stream()); }
