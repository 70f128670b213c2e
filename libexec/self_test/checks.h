// What the self-test has found, for people or as JSON. Torch-free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

namespace hookline {

enum class Verdict { ok, warning, failed };

/// The result of one check.
struct Check {
  std::string name;  // "all-reduce"
  Verdict verdict = Verdict::ok;
  std::string found;   // what was measured, or what is wrong
  std::string advice;  // what to do; empty: nothing
};

/// The link between two ranks.
struct Link {
  int from = 0, to = 0;
  bool same_node = false;
  double latency_seconds = 0;   // one way, of 8 bytes
  double bytes_per_second = 0;  // one way
};

/// A hook's work on one step of the self-test's gradients.
struct HookTime {
  std::string hook, wrapper;
  double relative_error = 0;  // of the result, 2-norm
  double seconds = 0;         // of a backward pass
  double bytes_sent = 0;      // by a rank
  bool is_mean = true;        // up to rounding
};

/// Collects results, prints each one as it is added, and keeps all of them in a file. Thread-safe.
class Report {
 public:
  enum class Form { text, silent };
  /// `file` always holds the results so far, as one JSON object with the verdict "unfinished" until finish()
  /// is called. If it is empty, no file is written. Reports on standard error if the file can't be written.
  Report(Form form, std::ostream& out, std::filesystem::path file = {});

  /// Sets how many checks there will be, including those already added.
  void expect(std::size_t checks);

  void add(const Check& check);
  void add(const std::vector<Link>& links);
  void add(const HookTime& hook);

  /// Prints and writes the overall verdict. Returns the exit code: 1 if a check failed, else 0. Call it once.
  int finish();

 private:
  void print(const Check& check);
  void write(const std::string& verdict);
  std::size_t not_tried() const { return expected_ - std::min(expected_, checks_.size()); }

  Form form_;
  std::ostream& out_;
  std::filesystem::path file_;
  std::mutex mutex_;
  std::size_t expected_ = 0;
  std::vector<Check> checks_;
  std::vector<Link> links_;
  std::vector<HookTime> hooks_;
};

}  // namespace hookline
