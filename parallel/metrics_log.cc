#include "parallel/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "config/run_files.h"
#include "hooks/error.h"
#include "hooks/log.h"

namespace hookline {

/// Between those who log and the thread that writes, which may outlive the log if its disk hangs.
struct MetricsLog::Queue {
  std::filesystem::path file;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t dropped = 0;
  bool ending = false;   // nothing more comes
  bool writing = false;  // lines that are no longer here
  bool ended = false;    // of the thread
  std::string problem;   // that the disk had

  /// Waits until what is here is written, or for a while.
  void flush() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kPatience, [this] { return (lines.empty() && !writing) || ended; });
  }

  void run() {
    int descriptor = -1;
    bool is_torn = false;  // the disk took a part of a line
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return !lines.empty() || ending; });
      if (lines.empty()) break;
      std::string text = is_torn ? "\n" : "";
      for (const std::string& line : lines) text += line;
      lines.clear();
      writing = true;
      lock.unlock();
      if (descriptor < 0) descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      std::string failure;
      std::size_t written = 0;
      while (failure.empty() && written < text.size()) {
        const ssize_t count =
            descriptor < 0 ? -1 : ::write(descriptor, text.data() + written, text.size() - written);
        if (count > 0)
          written += static_cast<std::size_t>(count);
        else if (errno != EINTR)
          failure = std::strerror(errno);
      }
      is_torn = written > 0 ? text[written - 1] != '\n' : is_torn;
      lock.lock();
      writing = false;
      if (!failure.empty() && problem.empty()) {
        problem = failure;
        log::warning("metrics can't be written to '" + file.string() + "': " + failure +
                     "; training goes on without what is lost");
      }
      changed.notify_all();
    }
    if (descriptor >= 0) ::close(descriptor);
    ended = true;
    changed.notify_all();
  }
};

struct MetricsLog::All {
  std::mutex mutex;
  std::vector<std::weak_ptr<Queue>> queues;

  static All& instance() {
    static All all;
    return all;
  }
};

MetricsLog::MetricsLog(std::filesystem::path file, Clock::time_point start)
    : queue_(std::make_shared<Queue>()), start_(start) {
  queue_->file = std::move(file);
  try {
    thread_ = std::thread([queue = queue_] { queue->run(); });
  } catch (const std::system_error& error) {
    log::warning("metrics are not written to '" + queue_->file.string() +
                 "', for want of a thread: " + error.what());
    queue_->ended = true;
    return;
  }
  All& all = All::instance();
  static const bool flushed_at_exit = std::atexit(flush_all) == 0;  // before `all` goes
  static_cast<void>(flushed_at_exit);
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.queues, [](const auto& each) { return each.expired(); });
  all.queues.push_back(queue_);
}

MetricsLog::~MetricsLog() {
  std::size_t lost = 0;
  bool is_done = false;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->ending = true;
    queue_->changed.notify_all();
    is_done = queue_->changed.wait_for(lock, kPatience, [this] { return queue_->ended; });
    lost = queue_->dropped + queue_->lines.size();
  }
  if (!thread_.joinable()) return;
  if (is_done)
    thread_.join();
  else
    thread_.detach();  // the disk hangs; the queue stays until it does not
  if (lost > 0)
    log::warning(std::to_string(lost) + " lines of metrics were lost: '" + queue_->file.string() +
                 "' does not take them as fast as they come");
}

void MetricsLog::add(std::int64_t step, std::int64_t bytes_sent,
                     const std::map<std::string, double>& values) {
  const std::chrono::duration<double> since = Clock::now() - start_;
  nlohmann::ordered_json line;
  line[kStepOfLine] = step;
  line[kSecondsOfLine] = since.count();
  line[kBytesOfLine] = bytes_sent;
  for (const auto& [name, value] : values) {
    if (name.empty() || line.find(name) != line.end())
      throw Error("a metric can't be called '" + name + "'" +
                  (name.empty() ? "" : ": each line has that by itself"));
  }
  for (const auto& [name, value] : values) line[name] = value;  // null, if it is not finite
  const std::lock_guard lock(queue_->mutex);
  if (queue_->ended) return;
  if (queue_->lines.size() == kMostWaiting) {
    ++queue_->dropped;
    return;
  }
  queue_->lines.push_back(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  queue_->changed.notify_all();
}

void MetricsLog::flush_all() {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    All& all = All::instance();
    const std::lock_guard lock(all.mutex);
    for (const auto& each : all.queues)
      if (auto queue = each.lock()) queues.push_back(std::move(queue));
  }
  for (const auto& queue : queues) queue->flush();
}

}  // namespace hookline
