// A data loader's options and position, whatever its dataset.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/data/batch_watch.h"
#include "parallel/data/distributed_sampler.h"
#include "parallel/tensors/random_position.h"

namespace hookline {

/// How hookline::data_loader makes batches.
struct DataLoaderOptions {
  std::int64_t batch_size = 32;  ///< Samples in a batch of one rank; at least 1.
  bool shuffle = true;           ///< A new order in each epoch; the same seed gives the same orders.
  bool drop_last = false;        ///< Drop samples that an even split leaves over, instead of repeating some.
  bool drop_last_batch = false;  ///< Drop an epoch's last batch if it is smaller than batch_size.
  std::optional<std::uint64_t> seed = {};  ///< Seed of the shuffling; unset: [training] seed, else 0.
};

namespace detail {

/// Where a loader is in its epochs.
struct EpochPosition {
  std::int64_t epoch = 0;    // as the program counts them
  std::int64_t batches = 0;  // of that epoch, already handed out
  std::int64_t samples_consumed = 0;
  std::int64_t passes = 0;  // loops over the loader that are done
  std::int64_t offset = 0;  // loops over the loader before the program's epoch 0
  bool asks = false;        // the program calls epoch() before it trains, and starts its epoch loop there
  std::int64_t looks = 0;   // passes without training between two passes with training
  bool cycled = false;      // EpochPlan::is_cycled
  bool nested = false;      // the program loops over this loader inside a loop over another one
  bool leaves = false;      // the program breaks out of each loop early; such a loop counts as done
  std::int64_t trained_passes = 0;  // finished passes with training
  bool led = false;                 // it was the training loader at the last step
};

/// One loop over a loader: the rank's indices in its epoch, and the first that is due.
struct EpochPass {
  std::int64_t number = 0;  // tells it from the loader's other passes; 0: skipped, and without a batch
  std::vector<std::size_t> indices;
  std::size_t first = 0;
};

/// What an Accelerator wants to know of a loader.
struct LoaderWatch {
  std::function<void()> before_batch;  // each time, before the batch is loaded
  /// Called if the program starts its first loop after a resume without having called epoch(). `passes` loops
  /// were done before the resume, `trained` of them with training. If it returns true, the next `passes`
  /// loops yield no batches.
  std::function<bool(std::int64_t passes, std::int64_t trained)> skips_done_passes;
  std::function<void()>
      taken_back;  // called when a pass without training ends: the next pass starts where that one started
  std::function<bool()> is_nested;  // does the pass end inside a loop over another loader that is trained on?
  std::function<bool()> stops;      // has the run reached max_steps, so that the program leaves its loop?
};

/// The order of a loader's samples, epoch by epoch, and the current pass: it begins with start_epoch, and
/// ends with end_epoch or, if the program leaves its loop, with leave. Each epoch has at least one batch. Not
/// synchronised.
///
/// A pass of the training loader on which nothing is trained does not move the loader, so that a resumed
/// program finds its epochs. Such a pass looks at one batch (`*loader.begin()`) or measures accuracy on the
/// training samples: when it ends, the next pass begins where it began; inside the body of a training loop,
/// that loop stays where it was. Before anything is trained, no loader is known as the training loader:
/// epochs then count from the first call of epoch().
class EpochPlan {
 public:
  EpochPlan(std::optional<std::size_t> dataset_size, const DataLoaderOptions& options);

  void shard(std::int64_t rank, std::int64_t world_size);
  void set_seed(std::uint64_t seed);
  void set_epoch(std::int64_t epoch);

  /// Starts the next epoch, or resumes the one that resume_at named.
  EpochPass start_epoch();
  /// Starts the next epoch when the program takes a batch from a skipped pass, by an iterator instead of a
  /// loop. If nothing is trained on that batch, the loops that are done are skipped all the same.
  EpochPass start_instead_of_skipping();
  /// Counts a batch that was handed out.
  void consumed(std::int64_t pass, std::size_t samples, BatchWatch batch = {});
  /// The pass has come to its end.
  void end_epoch(std::int64_t pass);
  /// The last iterator of the pass is gone: called for every pass, once.
  void leave(std::int64_t pass);

