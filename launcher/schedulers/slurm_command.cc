#include "launcher/schedulers/slurm_command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/text/duration_text.h"
#include "launcher/process/child.h"
#include "launcher/process/outcome.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/running_command.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

ChildSpec through_shell(const std::vector<std::string>& command) {
  ChildSpec child;
  child.program = "/bin/sh";  // looks the command up, and reports if it is missing
  child.arguments = {"sh", "-c", "exec " + shell_line(command)};
  child.environment = own_environment();
  return child;
}

}  // namespace

CommandOutput answer_of(const std::vector<std::string>& command, Signals& signals,
                        std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  RunningCommand running(through_shell(command), signals);
  CommandOutput output;
  std::optional<int> status;
  while (!(status = running.look(output.text))) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) {
      const auto name = std::find_if(command.begin(), command.end(), [](const std::string& word) {
        return word == "squeue" || word == "scontrol" || word == "sbatch";
      });
      throw SlurmError("'" + (name == command.end() ? command.front() : *name) +
                       "' has not answered within " + seconds_text(limit));
    }
    if (const auto signal = signals.wait(left, running.descriptors())) throw Interrupted{*signal};
  }
  while (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  output.exit_code = exit_code(outcome_of(*status));
  return output;
}

void show_text(std::string_view text, Signals& signals) {
  constexpr std::size_t kAtOnce = 512;  // POSIX's least PIPE_BUF, for which a writable pipe always has room
  while (!text.empty()) {
    std::vector<pollfd> descriptors = {{STDOUT_FILENO, POLLOUT, 0}};
    for (const int descriptor : signals.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), -1);
    if (const auto signal = signals.asked_to_end(/*warning_too=*/false)) throw Interrupted{*signal};
    if (descriptors[0].revents == 0) continue;
    const ssize_t count = write(STDOUT_FILENO, text.data(), std::min(text.size(), kAtOnce));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) throw Interrupted{SIGPIPE};
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace hookline
