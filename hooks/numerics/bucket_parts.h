// Where the parts of a bucket lie, each of which PowerSGD treats in its own way. All in elements.
#pragma once

#include <cstdint>
#include <vector>

namespace hookline {

/// A part of the bucket that is compressed: the matrix M [n, m] that lies at `offset`, with factors of `rank`
/// vectors at `p_offset` and `q_offset` of the bucket's buffers for P and Q.
struct CompressedMatrix {
  std::int64_t offset, n, m, rank, p_offset, q_offset;
};

/// A part of the bucket that is sent as it is.
struct PlainSegment {
  std::int64_t offset, numel, p_offset;  // it travels behind the P factors, in the same collective
};

/// A factor of one matrix: `rank` vectors of `length`, one behind the other from `offset` of a buffer on.
struct Factor {
  std::int64_t offset, rank, length;
};

using Matrices = std::vector<CompressedMatrix>;
using PlainSegments = std::vector<PlainSegment>;
using Factors = std::vector<Factor>;

}  // namespace hookline
