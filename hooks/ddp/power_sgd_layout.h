// Which parts of a bucket PowerSGD compresses, from shapes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/comm_hook.h"
#include "hooks/ddp/power_sgd_options.h"
#include "hooks/numerics/bucket_parts.h"

namespace hookline {

/// Matrices of one shape whose Q is drawn in one piece.
struct DrawGroup {
  std::int64_t first_matrix, count;
};

struct PowerSgdLayout {
  std::int64_t numel = 0;         // of the bucket
  std::int64_t padded_numel = 0;  // of the bucket with zeros behind it, where a matrix needs them
  Matrices matrices;
  PlainSegments plain;
  std::vector<DrawGroup> draws;
  std::int64_t p_numel = 0;  // all P factors and the plain segments
  std::int64_t q_numel = 0;

  /// The factors P and Q of the matrices, in their order.
  Factors p_factors() const;
  Factors q_factors() const;

  /// Elements of the P factors, without the plain segments behind them.
  std::int64_t p_factors_numel() const { return plain.empty() ? p_numel : plain.front().p_offset; }

  /// Elements that stand for the bucket on the wire.
  std::int64_t compressed_numel() const { return p_numel + q_numel; }
};

/// A matrix per gradient, viewed as (shape[0], −1): compressed where (n + m) · r · min_compression_rate < n ·
/// m with r = min(n, m, rank); vectors never. Ordered by shape, in the order of each shape's first gradient,
/// as powerSGD_hook orders them: the random start of Q depends on it.
PowerSgdLayout per_gradient_layout(const BucketShapes& shapes, const PowerSgdOptions& options);

/// The whole bucket as one square matrix, padded with zeros: batched_powerSGD_hook.
PowerSgdLayout whole_bucket_layout(const BucketShapes& shapes, const PowerSgdOptions& options);

}  // namespace hookline
