#include "launcher/supervise/failure_report.h"

#include <algorithm>
#include <csignal>

#include "base/text/bytes_text.h"
#include "base/text/list_text.h"
#include "base/text/printable.h"

namespace hookline {
namespace {

std::string why_killed(const std::optional<bool>& memory_ran_out) {
  if (!memory_ran_out) return "; the kernel does that to a process when memory runs out (see dmesg)";
  return *memory_ran_out ? "; memory ran out, and the kernel chose it"
                         : "; memory had not run out: a process sent the signal";
}

void add_indented(std::string& text, const std::string& lines) {
  text += "\n    ";
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "    ";
  }
}

std::string when_finished(const FinishedRank& rank) {
  return "with code 0" + (rank.step ? " at step " + std::to_string(*rank.step) : std::string());
}

/// "rank 2 had exited with code 0 at step 3 and rank 4 had exited with code 0"
std::string finished_text(const std::vector<FinishedRank>& ranks, const std::string& verb) {
  std::vector<std::string> texts;
  for (const FinishedRank& each : ranks)
    texts.push_back("rank " + std::to_string(each.rank) + " " + verb + " " + when_finished(each));
  return list_text(texts);
}

/// For a rank that is stuck: do the others wait for it, or does it wait for others?
std::string where_stuck(const Failure& failure) {
  const int rank = failure.cause.rank;
  const std::vector<int>& waiting = failure.waiting_ranks;
  std::vector<int> alike = failure.ranks_like_it;
  if (waiting.empty())
    return alike.empty() ? ""
                         : "\n  nor did " + rank_names(alike) +
                               ", at the same step: none of them waits in a collective";
  const std::string waits = rank_names(waiting) + (waiting.size() == 1 ? " waits" : " wait");
  if (failure.has_told_no_step)
    return "\n  it has not joined the run (Accelerator::from_env), and " + waits + " in a collective";
  if (std::find(waiting.begin(), waiting.end(), rank) == waiting.end()) {
    if (alike.empty()) return "\n  it is outside of any collective, and " + waits + " for it in one";
    alike.insert(std::upper_bound(alike.begin(), alike.end(), rank), rank);
    return "\n  " + rank_names(alike) + " are outside of any collective, and " + waits + " for them in one";
  }
  if (!failure.finished_ranks.empty())
    return "\n  it waits in a collective, as do all ranks that still run on this host, and " +
           finished_text(failure.finished_ranks, "has already exited");
  return "\n  it waits in a collective, as all ranks of this host do: either they make different calls, or "
         "they wait for a rank of another host";
}

/// What to do if the dynamic loader, whose message is in `lines`, has not found libtorch; empty if it has.
std::string libtorch_advice(const std::deque<std::string>& lines) {
  for (const std::string& line : lines)
    for (const char* library : {"libtorch", "libc10"})
      if (line.find(std::string("error while loading shared libraries: ") + library) != std::string::npos)
        return "\n  the program does not find its torch: for hookline's own programs, let HOOKLINE_TORCH "
               "name it; for yours, build it again, or add the folder of torch's libraries to "
               "LD_LIBRARY_PATH";
  return {};
}

}  // namespace

std::string failure_report(const Failure& failure) {
  return "rank " + std::to_string(failure.cause.rank) + " " + failure_details(failure);
}

std::string failure_details(const Failure& failure) {
  const RootCause& cause = failure.cause;
  std::string text = describe(cause.outcome);
  const bool is_stuck = std::holds_alternative<Stuck>(cause.outcome);
  // A collective needs every rank: this rank failed because another one had left.
  if (!is_stuck && failure.was_waiting && !failure.finished_ranks.empty())
    text += ", after " + finished_text(failure.finished_ranks, "had exited") +
            ", while others were waiting in a collective";
  const auto* signalled = std::get_if<Signalled>(&cause.outcome);
  if (signalled && signalled->signal == SIGKILL) text += why_killed(failure.memory_ran_out);
  if (signalled && signalled->signal == SIGUSR1)
    text +=
        "\n  SIGUSR1 warns of a preemption: ranks that keep checkpoints ([training] checkpoint_every_steps) "
        "save their state";
  if (is_stuck) text += where_stuck(failure);
  if (failure.error) {
    const RankError& error = *failure.error;
    text += "\n  its error" + (error.step ? " at step " + std::to_string(*error.step) : std::string()) + ":";
    add_indented(text,
                 (error.type.empty() ? "" : printable(error.type) + ": ") + printable_lines(error.message));
    for (const std::string& line : failure.stack_lines) add_indented(text, printable(line));
  }
  if (!failure.error_file_problem.empty())
    text += "\n  its error file is not shown: " + failure.error_file_problem;
  if (!is_stuck && !failure.was_waiting && !failure.finished_ranks.empty())
    text += "\n  before that, " + finished_text(failure.finished_ranks, "had exited");
  for (const int rank : failure.stopped_ranks)
    text += "\n  rank " + std::to_string(rank) +
            " was stopped then, by a signal or a debugger: the others may have waited for it";
  if (failure.last_error_lines.empty()) {
    text += "\n  it wrote nothing to standard error";
  } else {
    text += "\n  the end of its standard error:";
    for (const std::string& line : failure.last_error_lines) add_indented(text, printable(line));
  }
  text += libtorch_advice(failure.last_error_lines);
  return text + "\n  its logs on " + printable(failure.host) + ": " +
         printable((failure.log_folder / "").string());
}

std::string shortened_report(const std::string& report) {
  constexpr std::size_t kFirst = 48 << 10, kLast = 16 << 10;
  if (report.size() <= kFirst + kLast) return report;
  return report.substr(0, kFirst) + "\n  … " + bytes_text(report.size() - kFirst - kLast) +
         " are left out here; its logs have them …\n" + report.substr(report.size() - kLast);
}

}  // namespace hookline
