#include "hooks/numerics/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "hooks/numerics/half_cast.h"
#include "hooks/numerics/in_parallel.h"
#include "tests/support/one_matrix.h"

namespace hookline {
namespace {

using testing::add_and_multiply;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::multiply;
using testing::multiply_transposed;
using testing::orthogonalize;
using testing::reconstruct;
using testing::reconstruct_and_subtract;

// Tolerance for the relative error of a sum in this dtype.
double tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-13;
    case at::kFloat:
      return 1e-5;
    case at::kHalf:
      return 2e-3;
    default:
      return 1.6e-2;
  }
}

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed = 11) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble).to(dtype);
}

// The largest difference, relative to the largest element if that exceeds 1.
double worst_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  const double size = std::max(1.0, wide.abs().max().item<double>());
  return (actual.to(at::kDouble) - wide).abs().max().item<double>() / size;
}

double distance_from_orthonormal(const at::Tensor& factor) {
  const at::Tensor wide = factor.to(at::kDouble);
  return worst_difference(wide.matmul(wide.t()), torch::eye(factor.size(0), torch::kDouble));
}

TEST(LowRank, MultipliesAsMatmulDoes) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const auto [n, m, rank] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {5, 3, 1}, {7, 16, 2}, {33, 17, 3}, {2, 67, 2}, {64, 31, 5}}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + std::to_string(n) + "x" + std::to_string(m));
      const at::Tensor matrix = random({n, m}, dtype);
      const at::Tensor wide = matrix.to(at::kDouble);
      const at::Tensor q_in = random({rank, m}, dtype, 12), p_in = random({rank, n}, dtype, 13);
      at::Tensor p = torch::full({rank, n}, 9, dtype), q = torch::full({rank, m}, 9, dtype);
      multiply(matrix, q_in, p);
      EXPECT_LE(worst_difference(p, wide.matmul(q_in.to(at::kDouble).t()).t()), tolerance(dtype));
      multiply_transposed(matrix, p_in, q);
      EXPECT_LE(worst_difference(q, wide.t().matmul(p_in.to(at::kDouble).t()).t()), tolerance(dtype));
      at::Tensor product = torch::full({n, m}, 9, dtype);
      reconstruct(p_in, q_in, product);
      EXPECT_LE(worst_difference(product, p_in.to(at::kDouble).t().matmul(q_in.to(at::kDouble))),
                tolerance(dtype));
    }
  }
}

TEST(LowRank, MultipliesPartsOfABufferInPlace) {
  at::Tensor buffer = random({3 + 4 * 5 + 2}, at::kFloat);
  const at::Tensor before = buffer.clone(), p = random({2, 4}, at::kFloat), q = random({2, 5}, at::kFloat);
  reconstruct(p, q, buffer.narrow(0, 3, 20).view({4, 5}));
  EXPECT_TRUE(torch::allclose(buffer.narrow(0, 3, 20).view({4, 5}), p.t().matmul(q)));
  EXPECT_TRUE(torch::equal(buffer.narrow(0, 0, 3), before.narrow(0, 0, 3)));
  EXPECT_TRUE(torch::equal(buffer.narrow(0, 23, 2), before.narrow(0, 23, 2)));
}

TEST(LowRank, FusedAddAndSubtractMatchSeparatePassesBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const Kernels kernels : {Kernels::best, Kernels::plain}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + (kernels == Kernels::best ? " best" : " plain"));
      const std::int64_t n = 9, m = 37, rank = 3;
      const at::Tensor error = random({n, m}, dtype), gradient = random({n, m}, dtype, 12);
      const at::Tensor q = random({rank, m}, dtype, 13), p = random({rank, n}, dtype, 14);

      const at::Tensor sum = error + gradient, fused_sum = error.clone();
      const at::Tensor expected_p = torch::empty({rank, n}, dtype), fused_p = torch::empty({rank, n}, dtype);
      multiply(sum, q, expected_p, kernels);
      add_and_multiply(fused_sum, gradient, q, fused_p, kernels);
      EXPECT_TRUE(fused_sum.equal(sum));
      EXPECT_TRUE(fused_p.equal(expected_p));

      const at::Tensor product = torch::empty({n, m}, dtype), fused_product = torch::empty({n, m}, dtype);
      const at::Tensor rest = error.clone();
      reconstruct(p, q, product, kernels);
      reconstruct_and_subtract(p, q, fused_product, rest, kernels);
      EXPECT_TRUE(fused_product.equal(product));
      EXPECT_TRUE(rest.equal(error - product));
    }
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto whole = a.element_size() == 8 ? at::kLong : a.element_size() == 4 ? at::kInt : at::kShort;
  return a.view(whole).equal(b.view(whole));
}

