// A Gloo process group that can be left behind, and whose ranks can compare what they are about to do.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace hookline {

/// ProcessGroupGloo's destructor waits for every collective that was started, for as long as the group's
/// timeout if a peer does not answer. After a failure, abandon() the group first.
class GlooGroup : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// What a rank is about to do, in numbers that it compares with the others'.
  using Identity = std::array<std::int64_t, 4>;

  /// Every rank hands a part to each of the others.
  struct Exchange {
    Identity identity = {};
    at::Tensor sent, received;  // contiguous, on the CPU; undefined: identities are compared, and that is all
    std::size_t part_bytes = 0;      // of `received` each rank fills one part, in the order of ranks
    bool sends_same_to_all = false;  // `sent` is one part; if not, one for each rank
    /// The text of RanksDiffer for identities, in the order of ranks, that are not all equal.
    std::function<std::string(const std::vector<Identity>&)> difference;
    std::exception_ptr failure = {};  // why it fails instead of starting
  };

  /// Starts an exchange; every rank must start its exchanges and the group's other collectives in the same
  /// order. Ranks compare identities while the parts travel: if they differ, the work fails with RanksDiffer
  /// on every rank, and no rank receives a part sent under another identity. This rank's own part is copied.
  virtual c10::intrusive_ptr<c10d::Work> exchange(Exchange wanted);

  /// Like exchange() with a separate part of `type` elements for each rank, except that `received` gets
  /// addends(type) parts, whose sum is the sum of all ranks' parts for this rank. The contents of `sent` are
  /// lost.
  virtual c10::intrusive_ptr<c10d::Work> scatter(Exchange wanted, at::ScalarType type);

  /// One for each rank; or for each host, in the order of hosts, if the ranks of a host sum theirs before
  /// they send them.
  virtual int addends(at::ScalarType type) const;

  /// True as soon as no collective is under way; false if that takes longer than `patience`.
  bool idle_within(std::chrono::milliseconds patience);

  /// No collective is under way.
  virtual bool is_idle();

  /// Closes the connections to the peers, whose collectives then fail at once, and keeps the group for as
  /// long as the process lives, since its threads still wait.
  static void abandon(c10::intrusive_ptr<GlooGroup> group);

 protected:
  /// A part that travels between this rank and another: its place in `sent`, or in `received`.
  struct Route {
    int rank;
    std::size_t place;
  };
  /// Which parts travel; this rank's own is copied. The rest of `received` stays as it is.
  struct Routes {
    std::vector<Route> to, from;
    std::size_t own_sent = 0, own_received = 0;  // places of this rank's own
  };

  /// The next one first, so that not all begin with the same.
  std::vector<int> other_ranks() const;

  /// To each of `to` and from each of `from`; a part has the place of its rank.
  Routes routes_between(const std::vector<int>& to, const std::vector<int>& from,
                        bool sends_same_to_all) const;

  /// Makes an exchange over `routes` and reserves its place among the group's collectives; enqueue() starts
  /// it. Every rank must enqueue in the same order, since the group's few threads block in started exchanges.
  /// `wanted` may change until then. Each rank compares its identity with all others', whatever the routes.
  c10::intrusive_ptr<AsyncWork> make_exchange(Routes routes, std::shared_ptr<Exchange> wanted);

  /// What is under way fails at once, here and on the peers.
  virtual void close_connections();

 private:
  class ExchangeWork;
};

}  // namespace hookline
