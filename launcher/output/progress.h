// What the ranks report of their progress, and what follows from it: pure, without sockets or clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// One message of a rank: "rank=1 step=12 loss=0.31 sent=1048576 timed=4.5 waited=0.7 waiting=1". rank and
/// step are required; unknown words are ignored.
struct RankReport {
  int rank = 0;
  std::int64_t step = 0;                        // steps that it has finished
  std::optional<double> loss = {};              // of the last one
  std::optional<std::int64_t> sent_bytes = {};  // to the other ranks, so far
  bool is_waiting = false;                      // for the other ranks, in a collective
  std::optional<double> timed_seconds = {};     // of all steps so far, but the first
  std::optional<double> waited_seconds = {};    // of these: only for communication
};

/// Nothing if `message` lacks a rank or a step, or holds a value that can't be read.
std::optional<RankReport> parse_report(std::string_view message);

/// The state of a run's ranks, from their reports.
class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// For `ranks` ranks. The run counts them from `first_rank`; the functions below count them from 0.
  explicit Progress(int ranks, int first_rank = 0)
      : first_rank_(first_rank), ranks_(static_cast<std::size_t>(ranks)) {}

  /// Returns true for the first report of a rank. Ignores reports of ranks that do not exist.
  bool take(const RankReport& report, Time now);
  void ended(int rank) { ranks_.at(static_cast<std::size_t>(rank)).alive = false; }

  /// The last step that a rank reported.
  std::optional<std::int64_t> step_of(int rank) const {
    return ranks_.at(static_cast<std::size_t>(rank)).step;
  }

  struct Busiest {
    int rank = 0;
    double share = 0;  // of its time in which it did not wait for communication
  };
  /// The rank that waited the least since the last call. Nothing if a living rank has reported no times
  /// since.
  std::optional<Busiest> take_busiest();

  /// The highest step that any rank has reported.
  std::optional<std::int64_t> furthest() const;

  /// Has any rank reported anything?
  bool has_news() const { return teller_ >= 0; }

  /// When a living rank last finished a step. Nothing before any has reported a step, and when no rank is
  /// left.
  std::optional<Time> last_step() const;

  /// The living rank that the others wait for: a rank outside of any collective if there is one, among those
  /// the one at the lowest step, and among those the one that has been at it longest. While others wait in a
  /// collective, a rank that has reported nothing counts as the furthest behind.
  std::optional<int> behind() const;

  /// The living ranks that behind() could have named as well: at the same step, and like it in a collective
  /// or not.
  std::vector<int> beside(int rank) const;

  bool is_waiting(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).is_waiting; }

  /// The living ranks that wait in a collective.
  std::vector<int> waiting() const;

  /// "rank 0 at step 12, ranks 1 and 3 waiting in a collective at step 11, rank 2 not heard from"
  std::string places() const;

  /// "12:03 · 2 of 2 ranks · step 120 · 35.2 steps/s · loss 0.123 · 7.5 MB/s": step, loss and bytes are
  /// those of the lowest rank that reports, and rates are over the last seconds. Leaves out what that rank
  /// has not reported.
  std::string line(Time started, Time now) const;

 private:
  struct Times {
    double timed = 0, waited = 0;
  };
  struct Rank {
    bool alive = true;
    std::optional<std::int64_t> step;
    Time since{};  // when it reached this step
    bool is_waiting = false;
    Times times, seen;  // now, and when take_busiest() was called last
  };
  struct Sample {  // of rank 0, or of the lowest rank that reports
    Time when;
    std::int64_t step = 0;
    std::int64_t sent_bytes = 0;
  };
  int first_rank_;
  std::vector<Rank> ranks_;
  std::vector<Sample> samples_;
  std::optional<double> loss_;
  int teller_ = -1;  // the rank whose loss and rates are shown
};

}  // namespace hookline
