#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hooks/comm_hook.h"
#include "tests/hooks/chosen_gradients.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

constexpr std::uint64_t kTurns = 50;

std::vector<std::uint64_t> shuffled_turns(unsigned seed) {
  std::vector<std::uint64_t> tickets(kTurns);
  std::iota(tickets.begin(), tickets.end(), 0);
  std::shuffle(tickets.begin(), tickets.end(), std::mt19937(seed));
  return tickets;
}

// A tensor whose size depends on the ticket, so that mismatched collectives fail.
at::Tensor of_turn(std::uint64_t ticket, double value) {
  return torch::full({static_cast<std::int64_t>(ticket) + 1}, value, torch::kDouble);
}

std::string error_of(const FuturePtr& future) {
  future->wait();
  return future->hasError() ? future->tryRetrieveErrorMessage() : "no error";
}

TEST(OrderedChannel, MatchesCollectivesThatRanksSubmitInDifferentOrders) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    OrderedChannel channel(world->make_group("test"));
    const auto tickets = shuffled_turns(static_cast<unsigned>(world->rank()));
    std::vector<FuturePtr> results(kTurns);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < kTurns; i += 4) {
          const double value = 10.0 * static_cast<double>(tickets[i]) + world->rank();
          results[tickets[i]] = channel.all_reduce(tickets[i], of_turn(tickets[i], value));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::uint64_t ticket = 0; ticket < kTurns; ++ticket) {
      results[ticket]->wait();
      EXPECT_TRUE(
          torch::equal(tensor_of(*results[ticket]), of_turn(ticket, 30.0 * static_cast<double>(ticket) + 3)));
    }
    EXPECT_EQ(channel.bytes(), static_cast<std::int64_t>(8 * kTurns * (kTurns + 1) / 2));
  });
}

TEST(OrderedChannel, MatchesCollectivesThatAreSubmittedFromCallbacks) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    OrderedChannel first(world->make_group("first"));
    // Shared with the callbacks: the last one may still be using it when its collective completes.
    const auto second = std::make_shared<OrderedChannel>(world->make_group("second"));
    std::vector<FuturePtr> results;
    for (std::uint64_t ticket = 0; ticket < kTurns; ++ticket) {
      const auto pause =
          std::chrono::microseconds((ticket * 7 + static_cast<std::uint64_t>(world->rank()) * 13) % 5 * 200);
      results.push_back(then_start(first.all_reduce(ticket, of_turn(ticket, 1)),
                                   [second, ticket, pause](const at::Tensor& sum) {
                                     std::this_thread::sleep_for(pause);
                                     return second->all_reduce(ticket, sum * static_cast<double>(ticket));
                                   }));
    }
    for (std::uint64_t ticket = 0; ticket < kTurns; ++ticket) {
      results[ticket]->wait();
      EXPECT_TRUE(
          torch::equal(tensor_of(*results[ticket]), of_turn(ticket, 9.0 * static_cast<double>(ticket))));
    }
  });
}

TEST(OrderedChannel, ContinuesAfterASkippedTicket) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    OrderedChannel channel(world->make_group("test"));
    std::vector<FuturePtr> results(kTurns);
    for (const std::uint64_t ticket : shuffled_turns(7 + static_cast<unsigned>(world->rank()))) {
      if (ticket % 3 == 0) {
        channel.skip(ticket);
      } else {
        results[ticket] = channel.all_reduce(ticket, of_turn(ticket, 1));
      }
    }
    for (const FuturePtr& result : results) {
      if (!result) continue;
      result->wait();
      EXPECT_EQ(tensor_of(*result)[0].item<double>(), 2);
    }
  });
}

TEST(OrderedChannel, StartsNothingBeforeAnEarlierTicket) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    OrderedChannel channel(world->make_group("test"));
    const FuturePtr later = channel.all_reduce(1, of_turn(1, 1));
    EXPECT_EQ(channel.bytes(), 0);
    EXPECT_FALSE(later->completed());
    channel.skip(0);
    later->wait();
    EXPECT_EQ(channel.bytes(), 16);
  });
}

