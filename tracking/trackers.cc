#include "tracking/trackers.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text/count_text.h"
#include "config/run_files.h"

namespace hookline {

/// The queue between the threads that log and the thread of one tracker, which may outlive them if the
/// tracker hangs.
struct Trackers::Queue {
  Queue(std::unique_ptr<Tracker> to, std::shared_ptr<const TrackedRun> of, std::chrono::seconds for_its_end)
      : tracker(std::move(to)), place(tracker->place()), run(std::move(of)), patience(for_its_end) {}

  const std::unique_ptr<Tracker> tracker;  // used only by the thread
  const std::string place;
  const std::shared_ptr<const TrackedRun> run;
  const std::chrono::seconds patience;
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::deque<LoggedMetrics> lines;
  std::size_t in_hand = 0;  // lines that the tracker was given and has not answered for
  std::size_t lost = 0;
  std::optional<RunEnd> ending;  // set once no more lines come
  bool ended = false;            // the thread has ended
  bool is_given_up = false;      // nobody waits for it any more

  void add(const LoggedMetrics& line) {
    const std::lock_guard lock(mutex);
    if (ending || ended) return;
    if (lines.size() == kMostWaiting) {
      ++lost;
      return;
    }
    lines.push_back(line);
    changed.notify_all();
  }

  void ask_to_end(RunEnd how) {
    const std::lock_guard lock(mutex);
    if (!ending) ending = how;
    changed.notify_all();
  }

  /// Waits for the thread to end until `patience` after `asked`; false if it has not. Logs what was lost.
  bool wait_for_end(Clock::time_point asked) {
    const Clock::time_point until = asked + patience;
    std::unique_lock lock(mutex);
    if (is_given_up) return false;
    const bool is_done = changed.wait_until(lock, until, [this] { return ended; });
    is_given_up = !is_done;
    const std::size_t all_lost = std::exchange(lost, 0) + lines.size() + (is_done ? 0 : in_hand);
    lines.clear();
    if (all_lost > 0)
      log::warning(count_text(all_lost, "line") + " of metrics did not get to " + place);
    else if (!is_done)
      log::warning("could not report the run's end to " + place + ": it does not answer");
    return is_done;
  }

  void work() {
    bool has_begun = false;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return !lines.empty() || ending; });
      if (lines.empty()) break;
      std::vector<LoggedMetrics> batch(std::make_move_iterator(lines.begin()),
                                       std::make_move_iterator(lines.end()));
      lines.clear();
      in_hand = batch.size();
      lock.unlock();
      std::size_t taken = 0;
      const bool may_come_back = give(batch, has_begun, taken);
      lock.lock();
      in_hand = 0;
      if (is_given_up) break;
      if (taken == batch.size()) continue;
      if (!may_come_back || ending) {
        lost += batch.size() - taken;
        continue;
      }
      // Put the remaining lines back in front of newer ones. If there are too many, the newest are lost, as
      // in add().
      lines.insert(lines.begin(), std::make_move_iterator(batch.begin() + static_cast<std::ptrdiff_t>(taken)),
                   std::make_move_iterator(batch.end()));
      if (lines.size() > kMostWaiting) {
        lost += lines.size() - kMostWaiting;
        lines.resize(kMostWaiting);
      }
      changed.wait_for(lock, kAgainAfter, [this] { return ending.has_value(); });
    }
    if (has_begun && !is_given_up) {
      lock.unlock();
      end_tracker();
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }

 private:
  static constexpr const char* kUnknown = "an exception that is not a std::exception";
  bool is_told_ = false, is_away_ = false;  // used only by the thread

  /// Gives the batch to the tracker. False if the lines that it did not take are lost.
  bool give(const std::vector<LoggedMetrics>& batch, bool& has_begun, std::size_t& taken) {
    try {
      if (!has_begun) tracker->begin(*run);
      has_begun = true;
      tracker->write(batch);
      taken = batch.size();
      if (std::exchange(is_away_, false)) log::info("metrics get to " + place + " again");
      return true;
    } catch (const TryAgain& problem) {
      taken = std::min(problem.taken(), batch.size());
      is_away_ = !is_told_ || is_away_;
      tell(problem.what(), "; training continues, and they are sent again later");
      return true;
    } catch (const std::exception& problem) {
      tell(problem.what(), "; training continues without what is lost");
    } catch (...) {
      tell(kUnknown, "; training continues without what is lost");
    }
    return false;
  }

  void end_tracker() {
    try {
      tracker->end(*ending);
    } catch (const std::exception& problem) {
      tell(problem.what(), "");
    } catch (...) {
      tell(kUnknown, "");
    }
  }

  void tell(const std::string& problem, const char* what_follows) {
    if (std::exchange(is_told_, true)) return;
    log::warning("metrics can't be written to " + place + ": " + problem + what_follows);
  }
};

