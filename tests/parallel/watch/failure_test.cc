// A step that fails on one rank, observed from all ranks. Ranks are threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "hooks/registry/registry.h"
#include "parallel/ddp/watched_group.h"
#include "parallel/distributed_module.h"
#include "tests/hooks/chosen_gradients.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::GivenGradients;
using testing::GivenGradientsModel;
using ::testing::HasSubstr;
using testing::run_ranks;

const std::vector<std::vector<std::int64_t>> kShapes{{40, 40}, {40}, {64, 20}};

testing::Tensors ones(double value = 1) {
  testing::Tensors gradients;
  for (const auto& shape : kShapes) gradients.push_back(torch::full(shape, value));
  return gradients;
}

enum class Place { in_run, in_a_callback };

// Averages, but fails in one step on one rank.
class FailingHook : public CommHook {
 public:
  FailingHook(HookContext context, bool fails, Place place)
      : CommHook(std::move(context)), fails_(fails), place_(place) {}
  FuturePtr run(GradBucket bucket) override {
    const bool now = fails_ && step_ == 2;
    if (bucket.is_last()) ++step_;
    if (now && place_ == Place::in_run) throw HookError("on purpose");
    const at::Tensor gradients = bucket.buffer().div_(world_size());
    return then(comm().all_reduce(gradients), [now](const at::Tensor& sum) {
      if (now) throw HookError("on purpose");
      return sum;
    });
  }
  std::string describe() const override { return "failing"; }

 private:
  bool fails_;
  Place place_;
  int step_ = 0;
};

std::shared_ptr<GivenGradients> bare_model() { return std::make_shared<GivenGradients>(kShapes); }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Failure, OfAHookOnOneRankFailsTheStepOnEveryRankWithOneMessage) {
  for (const Place place : {Place::in_run, Place::in_a_callback}) {
    run_ranks(3, [place](const std::shared_ptr<World>& world) {
      GivenGradientsModel model(world, bare_model(), {.bucket_limits = {4096, 4096}});
      model.register_comm_hook(
          std::make_unique<FailingHook>(model.ddp().hook_context(), world->rank() == 1, place));
      for (int step = 0; step < 2; ++step) testing::communicate(model, ones());
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(failure_of<RunFailed>([&] {
                  // If a callback fails after its collective, the other ranks may still finish this step.
                  for (int step = 2; step < 100; ++step) testing::communicate(model, ones());
                }),
                "step 2 of failing failed on rank 1: on purpose");
      EXPECT_LT(seconds_since(start), 20);
      EXPECT_EQ(failure_of<RunFailed>([&] { model.forward(ones()); }),
                "step 2 of failing failed on rank 1: on purpose")
          << "and no step after it";
      EXPECT_EQ(failure_of<RunFailed>([&] { world->barrier("the end"); }),
                "step 2 of failing failed on rank 1: on purpose");
    });
  }
}

TEST(Failure, OfPowerSgdOnAnUnrepresentableNumberNamesItsRank) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e6}) {
    for (const std::string hook : {"power_sgd", "batched_power_sgd"}) {
      run_ranks(2, [&](const std::shared_ptr<World>& world) {
        GivenGradientsModel model(world, bare_model(), {});
        model.register_comm_hook(Registry::instance().build(hook, bad == 1e6 ? "fp16" : "no",
                                                            {{"start_powerSGD_iter", std::int64_t{2}}},
                                                            model.ddp().hook_context()));
        for (int step = 0; step < 4; ++step) testing::communicate(model, ones());
        testing::Tensors gradients = ones();
        if (world->rank() == 1) gradients[2][7][3] = bad;
        const std::string pipeline = hook + "(rank=1, start=2)" + (bad == 1e6 ? " in fp16" : "");
        EXPECT_EQ(
            failure_of<RunFailed>([&] { testing::communicate(model, gradients); }),
            "step 4 of " + pipeline + " failed on rank 1: " + hook +
                " can't handle NaN or infinity, which would stay in its state for good, and the gradients "
                "contain one of them" +
                (bad == 1e6 ? " (float16 ends at 65504)" : "") +
                ": lower the learning rate, clip the gradients, or scale the loss");
      });
    }
  }
}