TEST(LowRank, FusedErrorAndSumMatchSeparatePassesBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const Kernels kernels : {Kernels::best, Kernels::plain}) {
      for (const auto [n, m, rank] : std::vector<std::array<std::int64_t, 3>>{
               {1, 1, 1}, {5, 3, 1}, {9, 37, 2}, {8, 64, 3}, {3, 15, 4}, {19, 131, 5}, {4, 100, 9}}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + (kernels == Kernels::best ? " best " : " plain ") +
                     std::to_string(n) + "x" + std::to_string(m) + " rank " + std::to_string(rank));
        const at::Tensor sum = random({n, m}, dtype), gradient = random({n, m}, dtype, 12);
        const at::Tensor p_before = random({rank, n}, dtype, 13), q_before = random({rank, m}, dtype, 14),
                         q = random({rank, m}, dtype, 15);
        const at::Tensor product = torch::empty({n, m}, dtype), expected_p = torch::empty({rank, n}, dtype);
        reconstruct(p_before, q_before, product, kernels);
        const at::Tensor error = sum - product, expected = error + gradient;
        multiply(expected, q, expected_p, kernels);

        const at::Tensor actual = sum.clone(), p = torch::empty({rank, n}, dtype);
        const FactorPair before{testing::flat(p_before), testing::flat(q_before)};
        accumulate_and_multiply(testing::one_matrix(actual, q), testing::flat(actual), before,
                                testing::flat(gradient), {testing::flat(p), testing::flat(q)}, kernels);
        EXPECT_TRUE(same_bits(actual, expected));
        EXPECT_TRUE(same_bits(p, expected_p));

        actual.copy_(sum);
        accumulate(testing::one_matrix(actual, q), testing::flat(actual), before, at::Tensor(), kernels);
        EXPECT_TRUE(same_bits(actual, error));
      }
    }
  }
}

// A bucket with uncompressed segments between its matrices, whose last matrix extends past its end; processed
// in one call per operation.
struct Whole {
  at::ScalarType dtype;
  Matrices matrices;
  std::int64_t numel = 5, padded_numel = 5, p_numel = 0, q_numel = 0;

  Whole(at::ScalarType type, const std::vector<std::array<std::int64_t, 3>>& sizes, std::int64_t lacking)
      : dtype(type) {
    for (const auto [n, m, rank] : sizes) {
      matrices.push_back({padded_numel, n, m, rank, p_numel, q_numel});
      numel = padded_numel + n * m;
      padded_numel = numel + 3;
      p_numel += rank * n;
      q_numel += rank * m;
    }
    padded_numel = numel;
    numel -= lacking;
  }

  // Everything a step writes, concatenated: sum, P, Q and the bucket.
  at::Tensor step() const {
    const at::Tensor sum = random({padded_numel}, dtype), bucket = random({numel}, dtype, 12);
    const FactorPair before{random({p_numel}, dtype, 13), random({q_numel}, dtype, 14)},
        now{torch::empty({p_numel}, dtype), random({q_numel}, dtype, 15)};
    Factors factors;
    for (const CompressedMatrix& c : matrices) factors.push_back({c.p_offset, c.rank, c.n});
    accumulate_and_multiply(matrices, sum, before, bucket, now);
    hookline::orthogonalize(now.p, factors, 0);
    hookline::multiply_transposed(matrices, sum, now);
    hookline::reconstruct(matrices, now, bucket);
    return torch::cat({sum, now.p, now.q, bucket});
  }

