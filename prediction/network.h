// All-reduces on a network that is not there to be measured.
#pragma once

#include "prediction/collective_times.h"

namespace hookline {

struct Network {
  double hosts = 2;
  double bytes_per_second = 0;  // of each host, in each direction
  double latency_seconds = 0;   // of a message from one host to another
};

/// What all-reduces take in a ring of hosts whose own ranks sum first: inside each host `inside`, then 2 (hosts - 1) messages, each of
/// 1 / hosts of the bytes. A core is busy as long as it was `inside`.
/// Source: Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009, section 4.
CollectiveTimes all_reduces_on(const Network& network, const CollectiveTimes& inside);

/// The network of `hosts` on which `measured` was measured: by what the smallest all-reduce took, and what the largest took beyond it.
Network network_of(double hosts, const CollectiveTimes& measured);

}  // namespace hookline
