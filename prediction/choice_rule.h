// Chooses the setting with the fastest predicted steps, and decides when to choose again.
#pragma once

#include <cstddef>
#include <vector>

namespace hookline {

/// Constraints on a choice.
struct ChoiceRule {
  double least_gain = 0.03;  // fraction of a step that another setting must save over the one in use
  double tie = 0.01;         // settings whose steps differ by at most this fraction count as equally fast
};

/// Returns the index of the setting to train with. `seconds` holds the predicted step time of each setting:
/// the first is no hook, and more exact settings come earlier. Returns the fastest; of equally fast ones, the
/// first. Keeps `in_use` unless another setting saves `least_gain`; a hook in use must also save that much
/// over no hook, else returns 0. Ignores predictions that are not positive and finite. Throws Error if
/// `in_use` has no prediction.
std::size_t choose(const std::vector<double>& seconds, std::size_t in_use, const ChoiceRule& rule = {});

/// What was measured over some steps, in seconds each; on CPUs lower quartiles. `before`: when the choice was
/// made.
struct Window {
  double step = 0, step_before = 0;
  double link = 0, link_before = 0;  // what the link takes for a step without a hook; 0: not measured
  double step_without = 0;           // a step without a hook, before the choice; 0: no hook is in use
};

/// How much a run may change before its hook is chosen again.
struct WatchRule {
  double step = 0.25;  // relative change of the step time that is tolerated
  // Tolerated change of the link time, relative to the longer of the old and the new time. Changes shorter
  // than `step` times the step time are ignored.
  double link = 0.67;
  int windows = 2;     // consecutive windows that must show the change, so that noise does not count
  double loss = 0.03;  // how much slower than no hook a step with a hook may be, relative
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
