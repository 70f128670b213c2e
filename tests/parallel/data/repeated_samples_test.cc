// The warning about samples that a sum or average over ranks counts twice.
#include "parallel/data/repeated_samples.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

namespace hookline {
namespace {

TEST(RepeatedSamples, AreNamedWithTheRanksThatHoldThem) {
  EXPECT_EQ(
      repeated_samples_warning("gather", 1, 4),
      "gather: the loader repeats 1 sample in the last batches of an epoch, so that every rank has the same "
      "number, and a sum or an average over the ranks counts it twice. The last row of the last rank is a "
      "repeat: leave it out, or make the loader with drop_last = true");
  EXPECT_EQ(
      repeated_samples_warning("reduce", 3, 4),
      "reduce: the loader repeats 3 samples in the last batches of an epoch, so that every rank has the same "
      "number, and a sum or an average over the ranks counts them twice. The last row of each of the last 3 "
      "ranks is a repeat: leave them out, or make the loader with drop_last = true");
}

TEST(RepeatedSamples, SpanAtMostAllRanks) {
  const std::string warning = repeated_samples_warning("reduce", 5, 2);
  EXPECT_NE(warning.find("The last row of each of the last 2 ranks is a repeat"), std::string::npos)
      << warning;
}

TEST(RepeatedSamples, AreNotReportedWithoutALoader) {
  EXPECT_EQ(loader_that_repeats(TrainingPlace(), at::ones({3}), /*adds=*/false), nullptr);
}

}  // namespace
}  // namespace hookline
