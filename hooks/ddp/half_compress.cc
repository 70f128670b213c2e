#include "hooks/ddp/half_compress.h"

#include "hooks/numerics/half_cast.h"

namespace hookline {

FuturePtr HalfCompress::run(GradBucket bucket) {
  at::Tensor full = bucket.buffer();
  const at::Tensor wire = buffers_.of(bucket, dtype_);
  cast_and_divide(full, wire, world_size());
  return then(comm().all_reduce(wire), [full](const at::Tensor& reduced) {
    full.copy_(reduced);
    return full;
  });
}

}  // namespace hookline
