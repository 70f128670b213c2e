#include "launcher/supervise/supervisor.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hooks/log.h"
#include "launcher/supervise/child.h"
#include "launcher/supervise/process_tree.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kGroupCheck{10};
constexpr std::chrono::seconds kPatienceAfterKill{5};
constexpr std::chrono::duration<double> kForEver{1e9};  // what the clock can count
constexpr std::size_t kTurnBytes = 256 * 1024;  // taken of one stream before the others have their turn
constexpr std::size_t kDrainBytes =
    4 << 20;  // more than a pipe holds; a process left behind may write for ever

}  // namespace

Supervisor::Supervisor(JobSpec job, Signals& signals) : job_(std::move(job)), signals_(signals) {
  getrlimit(RLIMIT_NOFILE, &former_file_limit_);
  const rlimit highest = {former_file_limit_.rlim_max, former_file_limit_.rlim_max};
  setrlimit(RLIMIT_NOFILE, &highest);
  const auto on_log_failure = [this](const std::filesystem::path& file, int error) {
    if (!std::exchange(log_failed_, true))
      log::warning("can't write '" + file.string() + "' any more (" + std::strerror(error) +
                   "); the run goes on without it");
  };
  for (std::size_t i = 0; i < job_.ranks.size(); ++i) {
    std::string prefix;
    if (job_.prefix) prefix.append("[").append(std::to_string(i)).append("] ");
    const std::filesystem::path& folder = job_.ranks[i].log_folder;
    Rank rank;
    rank.output = std::make_unique<RankStream>(folder / "stdout.log", prefix, output_, on_log_failure);
    rank.error = std::make_unique<RankStream>(folder / "stderr.log", prefix, error_, on_log_failure);
    ranks_.push_back(std::move(rank));
  }
}

RunResult Supervisor::run() {
  log::Redirect redirect([this](std::string_view text) { error_.write(text); });
  try {
    start();
  } catch (...) {
    kill_descendants(kPatienceAfterKill);
    throw;
  }
  wait();
  drain();
  flush();
  RunResult result{state_, {}};
  if (state_.root_cause)
    result.last_error_lines = ranks_[static_cast<std::size_t>(state_.root_cause->rank)].error->tail().lines();
  return result;
}

void Supervisor::start() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const FileDescriptor output = rank.output->open_pipe(), error = rank.error->open_pipe();
    ChildSpec child;
    child.program = job_.program;
    child.arguments = job_.arguments;
    child.environment = job_.ranks[i].environment;
    child.standard_output = output.get();
    child.standard_error = error.get();
    child.inherited_descriptor = i == 0 ? job_.store.get() : -1;
    child.before_exec = [this] {
      signals_.restore();
      setrlimit(RLIMIT_NOFILE, &former_file_limit_);
    };
    rank.pid = spawn(child);
    rank.alive = rank.group_left = true;
    ++state_.ranks_alive;
  }
  job_.store.reset();
}

void Supervisor::wait() {
  while (true) {
    if (state_.ended()) {
      update_groups();
      if (!processes_are_left()) return;
      if (state_.phase == Phase::running) log::warning("the ranks left processes behind; stopping them");
      happened(ProcessesLeft{});
      if (state_.phase == Phase::killing && Clock::now() >= deadline_) {
        log::warning("processes that the ranks started do not end, not even by SIGKILL");
        return;
      }
    }
    poll_once();
    if (state_.phase == Phase::stopping && Clock::now() >= deadline_) happened(GraceOver{});
  }
}

int Supervisor::poll_timeout_ms() const {
  if (state_.ended()) return static_cast<int>(kGroupCheck.count());
  if (state_.phase != Phase::stopping) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
}

