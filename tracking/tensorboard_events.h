// Writes metrics for TensorBoard.
#pragma once

#include <string>
#include <string_view>

#include "tracking/append_file.h"
#include "tracking/tracker.h"

namespace hookline {

/// One record of an event file: length, bytes, and checksums of both
/// (tensorflow/core/lib/io/record_writer.h).
std::string event_record(std::string_view event);

/// Appends scalars to events.out.tfevents.TIME.HOST.PID.NUMBER in the run's folder, which TensorBoard finds
/// by its name: `tensorboard --logdir hookline-runs`. The run's config is added as text. Times are those at
/// which metrics were logged; values have single precision, as the format requires.
class TensorBoardEvents : public Tracker {
 public:
  explicit TensorBoardEvents(const std::filesystem::path& folder);

  std::string place() const override;
  void begin(const TrackedRun& run) override;
  void write(std::span<const LoggedMetrics> lines) override;

 private:
  /// Writes all of `records` or nothing, since nothing after half a record can be read.
  void append(std::string_view records);

  AppendFile file_;
  bool is_torn_ = false;
};

}  // namespace hookline
