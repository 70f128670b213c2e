#include "hooks/future.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace hookline {

FuturePtr make_future(c10::Device device) {
  std::vector<c10::Device> devices;
  if (device.is_cuda()) devices.push_back(device);
  return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
}

FuturePtr completed(const at::Tensor& tensor) {
  FuturePtr future = make_future(tensor.device());
  future->markCompleted(tensor);
  return future;
}

FuturePtr all_of(const std::vector<FuturePtr>& parts, const at::Tensor& tensor) {
  if (parts.size() == 1) return parts[0];
  FuturePtr result = parts.at(0)->createInstance(c10::TensorType::get());
  struct Progress {
    std::atomic<std::size_t> left;
    std::atomic<bool> has_failed = false;
  };
  auto progress = std::make_shared<Progress>(parts.size());
  for (const FuturePtr& part : parts) {
    part->addCallback([result, progress, tensor](c10::ivalue::Future& done) {
      if (done.hasError() && !progress->has_failed.exchange(true)) result->setError(done.exception_ptr());
      if (progress->left.fetch_sub(1) == 1 && !progress->has_failed) result->markCompleted(tensor);
    });
  }
  return result;
}

at::Tensor tensor_of(const c10::ivalue::Future& future) {
  // value() throws a future's error. constValue() would hide it, and training would continue with local
  // gradients.
  const c10::IValue value = const_cast<c10::ivalue::Future&>(future).value();
  return value.isTensorList() ? value.toTensorVector().at(0) : value.toTensor();
}

}  // namespace hookline
