#include "hooks/ddp/half_compress.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hooks/numerics/half_cast.h"

namespace hookline {
namespace {

// Elements of a piece, which is cast while those before it are on the wire. On a GPU everything is one piece,
// since a cast there takes less time than its launch.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;

}  // namespace

FuturePtr HalfCompress::run(GradBucket bucket) {
  at::Tensor full = bucket.buffer();
  const at::Tensor wire = buffers_.of(bucket, dtype_);
  const std::int64_t elements = full.numel(),
                     step = full.is_cpu() ? kPiece : std::max<std::int64_t>(1, elements);
  std::vector<FuturePtr> pieces;
  for (std::int64_t first = 0; first == 0 || first < elements; first += step) {
    const std::int64_t length = std::min(step, elements - first);
    const at::Tensor from = full.narrow(0, first, length), to = wire.narrow(0, first, length);
    cast_and_divide(from, to, world_size());
    pieces.push_back(then(comm().all_reduce(to), [from](const at::Tensor& reduced) {
      from.copy_(reduced);
      return from;
    }));
  }
  return all_of(pieces, full);
}

}  // namespace hookline
