#include "launcher/supervise/stacks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/lines.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text/duration_text.h"
#include "base/text/list_text.h"
#include "launcher/containment/process_tree.h"
#include "launcher/output/rank_stream.h"
#include "launcher/process/child.h"
#include "launcher/process/outcome.h"
#include "launcher/process/own_environment.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {

/// Frames of each thread: an endless recursion is a hundred thousand calls deep, and gdb would take minutes
/// for it.
constexpr int kMostCalls = 1000;
constexpr std::uint64_t kLargestBytes = 256 << 20;

pid_t start_gdb(pid_t process, const std::filesystem::path& file) {
  const Program gdb = find_program({"gdb", "-nx", "-batch", "-p", std::to_string(process), "-ex",
                                    "thread apply all -c backtrace " + std::to_string(kMostCalls)},
                                   search_path());
  const FileDescriptor out = open_log(file);
  ChildSpec child;
  child.program = gdb.executable;
  child.arguments = gdb.arguments;
  // If this is set, gdb asks a server for the symbols of each library.
  child.environment = own_environment_without("DEBUGINFOD_URLS");
  child.standard_output = child.standard_error = out.get();
  return spawn(child);
}

int threads_of(pid_t process) {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task", error);
  return error ? 0 : static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

bool starts_thread(std::string_view line) {
  return line.starts_with("Thread ") && line.find(" (") != line.npos && line.ends_with(':');
}

/// The number of a frame such as "#12  0x…"; -1 if the line is none.
int frame_number(std::string_view line) {
  int number = -1;
  if (line.starts_with('#')) std::from_chars(line.data() + 1, line.data() + line.size(), number);
  return number;
}

/// Appends to what gdb has written, which may be nothing.
void add_to_file(const std::filesystem::path& file, const std::string& text) {
  const RegularFile opened = open_regular(file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (opened.descriptor < 0) return;  // the launcher logs the problem as well
  const FileDescriptor descriptor(opened.descriptor);
  [[maybe_unused]] const ssize_t written = write(descriptor.get(), text.data(), text.size());
}

std::string contents_of(const std::filesystem::path& file) {
  InputFile in(file, kLargestBytes);
  return in.read_all();
}

}  // namespace

std::string stacks_problem(const std::string& text, int threads) {
  int shown = 0;
  bool is_in_thread = false;
  std::string refusal, last;
  for (const std::string_view line : lines_of(text)) {
    if (starts_thread(line)) {
      is_in_thread = true;
    } else if (is_in_thread && frame_number(line) == 0) {
      ++shown;
      is_in_thread = false;
    }
    if (refusal.empty() && line.find("ptrace: ") != std::string::npos) refusal = line;
    if (!line.empty()) last = line;
  }
  if (shown == 0 && !refusal.empty())
    return "the system does not let gdb look (" + refusal +
           "); see /proc/sys/kernel/yama/ptrace_scope, and give a container the capability SYS_PTRACE";
  if (shown == 0) return "gdb shows none" + (last.empty() ? "" : "; it says: " + last);
  if (shown < threads)
    return "gdb shows " + std::to_string(shown) + " of " + std::to_string(threads) + " threads";
  return "";
}

std::string notes_on_cut_stacks(const std::string& text) {
  std::string notes, thread;
  int deepest = -1;
  const auto finish = [&] {
    if (deepest + 1 >= kMostCalls)
      notes += "hookline: the stack of " + thread + " may be deeper: only the " + std::to_string(kMostCalls) +
               " innermost calls are shown\n";
    deepest = -1;
  };
  for (const std::string_view line : lines_of(text)) {
    if (starts_thread(line)) {
      finish();
      thread = line.substr(0, line.find(" ("));
    }
    deepest = std::max(deepest, frame_number(line));
  }
  finish();
  return notes;
}

std::vector<StackOrder> stack_orders(int rank, pid_t process, const std::filesystem::path& folder) {
  constexpr std::size_t kMostStarted = 16;
  std::vector<StackOrder> orders = {{rank, process, folder / "stacks.txt"}};
  const std::vector<SeenProcess> started = descendants_of(process);
  if (started.size() > kMostStarted)
    log::warning("the rank of process " + std::to_string(process) + " has started " +
                 std::to_string(started.size()) + " processes: only the stacks of " +
                 std::to_string(kMostStarted) + " are written");
  for (std::size_t i = 0; i < std::min(started.size(), kMostStarted); ++i)
    orders.push_back({rank, started[i].pid, folder / ("stacks-" + std::to_string(started[i].pid) + ".txt")});
  return orders;
}

StackWriters::StackWriters(int most_at_once, Clock::duration patience)
    : most_at_once_(std::max(most_at_once, 1)), patience_(patience) {}

void StackWriters::start(std::vector<StackOrder> orders, Clock::time_point now) {
  for (StackOrder& order : orders) waiting_.push_back(std::move(order));
  look(now);
}

void StackWriters::begin(const StackOrder& order, Clock::time_point now) {
  if (!is_running(order.process)) return miss(order, "a process ended before gdb could look");
  const int threads = threads_of(order.process);
  try {
    running_.push_back({order, start_gdb(order.process, order.file), now + patience_, false, threads});
  } catch (const ProgramError&) {
    miss(order, "gdb is not here; install it, or add it to PATH");
  } catch (const std::exception& error) {
    miss(order, std::string("gdb can't be started: ") + error.what());
  }
}

void StackWriters::miss(const StackOrder& order, const std::string& why) {
  add_to_file(order.file, "hookline: these stacks are not complete: " + why + "\n");
  const auto known =
      std::find_if(problems_.begin(), problems_.end(), [&](const Problem& each) { return each.why == why; });
  if (known == problems_.end())
    problems_.push_back({why, {order.rank}});
  else
    known->ranks.push_back(order.rank);
}

void StackWriters::ended(pid_t process, int wait_status) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& each) { return each.debugger == process; });
  if (found == running_.end()) return;
  const Running done = *found;
  running_.erase(found);
  const std::string text = contents_of(done.order.file);
  if (const std::string notes = notes_on_cut_stacks(text); !notes.empty())
    add_to_file(done.order.file, notes);
  std::string why = stacks_problem(text, done.threads);
  if (!given_up_.empty())
    why = given_up_;
  else if (done.is_late)
    why = "gdb took longer than " + seconds_text(patience_);
  else if (const Outcome outcome = outcome_of(wait_status); std::holds_alternative<Signalled>(outcome))
    why = "gdb " + describe(outcome);
  if (!why.empty()) miss(done.order, why);
}

