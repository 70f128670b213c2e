#include "parallel/fsdp/reduction_queue.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/rank/step_clock.h"

namespace hookline {
namespace {

constexpr std::size_t kMostReductions = 1;  // under way while the next unit computes

}  // namespace

ReductionQueue::ReductionQueue(World& world, std::unique_ptr<GradientScatter> scatter,
                               std::function<std::string(const ShardedUnit&)> name_of)
    : world_(world), scatter_(std::move(scatter)), name_of_(std::move(name_of)) {}

void ReductionQueue::start(ShardedUnit& unit, std::vector<at::Tensor> gradients) {
  const auto& flats = unit.trained_flats();
  std::size_t index = 0;
  for (at::Tensor& gradient : gradients) {
    const std::size_t flat = index++;
    if (!gradient.defined()) continue;
    bytes_sent_ += bytes_of(*flats[flat]);
    const ShardOperation operation{ShardOperation::Kind::scatter, static_cast<std::int64_t>(unit.position()),
                                   static_cast<std::int64_t>(flat)};
    reductions_.push_back({&unit, flat, scatter_->start(operation, std::move(gradient))});
    while (reductions_.size() > kMostReductions && is_soon_over(reductions_.front())) finish_oldest();
  }
}

void ReductionQueue::finish_all() {
  while (!reductions_.empty()) finish_oldest();
}

void ReductionQueue::forget_all() {
  for (const Reduction& reduction : reductions_) wait_for(reduction);
  reductions_.clear();
}

std::int64_t ReductionQueue::bytes_of(const FlatParameter& flat) const {
  return scatter_->bytes_of(flat.whole_bytes(), flat.dtype());
}

bool ReductionQueue::is_soon_over(const Reduction& reduction) {
  const auto& work = reduction.started.work.work;
  if (!work || world_.uses_nccl()) return true;  // the host does not wait, only the stream
  const std::size_t unit = reduction.unit->position();
  const TimedWait waiting(*world_.step_clock());
  const auto give_up = std::chrono::steady_clock::now() + patience_.of(unit);
  while (!work->isCompleted()) {
    if (std::chrono::steady_clock::now() >= give_up) {
      patience_.gave_up(unit);
      return false;
    }
    if (const auto failure = world_.watch().failure()) throw *failure;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  patience_.came(unit);
  return true;
}

void ReductionQueue::finish_oldest() {
  const at::NoGradGuard no_grad;
  Reduction& oldest = reductions_.front();
  if (oldest.started.work.work) {
    const TimedWait waiting(*world_.step_clock());
    wait_for(oldest);
  }
  oldest.unit->add_gradient(oldest.index, scatter_->finish(std::move(oldest.started)));
  reductions_.pop_front();
}

void ReductionQueue::wait_for(const Reduction& reduction) {
  const ShardWork& work = reduction.started.work;
  if (work.work) world_.wait_for_all(work.work, work.sequence, work.number, name_of_(*reduction.unit));
}

}  // namespace hookline
