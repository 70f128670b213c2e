#include "parallel/run_summary.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "hooks/log.h"

namespace hookline {

void StepTimes::step(const PhaseSeconds& so_far) {
  const Clock::time_point now = Clock::now();
  if (++steps_ == 1) {
    first_ = now;
    phases_at_first_ = so_far;
  } else if (seconds_.size() < kMostKept) {
    seconds_.push_back(std::chrono::duration<float>(now - last_).count());
  }
  last_ = now;
  phases_ = so_far;
}

double StepTimes::median() const {
  if (seconds_.empty()) return 0;
  std::vector<float> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<double>(*middle);
}

double StepTimes::mean() const {
  if (steps_ < 2) return 0;
  return std::chrono::duration<double>(last_ - first_).count() / static_cast<double>(steps_ - 1);
}

PhaseSeconds StepTimes::mean_phases() const {
  if (steps_ < 2) return {};
  const auto mean_of = [&](double PhaseSeconds::*phase) {
    return (phases_.*phase - phases_at_first_.*phase) / static_cast<double>(steps_ - 1);
  };
  return {mean_of(&PhaseSeconds::forward), mean_of(&PhaseSeconds::backward),
          mean_of(&PhaseSeconds::exposed_communication), mean_of(&PhaseSeconds::optimizer)};
}

void write_run_summary(const std::filesystem::path& file, const StepTimes& times, bool has_phases,
                       const std::vector<WireReport>& reports) {
  nlohmann::ordered_json summary;
  summary["steps"] = times.steps();
  if (times.median() > 0) summary["step_seconds"] = times.median();
  if (has_phases && times.steps() > 1) {
    const PhaseSeconds phases = times.mean_phases();
    const double known = phases.forward + phases.backward + phases.exposed_communication + phases.optimizer;
    summary["phase_seconds"] = {{"forward", phases.forward},
                                {"backward", phases.backward},
                                {"exposed_communication", phases.exposed_communication},
                                {"optimizer", phases.optimizer},
                                {"other", std::max(0.0, times.mean() - known)}};
  }
  double sent = 0, whole = 0;
  std::string pipelines;
  std::map<std::string, double> stages;
  for (const WireReport& report : reports) {
    if (report.steps == 0) continue;
    sent += static_cast<double>(report.bytes_sent) / static_cast<double>(report.steps);
    whole += static_cast<double>(report.gradient_bytes);
    pipelines += (pipelines.empty() ? "" : "; ") + report.pipeline;
    for (const StageBytes& each : report.stages)
      stages[each.stage] += static_cast<double>(each.bytes) / static_cast<double>(report.steps);
  }
  if (whole > 0) {
    summary["bytes_per_step"] = sent;
    summary["uncompressed_bytes_per_step"] = whole;
    summary["pipeline"] = pipelines;
    summary["stage_bytes"] = stages;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    summary["peak_memory_bytes"] = std::int64_t{usage.ru_maxrss} * 1024;
  std::ofstream out(file, std::ios::binary);
  out << summary.dump(2) << "\n" << std::flush;
  if (!out)
    log::warning("the run's summary can't be written to '" + file.string() + "': " + std::strerror(errno));
}

}  // namespace hookline
