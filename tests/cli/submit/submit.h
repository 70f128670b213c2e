// Fixture: runs `hookline submit` in a folder with a program and a config.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/run_hookline.h"

namespace hookline {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Submit : ::testing::Test {
  Submit() {
    sandbox.script("train", "exit 0\n");
    sandbox.folder.write("run.toml", "[launch]\nnnodes = 3\n[training]\ncheckpoint_every_steps = 100\n");
  }
  testing::ProcessResult run(std::vector<std::string> arguments, const Variables& variables = {}) const {
    arguments.insert(arguments.begin(), "submit");
    testing::ProcessOptions options = sandbox.options(std::move(arguments));
    for (const auto& [name, value] : variables) options.environment[name] = value;
    return testing::run_process(HOOKLINE_BINARY, options);
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& why) const {
    const testing::ProcessResult result = run(arguments);
    EXPECT_EQ(result.err, "hookline: error: " + why + "\n  see: hookline submit --help\n");
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, 2);
  }
  testing::Sandbox sandbox;
};

}  // namespace hookline
