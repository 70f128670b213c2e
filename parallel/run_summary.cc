#include "parallel/run_summary.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "base/regular_file.h"
#include "parallel/choice/choice_report.h"

namespace hookline {
namespace {

/// The most GPU memory that tensors used at once.
std::optional<std::int64_t> peak_memory_of(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  try {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
  } catch (const std::exception& error) {
    log::warning(std::string("the GPU's memory can't be read: ") + error.what());
    return std::nullopt;
  }
}

/// Bytes per step, on average.
struct Bytes {
  double sent = 0, whole = 0;
  std::map<std::string, double> stages;

  void add(const CommunicationStats& report) {
    const auto steps = static_cast<double>(report.steps);
    sent += static_cast<double>(report.bytes_sent) / steps;
    whole += static_cast<double>(report.gradient_bytes);
    for (const StageBytes& each : report.stages)
      stages[each.stage] += static_cast<double>(each.bytes) / steps;
  }

  void write(nlohmann::ordered_json& json) const {
    json["bytes_per_step"] = sent;
    json["uncompressed_bytes_per_step"] = whole;
    json["stage_bytes"] = stages;
  }
};

}  // namespace

void write_run_summary(const std::filesystem::path& file, std::int64_t steps,
                       const std::optional<StepSeconds>& seconds,
                       const std::vector<CommunicationStats>& reports, c10::Device device) {
  nlohmann::ordered_json summary;
  summary["steps"] = steps;
  if (seconds) {
    const PhaseSeconds& phases = seconds->phases;
    const double known = phases.forward + phases.backward + phases.exposed_communication + phases.optimizer;
    summary["step_seconds"] = seconds->median;
    summary["phase_seconds"] = {{"forward", phases.forward},
                                {"backward", phases.backward},
                                {"exposed_communication", phases.exposed_communication},
                                {"optimizer", phases.optimizer},
                                {"other", std::max(0.0, seconds->mean - known)}};
  }
  Bytes all;
  std::string pipelines;
  auto models = nlohmann::ordered_json::array();
  for (const CommunicationStats& report : reports) {
    if (report.steps == 0) continue;
    Bytes own;
    own.add(report);
    all.add(report);
    pipelines += (pipelines.empty() ? "" : "; ") + report.pipeline;
    models.push_back({{"pipeline", report.pipeline}});
    own.write(models.back());
    if (!report.choice) continue;
    models.back()["choice"] = to_json(*report.choice);
    if (!summary.contains("choice")) summary["choice"] = brief_json(*report.choice);
  }
  if (!models.empty()) {
    all.write(summary);
    summary["pipeline"] = pipelines;
    summary["models"] = models;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0)
    summary["peak_memory_bytes"] = std::int64_t{usage.ru_maxrss} * 1024;
  if (const auto bytes = peak_memory_of(device)) summary["peak_gpu_memory_bytes"] = *bytes;
  const std::string problem = replace_regular_file(file, summary.dump(2) + "\n");
  if (!problem.empty())
    log::warning("the run's summary can't be written to '" + file.string() + "': " + problem);
}

}  // namespace hookline
