#include "tests/support/run_ranks.h"

#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

namespace hookline::testing {

namespace {

bool is(const char* variable, std::string_view wanted) {
  const char* const value = std::getenv(variable);
  return value && value == wanted;
}

}  // namespace

Placement placed(int rank, Placement wanted) {
  if (wanted.shared_memory == SharedMemory::where_possible && is("HOOKLINE_LAUNCH__BACKEND", "gloo"))
    wanted.shared_memory = SharedMemory::never;
  if (wanted.host_label.empty() && is("TESTED_RANKS", "on_two_hosts"))
    wanted.host_label = std::to_string(rank % 2);
  return wanted;
}

void run_ranks_with(const std::vector<Placement>& placements, const RankBody& body) {
  const int ranks = static_cast<int>(placements.size());
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const Placement placement = placed(rank, placements[static_cast<std::size_t>(rank)]);
      // Autograd has one thread per GPU, on which the ranks would wait for each other.
      if (placement.device.is_cuda()) c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
      try {
        body(std::make_shared<World>(store, rank, ranks, "127.0.0.1", std::chrono::seconds(60),
                                     World::kDefaultPeerTimeout, placement));
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void run_ranks(int ranks, const RankBody& body, const Placement& placement) {
  run_ranks_with(std::vector<Placement>(static_cast<std::size_t>(ranks), placement), body);
}

void run_ranks_on_hosts(const std::vector<int>& host_of, const RankBody& body) {
  std::vector<Placement> placements;
  for (const int host : host_of) {
    Placement placement;
    placement.host_label = std::to_string(host);
    placements.push_back(placement);
  }
  run_ranks_with(placements, body);
}

}  // namespace hookline::testing
