// The options of DDP and FSDP that follow from a run's config.
#include "parallel/model_options.h"

#include <gtest/gtest.h>

#include <string>

namespace hookline {
namespace {

TEST(ModelOptions, OfDdpComeFromTheConfig) {
  RunConfig config;
  config.ddp.broadcast_buffers = false;
  config.ddp.find_unused_parameters = true;
  config.ddp.gradient_as_bucket_view = true;
  config.ddp.static_graph = true;
  const DdpOptions options = ddp_options_of(config, 0);
  EXPECT_FALSE(options.broadcast_buffers);
  EXPECT_TRUE(options.find_unused_parameters);
  EXPECT_TRUE(options.gradient_as_bucket_view);
  EXPECT_TRUE(options.static_graph);
  EXPECT_FALSE(options.hook_between_hosts);
  config.ddp.comm_scope = "between_hosts";
  EXPECT_TRUE(ddp_options_of(config, 0).hook_between_hosts);
}

TEST(ModelOptions, RecordGradientsOfFurtherModelsInFoldersOfTheirOwn) {
  RunConfig config;
  EXPECT_EQ(ddp_options_of(config, 1).record_gradients.string(), "") << "none are recorded";
  config.training.record_gradients = "recorded";
  config.training.record_gradients_steps = 4;
  EXPECT_EQ(ddp_options_of(config, 0).record_gradients.string(), "recorded");
  EXPECT_EQ(ddp_options_of(config, 1).record_gradients.string(), "recorded/model1");
  EXPECT_EQ(ddp_options_of(config, 1).record_gradients_steps, 4);
}

TEST(ModelOptions, OfAShardedModelFollowStrategyAndHook) {
  FsdpConfig config;
  config.sharding_strategy = "full_shard";
  EXPECT_TRUE(fsdp_options_of(config).reshard_after_forward);
  EXPECT_FALSE(fsdp_options_of(config).wire);
  config.sharding_strategy = "shard_grad_op";
  EXPECT_FALSE(fsdp_options_of(config).reshard_after_forward);
  config.comm_hook = "fp16";
  EXPECT_EQ(fsdp_options_of(config).wire, at::kHalf);
  config.comm_hook = "bf16";
  EXPECT_EQ(fsdp_options_of(config).wire, at::kBFloat16);
}

}  // namespace
}  // namespace hookline
