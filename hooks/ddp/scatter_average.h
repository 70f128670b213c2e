// Averages gradients so that each rank gets only its own share of the average.
#pragma once

#include <memory>
#include <optional>

#include "hooks/comm_hook.h"
#include "hooks/ddp/no_hook_name.h"
#include "hooks/fsdp/buffer_pool.h"
#include "hooks/fsdp/shard_channel.h"

namespace hookline {

/// How ScatterAverage scales and casts gradients before the sum, to match a given hook.
struct ScatterKind {
  enum class Scale { multiply, divide };  // by 1 / world size, or by the world size
  Scale scale = Scale::multiply;
  std::optional<at::ScalarType> wire = {};  // what gradients are cast to while they travel: float16, bfloat16
  std::string name = kNoHook;               // of the hook whose averages these are
};

/// The kind that matches this hook and wrapper; none if the hook can't average shares separately.
std::optional<ScatterKind> scatter_kind_of(const std::string& hook, const std::string& wrapper);

/// Averages this rank's share, even_share(), of each gradient: the reduce-scatter half of an all-reduce, for
/// a sharded optimizer. The values equal those of DDP without a hook, or with allreduce, fp16 or bf16; bit
/// for bit where ranks are summed in the same order: in shared memory, between two ranks, and over hosts
/// whose ranks share memory.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the exchange, of the wire's dtype
/// Result  the bucket's buffer: the average in this rank's shares, its own gradients elsewhere
/// State   on the CPU two pieces of 4 MiB, each as sent and as received; on a GPU, for each bucket, n
///         elements as sent, and as received n / world size over NCCL or at most n over Gloo
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
  /// Bytes sent for `numel` gradients of `dtype`.
  std::int64_t bytes_of(std::int64_t numel, at::ScalarType dtype) const;

  /// Bytes that this rank has sent so far, counted as half of what an all-reduce sends.
  std::int64_t bytes_sent() const;

 private:
  class Queue;

  ScatterKind kind_;
  std::shared_ptr<Queue> queue_;
};

}  // namespace hookline
