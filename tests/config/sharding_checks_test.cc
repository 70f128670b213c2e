// Which settings work with a sharded model, and the messages for those that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/config_fixture.h"

namespace hookline {
namespace {

class ShardingChecks : public ::testing::Test {
 private:
  TempFolder folder_;
};

TEST_F(ShardingChecks, AcceptEachStrategyAndHook) {
  for (const char* strategy : {"shard_grad_op", "full_shard"}) {
    for (const char* hook : {"no", "fp16", "bf16"}) {
      const Resolution resolution = resolve_text(std::string("[fsdp]\nsharding_strategy = \"") + strategy +
                                                 "\"\ncomm_hook = \"" + hook + "\"\n");
      EXPECT_EQ(resolution.report(), "");
      EXPECT_EQ(resolution.config.fsdp.sharding_strategy, strategy);
      EXPECT_EQ(resolution.config.fsdp.comm_hook, hook);
    }
  }
}

TEST_F(ShardingChecks, RefuseWhatNeedsWholeGradients) {
  EXPECT_EQ(
      report_of("[ddp]\n"
                "comm_hook = \"power_sgd\"\n"
                "comm_wrapper = \"fp16\"\n"
                "[fsdp]\n"
                "sharding_strategy = \"full_shard\"\n"),
      "run.toml:5:21: error: [ddp] comm_hook \"power_sgd\" does not work with sharding_strategy "
      "\"full_shard\"\n"
      "  5 | sharding_strategy = \"full_shard\"\n"
      "    |                     ^~~~~~~~~~~~ it needs whole gradients, which no rank has: set comm_hook = "
      "\"fp16\" or \"bf16\" in [fsdp] instead of it, or set sharding_strategy = \"no_shard\"; ddp.comm_hook "
      "is "
      "set at "
      "run.toml:2:1, sharding_strategy at run.toml:5:1\n"
      "run.toml:5:21: error: [ddp] comm_wrapper \"fp16\" does not work with sharding_strategy "
      "\"full_shard\"\n"
      "  5 | sharding_strategy = \"full_shard\"\n"
      "    |                     ^~~~~~~~~~~~ it needs whole gradients, which no rank has: set comm_hook = "
      "\"fp16\" or \"bf16\" in [fsdp] instead of it, or set sharding_strategy = \"no_shard\"; "
      "ddp.comm_wrapper "
      "is set at "
      "run.toml:3:1, sharding_strategy at run.toml:5:1\n");
  EXPECT_THAT(report_of("[fsdp]\nsharding_strategy = \"shard_grad_op\"\n", {},
                        {{"training.record_gradients", "gradients"}}),
              AllOf(::testing::StartsWith(
                        "--set training.record_gradients: error: record_gradients does not work with "
                        "sharding_strategy \"shard_grad_op\"\n  it needs whole gradients, "),
                    ::testing::EndsWith(": leave record_gradients out, or set sharding_strategy = "
                                        "\"no_shard\"; training.record_gradients "
                                        "is set at --set training.record_gradients, sharding_strategy at "
                                        "run.toml:2:1\n")));
}

TEST_F(ShardingChecks, AcceptAShardedOptimizerWithEveryAveragingHook) {
  for (const char* hook : {"no", "allreduce", "fp16", "bf16", "power_sgd", "batched_power_sgd"}) {
    const Resolution resolution =
        resolve_text(std::string("[ddp]\nshard_optimizer = true\ncomm_hook = \"") + hook + "\"\n");
    EXPECT_EQ(resolution.report(), "");
    EXPECT_TRUE(resolution.config.ddp.shard_optimizer);
  }
}

TEST_F(ShardingChecks, RefuseAShardedOptimizerWithAShardedModelOrNoop) {
  EXPECT_EQ(report_of("[ddp]\nshard_optimizer = true\n[fsdp]\nsharding_strategy = \"full_shard\"\n"),
            "run.toml:4:21: error: [ddp] shard_optimizer does not work with sharding_strategy "
            "\"full_shard\"\n"
            "  4 | sharding_strategy = \"full_shard\"\n"
            "    |                     ^~~~~~~~~~~~ a sharded model's optimizer steps each rank's pieces "
            "anyway: leave shard_optimizer out, or set sharding_strategy = \"no_shard\"; ddp.shard_optimizer "
            "is set at "
            "run.toml:2:1, sharding_strategy at run.toml:4:1\n");
  EXPECT_EQ(report_of("[ddp]\ncomm_hook = \"noop\"\nshard_optimizer = true\n"),
            "run.toml:2:13: error: shard_optimizer does not work with comm_hook \"noop\"\n"
            "  2 | comm_hook = \"noop\"\n"
            "    |             ^~~~~~ noop does not average gradients, and each rank would step its part "
            "of the parameters by its own gradients alone: leave one of the two out; ddp.shard_optimizer is "
            "set at run.toml:3:1, ddp.comm_hook at run.toml:2:1\n");
}

TEST_F(ShardingChecks, RefuseAShardedOptimizerWhoseHookWorksBetweenHosts) {
  EXPECT_EQ(
      report_of("[ddp]\ncomm_hook = \"fp16\"\ncomm_scope = \"between_hosts\"\nshard_optimizer = true\n"),
      "run.toml:3:14: error: shard_optimizer does not work with comm_scope \"between_hosts\"\n"
      "  3 | comm_scope = \"between_hosts\"\n"
      "    |              ^~~~~~~~~~~~~~~ each rank averages its own shares of the gradients over all ranks: "
      "leave "
      "one of the two out; ddp.shard_optimizer is set at run.toml:4:1, ddp.comm_scope at run.toml:3:1\n");
}

TEST_F(ShardingChecks, WarnOfWhatHasNoEffect) {
  EXPECT_EQ(report_of("[fsdp]\ncomm_hook = \"fp16\"\n"),
            "run.toml:2:1: warning: 'comm_hook' has no effect\n"
            "  2 | comm_hook = \"fp16\"\n"
            "    | ^~~~~~~~~ the model is not sharded: set sharding_strategy, or comm_hook in [ddp]\n");
  EXPECT_EQ(
      report_of(
          "[ddp]\nbucket_cap_mb = 4\nbroadcast_buffers = true\n[fsdp]\nsharding_strategy = \"full_shard\"\n"),
      "run.toml:2:1: warning: 'bucket_cap_mb' has no effect\n"
      "  2 | bucket_cap_mb = 4\n"
      "    | ^~~~~~~~~~~~~ it is DDP's, and sharding_strategy is \"full_shard\"\n");
}

}  // namespace
}  // namespace hookline
