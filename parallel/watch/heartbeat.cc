#include "parallel/watch/heartbeat.h"

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "base/text/duration_text.h"
#include "parallel/watch/watch_times.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;

const char* const kLeft = "left";
const char* const kExited = "exited";

std::string digit_of(RunFailed::Cause cause) { return std::to_string(static_cast<int>(cause)); }

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

RunFailed loss_of(const SilentRank& lost, int waiting_rank, const std::string& what) {
  const std::string who = "rank " + std::to_string(lost.rank);
  const std::string waiting = "rank " + std::to_string(waiting_rank);
  if (lost.leaving != Leaving::no)
    return RunFailed(who + (lost.leaving == Leaving::exited ? " exited" : " left the run") + " while " +
                         waiting + " was waiting for it in " + what,
                     RunFailed::Cause::rank_left);
  return RunFailed(who + " has sent no heartbeat for " + seconds_text(lost.silence) +
                       ", so it is dead, stopped or cut off; " + waiting + " is waiting for it in " + what,
                   RunFailed::Cause::rank_silent);
}

// The cause as a digit, then the text.
std::string to_text(const RunFailed& failure) { return digit_of(failure.cause()) + failure.what(); }

RunFailed failure_in(const std::string& text) {
  for (const auto cause : {RunFailed::Cause::rank_left, RunFailed::Cause::rank_silent})
    if (text.starts_with(digit_of(cause))) return RunFailed(text.substr(1), cause);
  return RunFailed(text.substr(std::min<std::size_t>(1, text.size())));
}

}  // namespace hookline
