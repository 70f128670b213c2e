// The average of which each rank gets its share alone.
#pragma once

#include <memory>
#include <optional>

#include "hooks/comm_hook.h"
#include "hooks/fsdp/buffer_pool.h"
#include "hooks/fsdp/shard_channel.h"

namespace hookline {

/// What ScatterAverage does before the sum: as which hook.
struct ScatterKind {
  enum class Scale { multiply, divide };  // by 1 / world size, or by the world size
  Scale scale = Scale::multiply;
  std::optional<at::ScalarType> wire = {};  // what gradients are cast to while they travel: float16, bfloat16
  std::string name = "no hook";             // of the hook whose averages these are
};

/// The kind of the hook and the wrapper of these names; none if that hook's averages can't be taken apart.
std::optional<ScatterKind> scatter_kind_of(const std::string& hook, const std::string& wrapper);

/// Averages this rank's share of each gradient, even_share() of its elements: the first half of an all-reduce, for an optimizer of
/// which each rank steps its share. What DDP without a hook, allreduce, fp16 or bf16 makes of these elements, with the same bits
/// where ranks are summed in the same order, as they are in shared memory, between two ranks, and over hosts that share memory.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the exchange, of the wire's dtype
/// Result  the bucket's buffer: the average in this rank's shares, its own gradients elsewhere
/// State   what is on its way: on the CPU two pieces of 4 MiB, as they are sent and received; on a GPU 2n elements of each bucket
/// Errors  none at step time               Parity  those of the hooks named above
/// Source  Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5.1
class ScatterAverage : public CommHook {
 public:
  /// `channel`: of this hook alone.
  ScatterAverage(HookContext context, std::shared_ptr<ShardChannel> channel, std::shared_ptr<BufferPool> pool,
                 ScatterKind kind);
  ~ScatterAverage() override;

  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return kind_.name; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const override;
  /// What it sends of `numel` gradients of `dtype`.
  std::int64_t bytes_of(std::int64_t numel, at::ScalarType dtype) const;

  /// That this rank has handed over so far, counted as half of what their all-reduce takes.
  std::int64_t bytes_sent() const;

 private:
  class Queue;

  ScatterKind kind_;
  std::shared_ptr<Queue> queue_;
};

}  // namespace hookline
