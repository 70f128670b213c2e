// A process group that uses the memory which the ranks of each host share.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hooks/in_order.h"
#include "parallel/groups/gloo_group.h"
#include "parallel/groups/host_gather.h"
#include "parallel/groups/host_layout.h"
#include "shared_memory/collectives.h"

namespace hookline {

/// True if the ranks of a host can share memory: they are few enough, and every rank of the run may.
bool can_share_memory(const HostLayout& layout);

/// Opens the shared memory of each host's ranks. A collective call. Null on every rank if it fails on one of
/// them; `problem` is then why, with the rank.
std::unique_ptr<SharedCollectives> open_shared_memory(c10d::Store& store, const HostLayout& layout,
                                                      std::chrono::milliseconds timeout,
                                                      std::string& problem);

/// A Gloo group that uses the memory shared by the ranks of a host for what hookline does in training with
/// contiguous tensors on the CPU:
///
/// - all-reduce (SUM) of the types that rank_sum_of knows, which goes on between hosts in a way of its own
/// (GlooLink);
/// - exchanges of the same part with all, which cross to each host once (HostGather);
/// - scatters, for which the ranks of a host sum their parts before one of them sends the sum on;
/// - if all ranks are on one host, all-gather and broadcast of any type, and exchange.
///
/// What else c10d offers is Gloo's. Ranks that gather or broadcast different tensors all get RanksDiffer.
/// Sums have the same bits on all ranks, whatever a tensor's place in a bucket: those of a plain loop over
/// the ranks of each host, and then over the hosts; float16 and bfloat16 are summed in float32, and rounded
/// once on each host and once between them.
class SharedMemoryGroup : public GlooGroup {
 public:
  SharedMemoryGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                    c10::intrusive_ptr<Options> options, const HostLayout& layout, SumScope scope,
                    std::unique_ptr<SharedCollectives> memory);

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;

  c10::intrusive_ptr<c10d::Work> exchange(Exchange wanted) override;
  c10::intrusive_ptr<c10d::Work> scatter(Exchange wanted, at::ScalarType type) override;
  int addends(at::ScalarType type) const override;

  bool is_idle() override;

 protected:
  void close_connections() override;

 private:
  /// `held`: tensors that must stay until it is done. `result`: what the work's future holds then.
  template <class Collective>
  c10::intrusive_ptr<c10d::Work> start(Collective collective, std::vector<at::Tensor> held,
                                       std::vector<at::Tensor> result);

  /// Draws a ticket among the exchanges over Gloo for `made`, the work of make_exchange(). Returns a
  /// function, to be called once: as soon as the exchanges before it have started, it starts this one, or
  /// fails it if `wanted` has a failure.
  std::function<void()> in_turn(const c10::intrusive_ptr<AsyncWork>& made,
                                const std::shared_ptr<Exchange>& wanted);

  bool sums_before_it_sends(at::ScalarType type) const;
  /// Of what the ranks of a host have summed: each part crosses once, to the host that it is for.
  Routes routes_of_host_sums() const;

  HostLayout layout_;
  SumScope scope_;
  std::shared_ptr<SharedCollectives> memory_;
  std::unique_ptr<HostGather> host_gather_;  // null: ranks gather over Gloo
  std::shared_ptr<InOrder> exchanges_ = std::make_shared<InOrder>();
};

}  // namespace hookline
