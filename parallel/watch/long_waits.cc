#include "parallel/watch/long_waits.h"

#include <cstddef>

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
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience_).count();
  return long_wait_text(positions, waits_long, std::to_string(seconds) + " s") +
         ". Every rank has to make the same calls; [launch] stall_timeout_seconds ends a run that is stuck";
}

}  // namespace hookline
