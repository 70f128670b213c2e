// Which setting a run trains with, by what its steps are predicted to take.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace hookline {

/// What a choice must keep to.
struct ChoiceRule {
  double least_gain = 0.03;  // part of a step that another setting must save, against the one that is in use
  double tie = 0.01;         // settings whose steps differ by no more than this part count as equally fast
};

/// The setting to train with, by the seconds that a step is predicted to take with each: the fastest; of those that are equally fast the first, so that the most exact ones
/// belong in front. `in_use` stays unless another one saves enough of its step. What is not a positive number of seconds is no
/// prediction, and is passed over. Throws Error if there is none of `in_use`.
std::size_t choose(const std::vector<double>& seconds, std::size_t in_use, const ChoiceRule& rule = {});

/// What becomes of a choice when its steps have been measured.
enum class Verdict {
  keep,
  go_back,      // slower than without a hook
  think_again,  // the prediction is off: the link, or the model, is not what it was
};

/// Medians of a window of steps, in seconds.
struct Window {
  double measured = 0;                        // with the setting in use
  double predicted = 0;                       // of it
  std::optional<double> without_a_hook = {};  // measured earlier; none if the setting in use is that one
};

/// Bounds beyond which a choice does not stand.
struct WatchRule {
  double slower = 0.03;  // part by which its step may be slower than without a hook
  double off = 0.25;     // part by which a step may differ from what was predicted
  int windows =
      2;  // in a row that must agree, before a choice that once held is given up: noise is not a change
};

/// Watches one choice. A value; not synchronised.
class ChoiceWatch {
 public:
  explicit ChoiceWatch(WatchRule rule = {}) : rule_(rule) {}

  /// The first window decides by itself whether the setting is slower than no hook; afterwards, and for everything else, it takes
  /// WatchRule::windows in a row.
  Verdict see(const Window& window);

 private:
  WatchRule rule_;
  bool is_first_ = true;
  int slower_ = 0, off_ = 0;
};

}  // namespace hookline
