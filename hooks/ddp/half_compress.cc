#include "hooks/ddp/half_compress.h"

namespace hookline {

FuturePtr HalfCompress::run(GradBucket bucket) {
  at::Tensor full = bucket.buffer();
  // A copy even where the gradients are of this dtype: the division must not touch them before they are averaged.
  at::Tensor wire = full.to(dtype_, /*non_blocking=*/false, /*copy=*/true).div_(world_size());
  return then(comm().all_reduce(wire), [full](const at::Tensor& reduced) {
    full.copy_(reduced);
    return full;
  });
}

}  // namespace hookline
