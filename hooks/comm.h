// What a hook communicates with: ordered stages of collectives, and a count of what they put on the wire.
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

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// The error of a collective's future: RanksDiffer as it is, and any other as PeerError, so that the watch knows a broken connection
/// from a mistake of the ranks' own.
std::exception_ptr collective_error(c10::ivalue::Future& failed);

/// What a rank has handed to the collectives of one stage.
struct StageBytes {
  std::string stage;
  std::int64_t bytes = 0;
};

/// Makes a process group of all ranks; `name` keeps groups apart. A collective: every rank makes the same groups in
/// the same order.
using GroupFactory = std::function<ProcessGroupPtr(const std::string& name)>;

/// One process group whose collectives start in the same order on every rank.
///
/// Gloo matches collectives by the order in which each rank starts them. A hook of several stages starts its later
/// collectives from the callbacks of earlier ones, whose order differs from rank to rank. So each stage has a group
/// of its own, each bucket has a turn (taken in CommHook::run, whose order is the same on all ranks), and a collective
/// waits, without blocking a thread, until those of all earlier turns have started.
///
/// Thread-safe. Every turn that is taken must be used exactly once, by all_reduce or skip.
class Stage {
 public:
  explicit Stage(ProcessGroupPtr group) : group_(std::move(group)) {}

  /// The next turn; to be taken in the same order on every rank.
  std::uint64_t take_turn() { return in_order_.take_turn(); }

  /// SUM over all ranks, in place. The future holds `tensor`, or the error of the collective.
  FuturePtr all_reduce(std::uint64_t turn, at::Tensor tensor);

  /// Gives `turn` up: the bucket has nothing to send in this stage.
  void skip(std::uint64_t turn);

  /// That this rank has handed to its collectives so far.
  std::int64_t bytes() const { return bytes_.load(); }

 private:
  /// `stream`: on a GPU, behind which the tensor is ready.
  void start(const at::Tensor& tensor, const FuturePtr& result, const std::optional<c10::Stream>& stream);

  ProcessGroupPtr group_;
  std::atomic<std::int64_t> bytes_{0};
  InOrder in_order_;
};

/// A bucket's turn in a stage: used once, or given up when it goes, so that a bucket that fails holds up no other.
class Turn {
 public:
  explicit Turn(std::shared_ptr<Stage> stage) : stage_(std::move(stage)), number_(stage_->take_turn()) {}
  ~Turn() {
    if (stage_) stage_->skip(number_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

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
  Comm(int rank, int world_size, GroupFactory make_group);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// SUM over all ranks, in place, started at once: to be called from CommHook::run, once a bucket or more, as long as
  /// every rank does the same. The future holds `tensor`.
  FuturePtr all_reduce(at::Tensor tensor);

  /// Opens a further stage. A collective call: from a hook's constructor, in the same order on every rank.
  std::shared_ptr<Stage> open_stage(const std::string& name);

  /// The hook whose stages are open is gone, and so are its collectives: the next hook's open_stage takes them over by name. Every
  /// rank does the same, between two steps.
  void release_stages();

  /// Bytes that this rank has handed to collectives so far.
  std::int64_t bytes_sent() const;
  /// The same by stages, in the order in which they were opened; the first, of all_reduce, is "gradients".
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
