// The handwritten digits of data/digits.csv as a torch dataset.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace digits {

/// Every fifth image, from the first on, is for testing; the others are for training.
enum class Split { train, test };

/// A file that does not hold digits; what() names the file and the line.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Images of 1×8×8 floats in [0, 1], with their digits. Copies share the images.
class DigitsDataset : public torch::data::datasets::Dataset<DigitsDataset> {
 public:
  /// Reads lines of 64 pixels (0 to 16) and a digit, separated by commas. Throws DataError.
  DigitsDataset(const std::filesystem::path& file, Split split);

  torch::data::Example<> get(std::size_t index) override;
  std::optional<std::size_t> size() const override;

  const at::Tensor& images() const { return images_; }  // n×1×8×8, float
  const at::Tensor& labels() const { return labels_; }  // n, int64

 private:
  at::Tensor images_;
  at::Tensor labels_;
};

}  // namespace digits
