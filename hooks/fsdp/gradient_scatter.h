// How a sharded model's gradients are averaged: each rank ends with its own part of the average.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/fsdp/buffer_pool.h"
#include "hooks/fsdp/shard_channel.h"

namespace hookline {

/// What gradients are divided by before and after they are summed, so that neither a sum overflows nor a part of it
/// vanishes: before · after is the world size. Source: torch.distributed.algorithms._comm_hooks.default_hooks.DefaultState.
struct GradientDivisors {
  double before = 1, after = 1;

  static GradientDivisors of(int world_size);
};

/// FSDP's communication hooks: reduce_scatter_hook, and with a wire dtype fp16_compress_hook and bf16_compress_hook, of
/// torch.distributed.algorithms._comm_hooks.default_hooks.
///
/// Over Gloo each rank sums the parts that the others send it by itself, in float32 and in the order of ranks: Gloo's own
/// reduce-scatter does not take float16, and sends as much as an all-reduce. What was cast is divided after the sum then, so that
/// half precision loses nothing to the division. Where the ranks of each of several hosts sum their parts before they are sent on,
/// their sum is of the wire's dtype, so they divide first.
///
/// Not synchronised; every rank starts the same scatters in the same order.
class GradientScatter {
 public:
  /// `pool`: for what is on its way. `wire`: what gradients are cast to while they travel.
  GradientScatter(std::shared_ptr<BufferPool> pool, std::shared_ptr<ShardChannel> channel,
                  std::optional<at::ScalarType> wire);

  /// A scatter under way; keeps the memory that it needs.
  struct Started {
    ShardWork work;
    at::Tensor sent, received;
    at::ScalarType dtype = at::kFloat;  // of the gradient
  };

  /// `gradient`, [n] with n a multiple of the world size, is used up. `operation`: which one it is.
  Started start(const ShardOperation& operation, at::Tensor gradient);
  /// This rank's part of the average, [n / world size], in the gradient's dtype; once the work is done.
  at::Tensor finish(Started started) const;

  /// What of `gradient_bytes`, of dtype `dtype`, is counted as sent: half of what the all-reduce of them would be, of which
  /// a reduce-scatter is the first half.
  std::int64_t bytes_of(std::int64_t gradient_bytes, at::ScalarType dtype) const;

 private:
  bool casts(at::ScalarType dtype) const { return wire_ && *wire_ != dtype; }
  /// Gradients of `dtype` are divided before they are summed, and not only behind it.
  bool divides_first(at::ScalarType dtype) const {
    return channel_->sums() || !casts(dtype) || channel_->addends(*wire_) < channel_->size();
  }

  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<ShardChannel> channel_;
  std::optional<at::ScalarType> wire_;
  GradientDivisors divisors_;
};

}  // namespace hookline
