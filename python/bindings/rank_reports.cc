#include "python/bindings/rank_reports.h"

#include "config/resolve.h"
#include "hooks/registry/registry.h"
#include "parallel/rank/environment.h"
#include "parallel/rank/rank_status.h"
#include "tracking/of_config.h"

namespace hookline {

RankReports::RankReports() : rank_(environment_number("RANK", 0, kMostRanks - 1, 0)) {
  report_fatal_signals_in_error_file();
  const auto folder = environment_text("HOOKLINE_RUN_DIR"), config = environment_text("HOOKLINE_CONFIG");
  if (!folder || !config) return;
  const RunConfig resolved = read_resolved(*config, Registry::instance().catalog());
  tell_config_is_read();
  if (rank_ == 0) trackers_ = trackers_of(resolved, *folder, start_);
}

void RankReports::step(std::optional<std::int64_t> step, std::optional<double> loss,
                       std::int64_t bytes_sent) {
  steps_ = step.value_or(steps_ + 1);
  tell_step(rank_, steps_, [&] {
    StepDetails details;
    details.loss = loss;
    details.sent_bytes = bytes_sent;
    return details;
  });
}

void RankReports::log(const std::map<std::string, double>& values, std::int64_t bytes_sent) {
  Trackers::expect_names(values);
  if (trackers_) trackers_->log(steps_, bytes_sent, values);
}

void RankReports::end(RunEnd how) {
  if (trackers_) Trackers::end_all(how);
  trackers_.reset();
}

}  // namespace hookline
