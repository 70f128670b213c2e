// What the threads of stuck ranks are doing, by gdb.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace hookline {

/// Whose stacks are wanted, and where.
struct StackOrder {
  int rank = 0;
  pid_t process = 0;           // the rank's own, or one that it has started
  std::filesystem::path file;  // that is written
};

/// Orders for a rank and the processes that it started, since a rank that is a shell script hangs in what the
/// script runs. The rank's own stacks go to stacks.txt in `folder`, the others' to stacks-PID.txt. If there
/// are more than 16 such processes, only the first 16 are included, and a warning says so.
std::vector<StackOrder> stack_orders(int rank, pid_t process, const std::filesystem::path& folder);

/// Runs gdb to write the stacks of all threads of some processes to files, a few processes at a time: each
/// gdb reads the symbols of all libraries, so if many ran at once on few cores, none would finish in time.
/// Stopped processes stay stopped.
///
/// The owner reaps the gdb processes. If a rank's stacks are missing or incomplete, problems() and the file
/// say why.
class StackWriters {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts at most `most_at_once`, each of which has `patience`.
  StackWriters(int most_at_once, Clock::duration patience);

  void start(std::vector<StackOrder> orders, Clock::time_point now);

  /// A child of this process has ended, with waitpid's status. Nothing happens if it is none of the gdbs.
  void ended(pid_t process, int wait_status);

  /// Kills what has taken too long, and starts what is next.
  void look(Clock::time_point now);

  /// Abandons all stacks that are not done, and kills their gdbs; `reason` says why.
  void give_up(const std::string& reason);

  bool is_busy() const { return !waiting_.empty() || !running_.empty(); }
  Clock::time_point next_look() const;  // max() if there is nothing to look for

  /// "the stacks of ranks 3 and 5 are not complete: gdb took longer than 60 s"; empty if all are there. Ranks
  /// are counted from `first_rank`.
  std::vector<std::string> problems(int first_rank) const;

 private:
  struct Running {
    StackOrder order;
    pid_t debugger = 0;
    Clock::time_point deadline;
    bool is_late = false;
    int threads = 0;  // of the process, when gdb began
  };
  struct Problem {
    std::string why;
    std::vector<int> ranks;
  };
  void begin(const StackOrder& order, Clock::time_point now);
  void miss(const StackOrder& order, const std::string& why);

  int most_at_once_;
  Clock::duration patience_;
  std::deque<StackOrder> waiting_;
  std::vector<Running> running_;
  std::vector<Problem> problems_;
  std::string given_up_;  // why, if they are
};

/// What is wrong with what gdb has written of a process of `threads` threads: "gdb shows 1 of 3 threads";
/// empty if nothing is.
std::string stacks_problem(const std::string& text, int threads);

/// A line for each thread whose stack gdb has cut, because it is deeper than what was asked for.
std::string notes_on_cut_stacks(const std::string& text);

}  // namespace hookline
