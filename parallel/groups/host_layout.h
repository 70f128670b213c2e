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
  /// The ranks of each host in ascending order; the hosts in the order of their first ranks.
  std::vector<std::vector<int>> hosts;
  std::size_t own = 0;        ///< This rank's host, an index into `hosts`.
  int local_rank = 0;         ///< This rank's position among the ranks of its host, from 0.
  bool all_may_share = true;  ///< False if a rank was forbidden to share memory.

  /// The ranks of this rank's host.
  const std::vector<int>& local_ranks() const { return hosts[own]; }
  /// True if all ranks are on one host.
  bool is_one_host() const { return hosts.size() == 1; }
  /// Ranks of the host with the fewest.
  int fewest_ranks() const;
  /// Ranks of the host with the most.
  int most_ranks() const;
};

/// Which ranks a sum is over.
enum class SumScope {
  all_ranks,      ///< Every rank of the run.
  inside_hosts,   ///< The ranks of each host, apart from those of the others.
  between_hosts,  ///< One of each host, since the ranks of a host hold the same values.
};

/// For hookline itself: finds out which ranks run on which host. A collective call; every rank gets the same
/// hosts. `label` is added to what a host is known by, so that ranks with different labels count as ranks of
/// different hosts.
HostLayout find_hosts(c10d::Store& store, int rank, int size, bool may_share, const std::string& label,
                      std::chrono::milliseconds timeout);

}  // namespace hookline
