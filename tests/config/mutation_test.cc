// Damaged configs: any input yields a Resolution, and accepted configs survive a round trip.
#include <gtest/gtest.h>

#include <random>

#include "config/print.h"
#include "tests/config/config_fixture.h"
#include "tests/support/sanitized.h"

namespace hookline {
namespace {

constexpr const char* kValid = R"(schema_version = 2
include = []
[launch]
processes_per_node = 2
grace_period_seconds = 2.5

[ddp]
comm_hook = "power_sgd"  # the hook
comm_wrapper = 'fp16'
bucket_cap_mb = 25
static_graph = false
comm_state_option = { matrix_approximation_rank = 2, start_powerSGD_iter = 10 }

[training]
max_steps = 1_000
seed = 0x10

[logging]
level = """info"""
dir = "runs/größe"

[profile.quick.training]
max_steps = 3
)";

std::string mutate(std::string text, std::mt19937& random) {
  static const std::vector<std::string> pieces = {
      "[",    "]",  "{",          "}", "\"",    "'",       "\"\"\"",  "'''",  "=",
      ".",    "\n", "\\u",        "#", ",",     "[[",      "]]",      "\r",   "\x01",
      "\xff", "é",  "1",          "-", "1e999", "nan",     "0x",      "true", "[ddp]",
      "a.b.", " ",  "1979-01-01", "_", "{a=",   "[a.b]\n", "x = 1\n", "seed", "comm_hook = \"fp16\"\n"};
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    switch (random() % 5) {
      case 0:
        text.erase(at, 1 + random() % 20);
        break;
      case 1:
        text.insert(at, pieces[random() % pieces.size()]);
        break;
      case 2:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 60));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

/// Split into shards that can run in parallel.
class Mutation : public ::testing::TestWithParam<unsigned> {};

TEST_P(Mutation, OfAConfigNeverCrashes) {
  const TempFolder folder;
  const Catalog catalog = Catalog::built_in();
  ASSERT_EQ(report_of(kValid), "");
  std::mt19937 random(20260101 + GetParam());
  int accepted = 0;
  constexpr int kMutations = testing::kSanitized ? 500 : 2000;
  for (int round = 0; round < kMutations; ++round) {
    const std::string text = mutate(kValid, random);
    const Resolution resolution = resolve_text(text);
    for (const Diagnostic& each : resolution.diagnostics) {
      ASSERT_FALSE(each.message.empty()) << text;
      ASSERT_EQ(each.source, "run.toml") << text;
    }
    if (!resolution.ok()) continue;
    ++accepted;
    TempFolder::write("resolved.json", to_json(resolution.config));
    const RunConfig copy = read_resolved("resolved.json", catalog);
    ASSERT_EQ(to_toml(copy), to_toml(resolution.config)) << text;
    ASSERT_TRUE(resolve_text(to_toml(copy)).ok()) << text;
  }
  EXPECT_GT(accepted, kMutations / 66);
  EXPECT_LT(accepted, kMutations * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(Shares, Mutation, ::testing::Range(0U, testing::kSanitized ? 2U : 5U));

}  // namespace
}  // namespace hookline
