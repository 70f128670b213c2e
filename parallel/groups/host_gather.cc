#include "parallel/groups/host_gather.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <utility>

#include "parallel/groups/future_work.h"
#include "parallel/groups/group_errors.h"

namespace hookline {
namespace {

/// Completes `future` when `count` collectives are done, with the error of the first that failed. Releases
/// `received` before that, since waiters may count on it.
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

/// The exchanges that distribute the parts of the ranks of `host` on this host: local rank i has received
/// parts i, i + local_size and so on, and gets all of them.
std::vector<PartExchange> exchanges_of(const std::vector<int>& host, std::size_t local_rank,
                                       std::size_t local_size, std::byte* received,
                                       const GlooGroup::Exchange& gather) {
  PartExchange common;
  common.identity = gather.identity;
  common.difference = gather.difference;
  common.part_bytes = gather.part_bytes;
  std::vector<PartExchange> exchanges;
  for (std::size_t first = 0; first < host.size(); first += local_size) {
    std::vector<void*> places;
    for (std::size_t i = first; i < std::min(first + local_size, host.size()); ++i)
      places.push_back(received + static_cast<std::size_t>(host[i]) * gather.part_bytes);
    if (places.size() == local_size) {
      PartExchange all = common;
      all.sends_same_to_all = true;
      all.sent = places[local_rank];
      all.received_from = std::move(places);
      exchanges.push_back(std::move(all));
      continue;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {  // the last round: other local ranks have no part
      PartExchange one = common;
      one.only_from = static_cast<int>(i);
      one.sent = one.received = places[i];
      exchanges.push_back(std::move(one));
    }
  }
  return exchanges;
}

}  // namespace

bool HostGather::fits(const HostLayout& layout) { return !layout.is_one_host() && layout.most_ranks() > 1; }

HostGather::HostGather(const HostLayout& layout, const std::shared_ptr<SharedCollectives>& memory)
    : hosts_(layout.hosts),
      local_rank_(static_cast<std::size_t>(layout.local_rank)),
      local_size_(layout.local_ranks().size()),
      memory_(memory) {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (host == layout.own) continue;
    receivers_.push_back(hosts_[host][local_rank_ % hosts_[host].size()]);
    for (std::size_t i = local_rank_; i < hosts_[host].size(); i += local_size_)
      senders_.push_back(hosts_[host][i]);
  }
}

c10::intrusive_ptr<c10d::Work> HostGather::hand_on(const c10::intrusive_ptr<c10d::Work>& from_peers,
                                                   GlooGroup::Exchange gather) {
  if (local_size_ == 1) return from_peers;
  auto result = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  gather.sent.reset();  // the first exchange copies it into `received`
  from_peers->getFuture()->addCallback([result, hosts = hosts_, local_rank = local_rank_,
                                        local_size = local_size_, weak = memory_, in_order = in_order_,
                                        ticket = in_order_->draw_ticket(),
                                        gather = std::move(gather)](c10::ivalue::Future& done) mutable {
    const std::exception_ptr error = done.hasError() ? done.exception_ptr() : nullptr;
    in_order->run(
        ticket, [result, hosts, local_rank, local_size, weak, error, gather = std::move(gather)]() mutable {
          const std::shared_ptr<SharedCollectives> memory = weak.lock();
          if (error) {
            // Another rank of this host may have its parts, and would wait for this rank's.
            if (memory && !is_on_every_rank(error)) memory->stop();
            return result->setError(error);
          }
          if (!memory) return result->setError(group_has_ended());
          auto* const received = static_cast<std::byte*>(gather.received.mutable_data_ptr());
          std::vector<PartExchange> exchanges;
          for (const std::vector<int>& host : hosts)
            for (PartExchange& each : exchanges_of(host, local_rank, local_size, received, gather))
              exchanges.push_back(std::move(each));
          const auto countdown =
              std::make_shared<Countdown>(result, exchanges.size(), std::move(gather.received));
          for (PartExchange& each : exchanges) {
            each.done = [countdown](const std::exception_ptr& failure) { countdown->done(failure); };
            memory->start(std::move(each));
          }
        });
  });
  return c10::make_intrusive<FutureWork>(result);
}

}  // namespace hookline
