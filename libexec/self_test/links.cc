#include "libexec/self_test/links.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libexec/self_test/check_limits.h"
#include "libexec/self_test/collective_checks.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kEnough = 0.05;  // seconds of one measurement
constexpr std::int64_t kLeastBytes = 256 << 10, kMostBytes = 16 << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One end of a pair. What one end sends the other receives, in the same order.
class End {
 public:
  End(World& world, int peer) : world_(world), peer_(peer) {}

  void send(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    wait_without_future(world_.group()->send(tensors, peer_, kTag));
  }
  void receive(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    wait_without_future(world_.group()->recv(tensors, peer_, kTag));
  }
  void send_number(std::int64_t number) {
    send(at::full({1}, number, at::TensorOptions(at::kLong).device(device_of_sends(world_))));
  }
  std::int64_t receive_number() {
    const at::Tensor number = at::empty({1}, at::TensorOptions(at::kLong).device(device_of_sends(world_)));
    receive(number);
    return number.item<std::int64_t>();
  }
  at::Tensor payload(std::int64_t bytes) const {
    return at::zeros({bytes}, at::TensorOptions(at::kByte).device(device_of_sends(world_)));
  }

 private:
  static constexpr int kTag = 2;
  World& world_;
  int peer_;
};

double round_trips(End& end, std::int64_t count) {
  end.send_number(count);
  end.receive_number();
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    end.send_number(i);
    end.receive_number();
  }
  return seconds_since(start) / static_cast<double>(count);
}

void answer_round_trips(End& end) {
  const std::int64_t count = end.receive_number();
  end.send_number(count);
  for (std::int64_t i = 0; i < count; ++i) end.send_number(end.receive_number());
}

/// Latency and rate, as the first of the two sees them.
void measure(End& end, Link& link) {
  const double first = round_trips(end, 5);
  const double round_trip =
      round_trips(end, std::clamp<std::int64_t>(static_cast<std::int64_t>(kEnough / first), 3, 500));
  link.latency_seconds = round_trip / 2;
  for (std::int64_t bytes = kLeastBytes;; bytes *= 4) {
    const at::Tensor payload = end.payload(bytes);
    const auto start = Clock::now();
    end.send_number(bytes);
    end.send(payload);
    end.receive_number();
    const double whole = seconds_since(start);
    // Subtract a round trip for the number before and the answer after, but not more than nine tenths of the
    // time.
    link.bytes_per_second = static_cast<double>(bytes) / std::max(whole - round_trip, whole / 10);
    if (whole > kEnough || bytes >= kMostBytes) break;
  }
  end.send_number(0);
}

void be_measured(End& end) {
  answer_round_trips(end);
  answer_round_trips(end);
  while (const std::int64_t bytes = end.receive_number()) {
    end.receive(end.payload(bytes));
    end.send_number(bytes);
  }
}

/// Gives every rank all results. Each link was measured on one rank, and is 0 on the others, so their sum is
/// the result.
std::vector<Link> of_all_ranks(World& world, std::vector<Link> links) {
  if (links.empty()) return links;
  const at::Tensor figures = at::zeros({static_cast<std::int64_t>(links.size()), 2}, at::kDouble);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    figures[row][0] = links[i].latency_seconds;
    figures[row][1] = links[i].bytes_per_second;
  }
  const at::Tensor all = figures.to(world.device());
  world.all_reduce(all);
  const at::Tensor sums = all.cpu();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    links[i].latency_seconds = sums[row][0].item<double>();
    links[i].bytes_per_second = sums[row][1].item<double>();
  }
  return links;
}

/// Measures `pairs` one after the other, while the other ranks wait.
std::vector<Link> measure_pairs(World& world, const std::vector<std::pair<int, int>>& pairs,
                                const std::vector<std::string>& nodes) {
  std::vector<Link> links;
  for (const auto& [from, to] : pairs) {
    Link link{from, to, nodes[static_cast<std::size_t>(from)] == nodes[static_cast<std::size_t>(to)]};
    End end(world, world.rank() == from ? to : from);
    if (world.rank() == from) measure(end, link);
    if (world.rank() == to) be_measured(end);
    world.barrier("the links between ranks");
    links.push_back(link);
  }
  return of_all_ranks(world, std::move(links));
}

}  // namespace

std::vector<Link> measure_links(World& world, const std::vector<std::string>& nodes) {
  std::vector<Link> links = measure_pairs(world, pairs_to_measure(world.size()), nodes);
  // Measure slow links again: a slow link stays slow, but a core that was busy may be free now.
  const std::vector<std::size_t> slow = far_below(links);
  std::vector<std::pair<int, int>> again;
  for (const std::size_t i : slow) again.emplace_back(links[i].from, links[i].to);
  const std::vector<Link> second = measure_pairs(world, again, nodes);
  for (std::size_t i = 0; i < slow.size(); ++i)
    if (second[i].bytes_per_second > links[slow[i]].bytes_per_second) links[slow[i]] = second[i];
  return links;
}

}  // namespace hookline
