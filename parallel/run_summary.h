// What a run has measured of itself, as one file at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "parallel/model/engine.h"
#include "parallel/rank/step_clock.h"

namespace hookline {

/// Writes {"steps", "step_seconds", "phase_seconds", "bytes_per_step", "uncompressed_bytes_per_step", "stage_bytes", "pipeline",
/// "models", "peak_memory_bytes", "peak_gpu_memory_bytes"}: the median time of a step and the means of its parts, {"forward",
/// "backward", "exposed_communication", "optimizer", "other"}, if `seconds` are known; what this rank has handed to collectives
/// for its models' gradients, and what plain gradients would have taken, on average over its steps; the same by what it was for,
/// {"gradients", "q"}; what sent it; the same four of each model, and of one that chose its hook {"choice"} (choice_report.h), of the first
/// of which "choice" at the top says {"chosen",
/// "predicted_seconds", "measured_seconds", "no_hook_seconds"}; the most memory that the process had (getrusage), and that its
/// tensors had on `device`, if that is a GPU (torch.cuda.max_memory_allocated). Warns if the file can't be written.
void write_run_summary(const std::filesystem::path& file, std::int64_t steps,
                       const std::optional<StepSeconds>& seconds,
                       const std::vector<CommunicationStats>& reports, c10::Device device);

}  // namespace hookline