std::vector<pollfd> Supervisor::own_descriptors() const {
  std::vector<pollfd> descriptors;
  for (const int descriptor : signals_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  for (const OutputQueue* queue : {&output_, &error_})
    if (!queue->is_empty()) descriptors.push_back({queue->descriptor(), POLLOUT, 0});
  return descriptors;
}

void Supervisor::poll_once() {
  std::vector<pollfd> descriptors = own_descriptors();
  // A stream whose reader is slow waits: its pipe fills up, and the rank is held back as it would be without
  // us.
  const auto is_wanted = [](const RankStream& stream) {
    return stream.is_open() && !stream.out().is_congested();
  };
  for (const Rank& rank : ranks_)
    for (const RankStream* stream : {rank.output.get(), rank.error.get()})
      if (is_wanted(*stream)) descriptors.push_back({stream->descriptor(), POLLIN, 0});

  poll(descriptors.data(), descriptors.size(), poll_timeout_ms());
  output_.pump();
  error_.pump();
  for (Rank& rank : ranks_)
    for (RankStream* stream : {rank.output.get(), rank.error.get()})
      if (is_wanted(*stream)) stream->take(kTurnBytes);
  tell_of_closed_output();
  take_signals();
}

void Supervisor::take_signals() {
  bool child_ended = false;
  while (const auto signal = signals_.next()) {
    if (signal->number == SIGCHLD) {
      // Ends that happen before the signal is read share one, which names the first: reaped before the
      // others, it keeps the order of the failures.
      reap(signal->child);
      child_ended = true;
    } else if (signal->number == SIGTSTP) {
      suspend();
    } else {
      if (signal->number == SIGKILL) {
        log::error("the launcher was killed; killing the ranks");
      } else {
        log::info("received " + signal_name(signal->number));
      }
      happened(SignalReceived{signal->number});
    }
  }
  if (!child_ended) return;
  reap(-1);
  update_groups();
}

void Supervisor::suspend() {
  signal_groups(SIGSTOP);
  kill(getpid(), SIGSTOP);
  signal_groups(SIGCONT);
}

void Supervisor::reap(pid_t which) {
  int status;
  for (pid_t pid; (pid = waitpid(which, &status, WNOHANG)) > 0;) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [pid](const Rank& candidate) { return candidate.pid == pid; });
    if (rank == ranks_.end() || !rank->alive) continue;
    rank->alive = false;
    happened(RankEnded{static_cast<int>(rank - ranks_.begin()), outcome_of(status)});
  }
}

void Supervisor::happened(const Event& event) {
  const Decision decision = decide(state_, event);
  state_ = decision.state;
  if (const auto* stop = std::get_if<Stop>(&decision.action)) {
    signal_all(stop->signal);
    deadline_ =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(job_.grace_period, kForEver));
  } else if (const auto* forward = std::get_if<Forward>(&decision.action)) {
    signal_groups(forward->signal);
  } else if (std::holds_alternative<Kill>(decision.action)) {
    if (state_.stopped_by != SIGKILL)
      log::warning(std::holds_alternative<GraceOver>(event) ? "some ranks did not stop in time; killing them"
                                                            : "killing the ranks");
    signal_all(SIGKILL);
    deadline_ = Clock::now() + kPatienceAfterKill;
  }
}

void Supervisor::signal_groups(int signal) const {
  for (const Rank& rank : ranks_)
    if (rank.group_left) kill(-rank.pid, signal);
}

void Supervisor::signal_all(int signal) const {
  signal_groups(signal);
  // And what has left the ranks' groups.
  for (const SeenProcess& process : descendants()) {
    const bool has_it = std::any_of(ranks_.begin(), ranks_.end(),
                                    [&](const Rank& rank) { return rank.pid == process.group; });
    if (!has_it) signal_process(process, signal);
  }
}

bool Supervisor::processes_are_left() const {
  // Orphans are children of ours. Where the system does not make them so, the groups still tell.
  const bool has_children = waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
  return has_children ||
         std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.group_left; });
}

void Supervisor::update_groups() {
  for (Rank& rank : ranks_)
    if (!rank.alive && rank.group_left && kill(-rank.pid, 0) != 0) rank.group_left = false;
}

void Supervisor::drain() {
  for (Rank& rank : ranks_)
    for (RankStream* stream : {rank.output.get(), rank.error.get()})
      if (stream->is_open()) {
        stream->take(kDrainBytes);
        stream->finish();
      }
}

void Supervisor::flush() {
  while (!output_.is_empty() || !error_.is_empty()) {
    std::vector<pollfd> descriptors = own_descriptors();
    poll(descriptors.data(), descriptors.size(), -1);
    output_.pump();
    error_.pump();
    while (const auto signal = signals_.next()) {
      if (signal->number == SIGTSTP) {
        suspend();
      } else if (signal->number != SIGCHLD) {
        // The reader does not take the rest, and somebody wants an end of it. The logs are complete.
        output_.discard();
        error_.discard();
      }
    }
  }
  tell_of_closed_output();
}

void Supervisor::tell_of_closed_output() {
  if (output_.error_number() == 0 || std::exchange(told_of_closed_output_, true)) return;
  log::warning(std::string("can't write to standard output any more (") +
               std::strerror(output_.error_number()) + "); the run goes on, and its logs are complete");
}

}  // namespace hookline
