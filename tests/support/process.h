// Runs a program as a user would, and observes it.
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

/// A temporary folder, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, creating its parent folders, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& text,
                              bool executable = false) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& file);

/// Polls until `condition` holds; false if it does not within `limit`.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::minutes(2));

struct ProcessOptions {
  std::vector<std::string> arguments;                             // without argv[0]
  std::map<std::string, std::optional<std::string>> environment;  // added to the test's own; nullopt: unset
  std::string input;                                              // standard input, then end of file
  std::filesystem::path folder;                                   // working folder; empty: the test's own
  std::chrono::milliseconds limit = std::chrono::minutes(5);      // then the process is killed
};

struct ProcessResult {
  int exit_code = -1;  // 128 + n if killed by signal n
  std::string out, err;
  bool timed_out = false;
};

/// A running program in its own process group, which is killed on destruction.
class Process {
 public:
  Process(const std::string& program, const ProcessOptions& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Reads until `text` appears on standard output or error; false if the limit passes or the program exits
  /// first.
  bool wait_for(const std::string& text);

  /// Reads pending output, so that an unattended program never blocks on a full pipe (64 KiB).
  void read();

  /// Closes this end of its standard output, as `head` does when it has read enough.
  void close_output();

  /// Waits for the program to exit, not for other processes that hold its output open.
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

/// The children of a process, in the order in which they started.
std::vector<pid_t> children_of(pid_t parent);

std::string host_name();

/// The processes of a launch, or 0 until they exist: the sentinel cleans up when others of the launch are
/// killed; the agent starts the ranks.
pid_t sentinel_of(pid_t launcher);
pid_t agent_of(pid_t launcher);

/// The peak memory of a running process.
std::int64_t peak_memory_kb(pid_t pid);

/// A process's state: 'T' if stopped, 'Z' if waiting to be reaped, …; '?' if it does not exist.
char state_of(pid_t pid);

/// Whether the process exists and is not just waiting to be reaped.
bool is_running(pid_t pid);

/// The content of /proc/PID/`name`, such as "comm" for its name; empty if there is no such process.
std::string of_process(pid_t pid, const char* name);

/// Running processes whose environment contains `mark`: all that a test started, even if detached.
std::vector<pid_t> running_with(const std::string& mark);

}  // namespace hookline::testing
