// Relations between the settings of a list.

#include "parallel/choice/setting_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

const std::vector<HookSetting> kHooks = {{"fp16", "fp16"}, {"bf16", "bf16"}};
const std::vector<std::int64_t> kSizes = {25 << 20, 1 << 20};

TEST(SettingList, HasEachHookInEachScopeAndEachSize) {
  const SettingList list(kHooks, /*has_scopes=*/true, kSizes);
  std::vector<std::string> names;
  for (const HookSetting& each : list) names.push_back(each.name);
  const std::vector<std::string> in_own_buckets = {"no hook", "fp16", "bf16", "fp16 between hosts",
                                                   "bf16 between hosts"};
  ASSERT_EQ(list.size(), 3 * in_own_buckets.size());
  for (std::size_t i = 0; i < list.size(); i += 3) {
    EXPECT_EQ(names[i], in_own_buckets[i / 3]);
    EXPECT_EQ(names[i + 2], in_own_buckets[i / 3] + ", 1 MiB buckets");
  }
}

TEST(SettingList, FindsTheSameHookInOtherBucketsAndBetweenHosts) {
  const SettingList list(kHooks, true, kSizes);
  EXPECT_EQ(list.hooks(), std::vector<std::size_t>({3, 6}));
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].name.starts_with(list[list.hook_of(i) * list.sizes()].name), true) << list[i].name;
    EXPECT_EQ(list.size_of(i) == 0, list[i].bucket_bytes == 0) << list[i].name;
    const auto between = list.between_hosts(i);
    EXPECT_EQ(between.has_value(), list[i].hook != "no" && !list[i].between_hosts) << list[i].name;
    if (!between) continue;
    EXPECT_TRUE(list[*between].between_hosts);
    EXPECT_EQ(list[*between].hook, list[i].hook);
    EXPECT_EQ(list[*between].bucket_bytes, list[i].bucket_bytes);
  }
}

TEST(SettingList, HasNoScopesWhereThereAreNone) {
  const SettingList list(kHooks, false, {});
  EXPECT_EQ(list.size(), 3U);
  EXPECT_FALSE(list.between_hosts(1).has_value());
  EXPECT_EQ(SettingList({}, false, {}).size(), 1U) << "no hook";
}

}  // namespace
}  // namespace hookline
