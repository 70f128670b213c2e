// Who was heard of when, who is late and who is lost: pure, without sockets, a store, threads or a clock.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// Judges by heartbeats who is still there. A heartbeat is any text that its member keeps changing: reading the same one
/// again is silence. Its caller reads the heartbeats, and passes them on with the time at which it read them.
///
/// `Member` names a member: the number of a rank, or a node's name. Not synchronised.
template <class Member>
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = Time::duration;

  /// The member is there from `now` on. If it was known, what it sent before is forgotten, and that it was lost.
  void join(const Member& member, Time now) { members_[member] = {"", now, false}; }
  /// The member is there, unless it is known already. A lost one stays lost.
  void expect(const Member& member, Time now) { members_.try_emplace(member, Life{"", now, false}); }
  /// Its heartbeat, as it was read at `now`. A member that is not known yet joins with it; a lost one is not heard any more.
  void hear(const Member& member, const std::string& heartbeat, Time now) {
    Life& life = members_.try_emplace(member, Life{"", now, false}).first->second;
    if (life.is_lost || life.heartbeat == heartbeat) return;
    life.heartbeat = heartbeat;
    life.heard = now;
  }
  /// The member has left, or is given up.
  void lose(const Member& member) { members_[member].is_lost = true; }
  /// The caller did not look for a while, so that a silence says nothing: all of them begin at `now`.
  void begin_anew(Time now) {
    for (auto& [member, life] : members_) life.heard = now;
  }

  bool knows(const Member& member) const { return members_.contains(member); }
  /// The last one; empty if there was none.
  std::string heartbeat(const Member& member) const {
    const auto found = members_.find(member);
    return found == members_.end() ? "" : found->second.heartbeat;
  }
  /// Those who are not lost, in their order.
  std::vector<Member> present() const {
    std::vector<Member> all;
    for (const auto& [member, life] : members_)
      if (!life.is_lost) all.push_back(member);
    return all;
  }

  struct Silence {
    Member member;
    Duration length{};
  };
  /// The longest silence of those present, and of equal ones the first member's.
  std::optional<Silence> longest_silence(Time now) const {
    std::optional<Silence> longest;
    for (const auto& [member, life] : members_)
      if (!life.is_lost && (!longest || now - life.heard > longest->length))
        longest = Silence{member, now - life.heard};
    return longest;
  }
  /// Those present who have been silent for longer than `limit`.
  std::vector<Member> late(Duration limit, Time now) const {
    std::vector<Member> all;
    for (const auto& [member, life] : members_)
      if (!life.is_lost && now - life.heard > limit) all.push_back(member);
    return all;
  }

 private:
  struct Life {
    std::string heartbeat;  // the last one that differed
    Time heard{};           // when it was first read
    bool is_lost = false;
  };

  std::map<Member, Life> members_;
};

}  // namespace hookline
