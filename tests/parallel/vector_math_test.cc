// Functions that threads call for the first time together. CTest gives each case a process of its own.
// Without the warm-up a case fails rarely, and on some CPUs only.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "parallel/world/vector_math.h"

namespace hookline {
namespace {

TEST(VectorMath, MatchesLaterCallsBitForBitInTheFirstCallOfEachThread) {
  using Function = at::Tensor (*)(const at::Tensor&);
  const std::map<std::string, Function> functions = {{"asin", at::asin}, {"cos", at::cos},  {"erf", at::erf},
                                                     {"exp", at::exp},   {"log", at::log},  {"sin", at::sin},
                                                     {"sqrt", at::sqrt}, {"tanh", at::tanh}};
  const at::Tensor x = at::arange(1, 2049, at::kFloat).div(2050);
  constexpr int kThreads = 4;
  std::barrier together(kThreads);
  std::vector<std::map<std::string, at::Tensor>> first(kThreads);
  std::vector<std::thread> threads;
  for (auto& results : first)
    threads.emplace_back([&] {
      at::set_num_threads(1);
      warm_up_vector_math();
      for (const auto& [name, function] : functions) {
        together.arrive_and_wait();
        results[name] = function(x);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& results : first)
    for (const auto& [name, function] : functions) EXPECT_TRUE(results.at(name).equal(function(x))) << name;
}

}  // namespace
}  // namespace hookline
