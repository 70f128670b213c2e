#include "prediction/network.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hookline {
namespace {

constexpr double kSizes[] = {64, 64e3, 1e6, 10e6, 100e6, 1e9};  // bytes

double messages(double hosts) { return 2 * (hosts - 1); }

}  // namespace

CollectiveTimes all_reduces_on(const Network& network, const CollectiveTimes& inside) {
  std::vector<CollectiveTime> times;
  for (const double bytes : kSizes) {
    CollectiveTime time = inside.measured().empty() ? CollectiveTime{bytes} : inside.of(bytes);
    time.bytes = bytes;
    if (network.hosts > 1)
      time.seconds += messages(network.hosts) *
                      (network.latency_seconds + bytes / network.hosts / network.bytes_per_second);
    times.push_back(time);
  }
  return CollectiveTimes(std::move(times));
}

Network network_of(double hosts, const CollectiveTimes& measured) {
  Network network{hosts, 1e12, 0};  // so fast that it adds no time
  if (hosts < 2 || measured.measured().empty()) return network;
  const CollectiveTime &least = measured.measured().front(), &most = measured.measured().back();
  network.latency_seconds = least.seconds / messages(hosts);
  const double sent = messages(hosts) * (most.bytes - least.bytes) / hosts;
  if (most.seconds > least.seconds && sent > 0)
    network.bytes_per_second = sent / (most.seconds - least.seconds);
  return network;
}

}  // namespace hookline
