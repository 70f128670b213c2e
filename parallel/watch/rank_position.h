// Where each rank is among the calls that all of them make, and whether they wait for each other in vain.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// What the names of sequences of a sharded model's collectives begin with.
inline constexpr const char* kShardedSequences = "fsdp-";

/// Calls lie in sequences: every rank makes those of one sequence in the same order, numbered from 0.
struct RankPosition {
  struct Wait {
    std::string sequence;
    std::int64_t number = 0;
    std::string what;  // for people
  };

  std::map<std::string, std::int64_t> started;  // of each sequence, how many
  std::optional<Wait> waits;  // the call that this rank's program is in, which needs every rank

  /// The oldest collective that this rank has begun and that is not done. Its program may compute meanwhile.
  struct Pending {
    std::uint64_t number = 0;  // among those of this rank
    std::string what;          // for people
  };
  std::optional<Pending> pending;

  bool has_reached(const Wait& wait) const;
};

/// For the store, and back. Sequences have names without spaces.
std::string pack(const RankPosition& position);
RankPosition unpack_position(const std::string& text);

/// Describes a deadlock, if there is one: ranks that each wait in a call that another of them has not reached
/// and can't reach. Ranks that do not wait may still reach any call. Positions may have been observed at
/// different moments.
std::optional<std::string> find_deadlock(const std::vector<RankPosition>& positions);

/// "ranks 0 and 2 have waited 30 s in step 3 without a hook; rank 1 is in no collective": of ranks whose
/// pending collective is that old (`waits_long`, by rank), and of what keeps them waiting.
std::string long_wait_text(const std::vector<RankPosition>& positions, const std::vector<bool>& waits_long,
                           const std::string& waited);

}  // namespace hookline
