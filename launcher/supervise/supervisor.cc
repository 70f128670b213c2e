#include "launcher/supervise/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/text/duration_text.h"
#include "base/text/printable.h"
#include "launcher/containment/sentinel.h"
#include "launcher/process/child.h"
#include "launcher/process/machine.h"
#include "launcher/rank/error_file.h"
#include "launcher/rank/rank_stack.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kGroupCheck{10};
constexpr std::chrono::seconds kPatienceWithGdb{60};  // for each process
constexpr int kMostGdbs = 8;                          // each may take a GB of memory

}  // namespace

Supervisor::Supervisor(JobSpec job, Signals& signals)
    : job_(std::move(job)),
      signals_(signals),
      output_(job_.ranks),
      ranks_(*job_.bounds),
      stop_({.to_all = [this](int signal) { ranks_.signal_all(signal); },
             .to_groups = [this](int signal) { ranks_.signal_groups(signal); }},
            job_.grace_period),
      watch_(job_.early_exit, job_.stall_timeout),
      progress_(static_cast<int>(job_.ranks.size()), job_.first_rank),
      stacks_(std::min(usable_cores(), kMostGdbs), kPatienceWithGdb),
      status_line_(output_.error(), job_.status_form, job_.status_interval),
      notes_(job_.first_rank) {
  output_.set_before_write([this] { status_line_.erase(); });
}

RunResult Supervisor::run() {
  log::Redirect redirect([this](std::string_view text) { output_.error().write(text); });
  try {
    start();
  } catch (...) {
    ranks_.kill_all(kPatienceAfterKill);
    throw;
  }
  wait();
  output_.drain();
  status_line_.erase();
  flush();
  RunResult result{state_, {}, {}, progress_.furthest(), asked_by_};
  if (state_.root_cause) {
    result.is_explained =
        job_.explained_exit && state_.root_cause->outcome == Outcome(Exited{*job_.explained_exit});
    result.failure = failure();
    result.step = progress_.step_of(state_.root_cause->rank);
  }
  return result;
}

Failure Supervisor::failure() const {
  const int rank = state_.root_cause->rank;
  Failure failure = notes_.failure(*state_.root_cause, progress_.step_of(rank));
  failure.host = host_name();
  failure.log_folder = job_.ranks[static_cast<std::size_t>(rank)].log_folder;
  failure.last_error_lines = output_.error_tail(rank).lines();
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
  for (std::size_t i = 0; i < job_.ranks.size(); ++i) {
    const RankOutput::Pipes pipes = output_.open_pipes(static_cast<int>(i));
    ChildSpec child;
    child.program = job_.program;
    child.arguments = job_.arguments;
    child.environment = job_.ranks[i].environment;
    child.cores = job_.ranks[i].cores;
    child.standard_output = pipes.output.get();
    child.standard_error = pipes.error.get();
    if (i == 0 && job_.store.is_open()) child.inherited.push_back(job_.store.get());
    if (job_.status_of_ranks.is_open()) child.inherited.push_back(job_.status_of_ranks.get());
    child.cgroup = job_.bounds->cgroup();
    child.before_exec = [this] {
      signals_.restore();
      if (job_.holds_warnings) std::signal(SIGUSR1, SIG_IGN);
      file_limit_.restore();
      // Yama lets only ancestors of a process trace it, and gdb is a child of this process. The permission
      // outlasts exec. A kernel without Yama refuses the call, and needs no permission.
      if (job_.stall_stacks) prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
    };
    ranks_.start(child);
    ++state_.ranks_alive;
  }
  job_.store.reset();
  job_.status_of_ranks.reset();
  if (job_.stop_source.busiest)
    busiest_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(job_.status_interval);
}