  // The same, one matrix at a time.
  at::Tensor step_in_parts() const {
    const at::Tensor sum = random({padded_numel}, dtype), bucket = random({numel}, dtype, 12);
    const FactorPair before{random({p_numel}, dtype, 13), random({q_numel}, dtype, 14)},
        now{torch::empty({p_numel}, dtype), random({q_numel}, dtype, 15)};
    at::Tensor padded = torch::zeros({padded_numel}, dtype);
    padded.narrow(0, 0, numel).copy_(bucket);
    for (const CompressedMatrix& c : matrices) {
      const auto matrix = [&](const at::Tensor& t) {
        return t.narrow(0, c.offset, c.n * c.m).view({c.n, c.m});
      };
      const auto p = [&](const FactorPair& f) {
        return f.p.narrow(0, c.p_offset, c.rank * c.n).view({c.rank, c.n});
      };
      const auto q = [&](const FactorPair& f) {
        return f.q.narrow(0, c.q_offset, c.rank * c.m).view({c.rank, c.m});
      };
      const at::Tensor product = torch::empty({c.n, c.m}, dtype);
      reconstruct_and_subtract(p(before), q(before), product, matrix(sum));
      add_and_multiply(matrix(sum), matrix(padded), q(now), p(now));
      orthogonalize(p(now), 0);
      multiply_transposed(matrix(sum), p(now), q(now));
      reconstruct(p(now), q(now), matrix(padded));
    }
    return torch::cat({sum, now.p, now.q, padded.narrow(0, 0, numel)});
  }
};

TEST(LowRank, DoesAllMatricesOfABucketInOneCall) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t lacking : {0, 1, 40, 45}) {
      const Whole whole(dtype, {{7, 33, 2}, {20, 16, 1}, {3, 50, 6}, {9, 20, 3}}, lacking);
      EXPECT_TRUE(same_bits(whole.step(), whole.step_in_parts()))
          << dtype << ", " << lacking << " elements are missing";
    }
  }
}

TEST(LowRank, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    // Large enough for several threads; threads could split the third matrix only within its single column.
    const Whole whole(dtype, {{300, 1000, 2}, {500, 333, 4}, {100003, 1, 1}, {700, 700, 5}}, 1000);
    const int before = at::get_num_threads();
    at::set_num_threads(1);
    const at::Tensor expected = whole.step();
    for (const int threads : {2, 3, 7}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(same_bits(whole.step(), expected)) << dtype << " on " << threads << " threads";
    }
    at::set_num_threads(before);
  }
}

TEST(LowRank, ReportsDependentVectorsByFactor) {
  at::Tensor factors = random({3 * 20 + 2 * 30}, at::kFloat);
  factors.narrow(0, 20, 20).copy_(factors.narrow(0, 0, 20));
  factors.narrow(0, 60, 60).zero_();
  const auto dependent = hookline::orthogonalize(factors, {{0, 3, 20}, {60, 2, 30}}, 0);
  ASSERT_EQ(dependent.size(), 3U);
  EXPECT_TRUE(dependent[0].factor == 0 && dependent[0].vector == 1);
  EXPECT_TRUE(dependent[1].factor == 1 && dependent[1].vector == 0);
  EXPECT_TRUE(dependent[2].factor == 1 && dependent[2].vector == 1);
}

TEST(LowRank, PlainSegmentsMatchTensorArithmeticBitForBit) {
  const PlainSegments segments{{3, 41, 7}, {50, 1, 48}, {60, 16, 49}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor bucket = random({80}, dtype), sum = random({80}, dtype, 12), p = random({70}, dtype, 13);
    at::Tensor expected_sum = sum.clone(), expected_p = p.clone(), expected_bucket = bucket.clone();
    for (const PlainSegment& s : segments) {
      expected_sum.narrow(0, s.offset, s.numel).add_(bucket.narrow(0, s.offset, s.numel));
      expected_p.narrow(0, s.p_offset, s.numel).copy_(expected_sum.narrow(0, s.offset, s.numel));
    }
    add_plain(segments, sum, bucket, p);
    EXPECT_TRUE(same_bits(sum, expected_sum) && same_bits(p, expected_p)) << dtype;

    const at::Tensor average = random({70}, dtype, 14);
    for (const PlainSegment& s : segments) {
      const at::Tensor part = average.narrow(0, s.p_offset, s.numel);
      expected_bucket.narrow(0, s.offset, s.numel).copy_(part);
      expected_sum.narrow(0, s.offset, s.numel).sub_(part);
    }
    take_plain(segments, average, bucket, sum);
    EXPECT_TRUE(same_bits(sum, expected_sum) && same_bits(bucket, expected_bucket)) << dtype;

    for (const PlainSegment& s : segments)
      expected_p.narrow(0, s.p_offset, s.numel).copy_(bucket.narrow(0, s.offset, s.numel));
    add_plain(segments, at::Tensor(), bucket, p);
    take_plain(segments, p, bucket, at::Tensor());
    EXPECT_TRUE(same_bits(p, expected_p) && same_bits(bucket, expected_bucket)) << dtype << ", without a sum";
  }
}

