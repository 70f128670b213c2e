#include "launcher/supervise/rank_processes.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/containment/process_tree.h"

namespace hookline {

RankProcesses::RankProcesses(const RunBounds& bounds)
    : bounds_(bounds), ends_(epoll_create1(EPOLL_CLOEXEC)) {}

void RankProcesses::start(const ChildSpec& child) {
  Rank rank;
  rank.pid = spawn(child);
  rank.end = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, rank.pid, 0)));
  epoll_event event = {EPOLLIN, {.u64 = ranks_.size()}};
  epoll_ctl(ends_.get(), EPOLL_CTL_ADD, rank.end.get(), &event);
  ranks_.push_back(std::move(rank));
}

std::optional<EndedChild> RankProcesses::next_ended() {
  const auto ended = [this](std::size_t rank, int wait_status) {
    ranks_[rank].is_alive = false;
    ranks_[rank].end.reset();
    return EndedChild{ranks_[rank].pid, wait_status, static_cast<int>(rank)};
  };
  int status;
  // Several ranks may have ended since the last look. epoll returns them in the order in which they became
  // ready, unlike waitpid.
  epoll_event event;
  if (epoll_wait(ends_.get(), &event, 1, 0) == 1 && waitpid(ranks_[event.data.u64].pid, &status, WNOHANG) > 0)
    return ended(event.data.u64, status);
  const pid_t process = waitpid(-1, &status, WNOHANG);
  if (process <= 0) return std::nullopt;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].pid == process && ranks_[rank].is_alive) return ended(rank, status);
  return EndedChild{process, status, std::nullopt};
}

std::vector<int> RankProcesses::alive() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].is_alive) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::vector<int> RankProcesses::stopped() const {
  std::vector<int> ranks = alive();
  std::erase_if(ranks, [this](int rank) { return !is_stopped(process_of(rank)); });
  return ranks;
}

void RankProcesses::signal_groups(int signal) const {
  for (const Rank& rank : ranks_)
    if (rank.has_group) kill(-rank.pid, signal);
}

void RankProcesses::signal_all(int signal) const {
  signal_groups(signal);
  for (const SeenProcess& process : descendants()) {
    const bool is_in_group = std::any_of(ranks_.begin(), ranks_.end(),
                                         [&](const Rank& rank) { return rank.pid == process.group; });
    if (!is_in_group) signal_process(process, signal);
  }
}

bool RankProcesses::any_left() {
  forget_empty_groups();
  // Orphans become children of this process. Where the system does not support that, the process groups still
  // show them.
  return has_children() || bounds_.hold_any() ||
         std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.has_group; });
}

bool RankProcesses::kill_all(std::chrono::milliseconds patience) const {
  return kill_descendants(patience, bounds_);
}

void RankProcesses::forget_empty_groups() {
  for (Rank& rank : ranks_)
    if (!rank.is_alive && rank.has_group && kill(-rank.pid, 0) != 0) rank.has_group = false;
}

}  // namespace hookline
