#include "parallel/host_gather.h"

#include <cstddef>
#include <exception>
#include <mutex>
#include <utility>

#include "parallel/future_work.h"
#include "parallel/group_errors.h"

namespace hookline {
namespace {

/// Completes `future` when as many collectives are done as there are hosts; with the error of the first that failed. Holds `received`
/// until then, and no longer: whoever waits may count on it.
class Countdown {
 public:
  Countdown(FuturePtr future, std::size_t count, at::Tensor received)
      : future_(std::move(future)), received_(std::move(received)), left_(count) {}

  void done(const std::exception_ptr& error) {
    bool is_last = false;
    std::exception_ptr first;
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = error;
      is_last = --left_ == 0;
      first = error_;
    }
    if (!is_last) return;
    received_.reset();
    if (first) {
      future_->setError(first);
    } else {
      future_->markCompleted(c10::IValue(std::vector<at::Tensor>{}));
    }
  }

 private:
  const FuturePtr future_;
  at::Tensor received_;
  std::mutex mutex_;  // guards the rest
  std::size_t left_;
  std::exception_ptr error_;
};

/// Of the parts of one host each local rank has one, and gets all.
PartExchange parts_of(const std::vector<int>& host, std::size_t local_rank, std::byte* received,
                      const GlooGroup::Exchange& gather) {
  PartExchange parts;
  parts.identity = gather.identity;
  parts.difference = gather.difference;
  parts.part_bytes = gather.part_bytes;
  parts.sends_same_to_all = true;
  for (const int rank : host)
    parts.received_from.push_back(received + static_cast<std::size_t>(rank) * gather.part_bytes);
  parts.sent = parts.received_from[local_rank];
  return parts;
}

}  // namespace

bool HostGather::fits(const HostLayout& layout) {
  return !layout.is_one_host() && layout.fewest_ranks() == layout.most_ranks() && layout.most_ranks() > 1;
}

HostGather::HostGather(const HostLayout& layout, const std::shared_ptr<SharedCollectives>& memory)
    : hosts_(layout.hosts), local_rank_(static_cast<std::size_t>(layout.local_rank)), memory_(memory) {
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    if (host != layout.own) peers_.push_back(hosts_[host][local_rank_]);
}

c10::intrusive_ptr<c10d::Work> HostGather::hand_on(const c10::intrusive_ptr<c10d::Work>& from_peers,
                                                   GlooGroup::Exchange gather) {
  auto result = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  gather.sent.reset();  // the first half copies it
  from_peers->getFuture()->addCallback([result, hosts = hosts_, local_rank = local_rank_, weak = memory_,
                                        in_order = in_order_, turn = in_order_->take_turn(),
                                        gather = std::move(gather)](c10::ivalue::Future& done) mutable {
    const std::exception_ptr error = done.hasError() ? done.exception_ptr() : nullptr;
    in_order->run(turn, [result, hosts, local_rank, weak, error, gather = std::move(gather)]() mutable {
      const std::shared_ptr<SharedCollectives> memory = weak.lock();
      if (error) {
        // A rank beside this one may have its parts, and would wait for these.
        if (memory && !is_on_every_rank(error)) memory->stop();
        return result->setError(error);
      }
      if (!memory) return result->setError(group_has_ended());
      auto* const received = static_cast<std::byte*>(gather.received.mutable_data_ptr());
      const auto countdown = std::make_shared<Countdown>(result, hosts.size(), std::move(gather.received));
      for (const std::vector<int>& host : hosts) {
        PartExchange parts = parts_of(host, local_rank, received, gather);
        parts.done = [countdown](const std::exception_ptr& failure) { countdown->done(failure); };
        memory->start(std::move(parts));
      }
    });
  });
  return c10::make_intrusive<FutureWork>(result);
}

}  // namespace hookline
