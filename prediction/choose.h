// Which setting a run trains with, by what its steps are predicted to take, and when that is to be asked again.
#pragma once

#include <cstddef>
#include <vector>

namespace hookline {

/// What a choice must keep to.
struct ChoiceRule {
  double least_gain = 0.03;  // part of a step that another setting must save, against the one that is in use
  double tie = 0.01;         // settings whose steps differ by no more than this part count as equally fast
};

/// The setting to train with, by the seconds that a step is predicted to take with each, the first of them without a hook: the fastest; of
/// those that are equally fast the first, so that the most exact ones belong in front. `in_use` stays unless another one saves enough of
/// its step; a hook must also save as much against none, or the first is chosen. What is not a positive
/// number of seconds is no prediction, and is passed over. Throws Error if there is none of `in_use`.
std::size_t choose(const std::vector<double>& seconds, std::size_t in_use, const ChoiceRule& rule = {});

/// What was measured over some steps: medians, in seconds. `before`: when the choice was made.
struct Window {
  double step = 0, step_before = 0;
  double link = 0, link_before = 0;  // what the link takes for a step without a hook; 0: not measured
  double step_without = 0;           // a step without a hook, before the choice; 0: no hook is in use
};

/// Beyond which a run is not what it was when its hook was chosen.
struct WatchRule {
  double step = 0.25;  // part by which a step may differ
  // Part of the longer of its two times by which the link may differ; what is less than `step` of a step is no difference.
  double link = 0.67;
  int windows = 2;     // in a row that must show it: noise is not a change
  double loss = 0.03;  // part by which a step with a hook may exceed one without
};

/// Watches one choice. A value; not synchronised.
class ChoiceWatch {
 public:
  explicit ChoiceWatch(WatchRule rule = {}) : rule_(rule) {}

  /// True if the run has changed, so that the choice is to be made anew.
  bool sees_change(const Window& window);

 private:
  WatchRule rule_;
  int in_a_row_ = 0;
};

}  // namespace hookline
