#include "hooks/ddp/allreduce.h"

namespace hookline {

FuturePtr Allreduce::run(GradBucket bucket) {
  at::Tensor gradients = bucket.buffer();
  gradients.div_(world_size());
  return comm().all_reduce(gradients);
}

}  // namespace hookline
