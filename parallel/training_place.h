// Where a program is in its training: the loader that it trains on, and where its steps end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/epoch_plan.h"

namespace hookline {

/// The one place that accumulation, checkpoints and measurements ask.
///
/// The active loader is the one whose batches are trained on. A loader can be it while a loop over it is under way that got its
/// last batch with gradients enabled, as an evaluation under NoGradGuard does not, and no longer ago than this loader's batches
/// usually last. It is chosen whenever the program trains, so a loop nested in the training's body never becomes it. Of several it
/// is the one that was prepared first, but none from which the program draws again and again with `it = loader.begin()`.
///
/// A step ends with the last optimizer that takes part in it, in the order of preparation: one that has been prepared and does
/// not step between two steps of the others takes no part.
///
/// Accelerate keeps a stack of loaders instead (GradientState.active_dataloader), on which one that was left stays.
/// Not synchronised.
class TrainingPlace {
 public:
  void add(std::shared_ptr<detail::EpochPlan> loader);
  const std::vector<std::shared_ptr<detail::EpochPlan>>& loaders() const { return loaders_; }

  /// `loader` is about to load a batch.
  void loads(const detail::EpochPlan* loader);
  /// The program trains: runs backward, a body of accumulate, or an optimizer's step.
  void trains();
  /// Of `optimizers`, `number`, from 1, has stepped. True if that ends a step.
  bool stepped(std::int64_t number, std::int64_t optimizers);

  /// Null if batches come from no prepared loader.
  const detail::EpochPlan* active_loader() const;
  bool at_last_batch() const { return active_loader() && active_loader()->at_last_batch(); }
  /// One that may be the active one, of which this process has loaded a single batch, so that it is not known how many steps
  /// the program takes on each; null if there is none.
  const detail::EpochPlan* loader_at_first_batch() const;
  /// The loader that loaded last, and whose batch is in hand, trained on or not; null if there is none.
  const detail::EpochPlan* loader_in_hand() const;

 private:
  struct Loads {
    std::int64_t count = 0;
    std::int64_t last = 0;           // among the loads of all loaders
    std::int64_t at_step = 0;        // steps of optimizers before it
    std::int64_t longest_steps = 0;  // from one load to the next
  };
  bool can_be_active(std::size_t loader) const;
  bool is_preferred(std::size_t loader, std::size_t to) const;

  std::vector<std::shared_ptr<detail::EpochPlan>> loaders_;
  std::vector<Loads> loads_;  // of each
  std::int64_t all_loads_ = 0, steps_ = 0;
  std::vector<std::int64_t> last_step_;  // of each optimizer, 0: none
  int active_ = -1;
};

}  // namespace hookline
