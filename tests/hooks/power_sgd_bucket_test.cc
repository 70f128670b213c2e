// What PowerSGD packs and unpacks; the test itself computes the sums over ranks.
#include "hooks/ddp/power_sgd_bucket.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hooks/ddp/power_sgd.h"

namespace hookline {
namespace {

constexpr int kWorld = 2;
constexpr std::int64_t kN = 8, kM = 6, kPlain = 5;  // a matrix, and a vector that is not compressed

PowerSgdOptions options_of(std::int64_t rank) {
  PowerSgdOptions options;
  options.matrix_approximation_rank = rank;
  options.min_compression_rate = 1;
  return options;
}

at::Tensor draw(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble);
}

/// The buckets of all ranks, starting with the same Q.
struct Buckets {
  Buckets(std::int64_t rank, bool use_error_feedback, LayoutFunction layout = per_gradient_layout) {
    for (std::size_t i = 0; i < kWorld; ++i)
      each.emplace_back(layout({{kN, kM}, {kPlain}}, options_of(rank)), at::TensorOptions(at::kDouble),
                        use_error_feedback);
    const at::Tensor q = draw({each[0].q.numel()}, 3);
    for (PowerSgdBucket& bucket : each) bucket.q.copy_(q);
  }

  /// Replaces each rank's `gradients` by the averages.
  void step(const std::vector<at::Tensor>& gradients) {
    std::vector<at::Tensor> work;
    for (std::size_t i = 0; i < kWorld; ++i) {
      each[i].put_factors_aside();
      orthogonalize_start(each[i].q, each[i].q_factors, 0, each[i].redraw_seeds);
      work.push_back(each[i].pack(gradients[i]));
    }
    add_up(&PowerSgdBucket::p);
    for (std::size_t i = 0; i < kWorld; ++i) each[i].multiply_transposed(work[i], 0);
    add_up(&PowerSgdBucket::q);
    for (std::size_t i = 0; i < kWorld; ++i) each[i].unpack(gradients[i], kWorld);
  }

  void add_up(at::Tensor PowerSgdBucket::*part) {
    const at::Tensor sum = (each[0].*part + each[1].*part).clone();
    for (PowerSgdBucket& bucket : each) (bucket.*part).copy_(sum);
  }

  std::vector<PowerSgdBucket> each;
};

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

/// Each rank's gradients of one bucket; the matrices have rank 1.
std::vector<at::Tensor> gradients_of_rank_one() {
  std::vector<at::Tensor> gradients;
  for (std::uint64_t i = 0; i < kWorld; ++i)
    gradients.push_back(
        at::cat({draw({kN, 1}, 10 + i).mm(draw({1, kM}, 20 + i)).flatten(), draw({kPlain}, 30 + i)}));
  return gradients;
}

std::vector<at::Tensor> full_gradients() {
  return {draw({kN * kM + kPlain}, 40), draw({kN * kM + kPlain}, 41)};
}

TEST(PowerSgdBucket, AveragesExactlyWhatItsFactorsCanHold) {
  for (const bool use_error_feedback : {false, true}) {
    Buckets buckets(kWorld, use_error_feedback);
    std::vector<at::Tensor> gradients = gradients_of_rank_one();
    const at::Tensor mean = (gradients[0] + gradients[1]) / kWorld;
    buckets.step(gradients);
    for (const at::Tensor& average : gradients)
      EXPECT_TRUE(at::allclose(average, mean, 1e-10, 1e-12)) << use_error_feedback;
  }
}

TEST(PowerSgdBucket, AveragesVectorsExactlyWhateverItsRank) {
  Buckets buckets(1, false);
  const std::vector<at::Tensor> gradients = full_gradients();
  const at::Tensor mean = (gradients[0] + gradients[1]) / kWorld;
  buckets.step(gradients);
  EXPECT_TRUE(at::equal(gradients[0], gradients[1])) << "the ranks agree";
  EXPECT_TRUE(at::equal(gradients[0].narrow(0, kN * kM, kPlain), mean.narrow(0, kN * kM, kPlain)));
  EXPECT_FALSE(at::allclose(gradients[0], mean)) << "the matrix has more than one column";
}

TEST(PowerSgdBucket, KeepsWhatItDidNotSendAndAddsItToTheNextStep) {
  Buckets buckets(1, true);
  const std::vector<at::Tensor> sent = full_gradients();
  std::vector<at::Tensor> averages = copies_of(sent);
  buckets.step(averages);
  for (std::size_t i = 0; i < kWorld; ++i) {
    PowerSgdBucket& bucket = buckets.each[i];
    EXPECT_TRUE(bucket.holds_product);
    bucket.form_error();
    EXPECT_TRUE(at::allclose(bucket.sum, sent[i] - averages[i], 1e-10, 1e-12));
  }

  // A step with zero gradients sends as much of the error as its factors can hold.
  Buckets anew(1, false);
  for (PowerSgdBucket& bucket : anew.each) bucket.q.copy_(buckets.each[0].q);
  std::vector<at::Tensor> expected;
  for (const PowerSgdBucket& bucket : buckets.each) expected.push_back(bucket.sum.clone());
  anew.step(expected);
  std::vector<at::Tensor> zeros;
  for (std::size_t i = 0; i < kWorld; ++i) zeros.push_back(at::zeros({kN * kM + kPlain}, at::kDouble));
  buckets.step(zeros);
  EXPECT_TRUE(at::allclose(zeros[0], expected[0], 1e-10, 1e-12));
}

TEST(PowerSgdBucket, SubtractsTheLastProductWhileAddingGradients) {
  const std::vector<at::Tensor> gradients = full_gradients();
  Buckets formed(1, true), unformed(1, true);
  for (int step = 0; step < 3; ++step) {
    std::vector<at::Tensor> a = copies_of(gradients), b = copies_of(gradients);
    formed.step(a);
    unformed.step(b);
    EXPECT_TRUE(at::equal(a[0], b[0])) << "step " << step;
    for (PowerSgdBucket& bucket : formed.each) bucket.form_error();  // as a checkpoint does
  }
}

TEST(PowerSgdBucket, PadsAMatrixThatIsLargerThanTheBucketWithZeros) {
  Buckets buckets(1, false, whole_bucket_layout);
  const PowerSgdBucket& bucket = buckets.each[0];
  ASSERT_GT(bucket.layout.padded_numel, bucket.layout.numel);
  std::vector<at::Tensor> gradients = full_gradients();
  buckets.step(gradients);
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  const std::int64_t padding = bucket.layout.padded_numel - bucket.layout.numel;
  EXPECT_EQ(bucket.sum.narrow(0, bucket.layout.numel, padding).count_nonzero().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace hookline
