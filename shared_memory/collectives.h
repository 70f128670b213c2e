// What the ranks of one machine do together, through memory that they share.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shared_memory/segment.h"
#include "shared_memory/sum_link.h"

namespace hookline {

/// An array that is summed in place, element by element.
struct Reduction {
  void* data = nullptr;  // stays where it is until `done` is called
  std::size_t elements = 0;
  std::size_t element_bytes = 0;
  std::uint32_t type = 0;  // any number that stands for the elements' type: ranks compare it
  SumInOrder sum = nullptr;
  WhenDone done = {};
  /// With links: all ranks of a machine hold the same values, which count once.
  bool is_equal_on_machine = false;
  bool stays_on_machine = false;  // sums over this machine's ranks alone, though they have links
};

/// The other machines of a run.
struct OtherMachines {
  std::vector<int> names;         // of this machine's ranks, for errors: their numbers in the run
  int links = 0;                  // ranks of this machine that have one: the first `links`
  std::unique_ptr<SumLink> link;  // this rank's; null if it has none
};

/// Every rank hands a part to each of the others: to each its own, to all the same one (an all-gather), or only one rank does (a
/// broadcast).
struct PartExchange {
  /// What a rank is about to do, in numbers that it compares with the others'.
  using Identity = std::array<std::int64_t, 4>;

  Identity identity = {};
  const void* sent = nullptr;      // both stay where they are until `done` is called
  void* received = nullptr;        // a part from each rank, in the order of ranks; this rank's own is copied
  std::size_t part_bytes = 0;      // 0: identities are compared, and that is all
  bool sends_same_to_all = false;  // `sent` is one part; if not, one for each rank
  std::vector<void*> received_from = {};  // if not empty: where each rank's part goes, instead of `received`
  int only_from = -1;  // a rank: `sent` is its one part, and `received` that part on the others
  /// The text of RanksDiffer for identities, in the order of ranks, that are not all equal.
  std::function<std::string(const std::vector<Identity>&)> difference = {};
  WhenDone done = {};
};

/// The ranks of one machine, numbered from 0. Their collectives are matched by the order in which each rank starts them.
///
/// Every element of a reduction is summed in the order of ranks, whatever its place in the array: all ranks end with the same bits,
/// those of a plain loop over the ranks' arrays. The array is cut into chunks of kChunkBytes. Of a chunk each rank copies what
/// others sum into its slots of the segment, sums its own part of the chunk out of theirs, and copies the other sums back; a chunk
/// of which all ranks together have kDirectBytes or less is copied and summed whole by each rank, which saves a meeting. An exchange is copied into slots and
/// out of them. Chunks of several collectives are under way at a time, as far as there are slots; so memory is kSlots × kChunkBytes a
/// rank, however large the arrays.
///
/// With other machines, a reduction sums over their ranks too. Each rank that has a link sums its part of a chunk over this machine's ranks,
/// sends it over the link, and publishes what comes back; so every byte leaves the machine once. Exchanges stay on the machine.
///
/// A rank that can do nothing sleeps in the kernel until one that it waits for has moved on. It looks every kLookInterval
/// whether the ranks that it waits for still live: a rank that dies takes the others' collectives along with a PeerError.
///
/// Thread-safe. Has two threads: while one calls `done`, which may take its time, the other goes on for the other ranks.
class SharedCollectives {
 public:
  static constexpr int kMostRanks = 63;
  static constexpr std::size_t kChunkBytes = 256 * 1024, kSlots = 8, kDirectBytes = 256 * 1024;
  static constexpr std::chrono::milliseconds kLookInterval{100};

  /// What the segment must have.
  static std::size_t bytes_for(int ranks);

  /// Prepares a new segment, once, before any rank uses it. Throws Error.
  static void prepare(SharedSegment& segment, int ranks);

  /// Rank `rank` of `ranks`. A collective fails if it takes longer than `timeout`. To be made by all ranks before one of them starts a collective. Throws std::system_error for
  /// want of threads.
  SharedCollectives(std::shared_ptr<SharedSegment> segment, int rank, int ranks,
                    std::chrono::milliseconds timeout);

  /// Before this rank starts a collective: sums go on to other machines.
  void join(OtherMachines others);

  /// Stops. `done` may be what destroys it.
  ~SharedCollectives();
  SharedCollectives(const SharedCollectives&) = delete;
  SharedCollectives& operator=(const SharedCollectives&) = delete;

  /// Starts a collective. Once one has failed, all later ones fail with the same error.
  void start(Reduction reduction);
  void start(PartExchange exchange);

  /// Fails what is under way and what is started later, here and, where they wait for this rank, on the others.
  void stop();

  /// True if no collective is under way.
  bool is_idle() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::array<std::thread, 2> threads_;
};

}  // namespace hookline
