#include "hooks/future.h"

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

at::Tensor tensor_of(const c10::ivalue::Future& future) {
  // value() throws a future's error; constValue() would hide it, and training would go on with local gradients.
  const c10::IValue value = const_cast<c10::ivalue::Future&>(future).value();
  return value.isTensorList() ? value.toTensorVector().at(0) : value.toTensor();
}

}  // namespace hookline
