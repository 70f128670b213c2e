#include "hooks/fsdp/gradient_scatter.h"

#include <ATen/ATen.h>

#include <utility>

namespace hookline {

GradientDivisors GradientDivisors::of(int world_size) {
  int before = 1;
  while (world_size % before == 0 && world_size / before > before) before *= 2;
  return {static_cast<double>(before), static_cast<double>(world_size) / before};
}

GradientScatter::GradientScatter(std::shared_ptr<BufferPool> pool, std::shared_ptr<ShardChannel> channel,
                                 std::optional<at::ScalarType> wire)
    : pool_(std::move(pool)),
      channel_(std::move(channel)),
      wire_(wire),
      divisors_(GradientDivisors::of(channel_->size())) {}

GradientScatter::Started GradientScatter::start(const ShardOperation& operation, at::Tensor gradient) {
  Started started;
  started.dtype = gradient.scalar_type();
  started.sent = std::move(gradient);
  if (casts(started.dtype)) {
    const at::Tensor exact = started.sent;
    started.sent = pool_->empty(exact.numel(), exact.options().dtype(*wire_)).copy_(exact);
  }
  if (divides_first(started.dtype) && divisors_.before != 1) started.sent.div_(divisors_.before);
  if (channel_->size() == 1) {
    started.received = started.sent;
  } else if (channel_->sums()) {
    started.received = at::empty({started.sent.numel() / channel_->size()}, started.sent.options());
    started.work = channel_->reduce_scatter(operation, started.received, started.sent);
  } else {
    const std::int64_t addends = channel_->addends(started.sent.scalar_type());
    started.received =
        pool_->empty(started.sent.numel() / channel_->size() * addends, started.sent.options());
    started.work = channel_->scatter_addends(operation, started.received, started.sent);
  }
  return started;
}

at::Tensor GradientScatter::finish(Started started) const {
  at::Tensor part = std::move(started.received);
  started.sent.reset();
  if (const std::int64_t addends = channel_->addends(part.scalar_type()); !channel_->sums() && addends > 1)
    part = part.view({addends, -1}).sum(0, /*keepdim=*/false, started.dtype);
  part = part.to(started.dtype);
  const double divisor =
      divides_first(started.dtype) ? divisors_.after : static_cast<double>(channel_->size());
  return divisor == 1 ? part : part.div_(divisor);
}

std::int64_t GradientScatter::bytes_of(std::int64_t gradient_bytes, at::ScalarType dtype) const {
  const auto on_the_wire = static_cast<std::int64_t>(c10::elementSize(wire_.value_or(dtype)));
  return gradient_bytes / static_cast<std::int64_t>(c10::elementSize(dtype)) * on_the_wire / 2;
}

}  // namespace hookline
