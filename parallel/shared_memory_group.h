// A process group whose ranks share a host, and sum their tensors through memory.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "parallel/gloo_group.h"
#include "shared_memory/collectives.h"

namespace hookline {

/// True if all ranks of `store` run on one host, as one user, and in one network namespace, are few enough to share memory, and
/// `may_share` it. A collective call; every rank gets the same answer.
bool ranks_share_a_host(c10d::Store& store, int rank, int size, bool may_share,
                        std::chrono::milliseconds timeout);

/// Opens the shared memory of a group. A collective call. Null on every rank if it fails on one of them; `problem` is then why,
/// with the rank.
std::unique_ptr<SharedCollectives> open_shared_memory(c10d::Store& store, int rank, int size,
                                                      std::chrono::milliseconds timeout,
                                                      std::string& problem);

/// A Gloo group that does through shared memory, for contiguous tensors on the CPU, what hookline does in training: all-reduce (SUM)
/// of the types that rank_sum_of knows, all-gather and broadcast of any type, and exchange. What else c10d offers is Gloo's. Ranks that
/// gather or broadcast different tensors all get RanksDiffer. Sums are those of a plain loop in the order of ranks, with the same bits on all ranks, whatever a
/// tensor's place in a bucket; float16 and bfloat16 are summed in float32.
class SharedMemoryGroup : public GlooGroup {
 public:
  SharedMemoryGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                    c10::intrusive_ptr<Options> options, std::unique_ptr<SharedCollectives> memory);

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;

  c10::intrusive_ptr<c10d::Work> exchange(Exchange wanted) override;

  bool is_idle() override;

 protected:
  void close_connections() override;

 private:
  /// `held`: tensors that must stay until it is done. `result`: what the work's future holds then.
  template <class Collective>
  c10::intrusive_ptr<c10d::Work> start(Collective collective, std::vector<at::Tensor> held,
                                       std::vector<at::Tensor> result);

  std::unique_ptr<SharedCollectives> memory_;
};

}  // namespace hookline
