// How a sharded model's gradients are averaged: each rank ends with its own part of the average.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/fsdp/buffer_pool.h"
#include "hooks/fsdp/shard_channel.h"

namespace hookline {

/// What gradients are divided by before and after they are summed, so that neither a sum overflows nor a part
/// of it vanishes: before · after is the world size. Source:
/// torch.distributed.algorithms._comm_hooks.default_hooks.DefaultState.
struct GradientDivisors {
  double before = 1, after = 1;

  static GradientDivisors of(int world_size);
};

/// FSDP's communication hooks: reduce_scatter_hook, and with a wire dtype fp16_compress_hook and
/// bf16_compress_hook, of torch.distributed.algorithms._comm_hooks.default_hooks.
///
/// Over Gloo, each rank receives the other ranks' parts and sums them itself, in float32 and in rank order:
/// Gloo's own reduce-scatter does not support float16, and sends as much as an all-reduce. Cast gradients are
/// then divided after the sum, so that the division loses no precision. Where the ranks of a host sum their
/// parts before sending them to other hosts, that sum has the wire's dtype, so gradients are divided first.
///
/// Not synchronised; every rank starts the same scatters in the same order.
class GradientScatter {
 public:
  /// `pool` provides buffers for scatters in progress. Gradients are cast to `wire`, if given, for
  /// communication.
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

  /// Bytes counted as sent for `gradient_bytes` of dtype `dtype`: half of what an all-reduce would send,
  /// since a reduce-scatter is the first half of an all-reduce.
  std::int64_t bytes_of(std::int64_t gradient_bytes, at::ScalarType dtype) const;

 private:
  bool casts(at::ScalarType dtype) const { return wire_ && *wire_ != dtype; }
  /// True if gradients of `dtype` are divided before the sum, not only after it.
  bool divides_first(at::ScalarType dtype) const {
    return channel_->sums() || !casts(dtype) || channel_->addends(*wire_) < channel_->size();
  }

  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<ShardChannel> channel_;
  std::optional<at::ScalarType> wire_;
  GradientDivisors divisors_;
};

}  // namespace hookline
