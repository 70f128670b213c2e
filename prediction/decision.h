// Runs one choice: which setting to measure next, and which one to keep.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "prediction/choice_rule.h"

namespace hookline {

/// One of the settings that may be chosen. Those of one hook differ in their buckets only.
struct Contender {
  std::size_t hook = 0;  // 0: none
  std::size_t buckets = 1;
};

struct DecisionRule {
  ChoiceRule choice = {};
  // Prefer fewer buckets for the same hook if that is predicted to be slower by at most this fraction of a
  // step: each message takes a little longer than predicted.
  double tie_of_buckets = 0.05;
  // Also measure settings that are predicted to be slower than the fastest measured one by at most this
  // fraction, if that is affordable.
  double near = 0.05;
  // After this many measured settings, or once nothing is affordable, measure only those predicted to be
  // faster by at least `choice.least_gain`.
  int near_ones = 3;
  double most_bias = 1.25;  // the largest factor by which a measurement corrects other predictions
  // If the fastest hook is within this fraction of a step without a hook, measure steps without a hook again,
  // since their measurement is older. Then measure them in the other buckets that are predicted to be at most
  // `near` slower.
  double close_to_none = 0.10;
  // If a step without a hook takes this many times as long as with the fastest, trials are cheap compared
  // with it, and the step is mostly communication, whose time is harder to predict than that of computation.
  // So the fastest hook is also measured with each smaller number of buckets that is predicted to take at
  // most `wide` times as long, and keeps the fewest buckets within `choice.least_gain` of its fastest.
  double far_ahead = 10;
  double wide = 2;
  // In the end, those within this fraction of the fastest are measured again, in turn, until each was
  // measured `rounds` times: steps vary from one time to another. Each such measurement must be affordable.
  double finalists = 0.10;
  int rounds = 3;
  bool try_each = false;  // nothing is predicted: each setting is measured
};

/// Chooses among contenders, which are listed in this order: no hook with the current buckets, then the
/// others, the most exact first.
///
/// The contender with the fastest predicted step is measured first, then those predicted to be about as fast
/// as the fastest measured one. Each measurement corrects the remaining predictions. Those that are about as
/// fast are then measured again, as far as that is affordable. Finally the fastest stays, if it saves enough
/// over no hook.
///
/// A value type without a clock: call next() to learn what to measure, and measure() to report the result.
/// All seconds are per step; of several measurements the median counts. Not synchronised.
class Decision {
 public:
  explicit Decision(std::vector<Contender> contenders, const DecisionRule& rule = {});

  /// Sets the contender's number of buckets; 0 excludes it, since another contender has the same buckets.
  void set_buckets(std::size_t contender, std::size_t buckets) {
    contenders_.at(contender).buckets = buckets;
  }

  /// Begins anew with a step without a hook; what was dropped stays out.
  void begin(double seconds_without_a_hook);
  /// A value that is not positive means no prediction.
  void predict(std::size_t contender, double seconds);
  void measure(std::size_t contender, double seconds);
  /// From now on, settings that promise no gain are measured only if their steps take at most `seconds`
  /// longer than those of the fastest; negative: never. Initially, whatever they take.
  void afford(double seconds) { affordable_ = seconds; }
  /// It is never chosen again.
  void drop(std::size_t contender);
  /// Takes up a choice that was made before.
  void settle_on(std::size_t contender) { final_ = contender; }
  void restore(std::size_t contender, double seconds, bool is_measured);

  /// The contender to train with next; once is_final(), the one to keep.
  std::size_t next();

  /// Is the choice made?
  bool is_final() const { return final_.has_value(); }
  /// Measured, or predicted and corrected; 0: not known, or dropped.
  double seconds(std::size_t contender) const { return seconds_[contender]; }
  bool is_measured(std::size_t contender) const { return runs(contender) > 0; }
  bool is_dropped(std::size_t contender) const { return is_dropped_[contender]; }
  /// The fastest contender except `contender`, measured or predicted; `contender` if no other has a time.
  std::size_t fastest_except(std::size_t contender) const;

 private:
  /// How often the contender was measured; for no hook, without the step with which the choice began.
  std::size_t runs(std::size_t contender) const { return measured_[contender].size(); }
  /// The fastest of the predicted contenders that are not measured yet and are wanted.
  template <class Filter>
  std::optional<std::size_t> fastest_predicted(const Filter& is_wanted) const;
  /// The contender with the fewest buckets of those with the same hook that are wanted, and slower than
  /// `contender` by at most the fraction `tie`.
  template <class Filter>
  std::size_t fewest_buckets_near(std::size_t contender, double tie, const Filter& is_wanted) const;

  std::size_t first_to_measure() const;
  std::optional<std::size_t> next_to_measure() const;
  /// Measured or predicted, against no hook.
  bool saves_enough(std::size_t contender) const;
  std::size_t in_fewest_buckets(std::size_t contender) const;
  /// No hook in the buckets that are predicted to be fastest, of those not measured and about as fast as the
  /// current ones.
  std::optional<std::size_t> no_hook_in_other_buckets() const;
  bool is_far_ahead(std::size_t contender) const;
  /// The setting to measure of those with the same hook in fewer buckets, if that hook is far ahead.
  std::optional<std::size_t> in_fewer_buckets(std::size_t contender) const;
  /// The setting to measure again of those that are nearly as fast as the fastest.
  std::optional<std::size_t> next_to_repeat() const;
  /// `in_use` unless another saves enough.
  std::size_t fastest_measured(std::size_t in_use) const;
  /// The same; if its hook is far ahead, in the fewest buckets that are about as fast.
  std::size_t best_measured(std::size_t in_use) const;
  int hooks_measured() const;

  std::vector<Contender> contenders_;
  DecisionRule rule_;
  std::vector<double> seconds_;
  std::vector<std::vector<double>> measured_;  // each contender's measurements, sorted
  std::size_t latest_ = 0;                     // the contender measured last
  double affordable_ = std::numeric_limits<double>::infinity();
  std::vector<bool> is_dropped_;
  std::optional<std::size_t> final_;
};

}  // namespace hookline
