// What a hook communicates with: channels that keep collectives in order and count the bytes that they send.
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

/// What a rank has handed to the collectives of one stage of a hook.
struct StageBytes {
  std::string stage;       ///< "gradients", or the channel's name as in Comm::open_channel().
  std::int64_t bytes = 0;  ///< Bytes so far.
};

/// Makes a process group of all ranks; `name` keeps groups apart. Collective.
using GroupFactory = std::function<ProcessGroupPtr(const std::string& name)>;

/// One process group whose collectives start in the same order on every rank. Hooks use it through Ticket.
///
/// Gloo matches collectives by the order in which each rank starts them. A hook with several stages starts
/// its later collectives from callbacks of earlier ones, whose order differs from rank to rank. So each stage
/// has a channel with a group of its own, and each bucket draws a ticket in CommHook::run, whose order is the
/// same on all ranks. A collective waits, without blocking a thread, until those with earlier tickets have
/// started.
///
/// Thread-safe. Every ticket that is drawn must be used exactly once, by all_reduce() or skip().
class OrderedChannel {
 public:
  /// Made by Comm::open_channel().
  explicit OrderedChannel(ProcessGroupPtr group) : group_(std::move(group)) {}

  /// Returns the next ticket, from 0; draw tickets in the same order on every rank.
  std::uint64_t draw_ticket() { return in_order_.draw_ticket(); }

  /// Sums `tensor` over all ranks, in place, once the collectives of all earlier tickets have started. Does
  /// not wait: the future holds `tensor`, or the error of the collective.
  FuturePtr all_reduce(std::uint64_t ticket, at::Tensor tensor);

  /// Gives up `ticket`, for a bucket that sends nothing through this channel.
  void skip(std::uint64_t ticket);

  /// Bytes that this rank has handed to the channel's collectives so far.
  std::int64_t bytes() const { return bytes_.load(); }

 private:
  /// `stream`: on a GPU, the stream on which the tensor is computed.
  void start(const at::Tensor& tensor, const FuturePtr& result, const std::optional<c10::Stream>& stream);

  ProcessGroupPtr group_;
  std::atomic<std::int64_t> bytes_{0};
  InOrder in_order_;
};

/// A bucket's place in the order of a channel. If it is destroyed unused, it gives its place up, so that a
/// bucket that fails does not hold up the others.
class Ticket {
 public:
  /// Draws the channel's next ticket: do so in CommHook::run, so that the order is the same on every rank.
  explicit Ticket(std::shared_ptr<OrderedChannel> channel)
      : channel_(std::move(channel)), number_(channel_->draw_ticket()) {}
  ~Ticket() {
    if (channel_) channel_->skip(number_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  /// Uses the ticket: OrderedChannel::all_reduce(). Call it once at most.
  FuturePtr all_reduce(at::Tensor tensor) {
    const std::shared_ptr<OrderedChannel> channel = std::move(channel_);
    return channel->all_reduce(number_, std::move(tensor));
  }

 private:
  std::shared_ptr<OrderedChannel> channel_;  // null once used
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

  /// Opens a channel for collectives that start in callbacks. Collective: call it from a hook's constructor.
  std::shared_ptr<OrderedChannel> open_channel(const std::string& name);

  /// For Ddp: the hook that opened the channels is gone, and the next one's open_channel() reuses them by
  /// name. Called on every rank, between two steps.
  void release_channels();

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
    std::shared_ptr<OrderedChannel> channel;
    bool is_free = false;
  };
  std::vector<Opened> channels_;  // the first is that of all_reduce
};

}  // namespace hookline