/// The queues of all trackers of this process.
struct Trackers::All {
  std::mutex mutex;
  std::vector<std::weak_ptr<Queue>> queues;

  static All& instance() {
    static All& all = *new All();  // never destroyed: threads may outlive main()
    return all;
  }
};

Trackers::Trackers(TrackedRun run, Clock::time_point start, std::chrono::seconds patience, LoggedSoFar before)
    : run_(std::make_shared<const TrackedRun>(std::move(run))),
      start_(start),
      patience_(patience),
      before_(before) {}

Trackers::~Trackers() { end(std::uncaught_exceptions() > 0 ? RunEnd::failed : RunEnd::finished); }

void Trackers::add(std::unique_ptr<Tracker> tracker) {
  auto queue = std::make_shared<Queue>(std::move(tracker), run_, patience_);
  std::thread thread;
  try {
    thread = std::thread([queue] { queue->work(); });
  } catch (const std::system_error& error) {
    log::warning("metrics are not written to " + queue->place + ", for want of a thread: " + error.what());
    return;
  }
  queues_.emplace_back(queue, std::move(thread));
  All& all = All::instance();
  static const pid_t process = ::getpid();  // a child that was forked off has no such threads
  static const bool ended_at_exit = ::on_exit(
                                        [](int code, void*) {
                                          if (::getpid() == process)
                                            end_all(code == 0 ? RunEnd::finished : RunEnd::failed);
                                        },
                                        nullptr) == 0;
  static_cast<void>(ended_at_exit);
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.queues, [](const auto& each) { return each.expired(); });
  all.queues.push_back(queue);
}

void Trackers::expect_names(const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) {
    if (name.empty()) throw Error("a metric can't be called ''");
    if (name == kStepOfLine || name == kSecondsOfLine || name == kBytesOfLine)
      throw Error("a metric can't be called '" + name +
                  "': hookline adds a field of that name to every line of metrics");
  }
}

void Trackers::log(std::int64_t step, std::int64_t bytes_sent, std::map<std::string, double> values) {
  expect_names(values);
  LoggedMetrics line;
  line.step = step;
  line.time = std::chrono::system_clock::now();
  line.seconds = before_.seconds + std::chrono::duration<double>(Clock::now() - start_).count();
  line.bytes_sent = before_.bytes_sent + bytes_sent;
  line.values = std::move(values);
  for (const auto& [queue, thread] : queues_) queue->add(line);
}

void Trackers::end(RunEnd how) {
  for (const auto& [queue, thread] : queues_) queue->ask_to_end(how);
  const auto asked = Clock::now();
  for (auto& [queue, thread] : queues_) {
    if (queue->wait_for_end(asked))
      thread.join();
    else
      thread.detach();  // it hangs, and keeps the queue alive
  }
  queues_.clear();
}

void Trackers::end_all(RunEnd how) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    All& all = All::instance();
    const std::lock_guard lock(all.mutex);
    for (const auto& each : all.queues)
      if (auto queue = each.lock()) queues.push_back(std::move(queue));
  }
  for (const auto& queue : queues) queue->ask_to_end(how);
  const auto asked = Clock::now();
  for (const auto& queue : queues) queue->wait_for_end(asked);
}

}  // namespace hookline
