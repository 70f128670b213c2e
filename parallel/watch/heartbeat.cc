#include "parallel/watch/heartbeat.h"

#include <algorithm>
#include <sstream>

#include "base/duration_text.h"
#include "parallel/watch/watch_times.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

const char* const kLeft = "left";
const char* const kExited = "exited";

}  // namespace

std::string heartbeat_text(std::uint64_t number, const RankPosition& position) {
  return std::to_string(number) + ' ' + pack(position);
}

std::string last_heartbeat(Leaving leaving) { return leaving == Leaving::exited ? kExited : kLeft; }

Leaving leaving_of(const std::string& heartbeat) {
  return heartbeat == kExited ? Leaving::exited : heartbeat == kLeft ? Leaving::left : Leaving::no;
}

RankPosition position_of(const std::string& heartbeat) {
  const auto begin = heartbeat.find(' ');
  return begin == std::string::npos ? RankPosition() : unpack_position(heartbeat.substr(begin + 1));
}

std::string SilentRank::text(std::uint64_t number) const {
  return std::to_string(number) + " " + std::to_string(rank) + " " + std::to_string(silence.count()) + " " +
         std::to_string(static_cast<int>(leaving));
}

SilentRank SilentRank::parse(const std::string& text) {
  std::istringstream in(text);
  std::uint64_t number = 0;
  std::int64_t silence = 0;
  int leaving = 0;
  SilentRank result;
  if (!(in >> number >> result.rank >> silence >> leaving)) return {};
  result.silence = milliseconds(silence);
  result.leaving = static_cast<Leaving>(leaving);
  return result;
}

bool is_lost(const SilentRank& silent, milliseconds peer_timeout, bool suspicious) {
  if (silent.rank < 0) return false;
  if (silent.leaving != Leaving::no) return silent.silence >= watch_times::kPatience;
  const milliseconds limit =
      suspicious ? std::min(peer_timeout, watch_times::kSuspiciousSilence) : peer_timeout;
  return peer_timeout.count() > 0 && silent.silence >= limit;
}

std::string loss_text(const SilentRank& lost, int waiting_rank, const std::string& what) {
  const std::string who = "rank " + std::to_string(lost.rank);
  const std::string waiting = "rank " + std::to_string(waiting_rank);
  if (lost.leaving != Leaving::no)
    return who + (lost.leaving == Leaving::exited ? " exited" : " left the run") + " while " + waiting +
           " was waiting for it in " + what;
  return who + " has sent no heartbeat for " + seconds_text(lost.silence) +
         ", so it is dead, stopped or cut off; " + waiting + " waits for it: " + what;
}

}  // namespace hookline
