#include "digits_dataset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace digits {
namespace {

const char* const kRule =
    "; a line holds 64 pixels from 0 to 16 and a digit from 0 to 9, separated by commas";

std::string good_line(int pixel, int digit) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(digit);
}

class DigitsDatasetFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "digitsXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    file_ = folder_ / "some.csv";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) { std::ofstream(file_, std::ios::binary) << text; }

  /// The error of loading the file, without the file's name.
  std::string problem() {
    try {
      DigitsDataset(file_, Split::train);
    } catch (const DataError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.rfind(file_.string(), 0), 0U) << message;
      return message.substr(file_.string().size());
    }
    return "nothing was thrown";
  }

  std::filesystem::path folder_;
  std::filesystem::path file_;
};

TEST(DigitsDataset, HoldsTheWholeDataSetInTwoFixedParts) {
  DigitsDataset train(HOOKLINE_DIGITS_DATA, Split::train);
  DigitsDataset test(HOOKLINE_DIGITS_DATA, Split::test);
  EXPECT_EQ(train.size(), 1437U);
  EXPECT_EQ(test.size(), 360U);
  EXPECT_EQ(train.images().sizes(), (std::vector<std::int64_t>{1437, 1, 8, 8}));
  EXPECT_EQ(train.images().max().item<float>(), 1.0F);
  EXPECT_EQ(train.images().min().item<float>(), 0.0F);
  EXPECT_EQ(at::bincount(test.labels(), {}, 10).sum().item<std::int64_t>(), 360);
  EXPECT_GE(at::bincount(test.labels(), {}, 10).min().item<std::int64_t>(), 25) << "every digit is tested";
}

TEST(DigitsDataset, TheFirstTestImageIsAZero) {
  DigitsDataset test(HOOKLINE_DIGITS_DATA, Split::test);
  const auto first = test.get(0);
  EXPECT_EQ(first.target.item<std::int64_t>(), 0);
  EXPECT_TRUE(at::equal(first.data[0][0], at::tensor({0.F, 0.F, 5.F, 13.F, 9.F, 1.F, 0.F, 0.F}) / 16));
}

TEST_F(DigitsDatasetFile, TakesWindowsLineEndsAndALastLineWithoutOne) {
  write(good_line(16, 9) + "\r\n" + good_line(8, 3));
  DigitsDataset train(file_, Split::train);
  ASSERT_EQ(train.size(), 1U);
  EXPECT_EQ(train.labels()[0].item<std::int64_t>(), 3);
  EXPECT_TRUE(at::equal(train.images(), at::full({1, 1, 8, 8}, 0.5F)));
}

TEST_F(DigitsDatasetFile, NamesTheLineAndFieldOfAProblem) {
  const std::string good = good_line(0, 1) + "\n";
  write(good + "1,2,3\n");
  EXPECT_EQ(problem(), std::string(":2: the line ends after field 3 of 65") + kRule);
  write(good_line(17, 1));
  EXPECT_EQ(problem(), std::string(":1: field 1 is 17, not a number from 0 to 16") + kRule);
  write(good + good + good_line(0, 10));
  EXPECT_EQ(problem(), std::string(":3: field 65 is 10, not a number from 0 to 9") + kRule);
  write(good_line(-1, 0));
  EXPECT_EQ(problem(), std::string(":1: field 1 is -1, not a number from 0 to 16") + kRule);
  write(good + "pixel0," + good_line(0, 0));
  EXPECT_EQ(problem(), std::string(":2: field 1 is not a number") + kRule);
  write("99999999999999999999," + good_line(0, 0));
  EXPECT_EQ(problem(), std::string(":1: field 1 is not a number") + kRule);
  write("1;2;3\n");
  EXPECT_EQ(problem(), std::string(":1: there is no comma before field 2") + kRule);
  write(good_line(0, 1) + ",5\n");
  EXPECT_EQ(problem(), std::string(":1: the line goes on after field 65") + kRule);
  write(good + "\n" + good);
  EXPECT_EQ(problem(), std::string(":2: field 1 is not a number") + kRule);
}

TEST_F(DigitsDatasetFile, RefusesAFileThatIsMissingEmptyOrAFolder) {
  const std::string no_file = ": not a file that can be read; name one with --data";
  EXPECT_EQ(problem(), no_file);
  write("");
  EXPECT_EQ(problem(), ": holds 0 images; training and testing need one each at least");
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_EQ(problem(), no_file);
}

}  // namespace
}  // namespace digits
