#include "parallel/ddp/between_hosts.h"

#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "parallel/world/world.h"

namespace hookline {
namespace {

const std::string kHostKey = "host_of_rank.";

std::string host_key(int rank) { return kHostKey + std::to_string(rank); }

}  // namespace

BetweenHosts::BetweenHosts(World& world, std::unique_ptr<CommHook> hook)
    : CommHook(hook->context()),
      inside_(world.rank(), static_cast<int>(world.layout().local_ranks().size()),
              [&world](const std::string& name) {
                return world.make_group("inside-" + name, SumScope::inside_hosts);
              }),
      scale_(static_cast<double>(world.layout().hosts.size()) / world.size()),
      hosts_(world.layout().hosts),
      is_first_(world.rank() == 0),
      hook_(std::move(hook)),
      in_order_(std::make_shared<InOrder>()) {}

BetweenHosts::~BetweenHosts() = default;

HookState BetweenHosts::save_state(const BucketParameters& buckets) const {
  HookState state = hook_->save_state(buckets);
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    for (const int rank : hosts_[host]) state.numbers[host_key(rank)] = static_cast<std::int64_t>(host);
  return state;
}

std::vector<at::Tensor> BetweenHosts::held_back(const BucketParameters& buckets) const {
  std::vector<at::Tensor> of_host = hook_->held_back(buckets);
  const double ranks = inside_.world_size();
  for (at::Tensor& each : of_host)
    if (each.defined()) each = each / (ranks * scale_);
  return of_host;
}

/// A rank's own state belongs to the sum of its host. It is dropped if the ranks were on other hosts when it
/// was saved.
void BetweenHosts::load_state(const HookState& saved, const BucketParameters& buckets) {
  HookState state = saved;
  bool is_same = true;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    for (const int rank : hosts_[host]) {
      const auto found = state.numbers.find(host_key(rank));
      is_same = is_same && found != state.numbers.end() && found->second == static_cast<std::int64_t>(host);
    }
  }
  std::erase_if(state.numbers, [](const auto& entry) { return entry.first.starts_with(kHostKey); });
  if (!is_same && !state.own.empty()) {
    state.own.clear();
    if (is_first_)
      log::warning(
          "the hook '" + describe() +
          "' starts without what it kept on each host, such as PowerSGD's error feedback: the ranks were on "
          "other hosts "
          "when the checkpoint was saved");
  }
  hook_->load_state(state, buckets);
}

FuturePtr BetweenHosts::run(GradBucket bucket) {
  FuturePtr result = make_future(bucket.buffer().device());
  const FuturePtr inside = inside_.all_reduce(bucket.buffer().mul_(scale_));
  // Copy the bucket: the Reducer's own is gone by the time the sum arrives.
  auto kept = std::make_shared<c10d::GradBucket>(bucket.copy());
  inside->addCallback([result, kept = std::move(kept), weak_hook = std::weak_ptr(hook_), in_order = in_order_,
                       ticket = in_order_->draw_ticket()](c10::ivalue::Future& sum) {
    const std::exception_ptr error = sum.hasError() ? sum.exception_ptr() : nullptr;
    in_order->run(ticket, [result, kept, weak_hook, error] {
      if (error) return result->setError(error);
      // Callbacks hold the hook weakly: a pending sum must not keep alive a model that was dropped while
      // another rank is stuck.
      const std::shared_ptr<CommHook> hook = weak_hook.lock();
      if (!hook) return result->setError(std::make_exception_ptr(PeerError("the model is gone")));
      const at::NoGradGuard no_grad;  // like the autograd engine, whose threads run hooks otherwise
      try {
        hook->run(GradBucket(*kept))->addCallback([result](c10::ivalue::Future& done) {
          if (done.hasError()) {
            result->setError(done.exception_ptr());
          } else {
            result->markCompleted(done.value());
          }
        });
      } catch (...) {
        result->setErrorIfNeeded(std::current_exception());
      }
    });
  });
  return result;
}

}  // namespace hookline
