// Which ranks run on which host.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace hookline {

/// The ranks of a run by hosts: those that can share memory, on one machine, as one user and in one network
/// namespace.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  // ranks in ascending order; hosts in the order of their first ranks
  std::size_t own = 0;                  // this rank's host
  int local_rank = 0;                   // among the ranks of its host
  bool all_may_share = true;            // no rank was forbidden to share memory

  const std::vector<int>& local_ranks() const { return hosts[own]; }
  bool is_one_host() const { return hosts.size() == 1; }
  /// Ranks of the host with the fewest.
  int fewest_ranks() const;
  /// Ranks of the host with the most.
  int most_ranks() const;
};

/// Which ranks a sum is over.
enum class SumScope {
  all_ranks,
  inside_hosts,   // the ranks of each host, apart from the others
  between_hosts,  // the ranks of a host hold the same values, which count once
};

/// A collective call; every rank gets the same hosts. `label` is added to what a host is known by, so that
/// ranks with different labels count as ranks of different hosts.
HostLayout find_hosts(c10d::Store& store, int rank, int size, bool may_share, const std::string& label,
                      std::chrono::milliseconds timeout);

}  // namespace hookline
