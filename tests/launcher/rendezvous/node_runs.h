// Runs of several nodes, on hosts that are network namespaces with one file system.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/hosts.h"
#include "support/process.h"

namespace hookline {

using testing::eventually;
using testing::Hosts;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

/// Three hosts; their launchers all run in one folder.
class Nodes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.ok()) GTEST_SKIP() << "network namespaces can't be made here (run as root)";
    // Ranks without torch: each prints its identity, then waits for a file "exit", or "exitRANK-RESTART" of
    // its attempt, with its exit code.
    folder_.write("train",
                  "#!/bin/sh\n"
                  "echo rank $RANK of $WORLD_SIZE, restart $TORCHELASTIC_RESTART_COUNT, at $MASTER_ADDR\n"
                  "echo >here$RANK-of-$WORLD_SIZE-restart$TORCHELASTIC_RESTART_COUNT\n"
                  "while :; do\n"
                  "  [ -e exit ] && exit $(cat exit)\n"
                  "  [ -e exit$RANK-$TORCHELASTIC_RESTART_COUNT ] && exit $(cat "
                  "exit$RANK-$TORCHELASTIC_RESTART_COUNT)\n"
                  "  sleep 0.02\ndone\n",
                  true);
  }

  std::unique_ptr<Process> launch(int host, const std::vector<std::string>& sets,
                                  const std::vector<std::string>& program = {"./train"},
                                  std::map<std::string, std::optional<std::string>> variables = {}) {
    ProcessOptions options;
    options.folder = folder_.path();
    options.environment = std::move(variables);
    options.environment.insert({{"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}});
    options.arguments = {"launch",
                         "--set",
                         "rendezvous.main_address=" + Hosts::address(0),
                         "--set",
                         "rendezvous.node_timeout_seconds=3",
                         "--set",
                         "rendezvous.last_call_seconds=1",
                         "--set",
                         "launch.restart_delay_seconds=0.1",
                         "--set",
                         "logging.dir=runs" + std::to_string(host)};
    for (const std::string& set : sets) {
      const std::string key = set.substr(0, set.find('=') + 1);
      const auto same = std::find_if(options.arguments.begin(), options.arguments.end(),
                                     [&](const std::string& given) { return given.starts_with(key); });
      if (same != options.arguments.end())
        *same = set;
      else
        options.arguments.insert(options.arguments.end(), {"--set", set});
    }
    options.arguments.insert(options.arguments.end(), program.begin(), program.end());
    return hosts_.start(host, HOOKLINE_BINARY, options);
  }

  static std::string rank(int node) { return "launch.node_rank=" + std::to_string(node); }

  bool there(const std::string& name) {
    return eventually([&] { return std::filesystem::exists(folder_.path() / name); });
  }
  void let_all_exit(int code) { folder_.write("exit", std::to_string(code)); }

  Hosts hosts_{3};
  TemporaryFolder folder_;
};

inline pid_t relay_of(const Process& launcher) {
  for (const pid_t child : testing::children_of(launcher.pid()))
    if (testing::of_process(child, "comm") == "node_relay\n") return child;
  return 0;
}

}  // namespace hookline