TEST(OrderedChannel, ReportsACollectiveThatCannotStartThroughItsFuture) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    OrderedChannel channel(world->make_group("test"));
    const FuturePtr failed =
        channel.all_reduce(0, torch::zeros({2}, at::kMeta));  // Gloo does not support this device
    EXPECT_THAT(error_of(failed), HasSubstr("allreduce"));
    const FuturePtr next = channel.all_reduce(1, of_turn(1, 5));
    EXPECT_EQ(error_of(next), "no error");
  });
}

TEST(Comm, SumsEachCollectiveAndCountsItsBytes) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Comm comm(world->rank(), world->size(),
              [world](const std::string& name) { return world->make_group(name); });
    const FuturePtr sum = comm.all_reduce(torch::full({3}, 1.0f + static_cast<float>(world->rank())));
    sum->wait();
    EXPECT_TRUE(tensor_of(*sum).eq(3).all().item<bool>());
    comm.open_channel("more")->all_reduce(0, torch::ones({2}))->wait();
    EXPECT_EQ(comm.bytes_sent(), 12 + 8);
  });
}

TEST(Future, TurnsAnExceptionOfAStepIntoItsError) {
  const FuturePtr source = make_future();
  const FuturePtr failed =
      then(source, [](const at::Tensor&) -> at::Tensor { throw HookError("the step failed"); });
  bool ran = false;
  const FuturePtr after = then(failed, [&ran](const at::Tensor& tensor) {
    ran = true;
    return tensor;
  });
  const FuturePtr started =
      then_start(source, [](const at::Tensor&) -> FuturePtr { throw HookError("the start failed"); });
  std::thread([&] { source->markCompleted(torch::ones({1})); }).join();
  EXPECT_EQ(error_of(failed), "the step failed");
  EXPECT_EQ(error_of(after), "the step failed");
  EXPECT_FALSE(ran);
  EXPECT_EQ(error_of(started), "the start failed");
  EXPECT_THROW(tensor_of(*after), HookError);
}

TEST(Future, CarriesTheErrorOfTheOperationThatAStepStarted) {
  const FuturePtr inner = make_future();
  const FuturePtr outer = then_start(completed(torch::ones({1})), [&](const at::Tensor&) { return inner; });
  EXPECT_FALSE(outer->completed());
  inner->setError(std::make_exception_ptr(HookError("the operation failed")));
  EXPECT_EQ(error_of(outer), "the operation failed");
}

TEST(Future, FindsTheTensorInAListToo) {
  const auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  future->markCompleted(std::vector<at::Tensor>{torch::full({2}, 6)});
  EXPECT_TRUE(tensor_of(*future).eq(6).all().item<bool>());
}

// Fails on every rank: in run() itself, or in a step after the collective.
class Failing : public CommHook {
 public:
  Failing(HookContext context, bool at_once) : CommHook(std::move(context)), at_once_(at_once) {}
  FuturePtr run(GradBucket bucket) override {
    if (at_once_) throw HookError("run failed");
    return then(comm().all_reduce(bucket.buffer()),
                [](const at::Tensor&) -> at::Tensor { throw HookError("unpack failed"); });
  }
  std::string describe() const override { return "failing"; }

 private:
  bool at_once_;
};

TEST(CommHook, MakesBackwardThrowWhatAHookThrows) {
  for (const bool at_once : {true, false}) {
    run_ranks(2, [at_once](const std::shared_ptr<World>& world) {
      testing::GivenGradientsModel model(
          world, std::make_shared<testing::GivenGradients>(std::vector<std::vector<std::int64_t>>{{3}}), {});
      model.register_comm_hook(std::make_unique<Failing>(model.ddp().hook_context(), at_once));
      std::string message = "no error";
      try {
        testing::communicate(model, {torch::ones({3})});
      } catch (const std::exception& error) {
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr(at_once ? "run failed" : "unpack failed"));
    });
  }
}

}  // namespace
}  // namespace hookline
