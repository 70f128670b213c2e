// Tracks heartbeats: which members are present, late or lost. Pure: no sockets, store, threads or clock.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// Judges by heartbeats which members are alive. A heartbeat is any text that the member keeps changing;
/// reading the same text again counts as silence. The caller reads heartbeats, and passes each on with the
/// time it was read.
///
/// `Member` names a member: the number of a rank, or a node's name. Not synchronised.
template <class Member>
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = Time::duration;

  /// Marks the member present from `now` on, and forgets earlier heartbeats and an earlier loss.
  void join(const Member& member, Time now) { members_[member] = {"", now, false}; }
  /// Marks an unknown member present from `now` on. Known members, lost ones included, stay as they are.
  void expect(const Member& member, Time now) { members_.try_emplace(member, Life{"", now, false}); }
  /// Records a heartbeat that was read at `now`. An unknown member joins; a lost member's heartbeat is
  /// ignored.
  void hear(const Member& member, const std::string& heartbeat, Time now) {
    Life& life = members_.try_emplace(member, Life{"", now, false}).first->second;
    if (life.is_lost || life.heartbeat == heartbeat) return;
    life.heartbeat = heartbeat;
    life.heard = now;
  }
  /// The member has left, or is given up.
  void lose(const Member& member) { members_[member].is_lost = true; }
  /// Restarts every silence at `now`. Call it when the caller itself did not read heartbeats for a while.
  void begin_anew(Time now) {
    for (auto& [member, life] : members_) life.heard = now;
  }

  bool knows(const Member& member) const { return members_.contains(member); }
  /// The last one; empty if there was none.
  std::string heartbeat(const Member& member) const {
    const auto found = members_.find(member);
    return found == members_.end() ? "" : found->second.heartbeat;
  }
  bool is_present(const Member& member) const {
    const auto found = members_.find(member);
    return found != members_.end() && !found->second.is_lost;
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
  /// Those present who have been silent for longer than `limit`, each with its silence.
  std::vector<Silence> late(Duration limit, Time now) const {
    std::vector<Silence> all;
    for (const auto& [member, life] : members_)
      if (!life.is_lost && now - life.heard > limit) all.push_back({member, now - life.heard});
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
