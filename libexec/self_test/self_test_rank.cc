// One rank of hookline test: tries everything that a run depends on, and reports what it found.
//
//     self_test_rank SECONDS FILE [--silent]
//     self_test_rank --versions              for hookline env
//
// Started by the launcher. Rank 0 prints its report and writes it to FILE. Its exit code is 0, or 1 if a
// check failed; other ranks exit with 3 after an error.
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "base/text/printable.h"
#include "hooks/build_stamp.h"
#include "libexec/self_test/check_limits.h"
#include "libexec/self_test/checks.h"
#include "libexec/self_test/collective_checks.h"
#include "libexec/self_test/hooks.h"
#include "libexec/self_test/links.h"
#include "libexec/self_test/sharding.h"
#include "libexec/self_test/versions.h"
#include "libexec/self_test/whereabouts.h"
#include "parallel/hookline.h"
#include "parallel/rank/environment.h"
#include "parallel/world/text_exchange.h"

namespace hookline {
namespace {

/// Ends the process when its time is up: what it waits for then may never come.
class TimeLimit {
 public:
  using Seconds = std::chrono::duration<double>;
  TimeLimit(Seconds limit, std::function<void(const std::string& step, const std::string& behind)> at_limit)
      : thread_([this, limit, at_limit] {
          std::unique_lock lock(mutex_);
          if (!ended_.wait_for(lock, limit, [&] { return over_; })) at_limit(step_, behind_ ? behind_() : "");
        }) {}
  ~TimeLimit() {
    cancel();
    thread_.join();
  }

  /// Disarms the limit.
  void cancel() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }

  /// Names the step that begins now.
  void step(const std::string& name) {
    const std::lock_guard lock(mutex_);
    step_ = name;
  }

  /// Sets the function that says, at the limit, which ranks are behind.
  void asks(std::function<std::string()> behind) {
    const std::lock_guard lock(mutex_);
    behind_ = std::move(behind);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string step_ = "join";
  std::function<std::string()> behind_;
  bool over_ = false;
  std::thread thread_;
};

constexpr int kFailedWithoutReport = 3;
constexpr std::chrono::seconds kTimeToReport{5};

/// Ends at once: other ranks may be gone, or wait for something that never comes.
[[noreturn]] void end_now(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

/// Ends a rank other than 0, after a delay: the launcher ends all ranks once one has failed, and rank 0 must
/// report first.
[[noreturn]] void end_behind_rank_0() {
  std::this_thread::sleep_for(kTimeToReport);
  end_now(kFailedWithoutReport);
}

std::int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator{});
}

std::int64_t limit_of_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t free_shared_memory() {
  struct statvfs memory {};
  if (::statvfs("/dev/shm", &memory) != 0) return 0;
  return static_cast<std::int64_t>(memory.f_bavail * memory.f_frsize);
}

class SelfTest {
 public:
  SelfTest(Report& report, TimeLimit& limit) : report_(report), limit_(limit) {}

  void run() {
    const auto start = std::chrono::steady_clock::now();
    // Gloo's threads end the process when they run out of files.
    expect_enough_files(open_files(), limit_of_open_files(),
                        environment_number("WORLD_SIZE", 1, kMostRanks, 1));
    accelerator_.emplace(Accelerator::from_env());
    log::set_level("warning");  // only the report matters to the user
    const auto joined = std::chrono::steady_clock::now() - start;
    const std::vector<std::string> nodes = texts("join", environment_text("GROUP_RANK").value_or("0"));
    report_.add({"join", Verdict::ok,
                 count_text(nodes.size(), "rank") + " on " +
                     count_text(std::set<std::string>(nodes.begin(), nodes.end()).size(), "host") + ", " +
                     device_text() + ", in " + duration_text(joined),
                 ""});
    whereabouts_.emplace(world());
    limit_.asks([this] { return whereabouts_->behind(); });
    const DdpConfig& ddp = accelerator_->config().ddp;
    const std::vector<HookCase> hooks = hook_cases(ddp.comm_hook, ddp.comm_state_option);
    constexpr std::size_t kOthers = 4;  // join, versions, open files, shared memory
    const std::vector<ShardingCase> shardings = sharding_cases();
    report_.expect(kOthers + collectives().size() + (world().size() > 1 ? 1 : 0) + hooks.size() +
                   shardings.size());
    report_.add(judge_builds(texts("versions", HOOKLINE_BUILD_STAMP)));
    for (const Collective& each : collectives()) try_collective(each);
    if (world().size() > 1) {
      step("links");
      const std::vector<Link> links = measure_links(world(), nodes);
      report_.add(judge_links(links));
      report_.add(links);
    }
    std::int64_t most_files = open_files();
    for (const HookCase& each : hooks) {
      try_one(each);
      most_files = std::max(most_files, open_files());
    }
    for (const ShardingCase& each : shardings) try_one(each);
    check_each("open files",
               [&] { return judge_open_files(most_files, limit_of_open_files(), world().size()); });
    check_each("shared memory", [&] {
      return judge_shared_memory(free_shared_memory(), world().uses_nccl(),
                                 environment_number("LOCAL_WORLD_SIZE", 1, kMostRanks, 1));
    });
    step("end");
    accelerator_->wait_for_everyone();
  }

