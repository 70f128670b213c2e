// Headers of safetensors files that are damaged or crafted to exhaust memory.
#include "checkpoint/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "support/failure.h"
#include "support/process.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string with_length(const std::string& json) {
  const std::uint64_t length = json.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

/// The error for a file with these bytes, without the file's name.
std::string problem(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string file = folder.write("x", bytes).string();
  const std::string message = failure_of([&] { read_tensor_header(file); });
  const std::string start = "'" + file + "' ";
  return message.starts_with(start) ? message.substr(start.size()) : message;
}

std::string unreadable(const std::string& why) {
  return "is not a safetensors file, or is damaged: its header can't be read: " + why;
}

std::int64_t peak_kb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(TensorFile, RefusesBogusHeadersInLittleMemory) {
  const std::int64_t before = peak_kb();
  EXPECT_EQ(problem(with_length(std::string(40'000'000, '['))),
            unreadable("an array stands where it has no meaning"));
  EXPECT_THAT(problem(with_length(R"({"a":{"shape":)" + std::string(40'000'000, '['))),
              HasSubstr("an array stands where"));
  EXPECT_LT(peak_kb() - before, 1'500'000)
      << "enough for the test to write both files; parsed as JSON, each header would take 3 GB";
}

TEST(TensorFile, SaysWhatIsWrongWithAHeader) {
  const auto of_tensor = [](const std::string& row) { return problem(with_length("{\"a\":{" + row + "}}")); };
  std::string dimensions = "1";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[)" + dimensions + R"(],"data_offsets":[0,4])"),
            unreadable("a tensor has more than 64 dimensions"));
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"),
            unreadable("a number is below 0"));
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"),
            unreadable("a number is not an integer"));
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"),
            unreadable("data_offsets has more than two numbers"));
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[1])"),
            unreadable("a tensor lacks its dtype, its shape or its two data_offsets"));
  const std::string not_there = "is cut short or damaged: the bytes of 'a' are not where its header says";
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), not_there);
  EXPECT_EQ(of_tensor(R"("dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0])"), not_there);
  const std::string row = R"("dtype":"U8","shape":[2],"data_offsets":)";
  EXPECT_EQ(problem(with_length("{\"a\":{" + row + "[0,2]},\"b\":{" + row + "[1,3]}}") + "123"),
            "is damaged: 'a' and 'b' have bytes in common");
  EXPECT_EQ(problem(with_length("{\"a\":{" + row + "[0,2]},\"a\":{" + row + "[2,4]}}") + "1234"),
            "is damaged: its header names 'a' twice");
}

TEST(TensorFile, SurvivesFiveThousandMutations) {
  const TemporaryFolder folder;
  const std::string whole =
      with_length(
          header_bytes({{"format", "pt"}, {"note", "{}"}},
                       {{"a", "F32", {2, 3}, 0, 24}, {"b", "I64", {}, 24, 32}, {"c", "U8", {0}, 32, 32}})
              .substr(8)) +
      std::string(32, 'x');
  std::mt19937 random(31);
  int read = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string mutated = whole;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % mutated.size();
      switch (random() % 4) {
        case 0:
          mutated.erase(at, 1 + random() % 9);
          break;
        case 1:
          mutated.insert(at, std::string(1 + random() % 3, "[]{},:\"019-"[random() % 11]));
          break;
        default:
          mutated[at] = static_cast<char>(random());
      }
      if (mutated.empty()) mutated = whole;
    }
    const auto file = folder.write("x", mutated);
    try {
      for (const TensorRow& row : read_tensor_header(file).tensors) {
        std::uint64_t bytes = dtype_bytes(row.dtype);
        for (const std::uint64_t size : row.shape) bytes *= size;
        ASSERT_EQ(row.end - row.begin, bytes) << i;
      }
      ++read;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("'" + file.string() + "' ")) << i;
    }
  }
  EXPECT_GT(read, 50) << "a file with a changed name or a changed byte of a tensor is still valid";
}

}  // namespace
}  // namespace hookline
