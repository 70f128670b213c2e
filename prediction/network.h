// Estimates all-reduces on a network that is named, not measured.
#pragma once

#include "prediction/collective_times.h"

namespace hookline {

struct Network {
  double hosts = 2;
  double bytes_per_second = 0;  // of each host, in each direction
  double latency_seconds = 0;   // of a message from one host to another
};

/// Times of all-reduces in a ring of hosts: the ranks of each host sum first, which takes `inside`, and then
/// 2 (hosts - 1) messages go between hosts, each 1 / hosts of the bytes. Only the sum inside a host keeps a
/// core busy.
/// Source: Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009,
/// section 4.
CollectiveTimes all_reduces_on(const Network& network, const CollectiveTimes& inside);

/// Estimates the network of `hosts` from all-reduces `measured` on it: the latency from the smallest one, and
/// the bandwidth from the extra time of the largest.
Network network_of(double hosts, const CollectiveTimes& measured);

}  // namespace hookline
