#include "parallel/run_summary.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hooks/log.h"

namespace hookline {

void StepTimes::step() {
  const Clock::time_point now = Clock::now();
  if (++steps_ > 1 && seconds_.size() < kMostKept)
    seconds_.push_back(std::chrono::duration<float>(now - last_).count());
  last_ = now;
}

double StepTimes::median() const {
  if (seconds_.empty()) return 0;
  std::vector<float> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<double>(*middle);
}

void write_run_summary(const std::filesystem::path& file, const StepTimes& times,
                       const std::vector<WireReport>& reports) {
  nlohmann::ordered_json summary;
  summary["steps"] = times.steps();
  if (times.median() > 0) summary["step_seconds"] = times.median();
  double sent = 0, whole = 0;
  for (const WireReport& report : reports) {
    if (report.steps == 0) continue;
    sent += static_cast<double>(report.bytes_sent) / static_cast<double>(report.steps);
    whole += static_cast<double>(report.gradient_bytes);
  }
  if (whole > 0) {
    summary["bytes_per_step"] = sent;
    summary["uncompressed_bytes_per_step"] = whole;
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
