// What ranks write to the store as heartbeats and failures, and when one of them counts as lost: pure,
// without a store or a clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "parallel/watch/rank_position.h"

namespace hookline {

/// Whether a rank's last heartbeat says that none will follow.
enum class Leaving {
  no,
  left,    // its World is gone
  exited,  // its process is about to exit
};

/// `number` differs from that of the heartbeat before, so that the text differs, too.
std::string heartbeat_text(std::uint64_t number, const RankPosition& position);
/// What a rank that leaves writes instead; not for Leaving::no.
std::string last_heartbeat(Leaving leaving);

Leaving leaving_of(const std::string& heartbeat);
/// Where the rank was among the calls that all make; nowhere, if the heartbeat does not say.
RankPosition position_of(const std::string& heartbeat);

/// The rank that has been silent for the longest, which rank 0 publishes for the others. The text is rank 0's
/// own heartbeat, too.
struct SilentRank {
  int rank = -1;  // none
  std::chrono::milliseconds silence{-1};
  Leaving leaving = Leaving::no;

  std::string text(std::uint64_t number) const;
  /// None, if the text is something else, such as a last heartbeat.
  static SilentRank parse(const std::string& text);
};

/// Should the silent rank, which others wait for, count as lost? With a `peer_timeout` of 0, only if it
/// announced that it leaves. `suspicious`: a collective has failed already, so a shorter silence is enough.
bool is_lost(const SilentRank& silent, std::chrono::milliseconds peer_timeout, bool suspicious);

/// What the run fails with because of it: `waiting_rank` waits for it in `what`.
RunFailed loss_of(const SilentRank& lost, int waiting_rank, const std::string& what);

/// A failure, as it is written to the store.
std::string to_text(const RunFailed& failure);
RunFailed failure_in(const std::string& text);

}  // namespace hookline
