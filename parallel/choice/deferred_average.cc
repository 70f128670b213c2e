#include "parallel/choice/deferred_average.h"

#include <utility>

namespace hookline {
namespace {
using Clock = BucketMoments::Clock;

void forward(c10::ivalue::Future& from, c10::ivalue::Future& to) {
  if (from.hasError()) {
    to.setError(from.exception_ptr());
  } else {
    to.markCompleted(tensor_of(from));
  }
}

}  // namespace

FuturePtr DeferredAverage::run(GradBucket bucket) {
  {
    const std::lock_guard lock(moments_->mutex);
    if (bucket.index() == 0) moments_->ready.clear();
    moments_->ready.push_back(Clock::now());
  }
  waiting_.push_back({bucket.buffer(), make_future(bucket.buffer().device())});
  const FuturePtr result = waiting_.back().result;
  if (!bucket.is_last()) return result;
  for (const Waiting& each : std::exchange(waiting_, {})) {
    at::Tensor buffer = each.buffer;
    buffer.mul_(1.0 / world_size());
    comm().all_reduce(buffer)->addCallback(
        [result = each.result, moments = moments_](c10::ivalue::Future& done) {
          {
            const std::lock_guard lock(moments->mutex);
            moments->averaged = Clock::now();
          }
          forward(done, *result);
        });
  }
  return result;
}

}  // namespace hookline
