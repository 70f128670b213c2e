// Choosing a hook during training: ranks agree and fail together, whatever the times they measure.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "hooks/registry/registry.h"
#include "parallel/choice/hook_chooser.h"
#include "parallel/distributed_module.h"
#include "tests/parallel/choice/choosing_trainer.h"
#include "tests/support/failure.h"
#include "tests/support/random_rows.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::kMeasured;
using testing::kProved;
using testing::kWindow;
using testing::LargeImpl;
using testing::random_rows;
using testing::run_ranks_over_gloo;
using testing::Trainer;

class HookChooserRanksOf : public ::testing::TestWithParam<int> {};

// Each rank measures different times. If one decided alone, the others would wait for it in another
// collective.
TEST_P(HookChooserRanksOf, RanksAgreeDespiteRandomDelays) {
  run_ranks_over_gloo(GetParam(), [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"fp16", "deceptive", "free", "slow"});
    for (int steps = 0; steps < kMeasured + 3 * kProved + 2 * kWindow; ++steps) {
      trainer.train(1, [&] {
        const double late = random_rows(1, 1, 1000 * trainer.step + world->rank()).abs().item<double>();
        std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(2000 * late)));
      });
      const at::Tensor exchanges = torch::full({1}, trainer.chooser->exchanges(), at::kLong);
      for (const at::Tensor& each : world->all_gather(exchanges)) EXPECT_TRUE(each.equal(exchanges));
    }
    EXPECT_NE(trainer.chosen(), "measuring");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, HookChooserRanksOf, ::testing::Values(2, 3));

TEST(HookChooserRanks, FailsOnEveryRankWhenOneLeavesWhileItMeasures) {
  for (const int steps : {5, kMeasured - 2, kMeasured}) {
    run_ranks_over_gloo(3, [&](const std::shared_ptr<World>& world) {
      Trainer trainer(world, {"slow"});
      trainer.train(steps);
      if (world->rank() == 1) return;
      EXPECT_THAT(failure_of<RunFailed>([&] { trainer.train(2); }), HasSubstr("rank 1 left the run"))
          << steps;
    });
  }
}

TEST(HookChooserRanks, DoesNothingForASingleRank) {
  run_ranks_over_gloo(1, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"free"});
    trainer.train(kMeasured + kProved);
    EXPECT_EQ(trainer.hook(), "none");
  });
}

TEST(HookChooserRanks, RefusesAModelThatHasAHook) {
  run_ranks_over_gloo(2, [](const std::shared_ptr<World>& world) {
    DistributedModule<LargeImpl> model(world, std::make_shared<LargeImpl>(), DdpOptions());
    model.register_comm_hook(Registry::instance().build("fp16", "no", {}, model.ddp().hook_context()));
    EXPECT_EQ(failure_of<Error>([&] { HookChooser(world, model.ddp(), {}); }),
              "[ddp] comm_hook = \"auto\": the model has the hook 'fp16' already; register none by hand");
  });
}

}  // namespace
}  // namespace hookline
