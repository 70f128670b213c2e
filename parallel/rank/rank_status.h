// A rank's reports: its progress to the launcher, and its errors in its error file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hookline {

struct StepDetails {
  std::optional<double> loss;
  std::int64_t sent_bytes = 0;
  double timed_seconds = 0;   // of all steps so far, but the first
  double waited_seconds = 0;  // of these: only for communication
};

/// Reports to the launcher that this process has finished `step` steps: the datagram "rank=1 step=12
/// loss=0.31 sent=1048576 timed=4.5 waited=0.7" on the socket HOOKLINE_STATUS_FD. `details` is called, and
/// its result reported, at most twice a second. Never blocks; sends nothing without a launcher. Remembers
/// `step` for write_error_file.
void tell_step(int rank, std::int64_t step, const std::function<StepDetails()>& details);

/// Leaves a mark in the run's folder that a rank has read the config: without it the launcher reports that
/// nothing acted on the config's settings. Does nothing without a launcher; warns if the mark can't be made.
void tell_config_is_read();

/// Reports to the launcher whether this process waits for other ranks in a collective, if that has changed
/// since the last report: "rank=1 step=12 waiting=1". Does nothing before the first tell_step. Never blocks.
void tell_waiting(int rank, bool is_waiting);

/// Remembers the name of the hook, "power_sgd(rank=2, start=10)", for write_error_file.
void remember_hook(const std::string& hook);

/// Writes `message` and the name of the exception's type to the file that TORCHELASTIC_ERROR_FILE names, in
/// the form that torch.distributed.elastic writes and reads, with step and hook among its extraInfo. Does
/// nothing if the variable is not set; warns if the file can't be written.
void write_error_file(const std::string& message, const std::string& type);

/// From now on a signal such as SIGSEGV that ends this process is written to that file as well, with the
/// stack (fatal_signals.h). Does nothing if the variable is not set.
void report_fatal_signals_in_error_file();

}  // namespace hookline
