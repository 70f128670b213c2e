#include "parallel/rank/rank_status.h"

#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/regular_file.h"
#include "config/run_files.h"
#include "parallel/rank/environment.h"
#include "parallel/rank/fatal_signals.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDetailsEvery{500};

/// What this process has reported so far. It is global, since the handler of uncaught errors reads it.
struct Told {
  std::mutex mutex;
  std::optional<std::int64_t> step;
  std::string hook;
  Clock::time_point next{};
  bool is_waiting = false;
};

Told& told() {
  static Told& told = *new Told;  // a thread left running may report while the process exits
  return told;
}

/// If the launcher is busy or gone, the message is lost. The next one supersedes it.
void send_to_launcher(const std::string& message) {
  static const int socket = environment_number("HOOKLINE_STATUS_FD", 0, 1 << 20, -1);
  if (socket >= 0) ::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::string place_of(int rank, std::int64_t step) {
  return "rank=" + std::to_string(rank) + " step=" + std::to_string(step);
}

}  // namespace

void tell_step(int rank, std::int64_t step, const std::function<StepDetails()>& details) {
  set_step_of_fatal_signals(step);
  bool with_details = false;
  {
    const std::lock_guard lock(told().mutex);
    told().step = step;
    told().is_waiting = false;
    const auto now = Clock::now();
    with_details = now >= told().next;
    if (with_details) told().next = now + kDetailsEvery;
  }
  std::string message = place_of(rank, step);
  if (with_details) {
    const StepDetails now = details();
    char text[96];
    if (now.loss) {
      std::snprintf(text, sizeof text, " loss=%.6g", *now.loss);
      message += text;
    }
    std::snprintf(text, sizeof text, " timed=%.6f waited=%.6f", now.timed_seconds, now.waited_seconds);
    message += " sent=" + std::to_string(now.sent_bytes) + text;
  }
  send_to_launcher(message);
}

void tell_waiting(int rank, bool is_waiting) {
  const std::lock_guard lock(told().mutex);
  if (!told().step || told().is_waiting == is_waiting) return;
  told().is_waiting = is_waiting;
  send_to_launcher(place_of(rank, *told().step) + (is_waiting ? " waiting=1" : " waiting=0"));
}

void tell_config_is_read() {
  const auto folder = environment_text("HOOKLINE_RUN_DIR");
  if (!folder) return;
  const std::filesystem::path mark = std::filesystem::path(*folder) / kConfigReadFile;
  std::error_code error;
  if (std::filesystem::exists(mark, error)) return;  // another rank has made it already
  if (const std::string why = write_regular_file(mark, ""); !why.empty())
    log::warning("can't make '" + mark.string() + "' (" + why +
                 "), by which the launcher knows that the config was read");
}

void remember_hook(const std::string& hook) {
  const std::lock_guard lock(told().mutex);
  told().hook = hook;
  set_hook_of_fatal_signals(hook);
}

void report_fatal_signals_in_error_file() {
  if (const auto file = environment_text("TORCHELASTIC_ERROR_FILE")) report_fatal_signals(*file);
}

void write_error_file(const std::string& message, const std::string& type) {
  const auto file = environment_text("TORCHELASTIC_ERROR_FILE");
  if (!file) return;
  nlohmann::json extra = {
      {"py_callstack", ""}, {"timestamp", std::to_string(std::time(nullptr))}, {"type", type}};
  {
    const std::lock_guard lock(told().mutex);
    if (told().step) extra["step"] = *told().step;
    if (!told().hook.empty()) extra["hook"] = told().hook;
  }
  const nlohmann::json error = {{"message", {{"message", message}, {"extraInfo", extra}}}};
  const std::string problem =
      write_regular_file(*file, error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!problem.empty()) log::warning("can't write the error file '" + *file + "': " + problem);
}

}  // namespace hookline
