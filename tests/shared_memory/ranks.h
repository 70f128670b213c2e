// Rank threads that share a segment, the values they sum, and the expected results.
#pragma once

#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "shared_memory/collectives.h"

namespace hookline::testing {

inline constexpr std::chrono::minutes kTimeout{2};
inline constexpr std::size_t kChunk = SharedCollectives::kChunkBytes / sizeof(float);
inline constexpr std::size_t kDirect =  // over all ranks together
    SharedCollectives::kDirectBytes / sizeof(float);

inline void sum_floats(const void* const* parts, int count, void* out, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    float sum = static_cast<const float*>(parts[0])[i];
    for (int rank = 1; rank < count; ++rank) sum += static_cast<const float*>(parts[rank])[i];
    static_cast<float*>(out)[i] = sum;
  }
}

/// Values whose sums round, so that they reveal the order.
inline std::vector<float> values_of(int rank, std::size_t elements, unsigned seed) {
  std::minstd_rand random(seed * 64 + static_cast<unsigned>(rank) + 1);
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(random()) * 1e-3f;
  return values;
}

inline std::vector<float> expected_sum(int ranks, std::size_t elements, unsigned seed) {
  std::vector<std::vector<float>> all;
  std::vector<const void*> parts;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(values_of(rank, elements, seed));
  for (const auto& each : all) parts.push_back(each.data());
  std::vector<float> sum(elements);
  sum_floats(parts.data(), ranks, sum.data(), elements);
  return sum;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline Reduction reduction_of(std::vector<float>& values, std::function<void(std::exception_ptr)> done) {
  Reduction reduction;
  reduction.data = values.data();
  reduction.elements = values.size();
  reduction.element_bytes = sizeof(float);
  reduction.sum = sum_floats;
  reduction.done = std::move(done);
  return reduction;
}

inline WhenDone keep(const std::shared_ptr<std::promise<void>>& promise) {
  return [promise](const std::exception_ptr& error) {
    if (error) {
      promise->set_exception(error);
    } else {
      promise->set_value();
    }
  };
}

inline std::future<void> start(SharedCollectives& group, std::vector<float>& values) {
  auto done = std::make_shared<std::promise<void>>();
  group.start(reduction_of(values, keep(done)));
  return done->get_future();
}

inline std::future<void> start(SharedCollectives& group, PartExchange exchange) {
  auto done = std::make_shared<std::promise<void>>();
  exchange.done = keep(done);
  exchange.difference = [](const std::vector<PartExchange::Identity>& all) {
    std::string text = "ranks differ:";
    for (const auto& identity : all) text += " " + std::to_string(identity[0]);
    return text;
  };
  group.start(std::move(exchange));
  return done->get_future();
}

inline std::string error_of(std::future<void>& sum) {
  try {
    sum.get();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline std::shared_ptr<SharedSegment> segment_for(int ranks) {
  auto segment = std::make_shared<SharedSegment>(SharedCollectives::bytes_for(ranks));
  SharedCollectives::prepare(*segment, ranks);
  return segment;
}

/// Runs `body` for each rank on its own thread. All map the segment at the same address, so that the thread
/// sanitizer sees what they share.
inline void run_ranks(int ranks, const std::function<void(SharedCollectives&, int)>& body) {
  const auto segment = segment_for(ranks);
  std::vector<std::unique_ptr<SharedCollectives>> groups;
  for (int rank = 0; rank < ranks; ++rank)
    groups.push_back(std::make_unique<SharedCollectives>(segment, rank, ranks, kTimeout));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      body(*groups[static_cast<std::size_t>(rank)], rank);
      groups[static_cast<std::size_t>(rank)].reset();  // while others may still be working
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hookline::testing
