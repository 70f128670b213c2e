// Choosing a hook during training. Ranks are threads; the hooks' durations differ by far more than noise.

#include "parallel/choice/hook_chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/parallel/choice/choosing_trainer.h"

namespace hookline {
namespace {

using testing::fickle_takes;
using ::testing::HasSubstr;
using testing::kMeasured;
using testing::kProved;
using testing::kWindow;
using testing::run_ranks_over_gloo;
using testing::Trainer;

TEST(HookChooser, ChoosesTheFasterHookAfterMeasuring) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"free", "slow"});
    trainer.train(kMeasured);
    EXPECT_EQ(trainer.chosen(), "measuring");
    trainer.train(1);
    EXPECT_EQ(trainer.chosen(), "free");
    EXPECT_EQ(trainer.hook(), "free");
    trainer.train(kProved + 4 * kWindow);
    EXPECT_EQ(trainer.chosen(), "free");
    EXPECT_EQ(trainer.chooser->exchanges(), 1);
  });
}

TEST(HookChooser, StaysWithoutAHookIfEveryHookIsSlower) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"slow"});
    trainer.train(kMeasured + kProved + 3 * kWindow);
    EXPECT_EQ(trainer.chosen(), "no hook");
    EXPECT_EQ(trainer.hook(), "none");
    EXPECT_EQ(trainer.chooser->exchanges(), 0);
  });
}

TEST(HookChooser, GivesUpAHookWhoseStepsAreSlowerThanPredicted) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"deceptive"});
    trainer.train(kMeasured + 1);
    EXPECT_EQ(trainer.chosen(), "deceptive");
    trainer.train(kProved);
    EXPECT_EQ(trainer.chosen(), "no hook");
    EXPECT_EQ(trainer.hook(), "none");
    trainer.train(kProved + 3 * kWindow);
    EXPECT_EQ(trainer.chosen(), "no hook") << "once is enough";
    EXPECT_EQ(trainer.chooser->exchanges(), 2);
  });
}

TEST(HookChooser, StopsMeasuringAFarSlowerHookEarly) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"deceptive"}, {}, /*first_window=*/20);
    trainer.train(kMeasured + 1 + 2 + 7);
    EXPECT_EQ(trainer.hook(), "free") << "the deceptive one";
    trainer.train(1);
    EXPECT_EQ(trainer.hook(), "none") << "after 8 of 20 steps";
  });
}

TEST(HookChooser, TriesTheNextHookWhenOneIsGivenUp) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"deceptive", "free"});
    trainer.train(kMeasured + 1 + 2 * kProved + kWindow);
    EXPECT_EQ(trainer.chosen(), "free");
  });
}

TEST(HookChooser, IgnoresEvaluations) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"free"});
    for (int step = 0; step < kMeasured + 1; ++step) {
      trainer.train(1);
      const c10::InferenceMode evaluation;
      trainer.model.forward(torch::ones({2000}));
    }
    EXPECT_EQ(trainer.chosen(), "free");
    trainer.train(kProved);
    EXPECT_EQ(trainer.hook(), "free");
  });
}

TEST(HookChooser, ChoosesAgainOnceWhenTheRunChanges) {
  fickle_takes = 0;
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"fickle"});
    trainer.train(kMeasured + 1 + kProved + kWindow);
    EXPECT_EQ(trainer.chosen(), "fickle");
    world->barrier("the change");
    fickle_takes = 400;
    trainer.train(3 * kWindow + kMeasured + kProved);
    EXPECT_EQ(trainer.chosen(), "no hook");
    EXPECT_EQ(trainer.chooser->exchanges(), 2);
    world->barrier("the end");
  });
}

TEST(HookChooser, IsNotMovedByNoise) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"free"});
    trainer.train(kMeasured + 1 + kProved + 8 * kWindow, [&] {
      if (trainer.step % 7 == 3 * world->rank()) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    });
    EXPECT_EQ(trainer.chosen(), "free");
    EXPECT_EQ(trainer.chooser->exchanges(), 1);
  });
}

ChoiceOptions in_sizes() {
  ChoiceOptions options;
  options.bucket_bytes = {64 << 20, 1 << 20};
  options.predict_all = true;  // a busy machine might leave no time to measure each size
  return options;
}

