// An all-gather of ranks on several hosts, in which each part crosses from host to host once.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "hooks/in_order.h"
#include "parallel/groups/gloo_group.h"
#include "parallel/groups/group_errors.h"
#include "parallel/groups/host_layout.h"
#include "shared_memory/collectives.h"

namespace hookline {

/// Rank i of a host receives the parts of rank i of each other host over the network, and shares them and its
/// own part with the other ranks of its host through shared memory. If a host has fewer ranks than another,
/// the remaining parts are dealt to its ranks round-robin. Without this sharing, each part would cross the
/// network once for each rank of the receiving host.
///
/// The ranks of a host must start their shared-memory collectives in the same order. A gather's second half
/// starts only when its first half is over, so all other shared-memory collectives of the group must go
/// through start().
class HostGather {
 public:
  /// There are several hosts, and one of them has several ranks.
  static bool fits(const HostLayout& layout);

  /// For a layout that fits. `memory`: of this host's ranks.
  HostGather(const HostLayout& layout, const std::shared_ptr<SharedCollectives>& memory);

  /// Those to whom this rank sends its part over the network: one of each other host.
  const std::vector<int>& receivers() const { return receivers_; }
  /// Those whose parts come over the network.
  const std::vector<int>& senders() const { return senders_; }

  /// The second half of a gather. `from_peers`: the first, which compares identities and leaves the parts of
  /// senders() and this rank's own in `gather.received`. Every rank makes these calls in the same order; what
  /// it returns is done when all parts are there.
  c10::intrusive_ptr<c10d::Work> hand_on(const c10::intrusive_ptr<c10d::Work>& from_peers,
                                         GlooGroup::Exchange gather);

  /// Starts `collective` in the memory, a Reduction or a PartExchange, behind the gathers that were started
  /// before it.
  template <class Collective>
  void start(Collective collective) {
    in_order_->run(in_order_->draw_ticket(), [weak = memory_, collective = std::move(collective)]() mutable {
      if (const std::shared_ptr<SharedCollectives> memory = weak.lock())
        return memory->start(std::move(collective));
      collective.done(group_has_ended());
    });
  }

 private:
  std::vector<std::vector<int>> hosts_;  // their ranks
  std::size_t local_rank_, local_size_;
  std::vector<int> receivers_, senders_;
  std::weak_ptr<SharedCollectives> memory_;  // the group ends it, and threads of it may be in here
  std::shared_ptr<InOrder> in_order_ = std::make_shared<InOrder>();
};

}  // namespace hookline
