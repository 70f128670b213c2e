// Collectives of the ranks of one machine, through memory that they share.
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
  void* data = nullptr;  // must stay valid until `done` is called
  std::size_t elements = 0;
  std::size_t element_bytes = 0;
  std::uint32_t type = 0;  // any number that stands for the elements' type: ranks compare it
  SumInOrder sum = nullptr;
  WhenDone done = {};
  /// With links: all ranks of a machine hold the same values, which count once.
  bool is_equal_on_machine = false;
  bool stays_on_machine = false;  // sum over this machine's ranks alone, even with links
};

/// The other machines of a run.
struct OtherMachines {
  std::vector<int> names;         // numbers in the run of this machine's ranks, for errors
  int links = 0;                  // the first `links` ranks of this machine have one
  std::unique_ptr<SumLink> link;  // this rank's; null if it has none
};

/// Moves parts between ranks: every rank sends its own part to each other rank, or the same part to all (an
/// all-gather), or only one rank sends (a broadcast).
struct PartExchange {
  /// Describes what a rank is about to do, in numbers that the ranks compare.
  using Identity = std::array<std::int64_t, 4>;

  Identity identity = {};
  const void* sent = nullptr;      // both must stay valid until `done` is called
  void* received = nullptr;        // a part from each rank, in the order of ranks; this rank's own is copied
  std::size_t part_bytes = 0;      // 0: identities are compared, and that is all
  bool sends_same_to_all = false;  // `sent` is one part; if not, one for each rank
  std::vector<void*> received_from = {};  // if not empty: where each rank's part goes, instead of `received`
  int only_from = -1;  // a rank: `sent` is its one part, and `received` that part on the others
  /// Makes the text of RanksDiffer from the identities of all ranks, if they are not all equal.
  std::function<std::string(const std::vector<Identity>&)> difference = {};
  WhenDone done = {};
};

/// The ranks of one machine, numbered from 0. Their collectives are matched by the order in which each rank
/// starts them.
///
/// Every element of a reduction is summed in the order of ranks, whatever its place in the array: all ranks
/// end with the same bits, those of a plain loop over the ranks' arrays. The array is cut into chunks of
/// kChunkBytes. Each rank sums one part of a chunk: it copies into its slot of the segment the parts that
/// others sum, sums its own part from their slots, and copies the other sums back. A chunk that takes
/// kDirectBytes or less on all ranks together is copied and summed as a whole by each rank, which saves one
/// round of waiting. An exchange is copied into slots and out of them. Chunks of several collectives are
/// under way at a time, as far as there are slots, so a rank needs kSlots × kChunkBytes of memory, however
/// large the arrays are.
///
/// With other machines, a reduction also sums over their ranks. Each rank that has a link sums its part of a
/// chunk over this machine's ranks, sends it over the link, and publishes what comes back, so every byte
/// leaves the machine once. Exchanges stay on the machine.
///
/// A rank that can do nothing sleeps in the kernel until a rank that it waits for has moved on. Every
/// kLookInterval it checks whether all other ranks are still alive: if one dies, the others' collectives fail
/// with a PeerError.
///
/// Thread-safe. Has two threads: while one calls `done`, which may take its time, the other continues to
/// serve the other ranks.
class SharedCollectives {
 public:
  static constexpr int kMostRanks = 63;
  static constexpr std::size_t kChunkBytes = 256 * 1024, kSlots = 8, kDirectBytes = 256 * 1024;
  static constexpr std::chrono::milliseconds kLookInterval{100};

  /// The size that the segment must have.
  static std::size_t bytes_for(int ranks);

  /// Prepares a new segment, once, before any rank uses it. Throws Error.
  static void prepare(SharedSegment& segment, int ranks);

  /// Rank `rank` of `ranks`. A collective fails if it takes longer than `timeout`. All ranks must construct
  /// this object before one of them starts a collective. Throws std::system_error if a thread can't be
  /// started.
  SharedCollectives(std::shared_ptr<SharedSegment> segment, int rank, int ranks,
                    std::chrono::milliseconds timeout);

  /// Makes sums continue over other machines. Call it before this rank starts a collective.
  void join(OtherMachines others);

  /// Stops. May run inside `done`.
  ~SharedCollectives();
  SharedCollectives(const SharedCollectives&) = delete;
  SharedCollectives& operator=(const SharedCollectives&) = delete;

  /// Starts a collective. Once one has failed, all later ones fail with the same error.
  void start(Reduction reduction);
  void start(PartExchange exchange);

  /// Makes all collectives fail that are under way or start later, here and, if they wait for this rank, on
  /// other ranks.
  void stop();

  /// True if no collective is under way.
  bool is_idle() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::array<std::thread, 2> threads_;
};

}  // namespace hookline