TEST(InParallel, VisitsEveryIndexOnceAndRethrowsExceptions) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    for (const std::int64_t count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      std::atomic<int> ranges = 0;
      in_parallel(count, 100, [&](std::int64_t begin, std::int64_t end) {
        ++ranges;
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& times : visits) EXPECT_EQ(times, 1);
      EXPECT_EQ(ranges, count == 1000 ? threads : 1);
    }
    EXPECT_THROW(in_parallel(1000, 100, [](std::int64_t, std::int64_t) { throw std::runtime_error("one"); }),
                 std::runtime_error);
  }
  at::set_num_threads(before);
}

TEST(LowRank, DetectsNonFiniteValues) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t at : {0, 15, 16, 40}) {
      for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        at::Tensor tensor = random({41}, dtype);
        EXPECT_TRUE(is_finite(tensor));
        tensor[at] = value;
        EXPECT_FALSE(is_finite(tensor)) << dtype << " " << value << " at " << at;
      }
    }
  }
}

TEST(HalfCast, RoundsAsACastAndADivisionDo) {
  // Every float16 number, and numbers close to each: values that round up, down, to even, and overflow.
  const at::Tensor halves = torch::arange(65536, at::kInt).to(at::kShort).view(at::kHalf).to(at::kFloat);
  const at::Tensor values = torch::cat({halves, halves * 1.00024414f, halves * 1.00048828125f, halves * 1e30f,
                                        random({100003}, at::kFloat), torch::full({1}, 3.4e38f)});
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    for (const std::int64_t divisor : {1, 2, 3, 7}) {
      for (const Kernels kernels : {Kernels::best, Kernels::plain}) {
        const at::Tensor expected = values.to(dtype).div_(divisor), actual = torch::empty_like(expected);
        cast_and_divide(values, actual, divisor, kernels);
        // NaN payload bits may differ.
        EXPECT_TRUE(at::nan_to_num(actual, 1.5)
                        .view(at::kShort)
                        .equal(at::nan_to_num(expected, 1.5).view(at::kShort)))
            << dtype << " / " << divisor;
        EXPECT_TRUE(actual.isnan().equal(expected.isnan()));
      }
    }
  }
}

TEST(LowRank, MakesVectorsOrthonormalAndKeepsTheirSpace) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor before = random({3, 41}, dtype);
    at::Tensor factor = before.clone();
    EXPECT_THAT(orthogonalize(factor, 0), IsEmpty());
    EXPECT_LE(distance_from_orthonormal(factor), tolerance(dtype)) << dtype;
    const at::Tensor wide = factor.to(at::kDouble), original = before.to(at::kDouble);
    EXPECT_LE(worst_difference(original.matmul(wide.t()).matmul(wide), original), 10 * tolerance(dtype))
        << dtype;
    EXPECT_GT(factor[0].dot(before[0]).item<double>(), 0) << "the first vector keeps its direction";
  }
}

TEST(LowRank, MakesNearlyParallelVectorsOrthogonal) {
  at::Tensor factor = random({3, 50}, at::kFloat);
  factor[1].copy_(factor[0] + 1e-5 * factor[1]);
  factor[2].copy_(factor[0] * 3 + 1e-5 * factor[2]);
  EXPECT_THAT(orthogonalize(factor, 0), IsEmpty());
  EXPECT_LE(distance_from_orthonormal(factor), 1e-5);
}

TEST(LowRank, NormalizesVeryLongAndVeryShortVectors) {
  at::Tensor factor = random({2, 30}, at::kFloat);
  factor[0] *= 1e-30;
  factor[1] *= 1e30;
  EXPECT_THAT(orthogonalize(factor, 0), IsEmpty());
  EXPECT_LE(distance_from_orthonormal(factor), 1e-5);
}

TEST(LowRank, LeavesAZeroVectorZeroAndReportsIt) {
  at::Tensor factor = random({3, 20}, at::kFloat);
  factor[1].zero_();
  EXPECT_THAT(orthogonalize(factor, 0), ElementsAre(1));
  EXPECT_TRUE(factor[1].eq(0).all().item<bool>());
  EXPECT_LE(distance_from_orthonormal(torch::stack({factor[0], factor[2]})), 1e-5);
}

