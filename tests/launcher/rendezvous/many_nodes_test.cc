// Many launchers on one machine form one run.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/free_port.h"
#include "support/process.h"
#include "support/sanitized.h"

namespace hookline {
namespace {

using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

TEST(ManyNodes, FormARunOnOneMachine) {
  constexpr int kNodes = testing::kSanitized ? 20 : 150;
  const TemporaryFolder folder;
  ProcessOptions options;
  options.folder = folder.path();
  options.environment = {{"HOOKLINE_TOKEN", "0123456789abcdef0123456789abcdef"}, {"OMP_NUM_THREADS", "1"}};
  options.arguments = {"launch",
                       "--processes-per-node",
                       "1",
                       "--set",
                       "launch.nnodes=" + std::to_string(kNodes),
                       "--set",
                       "rendezvous.main_address=127.0.0.1",
                       "--set",
                       "rendezvous.main_port=" + std::to_string(testing::free_port()),
                       "/bin/sh",
                       "-c",
                       "echo >here$RANK"};
  std::vector<std::unique_ptr<Process>> nodes;
  for (int node = 0; node < kNodes; ++node)
    nodes.push_back(std::make_unique<Process>(HOOKLINE_BINARY, options));
  for (const auto& node : nodes) {
    const ProcessResult result = node->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  for (int rank = 0; rank < kNodes; ++rank)
    EXPECT_TRUE(std::filesystem::exists(folder.path() / ("here" + std::to_string(rank)))) << rank;
}

}  // namespace
}  // namespace hookline
