#include "launcher/supervise/supervisor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/duration_text.h"
#include "base/log.h"
#include "base/printable.h"
#include "launcher/containment/process_tree.h"
#include "launcher/containment/sentinel.h"
#include "launcher/process/child.h"
#include "launcher/process/machine.h"
#include "launcher/rank/error_file.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kGroupCheck{10};
constexpr std::chrono::seconds kPatienceWithGdb{60};  // for each rank
constexpr int kMostGdbs = 8;                          // each may take a GB of memory
constexpr std::size_t kTurnBytes = 256 * 1024;        // taken of one stream before the others have their turn
constexpr std::size_t kDrainBytes =
    4 << 20;  // more than a pipe holds; a process left behind may write for ever

/// As long as the clock can count.
std::chrono::steady_clock::duration of_clock(std::chrono::duration<double> time) {
  constexpr std::chrono::duration<double> kForEver{1e9};
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(time, kForEver));
}

}  // namespace

Supervisor::Supervisor(JobSpec job, Signals& signals)
    : job_(std::move(job)),
      signals_(signals),
      progress_(static_cast<int>(job_.ranks.size()), job_.first_rank),
      stacks_(std::min(usable_cores(), kMostGdbs), kPatienceWithGdb),
      status_line_(error_, job_.status_form, job_.status_interval) {
  for (OutputQueue* queue : {&output_, &error_}) queue->set_before_write([this] { status_line_.erase(); });
  getrlimit(RLIMIT_NOFILE, &former_file_limit_);
  const rlimit highest = {former_file_limit_.rlim_max, former_file_limit_.rlim_max};
  setrlimit(RLIMIT_NOFILE, &highest);
  const auto on_log_failure = [this](const std::filesystem::path& file, int error) {
    if (!std::exchange(log_failed_, true))
      log::warning("can't write '" + file.string() + "' any more (" + std::strerror(error) +
                   "); the run continues without it");
  };
  for (std::size_t i = 0; i < job_.ranks.size(); ++i) {
    const RankSpec& spec = job_.ranks[i];
    Rank rank;
    rank.output = std::make_unique<RankStream>(spec.log_folder / "stdout.log", spec.output_prefix, output_,
                                               on_log_failure);
    rank.error = std::make_unique<RankStream>(spec.log_folder / "stderr.log", spec.error_prefix, error_,
                                              on_log_failure);
    ranks_.push_back(std::move(rank));
  }
}

Supervisor::~Supervisor() { setrlimit(RLIMIT_NOFILE, &former_file_limit_); }

RunResult Supervisor::run() {
  log::Redirect redirect([this](std::string_view text) { error_.write(text); });
  try {
    start();
  } catch (...) {
    kill_descendants(kPatienceAfterKill, *job_.bounds);
    throw;
  }
  wait();
  drain();
  status_line_.erase();
  flush();
  RunResult result{state_, {}, {}};
  if (state_.root_cause) {
    result.is_explained =
        job_.explained_exit && state_.root_cause->outcome == Outcome(Exited{*job_.explained_exit});
    result.failure = failure();
    result.step = progress_.step_of(state_.root_cause->rank);
  }
  return result;
}

Failure Supervisor::failure() const {
  const auto rank = static_cast<std::size_t>(state_.root_cause->rank);
  Failure failure;
  failure.cause = *state_.root_cause;
  failure.cause.rank += job_.first_rank;
  failure.host = host_name();
  failure.stopped_ranks = stopped_ranks_;
  for (int& stopped : failure.stopped_ranks) stopped += job_.first_rank;
  failure.waiting_ranks = waiting_ranks_;
  for (int& waiting : failure.waiting_ranks) waiting += job_.first_rank;
  failure.ranks_like_it = ranks_like_it_;
  for (int& alike : failure.ranks_like_it) alike += job_.first_rank;
  failure.has_told_no_step = !progress_.step_of(state_.root_cause->rank);
  failure.finished_ranks = finished_ranks_;
  failure.was_waiting = was_waiting_;
  failure.log_folder = job_.ranks[rank].log_folder;
  failure.last_error_lines = ranks_[rank].error->tail().lines();
  ErrorFile error_file = read_error_file(failure.log_folder / kErrorFile);
  failure.error = std::move(error_file.error);
  if (failure.error && failure.error->stack) failure.stack_lines = stack_lines(*failure.error->stack);
  failure.error_file_problem = std::move(error_file.problem);
  const auto memory_kills = memory_kills_so_far();
  if (memory_kills && memory_kills_before_) failure.memory_ran_out = *memory_kills > *memory_kills_before_;
  return failure;
}

