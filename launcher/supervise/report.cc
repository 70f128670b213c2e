#include "launcher/supervise/report.h"

#include <csignal>

namespace hookline {

std::string failure_report(const RootCause& cause, const std::deque<std::string>& last_error_lines,
                           const std::filesystem::path& log_folder) {
  std::string text = "rank " + std::to_string(cause.rank) + " " + describe(cause.outcome);
  if (cause.outcome == Outcome(Signalled{SIGKILL}))
    text += "; the kernel does that to a process when memory runs out (see dmesg)";
  if (last_error_lines.empty()) {
    text += "\n  it wrote nothing to standard error";
  } else {
    text += "\n  the end of its standard error:";
    for (const std::string& line : last_error_lines) text += "\n    " + line;
  }
  return text + "\n  its logs: " + (log_folder / "").string();
}

}  // namespace hookline
