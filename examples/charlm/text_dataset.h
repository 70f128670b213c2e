// A text file as windows of characters, as a torch dataset.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace charlm {

/// A file that can't be trained on; what() names it.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The characters (bytes) of a text as numbers from 0 on, in the order of their codes. The last tenth is for
/// validation.
class Text {
 public:
  /// Throws TextError if `file` can't be read, or is too short for windows of `context` characters.
  Text(const std::filesystem::path& file, std::int64_t context);

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(characters_.size()); }
  std::string decoded(const at::Tensor& tokens) const;  // 1-D, int64
  const at::Tensor& training() const { return training_; }
  const at::Tensor& validation() const { return validation_; }

 private:
  std::string characters_;
  at::Tensor training_, validation_;
};

/// Windows of `context` tokens; the target is the same window one token later. Both are int64, of shape
/// (context). A window begins every `stride` tokens. Copies share the tokens.
class Windows : public torch::data::datasets::Dataset<Windows> {
 public:
  Windows(at::Tensor tokens, std::int64_t context, std::int64_t stride)
      : tokens_(std::move(tokens)), context_(context), stride_(stride) {}

  torch::data::Example<> get(std::size_t index) override {
    const std::int64_t start = static_cast<std::int64_t>(index) * stride_;
    return {tokens_.slice(0, start, start + context_), tokens_.slice(0, start + 1, start + context_ + 1)};
  }
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>((tokens_.size(0) - context_ - 1) / stride_ + 1);
  }

 private:
  at::Tensor tokens_;
  std::int64_t context_, stride_;
};

}  // namespace charlm
