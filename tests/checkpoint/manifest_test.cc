#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/failure.h"
#include "support/process.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Manifest sample() {
  return {300,
          4,
          "power_sgd(rank=2, start=10)",
          "2026-01-31T12:00:00Z",
          "0.1.0",
          {{"model.safetensors", 1234, "0123456789abcdef"}}};
}

TEST(Manifest, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  folder.write("manifest.json", manifest_text(sample()));
  const Manifest read = read_manifest(folder.path());
  EXPECT_EQ(read.step, 300);
  EXPECT_EQ(read.world_size, 4);
  EXPECT_EQ(read.hook, "power_sgd(rank=2, start=10)");
  EXPECT_EQ(read.saved_at, "2026-01-31T12:00:00Z");
  EXPECT_EQ(read.version, "0.1.0");
  ASSERT_EQ(read.files.size(), 1U);
  EXPECT_EQ(read.files[0].name, "model.safetensors");
  EXPECT_EQ(read.files[0].bytes, 1234U);
  EXPECT_EQ(read.files[0].checksum, "0123456789abcdef");
}

TEST(Manifest, SaysWhatIsWrongWithIt) {
  const TemporaryFolder folder;
  const std::string file = "'" + (folder.path() / "manifest.json").string() + "' ";
  const auto failure = [&] { return failure_of([&] { read_manifest(folder.path()); }); };
  EXPECT_EQ(failure(), file + "can't be read: '" + folder.path().string() + "' is not a checkpoint");
  std::string text = manifest_text(sample());
  folder.write("manifest.json", text.substr(0, text.size() / 2));
  EXPECT_THAT(failure(), HasSubstr(file + "is damaged: "));
  text.replace(text.find("300"), 3, "301");
  folder.write("manifest.json", text);
  EXPECT_EQ(failure(), file + "has been altered: its checksum is not that of what it holds");
  folder.write("manifest.json", R"({"format": 2})");
  EXPECT_EQ(failure(),
            file +
                "is of format 2, and this hookline reads format 1: use the version that saved it, or a "
                "later one");
  folder.write("manifest.json", R"({"format": 1})");
  EXPECT_THAT(failure(), HasSubstr(file + "is damaged: "));
}

TEST(Manifest, IsLimitedInDepthAndValues) {
  const TemporaryFolder folder;
  const std::string file = "'" + (folder.path() / "manifest.json").string() + "' ";
  const auto failure = [&] { return failure_of([&] { read_manifest(folder.path()); }); };
  // The rest of the manifest is valid: it is copied and serialized to compute its checksum.
  constexpr std::size_t kDepth = 10'000'000;
  std::string text = manifest_text(sample());
  text.insert(text.find('{') + 1, "\"more\":" + std::string(kDepth, '[') + std::string(kDepth, ']') + ",");
  folder.write("manifest.json", text);
  EXPECT_EQ(failure(), file + "is damaged: it nests more than 16 deep");
  folder.write("manifest.json", std::string(60'000'000, '['));
  EXPECT_EQ(failure(), file + "is damaged: it nests more than 16 deep");
  std::string many = "{\"files\":[";
  for (int i = 0; i < 9'000'000; ++i) many += "[],";
  folder.write("manifest.json", many + "[]]}");
  EXPECT_EQ(failure(), file + "is damaged: it holds more than 8000000 values");
}

}  // namespace
}  // namespace hookline
