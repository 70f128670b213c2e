#include "parallel/tensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <string>

#include "support/process.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string with_header(const std::string& header, const std::string& data = "") {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i)
    file[static_cast<std::size_t>(i)] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return file + header + data;
}

TEST(Safetensors, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    tensors[std::string("layer.") + c10::toString(dtype)] = torch::randn({3, 5}).to(dtype);
  }
  tensors["scalar"] = torch::tensor(2.5f);
  tensors["empty"] = torch::zeros({0, 4});
  tensors["strided"] = torch::randn({4, 6}).t();
  write_safetensors(folder.path() / "a.safetensors", tensors);
  const NamedTensors read = read_safetensors(folder.path() / "a.safetensors");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(torch::equal(read.at(name), tensor)) << name;
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.safetensors.part"));
}

TEST(Safetensors, SaysWhichFileIsWrongAndHow) {
  const TemporaryFolder folder;
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto error_of = [&](const std::string& bytes) {
    const std::string file = folder.write("x.safetensors", bytes).string();
    const std::string message = failure_of([&] { read_safetensors(file); });
    const std::string start = "'" + file + "' ";
    return message.starts_with(start) ? message.substr(start.size()) : message;
  };
  const std::string no_length =
      "is not a safetensors file, or is cut short: its first 8 bytes give no header's length";
  EXPECT_EQ(error_of(""), no_length);
  EXPECT_EQ(error_of("abc"), no_length);
  EXPECT_EQ(error_of(std::string(8, '\xFF')), no_length);
  EXPECT_EQ(error_of(with_header(f32).substr(0, 30)), no_length);
  const auto not_there = HasSubstr("the bytes of 'a' are not where");
  EXPECT_THAT(error_of(with_header(f32, "1234567")), not_there);
  EXPECT_THAT(error_of(with_header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678")),
              not_there);
  EXPECT_THAT(
      error_of(with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")),
      not_there);
  EXPECT_EQ(error_of(with_header(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", "12345678")),
            "holds 'a' as C64, a dtype that hookline does not read");
  EXPECT_THAT(error_of(with_header("{nonsense")), HasSubstr("its header can't be read: "));
  EXPECT_THAT(error_of(with_header(R"({"a":{"dtype":"F32"}})")), HasSubstr("its header can't be read: "));
  EXPECT_EQ(failure_of([&] { read_safetensors("no/such/file"); }),
            "'no/such/file' can't be read: No such file or directory");
  EXPECT_EQ(failure_of([&] {
              write_safetensors("no/such/folder/x", {{"a", torch::ones({1})}});
            }),
            "'no/such/folder/x.part' can't be written: No such file or directory");
}

}  // namespace
}  // namespace hookline
