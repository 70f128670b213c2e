// What a hook communicates with: ordered stages of collectives, and a count of the bytes they send.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/future.h"
#include "hooks/in_order.h"

namespace hookline {

/// A process group of libtorch.
using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// The error of a collective's future: RanksDiffer as it is, any other as PeerError. So the failure watch can
/// tell a broken connection from ranks that start different collectives.
std::exception_ptr collective_error(c10::ivalue::Future& failed);

/// What a rank has handed to the collectives of one stage.
struct StageBytes {
  std::string stage;       ///< The stage's name: "gradients", or as in Comm::open_stage().
  std::int64_t bytes = 0;  ///< Bytes so far.
};

/// Makes a process group of all ranks; `name` keeps groups apart. Collective.
using GroupFactory = std::function<ProcessGroupPtr(const std::string& name)>;

/// One process group whose collectives start in the same order on every rank. Hooks use it through Turn.
///
/// Gloo matches collectives by the order in which each rank starts them. A hook with several stages starts
/// its later collectives from callbacks of earlier ones, whose order differs from rank to rank. So each stage
/// has its own group, and each bucket takes a turn in CommHook::run, whose order is the same on all ranks. A
/// collective waits, without blocking a thread, until those of all earlier turns have started.
///
/// Thread-safe. Every turn that is taken must be used exactly once, by all_reduce() or skip().
class Stage {
 public:
  /// Made by Comm::open_stage().
  explicit Stage(ProcessGroupPtr group) : group_(std::move(group)) {}

  /// Returns the next turn, from 0; take turns in the same order on every rank.
  std::uint64_t take_turn() { return in_order_.take_turn(); }

  /// Sums `tensor` over all ranks, in place, once all earlier turns have started. Does not wait: the future
  /// holds `tensor`, or the error of the collective.
  FuturePtr all_reduce(std::uint64_t turn, at::Tensor tensor);

  /// Gives up `turn`, for a bucket that sends nothing in this stage.
  void skip(std::uint64_t turn);

  /// Bytes that this rank has handed to the stage's collectives so far.
  std::int64_t bytes() const { return bytes_.load(); }

 private:
  /// `stream`: on a GPU, the stream on which the tensor is computed.
  void start(const at::Tensor& tensor, const FuturePtr& result, const std::optional<c10::Stream>& stream);

  ProcessGroupPtr group_;
  std::atomic<std::int64_t> bytes_{0};
  InOrder in_order_;
};

/// A bucket's turn in a stage. If it is destroyed unused, it gives the turn up, so that a bucket that fails
/// does not hold up the others.
class Turn {
 public:
  /// Takes the stage's next turn: in CommHook::run, so that the order is the same on every rank.
  explicit Turn(std::shared_ptr<Stage> stage) : stage_(std::move(stage)), number_(stage_->take_turn()) {}
  ~Turn() {
    if (stage_) stage_->skip(number_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Uses the turn: Stage::all_reduce(). Call it once at most.
  FuturePtr all_reduce(at::Tensor tensor) {
    const std::shared_ptr<Stage> stage = std::move(stage_);
    return stage->all_reduce(number_, std::move(tensor));
  }

 private:
  std::shared_ptr<Stage> stage_;  // null once used
  std::uint64_t number_;
};

/// A hook's access to the other ranks. Shared between a hook and the wrappers around it.
class Comm {
 public:
  /// Made by Ddp. Collective: makes the group of all_reduce().
  Comm(int rank, int world_size, GroupFactory make_group);

  /// This rank's number in the run, from 0; with `comm_scope = "between_hosts"` it need not be below
  /// world_size().
  int rank() const { return rank_; }
  /// Number of ranks that all_reduce() sums over; with `comm_scope = "between_hosts"`, of hosts.
  int world_size() const { return world_size_; }

  /// Starts a sum of `tensor` over all ranks, in place. Does not wait: the future holds `tensor`, or the
  /// error of the collective. Collective: call it from CommHook::run, any number of times for a bucket.
  FuturePtr all_reduce(at::Tensor tensor);

  /// Opens a stage for collectives that start in callbacks. Collective: call it from a hook's constructor.
  std::shared_ptr<Stage> open_stage(const std::string& name);

  /// For Ddp: the hook that opened the stages is gone, and the next one's open_stage() reuses them by name.
  /// Called on every rank, between two steps.
  void release_stages();

  /// Bytes that this rank has handed to collectives so far.
  std::int64_t bytes_sent() const;
  /// The same by stage, in the order in which they were opened; the first, of all_reduce(), is "gradients".
  std::vector<StageBytes> bytes_by_stage() const;

 private:
  int rank_;
  int world_size_;
  GroupFactory make_group_;
  struct Opened {
    std::string name;
    std::shared_ptr<Stage> stage;
    bool is_free = false;
  };
  std::vector<Opened> stages_;  // the first is that of all_reduce
};

}  // namespace hookline
