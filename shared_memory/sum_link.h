// How the sums of one machine's ranks go on to other machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

namespace hookline {

/// out[i] = parts[0][i] + parts[1][i] + …, in this order; `out` may be one of the parts.
using SumInOrder = void (*)(const void* const* parts, int count, void* out, std::size_t elements);

/// Called once, on one of the group's threads: with null, or with why it failed. PeerError: a rank is gone. RanksDiffer: the ranks
/// do not do the same.
using WhenDone = std::function<void(std::exception_ptr)>;

/// Sums pieces over several machines. On each machine the same number of ranks has a link; the links that belong together match
/// their pieces by the order in which each starts them.
class SumLink {
 public:
  /// What this rank has summed over the ranks of its machine.
  struct Piece {
    /// The array that it is of, which must be the same on all machines. A piece is the `within`-th of its array.
    std::uint64_t array_elements = 0, within = 0;
    std::uint32_t type = 0;
    void* data = nullptr;  // stays where it is until `done` is called
    std::size_t elements = 0, element_bytes = 0;
    SumInOrder sum = nullptr;
    WhenDone done = {};
  };

  virtual ~SumLink() = default;

  /// Sums the piece over all machines, in place, in the order of machines: with the same bits on all of them. Returns at once.
  /// `done` is called in the order of calls, on a thread of the link, until a piece fails; what was started behind that one fails too, or
  /// is of no use. After stop, pieces may get no call.
  virtual void start(Piece piece) = 0;

  /// Ends the link: what is under way, and what is started later, fails. Nothing of a piece is read or written once this has
  /// returned. Not to be called from `done`.
  virtual void stop() = 0;
};

}  // namespace hookline
