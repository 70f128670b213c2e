// From a coordinator that is lost to the node that continues the run.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/node_link.h"

namespace hookline {

/// Decides which node takes the place of a lost coordinator. The nodes try the successors in order until a
/// round has started at one of them, each successor for so long that all nodes turn to the next one at about
/// the same time. Pure: callers pass the time.
class Handover {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `gone`: how the coordinator was lost, for people.
  Handover(Succession from, std::string gone) : from_(std::move(from)), gone_(std::move(gone)) {}

  const Succession& from() const { return from_; }
  /// The error of a node that finds none of the successors.
  std::string why_none() const { return gone_ + ", and no node takes its place"; }

  /// The coordinator, or the successor that has taken its place, is lost at `now`.
  void lose(Time now) { turn_ends_ = now; }

  /// Points `place`, where the nodes met or tried to meet last, at the next successor, and returns what is
  /// to be logged about that. Nothing if there is none left.
  std::optional<std::string> turn(MeetingPlace& place, Time now);
  /// What is to be logged if the place that turn() led to last can't be used. `why`: the reason. Empty if
  /// turn() has not led to a place yet.
  std::string obstacle(const MeetingPlace& place, const std::string& why) const;

  /// How much time the nodes get to meet at one successor.
  static std::chrono::duration<double> time_for_one(const MeetingPlace& place);

 private:
  Succession from_;
  std::string gone_;
  Time turn_ends_{};      // when the next successor is tried
  std::size_t next_ = 0;  // of the successors, to be tried
};

}  // namespace hookline
