#include "launcher/rendezvous/handover.h"

#include "base/text/address_text.h"

namespace hookline {

std::chrono::duration<double> Handover::time_for_one(const MeetingPlace& place) {
  constexpr std::chrono::seconds kTimeToMeetAgain{2};
  return 2 * place.node_timeout + kTimeToMeetAgain;
}

std::optional<std::string> Handover::turn(MeetingPlace& place, Time now) {
  if (next_ == from_.successors.size()) return std::nullopt;
  const Successor& successor = from_.successors[next_++];
  place.serves = successor.node == place.node;
  place.may_join = false;
  place.address = place.name = successor.address;
  // A node that gave up early on the previous successor waits longer for this one, so that all nodes turn to
  // the one after it at about the same time.
  turn_ends_ += std::chrono::duration_cast<Time::duration>(time_for_one(place));
  place.join_timeout = turn_ends_ - now;
  return (next_ == 1 ? gone_ + "; " : "") +
         (place.serves ? "this node takes the place of " + from_.host
                       : "the nodes meet again at " + successor.host) +
         ", at " + host_and_port(place.address, place.port);
}

std::string Handover::obstacle(const MeetingPlace& place, const std::string& why) const {
  if (next_ == 0) return "";
  return (place.serves ? "this node can't take over: "
                       : from_.successors[next_ - 1].host + " can't be reached: ") +
         why;
}

}  // namespace hookline
