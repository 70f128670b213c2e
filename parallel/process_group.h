// The ranks of a run and how they reach each other. The only place that knows Gloo.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hookline {

/// All ranks of a run: who this one is, the store they share, and the process groups made of them.
///
/// Collective calls (make_group, and whatever communicates) must be made by every rank in the same order, from one
/// thread at a time. A group lives as long as whoever holds it.
class World {
 public:
  /// From the variables that hookline launch and torchrun set: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
  /// (and HOOKLINE_STORE_FD, the store's socket, handed to rank 0). Without RANK and WORLD_SIZE: one rank alone.
  /// Throws Error naming the variable that is missing or wrong, or the address that doesn't answer.
  static std::shared_ptr<World> from_environment();

  /// Ranks that share `store`; `address` is this rank's own, under which the others reach it.
  World(c10::intrusive_ptr<c10d::Store> store, int rank, int size, const std::string& address,
        std::chrono::milliseconds timeout = kDefaultTimeout);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The store, for agreement outside of collectives.
  c10d::Store& store() const { return *store_; }

  /// The group for everything that is not a hook's.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  /// A new group of all ranks; a collective call. Groups of one name are told apart by their order.
  c10::intrusive_ptr<c10d::ProcessGroup> make_group(const std::string& name);

  /// Every rank's `tensor`, in the order of ranks; contiguous, of one shape and dtype on all ranks. A collective call.
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor);

  /// A prefix for the store that no other call of this World returns, the same on every rank.
  std::string unique_prefix(const std::string& name);

  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(30);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::string address_;
  std::chrono::milliseconds timeout_;
  std::map<std::string, int> uses_;  // of each name
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace hookline