 private:
  World& world() const { return accelerator_->world(); }
  std::string device_text() const { return accelerator_->device().str() + " over " + world().backend_name(); }

  void step(const std::string& name) {
    limit_.step(name);
    if (whereabouts_) whereabouts_->step(name);
  }

  std::vector<std::string> texts(const std::string& name, const std::string& own) {
    step(name);
    return exchange_texts(world(), world().group(), own, "the self-test's " + name);
  }

  /// Judges the same thing on every rank. Reports the first rank that has a problem.
  void check_each(const std::string& name, const std::function<Check()>& judge) {
    const Check own = judge();
    const auto all = texts(name, own.verdict == Verdict::ok ? "" : own.found + "\n" + own.advice);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::size_t line = all[rank].find('\n');
      if (line == std::string::npos) continue;
      report_.add({name, Verdict::warning, "rank " + std::to_string(rank) + ": " + all[rank].substr(0, line),
                   all[rank].substr(line + 1)});
      return;
    }
    report_.add(own);
  }

  void try_collective(const Collective& collective) {
    step(collective.name);
    std::string names;
    for (const at::ScalarType dtype : dtypes_for(world().size())) {
      const std::string problem = problem_of_any(world(), "the self-test's " + collective.name,
                                                 [&] { collective.expect_right(world(), dtype); });
      if (!problem.empty()) {
        report_.add({collective.name, Verdict::failed, problem, advice_for(problem)});
        return;
      }
      names += (names.empty() ? "" : ", ") + dtype_name(dtype);
    }
    if (collective.is_between_two && device_of_sends(world()) != world().device())
      names += "; on the CPU, since Gloo sends nothing from a GPU";
    report_.add({collective.name, Verdict::ok, names, ""});
  }

  void try_one(const HookCase& each) {
    step(each.name());
    HookTime time;
    const std::string problem = problem_of_any(world(), "the self-test of " + each.name(),
                                               [&] { time = try_hook(accelerator_->world_ptr(), each); });
    if (!problem.empty()) {
      report_.add({each.name(), Verdict::failed, problem, advice_for(problem)});
      return;
    }
    report_.add({each.name(), Verdict::ok,
                 bytes_text(time.bytes_sent) + " a step in " +
                     duration_text(std::chrono::duration<double>(time.seconds)) +
                     (time.is_mean ? "" : "; it gives something other than the mean, alike on all ranks"),
                 ""});
    report_.add(time);
  }

  void try_one(const ShardingCase& each) {
    step(each.name);
    std::string found;
    const std::string problem = problem_of_any(world(), "the self-test of a " + each.name, [&] {
      found = try_sharding(accelerator_->world_ptr(), each);
    });
    const bool is_right = problem.empty();
    report_.add({each.name, is_right ? Verdict::ok : Verdict::failed, is_right ? found : problem,
                 is_right ? "" : advice_for(problem)});
  }

  Report& report_;
  TimeLimit& limit_;
  std::optional<Accelerator> accelerator_;
  std::optional<Whereabouts> whereabouts_;
};

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  using namespace hookline;
  if (argc < 2) {
    std::fprintf(stderr, "usage: self_test_rank SECONDS FILE [--silent]; hookline test starts it\n");
    return 2;
  }
  if (std::string_view(argv[1]) == "--versions") {
    std::cout << versions_as_json() << "\n" << std::flush;
    return 0;
  }
  const bool silent = argc > 3 && std::string_view(argv[3]) == "--silent";
  const bool has_report = environment_text("RANK").value_or("0") == "0";
  Report report(has_report && !silent ? Report::Form::text : Report::Form::silent, std::cout,
                has_report && argc > 2 ? argv[2] : "");
  const double seconds = std::atof(argv[1]);
  TimeLimit limit(TimeLimit::Seconds(seconds), [&](const std::string& at, const std::string& behind) {
    report.add({at, Verdict::failed,
                "not done when the limit of " + seconds_text(TimeLimit::Seconds(seconds)) + " was reached" +
                    (behind.empty() ? "" : "; " + behind),
                behind.empty() ? "on a slow network, raise --time-limit"
                               : "see what those ranks are doing; on a slow network, raise --time-limit"});
    if (!has_report) end_behind_rank_0();
    end_now(report.finish());
  });
  try {
    SelfTest(report, limit).run();
    limit.cancel();
    const int code = report.finish();
    return has_report ? code : 0;  // only the rank with the report fails the test
  } catch (const std::exception& error) {
    limit.cancel();
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string what = of_torch ? of_torch->what_without_backtrace() : error.what();
    report.add({"run", Verdict::failed, what, advice_for(error, what)});
    if (has_report) end_now(report.finish());
    std::fprintf(stderr, "hookline test: error: %s\n", printable_lines(what).c_str());
    std::fflush(nullptr);
    end_behind_rank_0();
  }
}
