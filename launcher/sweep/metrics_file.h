// The metrics that a run logs: one JSON object a line, such as {"step": 10, "loss": 0.31}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/lines.h"
#include "base/regular_file.h"

namespace hookline {

/// Longer lines are skipped.
inline constexpr std::size_t kLongestMetricsLine = 1 << 20;
/// Only so many bytes of a file are read; what follows them is left out.
inline constexpr std::uint64_t kMostMetricsBytes = std::uint64_t{1} << 30;

/// A line as JSON, in which NaN and infinities, however they are written, are null; nothing if it is no
/// object.
std::optional<nlohmann::json> read_metrics_line(const std::string& line);

/// "line 3 of 'FILE' is longer than 1 MiB: what it logs is lost"; empty if no line was skipped. If the
/// file `goes_on` beyond kMostMetricsBytes, the text says so instead.
std::string loss_text(const BoundedLines& lines, const std::filesystem::path& file, bool goes_on);

/// Why a file that is there can't be read, naming it or the folder that keeps it from being reached; empty if
/// it is open, or not there.
std::string unread_text(const InputFile& file, const std::filesystem::path& name);

/// The step of a line, or `lines`, how many came before it, if it has none.
std::int64_t step_of(const nlohmann::json& line, std::int64_t lines);

/// Detects where a restarted run repeats steps since its last checkpoint; only the last attempt's values of
/// them count.
class RepeatedSteps {
 public:
  /// `metrics`: the file in the run's folder.
  explicit RepeatedSteps(const std::filesystem::path& metrics) : run_(metrics.parent_path()) {}

  /// Looks for attempts that have started since. To be called after bytes of the file are read, and before
  /// their lines are taken.
  void look();
  /// Takes the next line, which starts at byte `offset`. If the line starts a repetition, returns its step:
  /// the values of this step and of later ones that were read before no longer count.
  std::optional<std::int64_t> take(const nlohmann::json& line, std::int64_t step, std::uintmax_t offset);

 private:
  std::filesystem::path run_;
  std::vector<std::uintmax_t> starts_;  // of attempts after the first, in bytes
  std::size_t next_ = 0;
  /// The step of the last line that hookline's library wrote; only a restart sets such steps back.
  std::optional<std::int64_t> last_;
};

/// One value of a metric.
struct MetricPoint {
  std::int64_t step = 0;  // the line's "step"; of a line without one, how many came before
  double value = 0;       // NaN where a program wrote NaN, an infinity or null
};

/// A metric as a run continues to log it; of steps that a restart repeats, the last attempt's values. Lines
/// that are no objects are passed over: a program may write what it likes.
class MetricsFile {
 public:
  /// `file` may not be there yet. `metric` may be empty: then only names and steps are read.
  MetricsFile(std::filesystem::path file, std::string metric);

  /// Reads complete lines that were added since the last call, up to a limit, so that it returns soon.
  void read_on();
  /// The same, for a file that nothing is written to any more: its last line may lack a newline.
  void finish();

  const std::vector<MetricPoint>& points() const { return points_; }
  std::optional<std::int64_t> step() const { return step_; }
  /// Every name that had a number, NaN or null so far.
  const std::set<std::string>& names() const { return names_; }
  /// What of the file is lost, not a training loss: loss_text() for the lines read so far, or why the file
  /// can't be read; empty if nothing is lost.
  std::string loss() const;

 private:
  void read_at_most(std::uintmax_t bytes);
  void take(const std::string& line, std::uintmax_t offset);

  std::filesystem::path file_;
  std::string metric_;
  std::uintmax_t read_ = 0;
  bool goes_on_ = false;  // beyond kMostMetricsBytes
  std::string unread_;    // why it could not be read the last time; empty if it could, or is not there
  BoundedLines lines_of_file_{kLongestMetricsLine};
  RepeatedSteps repeated_;
  std::int64_t lines_ = 0;
  std::optional<std::int64_t> step_;
  std::vector<MetricPoint> points_;
  std::set<std::string> names_;
};

}  // namespace hookline