  /// The position from which a resumed run continues. A batch that was loaded but not trained on is loaded
  /// again. If the program left a loop early, the position is the start of the next epoch; for a training
  /// loader it is the point at which the program left, unless the program leaves every loop early and
  /// left this one for another reason than max_steps.
  EpochPosition position() const;
  /// Makes the next loop resume at `position`, unless set_epoch names another epoch; after an epoch's last
  /// batch, the next epoch starts. `drives`: see is_driver. `trains`: see is_trained_on. `by_hand`: called by
  /// load_state.
  void resume_at(EpochPosition position, bool drives, bool trains, bool by_hand);

  void watch(LoaderWatch watch) { watch_ = std::move(watch); }
  /// The pass is about to load a batch.
  void before_batch(std::int64_t pass);

  /// The batch that begins at indices[next]; empty at the end. A view into `indices`.
  c10::ArrayRef<std::size_t> batch_at(const std::vector<std::size_t>& indices, std::size_t next) const;

  std::int64_t batches() const;
  /// What DataLoader::epoch() returns.
  std::int64_t epoch() const;
  /// By the program, which then knows where to begin its loop.
  void asked_for_epoch();
  std::int64_t samples_consumed() const { return samples_consumed_; }
  /// Between a pass's beginning and its end.
  bool is_under_way() const { return now_.loop == Loop::under_way; }
  /// The pass that is under way loaded its latest batch with gradients enabled.
  bool loaded_with_gradients() const { return now_.with_gradients; }
  /// True if the current pass has no training so far, and perhaps never will: an older pass still has an
  /// iterator, or passes without training preceded the last one with training.
  bool may_be_look() const;
  /// Between its first step and its last batch.
  bool is_amid_training() const { return is_under_way() && now_.trained && !all_handed_out(); }
  bool at_last_batch() const { return is_under_way() && all_handed_out(); }
  /// The pass that is under way has loaded no batch so far.
  bool begins_pass() const { return is_under_way() && now_.batches == now_.first; }
  /// The program leaves each loop before its end.
  bool leaves() const { return leaves_; }
  bool is_resumed_in_the_middle() const { return resumed_in_the_middle_; }
  /// True if the program trained after the end of a pass whose last batch it had neither trained on nor kept.
  bool trains_late() const { return trains_late_; }
  /// True if a run that resumes here loads a batch again that the program holds but has not trained on.
  bool loads_again() const { return is_in_the_middle() && trains_ && now_.in_hand > 0; }
  /// Loading batches has drawn from torch's random numbers.
  bool draws_random_numbers() const { return draws_random_numbers_; }
  const DataLoaderOptions& options() const { return options_; }

  /// Number of samples in an epoch's last batch.
  std::int64_t last_batch_size() const;
  /// How many samples of all ranks' last batches are repeats, which give each rank the same number.
  std::int64_t repeated_samples() const;
  /// A pass with repeated samples has come to its end without being trained on, and nothing was trained
  /// since.
  bool has_ended_with_repeats() const { return has_ended_with_repeats_; }
  bool is_pass_trained_on() const { return now_.trained; }

  /// The program trains on a batch of this or another loader. If the current pass began inside an older loop
  /// and has ended, that loop becomes the current pass again.
  void program_trains();
  /// The program trains on the current batch.
  void gives_gradients();
  /// An optimizer steps with gradients of this loader's batches. `drives`: this loader's epochs are the
  /// training's epochs; false revokes that.
  void drives(bool drives);
  bool is_driver() const { return drives_ && !is_cycled_ && !is_nested_; }
  /// True if loops that were done before a resume may be skipped after it; the Checkpointer then
  /// does not restore the loader's position a second time.
  bool may_skip() const { return trains_ && !is_cycled_ && !is_nested_; }
  /// Sets whether, of all loaders that are trained on, this one was the training loader at the last step.
  void leads(bool leads) { leads_ = leads; }
  /// True if it was the training loader when the checkpoint was saved from which the run resumes.
  bool led_when_saved() const { return led_when_saved_; }
  bool is_trained_on() const { return trains_; }
  /// The program draws from an iterator again and again, and begins anew with `it = loader.begin()`.
  bool is_cycled() const { return is_cycled_; }
  /// In the run that saved the checkpoint, the program asked for the epoch before it trained; since the
  /// resume it has not asked.
  bool asks_no_longer() const { return asks_ && !is_asked_; }
  /// It asks for the epoch before it trains, and has done so since the resume.
  bool asks_now() const { return asks_ && is_asked_; }
  /// It has asked for the epoch, since the resume.
  bool is_asked() const { return is_asked_; }
  /// Passes that were skipped since the resume.
  std::int64_t skipped_passes() const { return skipped_passes_; }

