// The interface through which the sums of one machine's ranks continue over other machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

namespace hookline {

/// out[i] = parts[0][i] + parts[1][i] + …, in this order; `out` may be one of the parts.
using SumInOrder = void (*)(const void* const* parts, int count, void* out, std::size_t elements);

/// Called once, on one of the group's threads: with null, or with the reason for a failure. PeerError: a rank
/// is gone. RanksDiffer: the ranks do different things.
using WhenDone = std::function<void(std::exception_ptr)>;

/// Sums pieces over several machines. The same number of ranks has a link on each machine. Corresponding
/// links match pieces by order: the n-th piece that one of them starts is summed with the n-th of the others.
class SumLink {
 public:
  /// What this rank has summed over the ranks of its machine.
  struct Piece {
    /// The piece's array, which must be the same on all machines. The piece is number `within` of its array.
    std::uint64_t array_elements = 0, within = 0;
    std::uint32_t type = 0;
    void* data = nullptr;  // must stay valid until `done` is called
    std::size_t elements = 0, element_bytes = 0;
    SumInOrder sum = nullptr;
    WhenDone done = {};
  };

  virtual ~SumLink() = default;

  /// Sums the piece over all machines, in place and in the order of machines, so that all get the same bits.
  /// Returns at once. `done` is called on a thread of the link, in the order of calls, until a piece fails;
  /// the pieces after that one fail, too, or have no valid result. After stop, `done` may never be
  /// called for a piece that was under way.
  virtual void start(Piece piece) = 0;

  /// Ends the link: pieces that are under way or start later fail. Once this has returned, the memory of
  /// pieces is neither read nor written. Must not be called from `done`.
  virtual void stop() = 0;
};

}  // namespace hookline
