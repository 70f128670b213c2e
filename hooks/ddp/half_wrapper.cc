#include "hooks/ddp/half_wrapper.h"

#include <utility>

namespace hookline {

HalfWrapper::HalfWrapper(std::unique_ptr<CommHook> inner, at::ScalarType dtype)
    : CommHook(inner->context()), inner_(std::move(inner)), dtype_(dtype) {}

FuturePtr HalfWrapper::run(GradBucket bucket) {
  at::Tensor full = bucket.buffer();
  at::Tensor half = buffers_.of(bucket, dtype_).copy_(full);
  bucket.set_buffer(half);
  FuturePtr result = inner_->run(bucket);
  bucket.set_buffer(full);
  return then(result, [full](const at::Tensor& reduced) {
    full.copy_(reduced);
    return full;
  });
}

std::string HalfWrapper::describe() const {
  return inner_->describe() + (dtype_ == at::kHalf ? " in fp16" : " in bf16");
}

}  // namespace hookline