 private:
  enum class Loop { none, under_way, finished, left };

  struct Before;
  struct Pass {
    std::int64_t number = 0;
    std::int64_t epoch = 0;        // whose order it has
    std::int64_t first = 0;        // batch of the epoch
    std::int64_t batches = 0;      // of the epoch, handed out, by earlier processes too
    std::int64_t passes_done = 0;  // when it began
    Loop loop = Loop::none;
    bool is_iterated = false;  // has an iterator
    bool trained = false;
    bool with_gradients = false;  // enabled when its last batch was loaded
    std::int64_t in_hand = 0;     // samples of the last batch, if it was not trained on since it was loaded
    BatchWatch last;              // the last batch
    std::int64_t ahead = 0;       // batches before it that the program keeps, to train on them later
    bool trained_ahead = false;   // on one of them, since the last batch was loaded
    bool trains_late = false;     // it may train on what was made of the batch before the last
    bool stopped = false;         // left when the run had taken its steps
    bool passed_over = false;     // the program has trained meanwhile, on something else
    std::shared_ptr<const Before> before;

    bool is_at_first_batch() const { return !trained && batches <= first + 1; }
  };
  /// What a pass found when it began.
  struct Before {
    Pass pass;
    std::optional<std::int64_t> next_epoch;
    std::int64_t batches_to_skip = 0;
    bool is_resumed = false;
  };

  void check_not_without_batches(const ShardOptions& shard) const;
  bool all_handed_out() const { return now_.batches == batches(); }
  bool skips_this_pass();
  std::int64_t due_epoch() const;
  void take_back();
  void undo_if_untrained();
  void go_back_to(std::int64_t older);
  bool is_in_the_middle() const;
  void has_ended();
  /// The number of the newest of the older passes that is under way; 0 if there is none.
  std::int64_t outer(bool trained) const;
  /// The number of the loop that continues after a pass inside its body has ended or is no longer used; 0 if
  /// there is none.
  std::int64_t loop_to_return_to() const;

  DataLoaderOptions options_;
  ShardOptions shard_;
  std::int64_t dataset_size_ = 0;
  std::int64_t samples_consumed_ = 0;
  Pass now_;                                // the newest, or the one whose body it began in
  std::vector<Pass> others_;                // older ones that have an iterator
  std::int64_t batches_to_skip_ = 0;        // of the next one
  std::int64_t passes_ = 0;                 // begun, those of earlier processes included
  std::int64_t newest_ = 0;                 // pass
  std::optional<std::int64_t> next_epoch_;  // given by set_epoch or resume_at since the last pass began
  std::int64_t first_asked_epoch_ = 0;      // what epoch() said first, or set_epoch since
  std::int64_t first_asked_in_pass_ = 0;    // 0: between two
  std::int64_t trained_passes_ = 0;
  std::int64_t offset_ = 0;  // of epochs from the program's count of them
  std::int64_t looks_ = 0, looks_since_training_ = 0;
  std::int64_t passes_to_skip_ = 0, skipped_passes_ = 0;
  std::optional<std::int64_t>
      passes_to_skip_after_look_;  // if the pass that is under way turns out to be one
  bool started_ = false, trains_ = false, drives_ = false, is_cycled_ = false;
  bool has_ended_with_repeats_ = false;
  bool leads_ = false, led_when_saved_ = false;
  bool has_driven_ = false, leaves_ = false, is_nested_ = false;
  bool resumed_in_the_middle_ = false, trains_late_ = false;
  bool draws_random_numbers_ = false;
  RandomPosition random_before_batch_;
  bool asks_ = false;        // EpochPosition::asks
  bool is_asked_ = false;    // by the program, for the epoch, since the resume
  bool is_resumed_ = false;  // and no pass has begun since
  bool was_resumed_ = false;
  LoaderWatch watch_;
};

}  // namespace detail
}  // namespace hookline
