#include "parallel/watch/long_waits.h"

#include <cstddef>

#include "base/text/duration_text.h"

namespace hookline {

std::optional<std::string> LongWaits::look(const std::vector<RankPosition>& positions, Time now) {
  held_.resize(positions.size());
  std::vector<bool> waits_long(positions.size());
  bool is_new = false;
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    const auto& pending = positions[rank].pending;
    Held& held = held_[rank];
    if (!pending || held.number != pending->number) held = {};
    if (!pending) continue;
    if (!held.number) held = {pending->number, now};
    const auto waited = now - held.since;
    waits_long[rank] = waited >= patience_ - staleness_;
    is_new = is_new || (!held.is_told && waited >= patience_);
  }
  if (!is_new || (warned_ && now - *warned_ < patience_)) return std::nullopt;
  warned_ = now;
  for (Held& held : held_) held.is_told = held.number.has_value();
  return long_wait_text(positions, waits_long, seconds_text(std::chrono::duration<double>(patience_))) +
         ". Every rank has to make the same calls; [launch] stall_timeout_seconds ends a run that is stuck";
}

}  // namespace hookline
