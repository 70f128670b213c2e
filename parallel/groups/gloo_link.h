// The part of an all-reduce that goes from machine to machine, over Gloo's connections.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shared_memory/sum_link.h"

namespace hookline {

/// Sums pieces over one rank of each machine. With two machines, each sends its whole piece to the other and
/// both sum: one trip, in which every byte crosses the link once in each direction. With more, each machine
/// sums one share of the piece and sends the result to the others (a reduce-scatter, then an all-gather),
/// except that pieces of kWholeBytes or less are sent whole, which saves the second trip. Several pieces can
/// be in progress at a time.
///
/// Every element is summed in the order of machines, whichever machine does it. Ranks compare what their
/// arrays are while the first pieces travel; a difference is RanksDiffer on every rank, and no rank receives
/// a piece of another array.
///
/// Has two threads. start and stop are called by one thread at a time.
class GlooLink : public SumLink {
 public:
  static constexpr std::size_t kWholeBytes = 16 * 1024;

  /// `ranks`: the rank of each machine, in the order of machines, of which `own` is this one. A piece that
  /// waits longer than `timeout` fails.
  GlooLink(std::shared_ptr<gloo::Context> context, std::vector<int> ranks, std::size_t own,
           std::chrono::milliseconds timeout);
  ~GlooLink() override;

  void start(Piece piece) override;
  void stop() override;

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  /// What an array is: its elements, their type and size.
  using Description = std::array<std::int64_t, 3>;

  struct Transfer {
    Piece piece;
    std::uint64_t array = 0;                // counted over all
    bool is_whole = false;                  // the machines send each other all of it
    std::vector<std::byte> received;        // from the other machines; one of free_
    std::vector<Description> descriptions;  // of each machine's array, with the first piece
    Buffer in_place, addends, description_buffer;
    std::size_t sends = 0, descriptions_sent = 0;
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  /// What the machine of index `machine` sums of a piece, in elements.
  struct Share {
    std::size_t first, elements;
  };
  Share share_of(const Transfer& transfer, std::size_t machine) const;
  std::size_t bytes_of_share(const Transfer& transfer, std::size_t machine) const;
  /// Where in `received` another machine's addends lie.
  std::size_t place_of(const Transfer& transfer, std::size_t machine) const;
  std::uint64_t slot(const Transfer& transfer, std::uint32_t kind) const;
  static Description description_of(const Piece& piece);

  void post(Transfer& transfer);
  void add(Transfer& transfer);
  void compare_descriptions(Transfer& transfer);
  void finish(Transfer& transfer);
  void expect(bool completed) const;
  void expect_whole();
  template <class Action>
  void for_each_peer(const Action& action) const;

  void add_in_turn();
  void finish_in_turn();
  std::vector<std::byte> take_room(std::size_t bytes);
  TransferPtr next_of(std::deque<TransferPtr>& queue);
  void end_with(const TransferPtr& transfer, std::exception_ptr error);

  const std::shared_ptr<gloo::Context> context_;
  const std::vector<int> ranks_;
  const std::size_t own_;
  const std::chrono::milliseconds timeout_;

  std::mutex mutex_;  // guards the rest, but for the threads
  std::condition_variable changed_;
  std::deque<TransferPtr> to_add_, to_finish_;
  std::vector<TransferPtr> live_;             // those that a thread may be waiting for
  std::vector<std::vector<std::byte>> free_;  // room for what is received
  std::uint64_t arrays_ = 0;
  bool stopping_ = false;
  std::exception_ptr broken_;

  std::mutex joining_;
  std::array<std::thread, 2> threads_;
};

}  // namespace hookline
