#include "parallel/shards/shard_channels.h"

#include <ATen/ops/empty.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/groups/gloo_group.h"
#include "torch_versions/single_collectives.h"

namespace hookline {
namespace {

/// Completes when the ranks have compared their operations and, over Gloo, moved the data. `finish`: what the
/// host has to do then.
class ComparedWork : public c10d::Work {
 public:
  ComparedWork(c10::intrusive_ptr<c10d::Work> compared, std::function<void()> finish)
      : compared_(std::move(compared)), finish_(std::move(finish)) {}

  bool isCompleted() override { return compared_->isCompleted(); }
  bool isSuccess() const override { return compared_->isSuccess(); }
  std::exception_ptr exception() const override { return compared_->exception(); }
  bool wait(std::chrono::milliseconds timeout) override {
    compared_->wait(timeout);
    finish_();
    return true;
  }
  void synchronize() override { finish_(); }
  FuturePtr getFuture() override { return compared_->getFuture(); }

 private:
  c10::intrusive_ptr<c10d::Work> compared_;
  std::function<void()> finish_;
};

class ComparingChannel : public ShardChannel {
 public:
  ComparingChannel(std::shared_ptr<World> world, const std::string& name, ChannelTexts texts)
      : world_(std::move(world)),
        sequence_(world_->unique_name(name)),
        gloo_(world_->make_gloo(name)),
        texts_(std::move(texts)) {}

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }

 protected:
  World& world() const { return *world_; }
  const GlooGroup& group() const { return *gloo_; }

  /// Starts an exchange; returns no work if there are no other ranks. `scattered`: the elements' type, for a
  /// scatter.
  ShardWork exchange(const ShardOperation& operation, GlooGroup::Exchange wanted,
                     std::optional<at::ScalarType> scattered = {}) const {
    if (size() == 1) return {};
    wanted.identity = {static_cast<std::int64_t>(operation.kind), operation.unit, operation.flat,
                       static_cast<std::int64_t>(wanted.part_bytes)};
    wanted.difference = [texts = texts_](const std::vector<GlooGroup::Identity>& all) {
      return difference(texts, all);
    };
    auto work =
        scattered ? gloo_->scatter(std::move(wanted), *scattered) : gloo_->exchange(std::move(wanted));
    return {std::move(work), sequence_, world_->watch().start_call(sequence_)};
  }

 private:
  static std::string difference(const ChannelTexts& texts, const std::vector<GlooGroup::Identity>& all) {
    const auto named = [&](std::size_t rank) {
      const GlooGroup::Identity& identity = all[rank];
      const ShardOperation operation{static_cast<ShardOperation::Kind>(identity[0]), identity[1],
                                     identity[2]};
      return "rank " + std::to_string(rank) + " " + texts.name(operation);
    };
    std::size_t other = 1;
    while (all[other] == all[0]) ++other;
    return texts.difference + ": " + named(0) + ", and " + named(other) + ". " + texts.rule;
  }

  std::shared_ptr<World> world_;
  std::string sequence_;
  std::shared_ptr<GlooGroup> gloo_;
  ChannelTexts texts_;
};

class GlooChannel : public ComparingChannel {
 public:
  using ComparingChannel::ComparingChannel;

  bool sums() const override { return false; }
  std::int64_t addends(at::ScalarType dtype) const override {
    return size() == 1 ? 1 : group().addends(dtype);
  }

  ShardWork all_gather(const ShardOperation& operation, const at::Tensor& whole,
                       const at::Tensor& shard) override {
    return move(operation, whole, shard.cpu(), shard.nbytes(), /*scatters=*/false);
  }

  ShardWork scatter_addends(const ShardOperation& operation, const at::Tensor& received,
                            const at::Tensor& sent) override {
    return move(operation, received, sent.cpu(), sent.nbytes() / static_cast<std::size_t>(size()),
                /*scatters=*/true);
  }

  ShardWork reduce_scatter(const ShardOperation&, const at::Tensor&, const at::Tensor&) override {
    throw Error("a reduce-scatter over Gloo: hookline's own mistake, since each rank sums by itself");
  }

 private:
  static at::Tensor on_cpu(const at::Tensor& tensor) {
    return tensor.is_cpu() ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  }

  ShardWork move(const ShardOperation& operation, const at::Tensor& result, const at::Tensor& source,
                 std::size_t part_bytes, bool scatters) const {
    const at::Tensor target = on_cpu(result);
    if (size() == 1) {
      at::Tensor(result).copy_(source);
      return {};
    }
    GlooGroup::Exchange wanted;
    wanted.sent = source;
    wanted.received = target;
    wanted.part_bytes = part_bytes;
    wanted.sends_same_to_all = !scatters;
    std::optional<at::ScalarType> scattered;
    if (scatters) scattered = source.scalar_type();
    ShardWork started = exchange(operation, std::move(wanted), scattered);
    if (result.is_same(target)) return started;
    started.work = c10::make_intrusive<ComparedWork>(started.work,
                                                     [result, target] { at::Tensor(result).copy_(target); });
    return started;
  }
};

class NcclChannel : public ComparingChannel {
 public:
  using ComparingChannel::ComparingChannel;

  bool sums() const override { return true; }

  ShardWork all_gather(const ShardOperation& operation, const at::Tensor& whole,
                       const at::Tensor& shard) override {
    return with(operation,
                [whole = at::Tensor(whole), shard = at::Tensor(shard)](c10d::ProcessGroup& group) mutable {
                  return torch_versions::all_gather_single(group, whole, shard);
                });
  }

  std::int64_t addends(at::ScalarType) const override { return 1; }

  ShardWork scatter_addends(const ShardOperation&, const at::Tensor&, const at::Tensor&) override {
    throw Error("addends of a scatter over NCCL: hookline's own mistake, since NCCL sums them");
  }

  ShardWork reduce_scatter(const ShardOperation& operation, const at::Tensor& received,
                           const at::Tensor& sent) override {
    return with(operation, [received = at::Tensor(received),
                            sent = at::Tensor(sent)](c10d::ProcessGroup& group) mutable {
      return torch_versions::reduce_scatter_single(group, received, sent);
    });
  }

 private:
  /// Enqueues the collective at once. The host finds out whether the ranks differ before it waits for the
  /// GPU.
  template <class Start>
  ShardWork with(const ShardOperation& operation, Start start) const {
    ShardWork compared = exchange(operation, {});
    const c10::intrusive_ptr<c10d::Work> moved = start(*world().group());
    if (!compared.work) return {moved, "", 0};
    compared.work = c10::make_intrusive<ComparedWork>(compared.work, [moved] { moved->synchronize(); });
    return compared;
  }
};

}  // namespace

std::shared_ptr<ShardChannel> make_shard_channel(const std::shared_ptr<World>& world, const std::string& name,
                                                 ChannelTexts texts) {
  if (world->uses_nccl()) return std::make_shared<NcclChannel>(world, name, std::move(texts));
  return std::make_shared<GlooChannel>(world, name, std::move(texts));
}

}  // namespace hookline