void Supervisor::start() {
  memory_kills_before_ = memory_kills_so_far();
  ends_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const FileDescriptor output = rank.output->open_pipe(), error = rank.error->open_pipe();
    ChildSpec child;
    child.program = job_.program;
    child.arguments = job_.arguments;
    child.environment = job_.ranks[i].environment;
    child.cores = job_.ranks[i].cores;
    child.standard_output = output.get();
    child.standard_error = error.get();
    if (i == 0 && job_.store.is_open()) child.inherited.push_back(job_.store.get());
    if (job_.status_of_ranks.is_open()) child.inherited.push_back(job_.status_of_ranks.get());
    child.cgroup = job_.bounds->cgroup();
    child.before_exec = [this] {
      signals_.restore();
      if (job_.holds_warnings) std::signal(SIGUSR1, SIG_IGN);
      setrlimit(RLIMIT_NOFILE, &former_file_limit_);
      // Yama lets a process be looked at by its ancestors alone; gdb is a child of this one. What is allowed here outlasts exec.
      // A kernel without Yama refuses, and needs no leave.
      if (job_.stall_stacks) prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
    };
    rank.pid = spawn(child);
    rank.alive = rank.group_left = true;
    rank.end = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, rank.pid, 0)));
    epoll_event event = {EPOLLIN, {.u64 = i}};
    epoll_ctl(ends_.get(), EPOLL_CTL_ADD, rank.end.get(), &event);
    ++state_.ranks_alive;
  }
  job_.store.reset();
  job_.status_of_ranks.reset();
}

void Supervisor::wait() {
  while (true) {
    if (state_.ended()) {
      update_groups();
      if (!processes_are_left()) return;
      if (state_.phase == Phase::running) log::warning("the ranks left processes behind; stopping them");
      happened(ProcessesLeft{});
      // One SIGKILL for each that was seen misses what they started meanwhile.
      if (state_.phase == Phase::killing && !kill_descendants(kGroupCheck, *job_.bounds) &&
          Clock::now() >= deadline_) {
        log::warning("processes that the ranks started do not end, not even by SIGKILL");
        return;
      }
    }
    poll_once();
    look_at_the_clock();
  }
}

int Supervisor::poll_timeout_ms() const {
  if (state_.ended()) return static_cast<int>(kGroupCheck.count());
  const Clock::time_point next = next_look();
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
}

Supervisor::Clock::time_point Supervisor::next_look() const {
  Clock::time_point next = status_line_.due();
  const auto at = [&next](Clock::time_point time) { next = std::min(next, time); };
  if (state_.phase == Phase::stopping) at(stop_is_held_ ? stacks_.next_look() : deadline_);
  if (state_.phase == Phase::running) {
    if (first_success_) at(*first_success_ + of_clock(job_.early_exit));
    if (const auto last = progress_.last_step(); last && job_.stall_timeout.count() > 0)
      at(*last + of_clock(job_.stall_timeout));
  }
  return next;
}

void Supervisor::look_at_the_clock() {
  const Clock::time_point now = Clock::now();
  if (stop_is_held_) {
    stacks_.look(now);
    if (!stacks_.is_busy()) release_stop();
  }
  if (state_.phase == Phase::stopping && !stop_is_held_ && now >= deadline_) happened(GraceOver{});
  if (state_.ended()) return;
  if (state_.phase == Phase::running) {
    look_for_early_exits(now);
    look_for_stalls(now);
  }
  if (now >= status_line_.due()) status_line_.show(progress_.line(started_, now), progress_.has_news(), now);
}