void StackWriters::look(Clock::time_point now) {
  for (Running& each : running_) {
    if (each.is_late || now < each.deadline) continue;
    each.is_late = true;
    kill(each.debugger, SIGKILL);  // not its group: gdb is alone in a group of its own
  }
  while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(most_at_once_)) {
    const StackOrder next = std::move(waiting_.front());
    waiting_.pop_front();
    begin(next, now);
  }
}

void StackWriters::give_up(const std::string& reason) {
  if (!is_busy() || !given_up_.empty()) return;
  given_up_ = reason;
  for (const Running& each : running_) kill(each.debugger, SIGKILL);
  for (const StackOrder& order : std::exchange(waiting_, {})) miss(order, reason);
}

StackWriters::Clock::time_point StackWriters::next_look() const {
  Clock::time_point next = Clock::time_point::max();
  for (const Running& each : running_)
    if (!each.is_late) next = std::min(next, each.deadline);
  return next;
}

std::vector<std::string> StackWriters::problems(int first_rank) const {
  std::vector<std::string> texts;
  for (const Problem& problem : problems_) {
    std::vector<int> ranks = problem.ranks;
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());  // one rank may have several processes
    for (int& rank : ranks) rank += first_rank;
    texts.push_back("the stacks of " + rank_names(ranks) + " are not complete: " + problem.why);
  }
  return texts;
}

}  // namespace hookline