TEST(Failure, OfOneRanksProgramEndsTheOthersWaits) {
  run_ranks(3, [](std::shared_ptr<World> world) {
    const int rank = world->rank();
    GivenGradientsModel model(world, bare_model(), {});
    for (int step = 0; step < 2; ++step) testing::communicate(model, ones());
    if (rank == 1) return;  // destroys the model and the World, as an exception would
    EXPECT_THAT(failure_of<RunFailed>([&] { testing::communicate(model, ones()); }),
                ::testing::MatchesRegex(
                    "rank 1 left the run while rank [02] was waiting for it in step 2 without a hook"));
  });
}

TEST(Failure, EndsTheReducersOwnWaits) {
  for (const bool rebuilds : {true, false}) {
    run_ranks(2, [rebuilds](std::shared_ptr<World> world) {
      const auto comm = std::make_shared<Comm>(
          world->rank(), world->size(), [&](const std::string& name) { return world->make_group(name); });
      const auto group =
          c10::make_intrusive<WatchedGroup>(world, comm, std::make_shared<GradientSteps>(world, 3));
      if (world->rank() == 1) return;  // without the collective
      std::vector<at::Tensor> numbers{torch::ones({3}, torch::kInt)};
      const auto work = rebuilds ? group->broadcast(numbers, {}) : group->allreduce(numbers, {});
      const std::string failure =
          std::string("rank 1 left the run while rank 0 was waiting for it in ") +
          (rebuilds ? "the rebuilding of buckets" : "the exchange of used parameters");
      EXPECT_EQ(failure_of<RunFailed>([&] { work->wait(); }), failure);
      EXPECT_TRUE(work->isCompleted());
      EXPECT_FALSE(work->isSuccess());
      EXPECT_TRUE(work->exception());
    });
  }
}

TEST(Failure, AllowsANewWorldInTheSameProcess) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int generation = 0; generation < 3; ++generation) {
        auto world = std::make_shared<World>(
            c10::make_intrusive<c10d::PrefixStore>(std::to_string(generation), store), rank, 3, "127.0.0.1",
            World::kDefaultTimeout, World::kDefaultPeerTimeout, testing::placed(rank));
        GivenGradientsModel model(world, bare_model(), {});
        model.register_comm_hook(
            std::make_unique<FailingHook>(model.ddp().hook_context(), rank == generation, Place::in_run));
        for (int step = 0; step < 2; ++step) {
          EXPECT_TRUE(testing::communicate(model, ones(rank))[0].eq(1).all().item<bool>());
        }
        EXPECT_THAT(failure_of<RunFailed>([&] { testing::communicate(model, ones()); }),
                    HasSubstr("failed on rank " + std::to_string(generation) + ": on purpose"));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Failure, IsNotCausedByEndingAGroupWhileOthersConnect) {
  run_ranks(6, [](const std::shared_ptr<World>& world) {
    for (int group = 0; group < 60; ++group) world->make_gloo("a group that is ended at once");
  });
}

// Writes, as Gloo does, to a connection whose other end is gone, and returns errno.
int error_of_write_to_a_closed_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  ::close(ends[1]);
  const int error = ::write(ends[0], "x", 1) < 0 ? errno : 0;
  ::close(ends[0]);
  return error;
}

void ignore_in_a_handler(int) {}

TEST(Failure, OfAPeerDoesNotKillARankThatWritesToIt) {
  ::signal(SIGPIPE, SIG_DFL);
  run_ranks(2,
            [](const std::shared_ptr<World>&) { EXPECT_EQ(error_of_write_to_a_closed_connection(), EPIPE); });
}

TEST(Failure, OfAPeerReachesTheProgramsOwnSignalHandler) {
  ::signal(SIGPIPE, ignore_in_a_handler);
  run_ranks(2, [](const std::shared_ptr<World>&) {});
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), ignore_in_a_handler);
}

TEST(Failure, LeavesSigpipeAsItIsForASingleRank) {
  ::signal(SIGPIPE, SIG_DFL);
  run_ranks(1, [](const std::shared_ptr<World>&) {});
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_DFL);
}

TEST(Failure, OfASingleRankNamesStepAndHook) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    GivenGradientsModel model(world, bare_model(), {});
    model.register_comm_hook(std::make_unique<FailingHook>(model.ddp().hook_context(), true, Place::in_run));
    for (int step = 0; step < 2; ++step) testing::communicate(model, ones());
    EXPECT_EQ(failure_of<RunFailed>([&] { testing::communicate(model, ones()); }),
              "step 2 of failing failed on rank 0: on purpose");
  });
}

}  // namespace
}  // namespace hookline
