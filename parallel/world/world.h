// The ranks of a run and how they reach each other.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/groups/host_layout.h"
#include "parallel/rank/step_clock.h"
#include "parallel/watch/failure_watch.h"
#include "parallel/world/placement.h"

namespace hookline {

class GlooGroup;
class GlooGroups;
class NcclBackends;
class SharedCollectives;

/// All ranks of a run: who this one is, the store they share, and the process groups made of them.
///
/// Collective calls (make_group, and whatever communicates) must be made by every rank in the same order,
/// from one thread at a time. If a rank fails or vanishes, the calls that wait for it throw RunFailed, on
/// every rank, with the same text. A group is of no use once the World is gone.
class World {
 public:
  /// Joins the run of this process's environment, by the variables that hookline launch and torchrun set:
  /// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (and HOOKLINE_STORE_FD, the store's socket,
  /// handed to rank 0, or HOOKLINE_STORE, which leads to the launcher's store). Without RANK and WORLD_SIZE:
  /// one rank alone. Throws Error naming the variable that is missing or wrong, or the address that doesn't
  /// answer. May be called again once the previous World is gone, if every rank calls it equally often. Waits
  /// no longer than `join_timeout` for the others, and throws Error naming those that are missing.
  static std::shared_ptr<World> from_environment(
      std::chrono::milliseconds peer_timeout = kDefaultPeerTimeout, const Placement& placement = {},
      std::chrono::milliseconds join_timeout = kDefaultJoinTimeout);

  /// Joins the ranks that share `store`, which is to hold nothing else; `address` is this rank's own, under
  /// which the others reach it. `timeout` is Gloo's and NCCL's, for one collective; `peer_timeout` is how
  /// long a rank may send no heartbeat. Of several ranks, each ignores SIGPIPE from now on, unless the
  /// program handles it.
  World(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& address,
        std::chrono::milliseconds timeout = kDefaultTimeout,
        std::chrono::milliseconds peer_timeout = kDefaultPeerTimeout, const Placement& placement = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// This rank's number, from 0.
  int rank() const { return rank_; }
  /// Number of ranks.
  int size() const { return size_; }
  /// The device of this rank's models and batches.
  c10::Device device() const { return placement_.device; }
  /// True if tensors on the GPU go over NCCL.
  bool uses_nccl() const { return placement_.nccl != nullptr; }
  /// True if sums of tensors on the CPU go through memory that the ranks of a host share.
  bool uses_shared_memory() const { return shares_memory_; }
  /// Which ranks run on which host.
  const HostLayout& layout() const { return layout_; }
  /// For people: "NCCL", "shared memory", "Gloo", "shared memory and Gloo".
  std::string backend_name() const;

  /// The ranks' common store, for agreement outside of collectives.
  c10d::Store& store() const { return *store_; }

  /// The group for everything that is not a hook's.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  /// What ends a wait when a rank fails.
  FailureWatch& watch() const { return *watch_; }

  /// Where the time of this rank's steps goes.
  const std::shared_ptr<StepClock>& step_clock() const { return step_clock_; }

  /// A future, without a value, that completes with a collective that was started by hand, or with RunFailed;
  /// `what` names it in an error. On a GPU the current streams do not wait for it yet: Work::synchronize
  /// makes them.
  FuturePtr watched(const c10::intrusive_ptr<c10d::Work>& work, const std::string& what) const;

  /// Waits for a collective that was started by hand; `what` names it in an error.
  void wait(const c10::intrusive_ptr<c10d::Work>& work, const std::string& what);

  /// The same for a collective that needs every rank, call `number` of `sequence` (FailureWatch::start_call;
  /// empty: the call is part of none): also ends when ranks wait for each other in different ones.
  void wait_for_all(const c10::intrusive_ptr<c10d::Work>& work, const std::string& sequence,
                    std::int64_t number, const std::string& what);

  /// Starts and waits for a collective of this World's own, which every rank's program comes to in the same
  /// order: also ends when ranks wait for each other in different ones.
  void run_on_all(const std::function<c10::intrusive_ptr<c10d::Work>()>& start, const std::string& what);

  /// For hookline itself: a new group of all ranks for tensors on the CPU; it uses shared memory if
  /// uses_shared_memory(). Its threads and connections end with the last reference to it, or when its last
  /// collective ends, whichever is later. A collective call.
  std::shared_ptr<GlooGroup> make_gloo(const std::string& name, SumScope scope = SumScope::all_ranks);

  /// A new group of all ranks; a collective call. Groups of one name are distinguished by their order. It
  /// takes tensors on the CPU and on device(). A `scope` other than all_ranks applies to its sums only, and
  /// needs uses_shared_memory().
  c10::intrusive_ptr<c10d::ProcessGroup> make_group(const std::string& name,
                                                    SumScope scope = SumScope::all_ranks);

  /// A group for one stage of a hook: one of its own over Gloo. Over NCCL that of the World, whose
  /// collectives are done in the order in which they are started, and whose futures complete at once.
  c10::intrusive_ptr<c10d::ProcessGroup> make_stage_group(const std::string& name);

  /// Every rank's `tensor`, in the order of ranks; contiguous, of one shape and dtype on all ranks.
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor);

  /// Sums `tensor`, contiguous, over all ranks, in place. Throws Error, before it communicates, for a dtype
  /// that the ranks can't add up.
  void all_reduce(const at::Tensor& tensor);
  /// Can Gloo and NCCL add up such elements?
  static bool can_add_up(at::ScalarType type);
  /// For hookline itself: throws the Error of `call`() for a dtype that can't be added up, which recommends
  /// `instead`() for such a tensor.
  [[noreturn]] static void throw_cannot_add_up(const std::string& call, at::ScalarType type,
                                               const std::string& instead);

  /// Puts rank 0's values into the `tensors` of all ranks, up to 250 MiB of one dtype in a collective.
  void broadcast(const std::vector<at::Tensor>& tensors);

  /// Returns when every rank has called this; `what` names the occasion in an error.
  void barrier(const std::string& what);

  /// Returns how often it was called with the same `what` before.
  int count_of(const std::string& what) { return uses_[what]++; }
  /// Numbers `name`: "fsdp/0", "fsdp/1", … Every rank must make the same calls.
  std::string unique_name(const std::string& name);

  /// A prefix for the store that no other call of this World returns, the same on every rank.
  std::string unique_prefix(const std::string& name);

  /// Gloo's and NCCL's timeout for one collective.
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(30);
  /// How long ranks may take to join; also the default of [launch] join_timeout_seconds.
  static constexpr std::chrono::milliseconds kDefaultJoinTimeout = std::chrono::minutes(5);
  /// How long an awaited rank may send no heartbeat; also the default of [launch] peer_timeout_seconds.
  static constexpr std::chrono::milliseconds kDefaultPeerTimeout = std::chrono::seconds(10);

 private:
  std::unique_ptr<SharedCollectives> open_memory(c10d::Store& store);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::string address_;
  std::chrono::milliseconds timeout_;
  Placement placement_;
  HostLayout layout_;
  bool shares_memory_ = false;
  std::map<std::string, int> uses_;  // of each name
  std::shared_ptr<GlooGroups> backends_;
  std::shared_ptr<NcclBackends> nccl_backends_;
  std::unique_ptr<FailureWatch> watch_;
  std::shared_ptr<StepClock> step_clock_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace hookline