void Supervisor::wait() {
  while (true) {
    if (state_.ended()) {
      if (!ranks_.any_left()) return;
      if (state_.phase == Phase::running) log::warning("the ranks left processes behind; stopping them");
      happened(ProcessesLeft{});
      // Sending one SIGKILL to each process that was seen would miss those that they start in the meantime.
      if (state_.phase == Phase::killing && !ranks_.kill_all(kGroupCheck) &&
          Clock::now() >= stop_.deadline()) {
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
  if (state_.phase == Phase::stopping) at(stop_.is_held() ? stacks_.next_look() : stop_.deadline());
  if (state_.phase == Phase::running) at(watch_.next_look(progress_.last_step()));
  if (job_.stop_source.next) at(job_.stop_source.next());
  if (state_.phase == Phase::running) at(busiest_at_);
  return next;
}

void Supervisor::look_at_the_clock() {
  const Clock::time_point now = Clock::now();
  if (stop_.is_held()) {
    stacks_.look(now);
    if (!stacks_.is_busy()) release_stop(now);
  }
  if (state_.phase == Phase::stopping && !stop_.is_held() && now >= stop_.deadline()) happened(GraceOver{});
  if (state_.ended()) return;
  if (state_.phase == Phase::running) {
    look_for_early_exits(now);
    look_for_stalls(now);
    report_busiest(now);
  }
  if (now >= status_line_.due()) status_line_.show(progress_.line(started_, now), progress_.has_news(), now);
}

void Supervisor::look_for_early_exits(Clock::time_point now) {
  const auto early = watch_.take_early_exit(now);
  if (!early) return;
  const std::string rank = "rank " + std::to_string(job_.first_rank + *early);
  log::warning(rank + " exited " + seconds_text(job_.early_exit) +
               " ago with code 0, and the others still run: " + progress_.places() + "; if they wait for " +
               rank + ", they wait forever");
}

void Supervisor::look_for_stalls(Clock::time_point now) {
  if (!watch_.is_stalled(progress_.last_step(), now)) return;
  log::warning("no rank has finished a step for " + seconds_text(job_.stall_timeout) + ": " +
               progress_.places());
  // Ranks that gdb holds up can make others fail, so record which rank is stuck before gdb starts.
  if (job_.stall_stacks) stop_.hold();
  const int behind = *progress_.behind();
  notes_.stalled(progress_.waiting(), progress_.beside(behind));
  happened(RankStuck{behind, job_.stall_timeout.count(), progress_.is_waiting(behind)});
  if (stop_.is_held()) write_stacks(now);
}

void Supervisor::report_busiest(Clock::time_point now) {
  if (now < busiest_at_) return;
  busiest_at_ = now + std::chrono::duration_cast<Clock::duration>(job_.status_interval);
  if (const auto busiest = progress_.take_busiest())
    job_.stop_source.busiest(job_.first_rank + busiest->rank, busiest->share);
}

void Supervisor::write_stacks(Clock::time_point now) {
  // Stop all ranks at one moment. Otherwise a rank could fail because another one, which gdb holds, does not
  // answer.
  ranks_.signal_groups(SIGSTOP);
  std::vector<StackOrder> orders;
  for (const int rank : ranks_.alive()) {
    const auto of_rank =
        stack_orders(rank, ranks_.process_of(rank), job_.ranks[static_cast<std::size_t>(rank)].log_folder);
    orders.insert(orders.end(), of_rank.begin(), of_rank.end());
  }
  stacks_.start(std::move(orders), now);
  if (stacks_.is_busy())
    log::info("gdb writes the ranks' stacks to stacks.txt beside their logs");
  else
    release_stop(now);
}

void Supervisor::release_stop(Clock::time_point now) {
  for (const std::string& problem : stacks_.problems(job_.first_rank)) log::warning(problem);
  stop_.release(now);
}

void Supervisor::take_reports() {
  constexpr int kMostInATurn = 1000;
  char message[512];
  for (int i = 0; i < kMostInATurn; ++i) {
    const ssize_t count = recv(job_.status.get(), message, sizeof message, MSG_DONTWAIT);
    if (count < 0) return;
    const auto report = parse_report({message, static_cast<std::size_t>(count)});
    const bool is_first = report && progress_.take(*report, Clock::now());
    if (is_first && state_.warned && job_.holds_warnings) ranks_.signal_groups(SIGUSR1);
  }
}

std::vector<pollfd> Supervisor::own_descriptors() const {
  std::vector<pollfd> descriptors;
  for (const int descriptor : signals_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
  descriptors.push_back({job_.status.get(), POLLIN, 0});
  output_.add_writable(descriptors);
  return descriptors;
}

void Supervisor::poll_once() {
  std::vector<pollfd> descriptors = own_descriptors();
  if (job_.stop_source.descriptor) descriptors.push_back({job_.stop_source.descriptor(), POLLIN, 0});
  output_.add_readable(descriptors);

  poll(descriptors.data(), descriptors.size(), poll_timeout_ms());
  output_.write();
  output_.read();
  output_.warn_if_closed();
  take_reports();
  take_signals();
  if (job_.stop_source.descriptor && job_.stop_source.read()) happened(SignalReceived{SIGTERM});
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
        if (signals_.is_launcher_gone()) log::error("the launcher was killed; killing the ranks");
      } else {
        const bool asks_a_person =
            state_.phase == Phase::running && (signal->number == SIGINT || signal->number == SIGQUIT);
        log::info("received " + signal_name(signal->number) +
                  (asks_a_person ? ": the ranks have " + seconds_text(job_.grace_period) +
                                       " to end; a second one kills them"
                                 : ""));
      }
      if (asks_to_end(signal->number)) {
        stacks_.give_up("the launcher was told to stop");
        if (!state_.root_cause && !asked_by_) asked_by_ = signal->number;
      }
      happened(SignalReceived{signal->number});
    }
  }
  if (!child_ended) return;
  reap();
  ranks_.forget_empty_groups();
}

void Supervisor::suspend() {
  status_line_.erase();
  ranks_.signal_groups(SIGSTOP);
  signals_.suspend();
  ranks_.signal_groups(SIGCONT);
}

void Supervisor::reap() {
  while (const auto child = ranks_.next_ended())
    if (child->rank)
      ended(*child->rank, child->wait_status);
    else
      stacks_.ended(child->process, child->wait_status);
}

void Supervisor::ended(int rank, int wait_status) {
  take_reports();  // the last of what it reported
  const Outcome outcome = outcome_of(wait_status);
  if (state_.phase == Phase::running) {
    if (succeeded(outcome))
      note_success(rank);
    else
      notes_.failed(progress_.is_waiting(rank), ranks_.stopped());
  }
  progress_.ended(rank);
  happened(RankEnded{rank, outcome});
  if (succeeded(outcome) && !state_.ended()) watch_.exited_early(rank, Clock::now());
}

void Supervisor::note_success(int rank) {
  notes_.finished(rank, progress_.step_of(rank));
  const auto file = job_.ranks[static_cast<std::size_t>(rank)].log_folder / kErrorFile;
  if (const auto error = read_error_file(file).error)
    log::warning("rank " + std::to_string(job_.first_rank + rank) +
                 " exited with code 0, which counts as success, but wrote an error to '" + file.string() +
                 "': " + printable(error->message));
}

void Supervisor::happened(const Event& event) {
  const Decision decision = decide(state_, event);
  const bool is_failure = decision.state.root_cause && !state_.root_cause;
  state_ = decision.state;
  if (is_failure && job_.stop_source.failed) {
    const RootCause& cause = *state_.root_cause;
    job_.stop_source.failed(job_.first_rank + cause.rank, cause.outcome, progress_.step_of(cause.rank));
  }
  if (const auto* stop = std::get_if<Stop>(&decision.action)) {
    stop_.ask(stop->signal, Clock::now());
  } else if (const auto* forward = std::get_if<Forward>(&decision.action)) {
    ranks_.signal_groups(forward->signal);
  } else if (std::holds_alternative<Kill>(decision.action)) {
    if (state_.stopped_by != SIGKILL)
      log::warning(std::holds_alternative<GraceOver>(event) ? "some ranks did not stop in time; killing them"
                                                            : "killing the ranks");
    stacks_.give_up("the ranks were killed");
    stop_.kill(Clock::now());
  }
}

void Supervisor::flush() {
  while (!output_.is_written()) {
    std::vector<pollfd> descriptors = own_descriptors();
    poll(descriptors.data(), descriptors.size(), -1);
    output_.write();
    while (const auto signal = signals_.next()) {
      if (signal->number == SIGTSTP)
        suspend();
      else if (asks_to_end(signal->number))
        output_.discard();  // the reader takes nothing more, and someone wants the run to end
    }
  }
  output_.warn_if_closed();
}

}  // namespace hookline
