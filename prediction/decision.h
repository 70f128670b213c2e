// The course of one choice: whose steps are measured next, and which setting stays.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "prediction/choose.h"

namespace hookline {

/// One of the settings that may be chosen. Those of one hook differ in their buckets only.
struct Contender {
  std::size_t hook = 0;  // 0: none
  std::size_t buckets = 1;
};

struct DecisionRule {
  ChoiceRule choice = {};
  // Part of a step by which the same hook in fewer buckets may be slower: each message takes a little more than is predicted.
  double tie_of_buckets = 0.05;
  // Part by which a setting may be predicted to be slower than the fastest that was measured, and is measured as well.
  double near = 0.05;
  // Settings measured, beyond which only a prediction that is `choice.least_gain` better counts.
  int near_ones = 3;
  double most_bias = 1.25;  // factor by which one measurement corrects what is predicted of others at most
  // Part by which a hook's steps may differ from those without one, so that these are measured again: they were measured earlier.
  double close_to_none = 0.10;
  bool try_each = false;  // nothing is predicted: each setting is measured
};

/// Chooses among contenders, the first of which is no hook in the buckets that there are. Others come with the most exact ones first. First the one
/// that is predicted to be fastest is measured, then those that are predicted to be about as fast as the fastest that was measured;
/// predictions are corrected by each measurement. What is fastest then stays, if it saves enough against no hook.
///
/// A value without any clock: `next` says what to do, `measure` what came of it. Seconds are those of a step. Not synchronised.
class Decision {
 public:
  explicit Decision(std::vector<Contender> contenders, const DecisionRule& rule = {});

  /// 0: it is left out, since its buckets are those of another.
  void set_buckets(std::size_t contender, std::size_t buckets) {
    contenders_.at(contender).buckets = buckets;
  }

  /// Begins anew with a step without a hook; what was dropped stays out.
  void begin(double seconds_without_a_hook);
  /// What is not a positive number of seconds is no prediction.
  void predict(std::size_t contender, double seconds);
  void measure(std::size_t contender, double seconds);
  /// It is never chosen again.
  void drop(std::size_t contender);
  /// Takes up a choice that was made before.
  void settle_on(std::size_t contender) { final_ = contender; }
  void restore(std::size_t contender, double seconds, bool is_measured);

  /// The contender to train with: to measure its steps, or to stay with it if those were the last ones that were measured.
  std::size_t next();

  /// Was all measured that is to be?
  bool is_final() const { return final_.has_value(); }
  /// Measured, or predicted and corrected; 0: not known, or dropped.
  double seconds(std::size_t contender) const { return seconds_[contender]; }
  bool is_measured(std::size_t contender) const { return runs_[contender] > 0; }
  bool is_dropped(std::size_t contender) const { return is_dropped_[contender]; }
  /// The fastest but `contender`, by what is known; `contender` if nothing is.
  std::size_t fastest_beside(std::size_t contender) const;

 private:
  std::size_t first_to_measure() const;
  std::optional<std::size_t> next_to_measure() const;
  std::size_t in_fewest_buckets(std::size_t contender) const;
  /// `in_use` unless another saves enough.
  std::size_t fastest_measured(std::size_t in_use) const;
  int hooks_measured() const;

  std::vector<Contender> contenders_;
  DecisionRule rule_;
  std::vector<double> seconds_;
  std::vector<int> runs_;  // times that each was measured; of no hook, since the choice began
  std::vector<bool> is_dropped_;
  std::optional<std::size_t> final_;
};

}  // namespace hookline