void Supervisor::look_for_early_exits(Clock::time_point now) {
  if (!first_success_ || now - *first_success_ < of_clock(job_.early_exit)) return;
  first_success_.reset();
  const std::string rank = "rank " + std::to_string(job_.first_rank + first_to_succeed_);
  log::warning(rank + " exited with code 0 " + seconds_text(job_.early_exit) +
               " ago, and the others still run: " + progress_.places() + "; if they wait for " + rank +
               ", they wait forever");
}

void Supervisor::look_for_stalls(Clock::time_point now) {
  const auto last = progress_.last_step();
  if (!last || job_.stall_timeout.count() <= 0 || now - *last < of_clock(job_.stall_timeout)) return;
  log::warning("no rank has finished a step for " + seconds_text(job_.stall_timeout) + ": " +
               progress_.places());
  // Ranks that a debugger holds up fail each other: what has failed first is settled before.
  stop_is_held_ = job_.stall_stacks;
  const int behind = *progress_.behind();
  waiting_ranks_ = progress_.waiting();
  ranks_like_it_ = progress_.beside(behind);
  happened(RankStuck{behind, job_.stall_timeout.count(), progress_.is_waiting(behind)});
  if (stop_is_held_) write_stacks(now);
}

void Supervisor::write_stacks(Clock::time_point now) {
  // All at one moment, and so that none fails meanwhile since another one, in gdb, does not answer.
  signal_groups(SIGSTOP);
  std::vector<StackOrder> orders;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].alive) continue;
    const auto of_rank = stack_orders(static_cast<int>(rank), ranks_[rank].pid, job_.ranks[rank].log_folder);
    orders.insert(orders.end(), of_rank.begin(), of_rank.end());
  }
  stacks_.start(std::move(orders), now);
  if (stacks_.is_busy())
    log::info("gdb writes the ranks' stacks to stacks.txt beside their logs");
  else
    release_stop();
}

void Supervisor::release_stop() {
  stop_is_held_ = false;
  for (const std::string& problem : stacks_.problems(job_.first_rank)) log::warning(problem);
  if (state_.phase == Phase::stopping) stop_all(state_.asked_with);
}

void Supervisor::take_reports() {
  constexpr int kMostInATurn = 1000;
  char message[512];
  for (int i = 0; i < kMostInATurn; ++i) {
    const ssize_t count = recv(job_.status.get(), message, sizeof message, MSG_DONTWAIT);
    if (count < 0) return;
    const auto report = parse_report({message, static_cast<std::size_t>(count)});
    const bool is_first = report && progress_.take(*report, Clock::now());
    if (is_first && state_.warned && job_.holds_warnings) signal_groups(SIGUSR1);
  }
}

std::vector<pollfd> Supervisor::own_descriptors() const {
  std::vector<pollfd> descriptors;
  for (const int descriptor : signals_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  descriptors.push_back({job_.status.get(), POLLIN, 0});
  for (const OutputQueue* queue : {&output_, &error_})
    if (!queue->is_empty()) descriptors.push_back({queue->descriptor(), POLLOUT, 0});
  return descriptors;
}

void Supervisor::poll_once() {
  std::vector<pollfd> descriptors = own_descriptors();
  if (job_.attention.descriptor) descriptors.push_back({job_.attention.descriptor(), POLLIN, 0});
  // A stream whose reader is slow waits: its pipe fills up, and the rank is held back as it would be without
  // us.
  const auto is_wanted = [](const RankStream& stream) { return stream.is_open() && !stream.is_held_up(); };
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
  take_reports();
  take_signals();
  if (job_.attention.descriptor && job_.attention.read()) happened(SignalReceived{SIGTERM});
}

void Supervisor::take_signals() {
  bool child_ended = false;
  while (const auto signal = signals_.next()) {
    if (signal->number == SIGCHLD) {
      child_ended = true;
    } else if (signal->number == SIGTSTP) {
      suspend();
    } else {
      if (signal->number == SIGKILL) {
        if (signals_.is_guard_gone()) log::error("the launcher was killed; killing the ranks");
      } else {
        const bool asks_a_person =
            state_.phase == Phase::running && (signal->number == SIGINT || signal->number == SIGQUIT);
        log::info("received " + signal_name(signal->number) +
                  (asks_a_person ? ": the ranks have " + seconds_text(job_.grace_period) +
                                       " to end; a second one kills them"
                                 : ""));
      }
      if (asks_to_end(signal->number)) stacks_.give_up("the launcher was told to stop");
      happened(SignalReceived{signal->number});
    }
  }
  if (!child_ended) return;
  reap();
  update_groups();
}

void Supervisor::suspend() {
  status_line_.erase();
  signal_groups(SIGSTOP);
  signals_.suspend();
  signal_groups(SIGCONT);
}

void Supervisor::reap() {
  // Several may have ended since we looked: epoll keeps them in the order in which they became ready, waitpid does not.
  epoll_event event;
  while (epoll_wait(ends_.get(), &event, 1, 0) == 1) {
    const auto rank = static_cast<int>(event.data.u64);
    int status;
    if (waitpid(ranks_[event.data.u64].pid, &status, WNOHANG) <= 0) break;
    ended(rank, status);
  }
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].pid == pid && ranks_[rank].alive) ended(static_cast<int>(rank), status);
    stacks_.ended(pid, status);
  }
}

