#include "parallel/data/epoch_plan.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"

namespace hookline::detail {

using std::to_string;

EpochPlan::EpochPlan(std::optional<std::size_t> dataset_size, const DataLoaderOptions& options)
    : options_(options) {
  if (options.batch_size < 1)
    throw Error("hookline::data_loader: batch_size is " + to_string(options.batch_size) +
                ": it must be at least 1");
  if (!dataset_size)
    throw Error(
        "hookline::data_loader: the dataset does not know its size (size() is empty), so it can't be split "
        "between ranks: return the number of samples from size()");
  if (*dataset_size == 0)
    throw Error("hookline::data_loader: the dataset is empty (size() is 0): check what it was loaded from");
  dataset_size_ = static_cast<std::int64_t>(*dataset_size);
  shard_.shuffle = options.shuffle;
  shard_.drop_last = options.drop_last;
  shard_.seed = options.seed.value_or(0);
  check_not_without_batches(shard_);
}

void EpochPlan::shard(std::int64_t rank, std::int64_t world_size) {
  if (started_)
    throw Error(
        "hookline::data_loader: the loader can't be split between ranks once iteration has begun: prepare it "
        "before its first loop");
  ShardOptions shard = shard_;
  shard.rank = rank;
  shard.world_size = world_size;
  check_not_without_batches(shard);
  shard_ = shard;
}

void EpochPlan::check_not_without_batches(const ShardOptions& shard) const {
  const std::int64_t samples = shard_size(dataset_size_, shard);
  if (samples == 0)
    throw Error("hookline::data_loader: drop_last leaves no sample of a dataset of " +
                to_string(dataset_size_) + " on " + to_string(shard.world_size) +
                " ranks: start fewer ranks, or set drop_last = false");
  if (options_.drop_last_batch && samples < options_.batch_size)
    throw Error("hookline::data_loader: drop_last_batch leaves no batch: a rank has " +
                count_text(samples, "sample") + " an epoch and batch_size is " +
                to_string(options_.batch_size) + ": make batch_size smaller, or set drop_last_batch = false");
}

void EpochPlan::set_seed(std::uint64_t seed) {
  if (!options_.seed) shard_.seed = seed;
}

void EpochPlan::set_epoch(std::int64_t epoch) {
  if (epoch < 0)
    throw Error("hookline::data_loader: epoch is " + to_string(epoch) + ": it must be at least 0");
  if (is_resumed_ && next_epoch_) {
    // The program names the epoch of each loop: epochs before the resumed one are done.
    if (epoch < *next_epoch_ - offset_ && passes_to_skip_ > 0) return;
    passes_to_skip_ = 0;
    if (epoch == *next_epoch_ - offset_ && batches_to_skip_ > 0) return;
  }
  if (!next_epoch_ || epoch != *next_epoch_ - offset_) batches_to_skip_ = 0;
  if (now_.loop == Loop::left) now_.loop = Loop::finished;
  next_epoch_ = first_asked_epoch_ = epoch;
  offset_ = 0;
}

std::int64_t EpochPlan::due_epoch() const {
  return next_epoch_.value_or(now_.epoch + (now_.loop == Loop::none ? 0 : 1));
}

std::int64_t EpochPlan::epoch() const {
  // It is not known yet whether a pass without training counts.
  const bool is_next = !is_under_way() && (next_epoch_ || now_.trained);
  return (is_next ? due_epoch() : now_.epoch) - offset_;
}

void EpochPlan::asked_for_epoch() {
  if (std::exchange(is_asked_, true)) return;
  if (!is_under_way()) {
    asks_ = asks_ || !trains_ || (is_resumed_ && skipped_passes_ == 0);
    // No pass so far had training, and the program's epochs begin here, however many there were.
    if (!trains_ && !was_resumed_ && !next_epoch_) offset_ = now_.epoch - first_asked_epoch_;
  }
  first_asked_epoch_ = epoch();
  first_asked_in_pass_ = is_under_way() ? now_.number : 0;
}

bool EpochPlan::skips_this_pass() {
  if (passes_to_skip_ > 0 && skipped_passes_ == 0 && is_resumed_) {
    const bool skips =
        !is_asked_ && watch_.skips_done_passes && watch_.skips_done_passes(passes_to_skip_, trained_passes_);
    if (!skips) passes_to_skip_ = 0;
  }
  if (passes_to_skip_ == 0) return false;
  --passes_to_skip_;
  ++skipped_passes_;
  return true;
}

EpochPass EpochPlan::start_instead_of_skipping() {
  --skipped_passes_;
  passes_to_skip_after_look_ = std::exchange(passes_to_skip_, 0);
  return start_epoch();
}

EpochPass EpochPlan::start_epoch() {
  started_ = true;
  if (skips_this_pass()) return {};
  if (now_.is_iterated) others_.push_back(now_);
  // The pass under way has no training: the program keeps its iterator (`auto it = loader.begin()`), or
  // begins this pass inside its body before training anything. It does not count.
  if (is_under_way() && !now_.trained && drives_) take_back();
  const auto before = std::make_shared<Before>(Before{now_, next_epoch_, batches_to_skip_, is_resumed_});
  before->pass.is_iterated = false;
  before->pass.before.reset();
  Pass pass;
  pass.number = ++newest_;
  pass.epoch = shard_.epoch = due_epoch();
  pass.first = pass.batches = std::exchange(batches_to_skip_, 0);
  // Without gradients, this pass measures accuracy on the training samples: on all of them, even after a
  // resume.
  if (drives_ && !at::GradMode::is_enabled()) pass.first = pass.batches = 0;
  pass.loop = Loop::under_way;
  pass.is_iterated = true;
  pass.passes_done = passes_;
  pass.before = before;
  is_resumed_ = false;
  next_epoch_.reset();
  now_ = pass;
  ++passes_;
  const std::vector<std::int64_t> indices = shard_indices(dataset_size_, shard_);
  return {pass.number,
          {indices.begin(), indices.end()},
          static_cast<std::size_t>(pass.first * options_.batch_size)};
}

void EpochPlan::take_back() {
  const std::shared_ptr<const Before> before = now_.before;
  if (!before) return;
  if (!next_epoch_) {
    next_epoch_ = before->next_epoch;
    batches_to_skip_ = before->batches_to_skip;
  }
  is_resumed_ = before->is_resumed;
  now_ = before->pass;
  if (watch_.taken_back) watch_.taken_back();
}

void EpochPlan::has_ended() {
  if (now_.trained && watch_.is_nested && watch_.is_nested()) is_nested_ = true;
}

void EpochPlan::undo_if_untrained() {
  if (now_.trained) return;
  if (passes_to_skip_after_look_) {
    passes_to_skip_ = *std::exchange(passes_to_skip_after_look_, std::nullopt);
    --passes_;  // the pass is one of those done before the resume
  }
  if (const std::int64_t body = outer(/*trained=*/true); body != 0) {
    go_back_to(body);
  } else if (drives_) {
    ++looks_since_training_;
    take_back();
  }
}

std::int64_t EpochPlan::outer(bool trained) const {
  const auto newest = std::find_if(others_.rbegin(), others_.rend(), [&](const Pass& pass) {
    return pass.loop == Loop::under_way && (pass.trained || (!trained && !pass.passed_over));
  });
  return newest == others_.rend() ? 0 : newest->number;
}

/// Makes an older pass the current one again. Passes that began inside its body do not count.
void EpochPlan::go_back_to(std::int64_t older) {
  if (now_.is_iterated) others_.push_back(now_);
  const auto found =
      std::find_if(others_.begin(), others_.end(), [&](const Pass& pass) { return pass.number == older; });
  now_ = *found;
  others_.erase(found);
  passes_ = now_.passes_done + 1;
  next_epoch_.reset();
  batches_to_skip_ = 0;
  is_resumed_ = false;
}

bool EpochPlan::may_be_look() const {
  if (now_.trained || is_cycled_) return false;
  return looks_since_training_ < looks_ || std::any_of(others_.begin(), others_.end(), [](const Pass& pass) {
           return pass.loop == Loop::under_way || !pass.is_at_first_batch();
         });
}

std::int64_t EpochPlan::loop_to_return_to() const {
  const std::int64_t body = outer(/*trained=*/false);
  return now_.trained && (is_under_way() || body < now_.number) ? 0 : body;
}

void EpochPlan::before_batch(std::int64_t number) {
  if (loop_to_return_to() == number) go_back_to(number);
  if (watch_.before_batch) watch_.before_batch();
  random_before_batch_ = random_position();
}

void EpochPlan::consumed(std::int64_t number, std::size_t samples, BatchWatch batch) {
  draws_random_numbers_ = draws_random_numbers_ || random_position() != random_before_batch_;
  samples_consumed_ += static_cast<std::int64_t>(samples);
  const auto count = [&](Pass& pass) {
    if (pass.number != number) return;
    // The iterator no longer holds the previous batch, so if it has an owner, that is the program.
    if (pass.in_hand > 0 && pass.last.owners() > 0) ++pass.ahead;
    ++pass.batches;
    pass.in_hand = static_cast<std::int64_t>(samples);
    pass.last = std::move(batch);
    pass.trained_ahead = false;
    pass.with_gradients = at::GradMode::is_enabled();
  };
  count(now_);
  std::for_each(others_.begin(), others_.end(), count);
}

void EpochPlan::end_epoch(std::int64_t number) {
  for (Pass& pass : others_)
    if (pass.number == number) pass.loop = Loop::finished;
  if (now_.number != number || !is_under_way()) return;
  now_.loop = Loop::finished;
  if (now_.in_hand > 0 && now_.last.owners() > 0) ++now_.ahead;
  has_ended();
  has_ended_with_repeats_ = !now_.trained && repeated_samples() > 0;
  undo_if_untrained();
}

void EpochPlan::leave(std::int64_t number) {
  const auto older =
      std::find_if(others_.begin(), others_.end(), [&](const Pass& pass) { return pass.number == number; });
  if (now_.number == number) {
    if (older != others_.end()) others_.erase(older);
    now_.is_iterated = false;
    if (!is_under_way()) return;
    now_.loop = Loop::left;
    now_.stopped = watch_.stops && watch_.stops();
    has_ended();
    return undo_if_untrained();
  }
  if (older == others_.end()) return;
  // The program has replaced this iterator: `it = loader.begin()`.
  if (is_under_way() && now_.is_at_first_batch() && !older->is_at_first_batch()) is_cycled_ = true;
  others_.erase(older);
}

EpochPosition EpochPlan::position() const {
  EpochPosition position{due_epoch() - offset_,
                         batches_to_skip_,
                         samples_consumed_,
                         passes_,
                         offset_,
                         asks_,
                         looks_,
                         is_cycled_,
                         is_nested_,
                         leaves_,
                         trained_passes_,
                         leads_};
  const bool is_last_untrained = loads_again();
  if (is_last_untrained) position.samples_consumed -= now_.in_hand + now_.ahead * options_.batch_size;
  if (is_in_the_middle() && (is_last_untrained || !all_handed_out())) {
    position.epoch = now_.epoch - offset_;
    position.batches = now_.batches - (is_last_untrained ? 1 + now_.ahead : 0);
    position.passes = now_.passes_done;
    position.trained_passes = trained_passes_ - (now_.trained ? 1 : 0);
  }
  return position;
}

/// If the program leaves every loop early, a loop that it left is done, unless it left because the run had
/// all its steps.
bool EpochPlan::is_in_the_middle() const {
  return is_under_way() || (now_.loop == Loop::left && trains_ && (!leaves_ || now_.stopped));
}

void EpochPlan::resume_at(EpochPosition position, bool drives, bool trains, bool by_hand) {
  if (position.batches >= batches()) {
    ++position.epoch;
    ++position.passes;
    ++position.trained_passes;
    position.batches = 0;
  }
  offset_ = position.offset;
  next_epoch_ = position.epoch + offset_;
  batches_to_skip_ = position.batches;
  samples_consumed_ = position.samples_consumed;
  passes_ = position.passes;
  asks_ = position.asks;
  looks_ = position.looks;
  looks_since_training_ = 0;
  is_nested_ = position.nested;
  const bool may_skip = trains && !position.cycled && !position.nested;
  passes_to_skip_ = may_skip && !by_hand && !asks_ ? position.passes : 0;
  drives_ = has_driven_ = drives;
  trains_ = trains;
  resumed_in_the_middle_ = trains && position.batches > 0;
  is_cycled_ = position.cycled;
  leaves_ = position.leaves;
  leads_ = led_when_saved_ = position.led;
  trained_passes_ = position.trained_passes;
  others_.clear();
  now_ = {};
  is_resumed_ = was_resumed_ = true;
  is_asked_ = false;
}

void EpochPlan::program_trains() {
  const std::int64_t body = is_under_way() ? 0 : loop_to_return_to();
  if (body != 0) go_back_to(body);
  now_.passed_over = true;
  has_ended_with_repeats_ = false;
  // The program trains on the oldest batch that it keeps. If it also holds the last one, its loss is over all
  // of them.
  if (now_.ahead > 0 && !now_.trained_ahead && now_.last.owners() < 2) {
    --now_.ahead;
    now_.trained_ahead = true;
  } else if (!now_.trained_ahead) {
    trains_late_ = trains_late_ || (now_.loop == Loop::finished && now_.trains_late);
    now_.trains_late = now_.trains_late || (!now_.trained && now_.batches == now_.first + 2);
    now_.in_hand = now_.ahead = 0;
  }
  for (Pass& older : others_) older.passed_over = true;
}

void EpochPlan::gives_gradients() {
  if (std::exchange(now_.trained, true)) return;
  passes_to_skip_after_look_.reset();
  looks_ = std::exchange(looks_since_training_, 0);
  ++trained_passes_;
  if (now_.before && now_.before->pass.trained && now_.before->pass.loop == Loop::left &&
      !now_.before->pass.stopped)
    leaves_ = true;
  for (Pass& older : others_)  // the program keeps their iterators
    if (older.loop == Loop::under_way && !older.trained) older.loop = Loop::left;
}

void EpochPlan::drives(bool drives) {
  trains_ = true;
  drives_ = drives;
  if (!drives || std::exchange(has_driven_, true)) return;
  if (is_asked_ && first_asked_in_pass_ != now_.number) asks_ = true;
  if (asks_) offset_ = now_.epoch - first_asked_epoch_;  // the passes before it that had no training
}

std::int64_t EpochPlan::last_batch_size() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  return std::min(options_.batch_size, samples - (batches() - 1) * options_.batch_size);
}

std::int64_t EpochPlan::repeated_samples() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  if ((batches() - 1) * options_.batch_size + last_batch_size() < samples) return 0;  // they are dropped
  return std::max<std::int64_t>(0, samples * shard_.world_size - dataset_size_);
}

c10::ArrayRef<std::size_t> EpochPlan::batch_at(const std::vector<std::size_t>& indices,
                                               std::size_t next) const {
  const std::size_t full = static_cast<std::size_t>(options_.batch_size);
  const std::size_t length = std::min(full, indices.size() - next);
  if (length < full && options_.drop_last_batch) return {};
  return c10::ArrayRef<std::size_t>(indices).slice(next, length);
}

std::int64_t EpochPlan::batches() const {
  const std::int64_t samples = shard_size(dataset_size_, shard_);
  const bool keeps_part = samples % options_.batch_size != 0 && !options_.drop_last_batch;
  return samples / options_.batch_size + (keeps_part ? 1 : 0);
}

}  // namespace hookline::detail