// The hook takes longer with more buckets: one bucket beats the config's two, and 16.
TEST(HookChooser, ChoosesTheSizeOfBuckets) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    testing::TrainerOf<testing::ManyImpl> trainer(world, {"toll"}, in_sizes());
    trainer.train(kMeasured - 1);
    EXPECT_EQ(trainer.model.ddp().buckets().size(), 16U) << "that is how steps are measured";
    trainer.train(2);
    EXPECT_EQ(trainer.chosen(), "toll, 64 MiB buckets");
    EXPECT_EQ(trainer.model.ddp().buckets().size(), 1U);
    const ChoiceReport report = trainer.chooser->report();
    ASSERT_EQ(report.settings.size(), 6U);
    EXPECT_EQ(report.settings[1].name, "no hook, 64 MiB buckets");
    EXPECT_GT(report.settings[1].predicted, 0);
    EXPECT_GT(report.settings[5].predicted, report.settings[3].predicted) << "15 tolls instead of one";
  });
}

TEST(HookChooser, ResumesInTheBucketsThatItChose) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    testing::TrainerOf<testing::ManyImpl> before(world, {"toll"}, in_sizes());
    before.train(kMeasured + 1);
    const nlohmann::json saved = nlohmann::json::parse(before.chooser->save().dump());
    EXPECT_EQ(saved.at("chosen"), "toll, 64 MiB buckets");
    testing::TrainerOf<testing::ManyImpl> after(world, {"toll"}, in_sizes());
    EXPECT_TRUE(after.model.ddp().load_state(before.model.ddp().save_state()));
    EXPECT_EQ(after.chooser->resume(saved), "");
    EXPECT_EQ(after.hook(), "toll");
    EXPECT_EQ(after.model.ddp().buckets().size(), 1U);
    after.train(2);
    EXPECT_EQ(after.model.ddp().buckets().size(), 1U);
    testing::TrainerOf<testing::ManyImpl> other(world, {"toll"}, in_sizes());
    nlohmann::json of_other_buckets = saved;
    of_other_buckets["chosen"] = "toll, 1 MiB buckets";
    EXPECT_EQ(other.chooser->resume(of_other_buckets), "its buckets can't be restored");
    EXPECT_EQ(other.hook(), "none");
  });
}

TEST(HookChooser, ChoosesOnlyTheBucketSizeIfNoHookIsPermitted) {
  run_ranks_over_gloo(4, [](const std::shared_ptr<World>& world) {
    testing::TrainerOf<testing::ManyImpl> trainer(world, {}, in_sizes());
    trainer.train(kMeasured + 1);
    EXPECT_THAT(trainer.chosen(), HasSubstr("no hook"));
    EXPECT_EQ(trainer.hook(), "none");
    EXPECT_EQ(trainer.chooser->report().settings.size(), 3U);
  });
}

// The hook sends nothing, but with scope between_hosts 24 MB are still summed inside each host.
TEST(HookChooser, PredictsWhatAHookTakesBetweenHosts) {
  testing::run_ranks_on_hosts({0, 0, 1, 1}, [](const std::shared_ptr<World>& world) {
    Trainer trainer(world, {"free"});
    trainer.train(kMeasured + 1);
    EXPECT_EQ(trainer.chosen(), "free");
    trainer.train(kProved + kWindow);
    EXPECT_EQ(trainer.hook(), "free");
    EXPECT_EQ(trainer.chooser->exchanges(), 1);
    const ChoiceReport report = trainer.chooser->report();
    ASSERT_EQ(report.settings.size(), 3U);
    EXPECT_EQ(report.settings[2].name, "free between hosts");
    // What the report has is corrected by measurements of free; these are the predictions before that.
    ASSERT_TRUE(report.measured);
    ASSERT_EQ(report.measured->settings.at(0).name, "free between hosts");
    const std::vector<double> predicted = predicted_seconds(*report.measured);
    EXPECT_GT(predicted.at(0), predicted.at(1));
  });
}

TEST(HookChooser, HasNothingToTryBetweenHostsWhereItResumesWithoutAHook) {
  testing::run_ranks_on_hosts({0, 0, 1, 1}, [](const std::shared_ptr<World>& world) {
    Trainer before(world, {"slow"});
    before.train(kMeasured + 1 + kProved);
    const nlohmann::json saved = before.chooser->save();
    EXPECT_EQ(saved.at("chosen"), "no hook");
    Trainer after(world, {"slow"});
    EXPECT_EQ(after.chooser->resume(saved), "");
    after.train(kProved + kWindow);
    EXPECT_EQ(after.chosen(), "no hook");
    EXPECT_EQ(after.chooser->exchanges(), 0);
  });
}

}  // namespace
}  // namespace hookline
