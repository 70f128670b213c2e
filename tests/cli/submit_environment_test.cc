// `hookline submit`: what is asked for where something is not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "submit.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;

TEST_F(Submit, SaysHowManyGpusItAsksForWithoutKnowing) {
  const std::string said =
      "hookline: processes_per_node is \"auto\", and this host has no GPUs to count, so the job asks for one "
      "GPU on each node; for more: --set launch.processes_per_node=N\n";
  const std::vector<std::string> slurm = {"--scheduler", "slurm", "--print"},
                                 kubernetes = {"--scheduler", "kubernetes", "--print", "--image", "i"};
  const auto err_of = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back("./train");
    return run(arguments).err;
  };
  for (const auto& arguments : {slurm, kubernetes}) {
    EXPECT_THAT(err_of(arguments, {"--set", "launch.device=cuda"}), HasSubstr(said));
    EXPECT_THAT(err_of(arguments, {"--set", "launch.backend=nccl"}), HasSubstr(said));
    EXPECT_THAT(err_of(arguments, {"--set", "launch.device=cuda", "--set", "launch.processes_per_node=1"}),
                ::testing::Not(HasSubstr(said)));
  }
  EXPECT_THAT(err_of(slurm, {"--set", "launch.device=cuda", "--scheduler-arg=--gpus-per-node=4"}),
              ::testing::Not(HasSubstr(said)));
}

}  // namespace
}  // namespace hookline
