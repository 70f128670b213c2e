// What a run has measured of itself, as one file at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "parallel/model/parallel_strategy.h"
#include "parallel/rank/step_clock.h"

namespace hookline {

/// Writes the run's summary as a JSON object; logs a warning if the file can't be written. Its members:
///
/// - steps
/// - step_seconds: the median step; phase_seconds: the mean "forward", "backward", "exposed_communication",
///   "optimizer" and "other" of a step; both only if `seconds` are known
/// - bytes_per_step: sent by this rank for its models, on average; uncompressed_bytes_per_step: size of the
///   gradients; stage_bytes: bytes_per_step by stage ("gradients", "q"); pipeline: the hooks in use
/// - models: for each model, the previous four members, and with comm_hook = "auto" its "choice"
///   (choice_report.h)
/// - choice: for the first model with comm_hook = "auto", "chosen" (null if no hook was chosen yet),
///   "predicted_seconds", "measured_seconds", "no_hook_seconds"
/// - peak_memory_bytes: of the process (getrusage); peak_gpu_memory_bytes: of its tensors on `device`, if
///   that is a GPU (torch.cuda.max_memory_allocated)
void write_run_summary(const std::filesystem::path& file, std::int64_t steps,
                       const std::optional<StepSeconds>& seconds,
                       const std::vector<CommunicationStats>& reports, c10::Device device);

}  // namespace hookline