void Supervisor::ended(int rank, int wait_status) {
  Rank& ended = ranks_[static_cast<std::size_t>(rank)];
  ended.alive = false;
  ended.end.reset();
  take_reports();  // what it told last
  const Outcome outcome = outcome_of(wait_status);
  if (state_.phase == Phase::running && succeeded(outcome)) note_finished(rank);
  if (state_.phase == Phase::running && !succeeded(outcome)) was_waiting_ = progress_.is_waiting(rank);
  progress_.ended(rank);
  if (state_.phase == Phase::running && !succeeded(outcome)) note_stopped_ranks();
  happened(RankEnded{rank, outcome});
  if (succeeded(outcome) && !state_.ended() && first_to_succeed_ < 0 && job_.early_exit.count() > 0) {
    first_to_succeed_ = rank;
    first_success_ = Clock::now();
  }
}

void Supervisor::note_finished(int rank) {
  finished_ranks_.push_back({job_.first_rank + rank, progress_.step_of(rank)});
  const auto file = job_.ranks[static_cast<std::size_t>(rank)].log_folder / kErrorFile;
  if (const auto error = read_error_file(file).error)
    log::warning("rank " + std::to_string(job_.first_rank + rank) +
                 " exited with code 0, which counts as success, but wrote an error to '" + file.string() +
                 "': " + printable(error->message));
}

void Supervisor::note_stopped_ranks() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].alive && is_stopped(ranks_[rank].pid)) stopped_ranks_.push_back(static_cast<int>(rank));
}

void Supervisor::happened(const Event& event) {
  const Decision decision = decide(state_, event);
  const bool is_failure = decision.state.root_cause && !state_.root_cause;
  state_ = decision.state;
  if (is_failure && job_.attention.failed) {
    const RootCause& cause = *state_.root_cause;
    job_.attention.failed(job_.first_rank + cause.rank, cause.outcome, progress_.step_of(cause.rank));
  }
  if (const auto* stop = std::get_if<Stop>(&decision.action)) {
    if (!stop_is_held_) stop_all(stop->signal);
  } else if (const auto* forward = std::get_if<Forward>(&decision.action)) {
    signal_groups(forward->signal);
  } else if (std::holds_alternative<Kill>(decision.action)) {
    if (state_.stopped_by != SIGKILL)
      log::warning(std::holds_alternative<GraceOver>(event) ? "some ranks did not stop in time; killing them"
                                                            : "killing the ranks");
    stacks_.give_up("the ranks were killed");
    signal_all(SIGKILL);
    deadline_ = Clock::now() + kPatienceAfterKill;
  }
}

void Supervisor::stop_all(int signal) {
  signal_all(signal);
  signal_groups(SIGCONT);  // a rank that is stopped could not end
  deadline_ = Clock::now() + of_clock(job_.grace_period);
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
  return has_children() || job_.bounds->hold_any() ||
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
      } else if (asks_to_end(signal->number)) {
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
               std::strerror(output_.error_number()) + "); the run continues, and its logs are complete");
}

}  // namespace hookline
