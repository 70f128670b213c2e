// What the ranks tell of their progress, and what it means: pure, without sockets or clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// One message of a rank: "rank=1 step=12 loss=0.31 sent=1048576 waiting=1". rank and step are required; unknown words are
/// passed over.
struct RankReport {
  int rank = 0;
  std::int64_t step = 0;                   // steps that it has finished
  std::optional<double> loss;              // of the last one
  std::optional<std::int64_t> sent_bytes;  // to the other ranks, so far
  bool is_waiting = false;                 // for the other ranks, in a collective
};

/// Nothing if `message` lacks a rank or a step, or holds a value that can't be read.
std::optional<RankReport> parse_report(std::string_view message);

/// "rank 1", "ranks 1 and 3", "ranks 0, 2 and 3"; of many, the first few.
std::string rank_names(const std::vector<int>& ranks);

/// The state of a run's ranks, by what they told.
class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Of `ranks` ranks, which the run counts from `first_rank`; here they are counted from 0.
  explicit Progress(int ranks, int first_rank = 0)
      : first_rank_(first_rank), ranks_(static_cast<std::size_t>(ranks)) {}

  /// True for the first report of a rank. Those of ranks that do not exist are passed over.
  bool take(const RankReport& report, Time now);
  void ended(int rank) { ranks_.at(static_cast<std::size_t>(rank)).alive = false; }

  /// The step that a rank told last.
  std::optional<std::int64_t> step_of(int rank) const {
    return ranks_.at(static_cast<std::size_t>(rank)).step;
  }

  /// Has any rank told anything?
  bool has_news() const { return teller_ >= 0; }

  /// When any living rank last finished a step; nothing before one has told a step, and once none is left.
  std::optional<Time> last_step() const;

  /// The living rank that the others wait for: one that is outside of any collective, if there is one, of those the one of
  /// the lowest step, and of those the one that has been there for the longest. One that has told nothing, while others wait in
  /// a collective, has not come as far as they have.
  std::optional<int> behind() const;

  /// The living ranks that behind() could have named with as much reason: of the same step, in a collective or not.
  std::vector<int> beside(int rank) const;

  bool is_waiting(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).is_waiting; }

  /// The living ranks that wait in a collective.
  std::vector<int> waiting() const;

  /// "rank 0 at step 12, ranks 1 and 3 waiting in a collective at step 11, rank 2 not heard of"
  std::string places() const;

  /// "12:03 · 2 of 2 ranks · step 120 · 35.2 steps/s · loss 0.123 · 7.5 MB/s": loss and bytes are rank 0's, rates those of
  /// the last seconds. Of what nobody told, nothing.
  std::string line(Time started, Time now) const;

 private:
  struct Rank {
    bool alive = true;
    std::optional<std::int64_t> step;
    Time since{};  // it is at this step
    bool is_waiting = false;
  };
  struct Sample {  // of rank 0, or of the first that tells
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
