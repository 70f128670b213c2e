// Tracks which data loader a program trains on, and when its optimizer steps end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/data/epoch_plan.h"

namespace hookline {

/// Accumulation, checkpoints and measurements all ask this class.
///
/// The active loader is the one whose batches are trained on; it is determined whenever the program trains. A
/// loader qualifies while a loop over it is under way, if its last batch was loaded with gradients enabled
/// (so not in an evaluation under NoGradGuard) and at most as many optimizer steps ago as the longest of its
/// batches took, or as there are optimizers, whichever is more. If several qualify, these rules decide, in
/// this order:
///
/// - a loader that the program does not restart again and again with `it = loader.begin()`;
/// - a loader whose epoch() the program has called;
/// - a loader that never loads in the middle of a round of optimizers;
/// - the loader that was active when the checkpoint was saved;
/// - a loader that has loaded more than one batch; if none has, the one that loaded last;
/// - the loader that was prepared first.
///
/// The active loader's epochs count as the training's once an optimizer has stepped with gradients of its
/// batches.
///
/// A step ends with the last participating optimizer, in the order of preparation. A prepared optimizer
/// participates if it steps between two steps of the others.
///
/// Accelerate instead keeps a stack of loaders (GradientState.active_dataloader), where an abandoned loader
/// remains. Not synchronised.
class TrainingPlace {
 public:
  void add(std::shared_ptr<detail::EpochPlan> loader);
  const std::vector<std::shared_ptr<detail::EpochPlan>>& loaders() const { return loaders_; }

  /// `loader` is about to load a batch.
  void loads(const detail::EpochPlan* loader);
  /// The program trains: runs backward, a body of accumulate, or an optimizer's step.
  void trains();
  /// An optimizer is about to step with the gradients of the batches that were trained on, or a body of
  /// accumulate() is about to add to these gradients.
  void steps();
  void gradients_dropped();
  /// Optimizer `number`, counted from 1, of `optimizers` has stepped. True if that ends a step.
  bool stepped(std::int64_t number, std::int64_t optimizers);
  /// True if the optimizer that stepped last ends a round: in the previous round, the first optimizer stepped
  /// right after it. Always true with one optimizer.
  bool ends_round() const { return last_step_.size() <= 1 || last_stepped_ == last_of_round_; }
  bool knows_round() const { return last_of_round_ != 0; }
  /// True in the middle of a round, in which all optimizers step; a round ends when the first optimizer steps
  /// again after another one. A round as long as an epoch does not count, since each optimizer then has loops
  /// of its own.
  bool is_in_round() const;
  /// True if this round is not over and has taken fewer steps than the previous one, so it should end once
  /// it has taken as many.
  bool round_continues() const { return knows_round() && !ends_round() && steps_of_round_ < last_round_; }

  /// Null if batches come from no prepared loader.
  const detail::EpochPlan* active_loader() const;
  bool at_last_batch() const { return active_loader() && active_loader()->at_last_batch(); }
  /// The loader whose next batch is the most likely beginning of the loop's next body; null if batches come
  /// from no prepared one.
  struct Next {
    const detail::EpochPlan* loader = nullptr;
    /// It is the active one, or an earlier batch of it took at least as many steps as there were since its
    /// last load.
    bool is_sure = false;
    std::int64_t loads = 0;  // of it so far
  };
  Next next_body() const;
  /// The loader, other than `loader`, in whose first batch the program may be; null if there is none.
  const detail::EpochPlan* loader_at_first_batch(const detail::EpochPlan* loader) const;
  /// Two loaders are trained on at once, and nothing but the order of preparation says which one counts the
  /// epochs.
  bool goes_by_order() const { return goes_by_order_; }
  /// A loop over another loader than `loader` is in the middle of its training, and has loaded no batch since
  /// the pass of `loader` began.
  bool is_nested(const detail::EpochPlan* loader) const;
  /// The loader that loaded last, and whose batch is in hand, trained on or not; null if there is none.
  const detail::EpochPlan* loader_in_hand() const;

 private:
  struct Loads {
    std::int64_t count = 0;
    std::int64_t last = 0;           // among the loads of all loaders
    std::int64_t first_of_pass = 0;  // likewise
    std::int64_t at_step = 0;        // steps of optimizers before it
    std::int64_t longest_steps = 0;  // from one load to the next
    bool is_in_round = false;        // some come between the steps of a round
    bool in_gradients = false;  // batches of it, since gradients were dropped or an optimizer has stepped
  };
  bool can_be_active(std::size_t loader) const;
  bool is_preferred(std::size_t loader, std::size_t to);
  std::optional<std::size_t> loader_to_return_to() const;

  std::vector<std::shared_ptr<detail::EpochPlan>> loaders_;
  std::vector<Loads> loads_;  // of each
  std::int64_t all_loads_ = 0, steps_ = 0;
  std::vector<std::int64_t> last_step_;                                    // of each optimizer, 0: none
  std::int64_t first_stepped_ = 0, last_stepped_ = 0, last_of_round_ = 0;  // optimizers, 0: none
  std::int64_t steps_of_round_ = 0, last_round_ = 0;                       // steps of optimizers
  int active_ = -1;
  int last_driver_ = -1;  // whose batches an optimizer has stepped with, in this process
  bool goes_by_order_ = false;
};

}  // namespace hookline
