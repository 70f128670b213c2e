// A small transformer that predicts the next character. Source: Vaswani et al. 2017, arXiv:1706.03762; with
// the norm before each part, as GPT-2 has it.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/hookline.h"

namespace charlm {

struct NetSize {
  std::int64_t vocabulary = 0;
  std::int64_t context = 128;  // characters that it sees
  std::int64_t width = 128;    // a multiple of heads
  std::int64_t heads = 4;
  std::int64_t layers = 4;
};

/// Causal self-attention, then two linear layers, both with a residual connection. Maps (batch, time, width)
/// to the same shape.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const NetSize& size)
      : heads(size.heads),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})))),
        attention(register_module("attention", torch::nn::Linear(size.width, 3 * size.width))),
        projection(register_module("projection", torch::nn::Linear(size.width, size.width))),
        norm_of_mlp(
            register_module("norm_of_mlp", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})))),
        up(register_module("up", torch::nn::Linear(size.width, 4 * size.width))),
        down(register_module("down", torch::nn::Linear(4 * size.width, size.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
    // (query, key, value) × batch × heads × time × width of a head
    const at::Tensor parts =
        attention(norm(x)).view({batch, time, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const at::Tensor seen =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    const at::Tensor y = x + projection(seen.transpose(1, 2).reshape({batch, time, width}));
    return y + down(at::gelu(up(norm_of_mlp(y))));
  }

  std::int64_t heads;
  torch::nn::LayerNorm norm;
  torch::nn::Linear attention, projection;
  torch::nn::LayerNorm norm_of_mlp;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

/// Maps tokens (batch, time) to the logits of the token that follows each (batch, time, vocabulary). Its
/// blocks are the FsdpUnits of a sharded model.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const NetSize& size)
      : token(register_module("token", torch::nn::Embedding(size.vocabulary, size.width))),
        place(register_module("place", torch::nn::Embedding(size.context, size.width))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})))),
        head(register_module("head", torch::nn::Linear(size.width, size.vocabulary))) {
    for (std::int64_t i = 0; i < size.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), hookline::FsdpUnit<Block>(size)));
  }

  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = token(tokens) + place(at::arange(tokens.size(1), tokens.options()));
    for (auto& block : blocks) x = block(x);
    return head(norm(x));
  }

  torch::nn::Embedding token, place;
  std::vector<hookline::FsdpUnit<Block>> blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

}  // namespace charlm