TEST(LowRank, ZeroesADependentVectorAndReportsIt) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor factor = random({3, 20}, dtype);
    factor[2].copy_(factor[0] * 2);
    EXPECT_THAT(orthogonalize(factor, 0), ElementsAre(2)) << dtype;
    EXPECT_TRUE(factor[2].eq(0).all().item<bool>()) << dtype;
  }
}

TEST(LowRank, ReportsVectorsBeyondTheDimension) {
  at::Tensor factor = random({4, 2}, at::kFloat);
  EXPECT_THAT(orthogonalize(factor, 0), ElementsAre(2, 3));
  EXPECT_LE(distance_from_orthonormal(factor.narrow(0, 0, 2)), 1e-5);
}

TEST(LowRank, PropagatesNaNAndInfinity) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    at::Tensor factor = random({2, 20}, at::kFloat);
    factor[0][3] = bad;
    EXPECT_THAT(orthogonalize(factor, 0), IsEmpty());
    EXPECT_TRUE(factor.isnan().any().item<bool>());
  }
}

TEST(LowRank, AddsEpsilonToEachNormBeforeItProjects) {
  at::Tensor factor = torch::tensor({{3.0f, 4.0f}, {6.0f, 8.0f}});
  EXPECT_THAT(orthogonalize(factor, 5), IsEmpty());
  // The first vector becomes (0.3, 0.4). The projection of (6, 8) is 5 · (0.3, 0.4) = (1.5, 2), leaving (4.5,
  // 6).
  EXPECT_TRUE(torch::allclose(factor, torch::tensor({{0.3f, 0.4f}, {4.5f / 12.5f, 6.0f / 12.5f}})));
}

TEST(LowRank, IgnoresEpsilonAboveTwoVectorsInFullPrecision) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor factor = random({3, 41}, dtype);
    orthogonalize(factor, 0.5);
    const bool unit = dtype == at::kFloat || dtype == at::kDouble;
    EXPECT_EQ(distance_from_orthonormal(factor) <= tolerance(dtype), unit) << dtype;
  }
}

TEST(LowRank, GivesTheSameBitsWhateverTheCpu) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t m : {1, 7, 8, 67, 256}) {
      const at::Tensor matrix = random({19, m}, dtype), p_in = random({3, 19}, dtype, 12),
                       q_in = random({3, m}, dtype, 13);
      matrix[3].mul_(1e-5);  // subnormal in float16
      matrix[4].mul_(5e4);   // near float16's maximum; products overflow
      const auto same = [&](const at::Tensor& a, const at::Tensor& b) {
        const auto whole = dtype == at::kDouble ? at::kLong : dtype == at::kFloat ? at::kInt : at::kShort;
        return torch::equal(a.view(whole), b.view(whole));
      };
      std::vector<at::Tensor> p, q, product;
      for (const Kernels kernels : {Kernels::best, Kernels::plain}) {
        p.push_back(torch::empty({3, 19}, dtype));
        multiply(matrix, q_in, p.back(), kernels);
        q.push_back(torch::empty({3, m}, dtype));
        multiply_transposed(matrix, p_in, q.back(), kernels);
        product.push_back(torch::empty({19, m}, dtype));
        reconstruct(p_in, q_in, product.back(), kernels);
      }
      EXPECT_TRUE(same(p[0], p[1]) && same(q[0], q[1]) && same(product[0], product[1])) << dtype << ", " << m;
    }
  }
}

TEST(LowRank, GivesTheSameBitsWhateverTheAlignment) {
  const at::Tensor p = random({2, 19}, at::kFloat), q = random({2, 23}, at::kFloat);
  at::Tensor aligned = torch::empty({19, 23}),
             shifted = torch::empty({19 * 23 + 1}).narrow(0, 1, 19 * 23).view({19, 23});
  reconstruct(p, q, aligned);
  const at::Tensor p_shifted =
      torch::cat({torch::zeros({1}), p.flatten()}).narrow(0, 1, p.numel()).view_as(p);
  reconstruct(p_shifted, q, shifted);
  EXPECT_TRUE(torch::equal(aligned, shifted));
  at::Tensor basis = p.clone(), basis_shifted = p_shifted.clone();
  orthogonalize(basis, 0);
  orthogonalize(p_shifted, 0);
  EXPECT_TRUE(torch::equal(basis, p_shifted));
}

}  // namespace
}  // namespace hookline
