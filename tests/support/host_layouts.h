// Names of tests parameterized by how ranks are distributed over hosts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline::testing {

/// "hosts_0_0_1": ranks 0 and 1 on the first host, 2 on the second.
inline std::string name_of_layout(const ::testing::TestParamInfo<std::vector<int>>& layout) {
  std::string name = "hosts";
  for (const int host : layout.param) name += "_" + std::to_string(host);
  return name;
}

}  // namespace hookline::testing
