// Runs a program as a user would, and watches it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hookline::testing {

/// A folder under the system's temporary one, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, with the folders above it, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& text,
                              bool executable = false) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& file);

/// Calls `condition` until it holds; false if it does not within `limit`.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::minutes(2));

struct ProcessOptions {
  std::vector<std::string> arguments;                             // without argv[0]
  std::map<std::string, std::optional<std::string>> environment;  // on top of the test's own; nullopt: unset
  std::string input;                                              // standard input, at its end afterwards
  std::filesystem::path folder;                                   // to run in; empty: the test's own
  std::chrono::milliseconds limit = std::chrono::minutes(5);      // the whole is killed then
};

struct ProcessResult {
  int exit_code = -1;  // 128 + n if killed by signal n
  std::string out, err;
  bool timed_out = false;
};

/// A running program, in a process group of its own. Killed, group and all, when it goes.
class Process {
 public:
  Process(const std::string& program, const ProcessOptions& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Reads until `text` was written to standard output or error; false if the limit passes or the program
  /// ends first.
  bool wait_for(const std::string& text);

  /// Takes what was written, so that a program that is left to itself for long never waits for its reader: a pipe holds 64 KiB.
  void read();

  /// Closes our end of its standard output, as `head` does when it has enough.
  void close_output();

  /// Waits for the end, not for processes that hold on to its output.
  ProcessResult wait();

  const std::string& out() const { return result_.out; }
  const std::string& err() const { return result_.err; }

 private:
  bool is_over();
  void read_available(int wait_ms);

  pid_t pid_ = -1;
  bool ended_ = false;
  int out_ = -1, err_ = -1;
  std::chrono::steady_clock::time_point deadline_;
  ProcessResult result_;
};

ProcessResult run_process(const std::string& program, const ProcessOptions& options);

/// Of a process, in the order in which they were started.
std::vector<pid_t> children_of(pid_t parent);

/// Of a launch, 0 until it is there: the process that cleans up when others of the launch are killed, and the one that starts
/// the ranks.
pid_t sentinel_of(pid_t launcher);
pid_t agent_of(pid_t launcher);

/// The most that a running process has had in memory so far.
std::int64_t peak_memory_kb(pid_t pid);

/// 'T' of a process that is stopped, 'Z' of one that waits to be reaped, …; '?' of none.
char state_of(pid_t pid);

/// Is the process there, and not just waiting to be reaped?
bool is_running(pid_t pid);

/// What /proc has as `name` of a process: "comm" as its name, for example; empty once it has ended.
std::string of_process(pid_t pid, const char* name);

/// Running processes whose environment holds `mark`: what a test has started, however it has detached itself.
std::vector<pid_t> running_with(const std::string& mark);

}  // namespace hookline::testing
