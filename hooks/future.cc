#include "hooks/future.h"

namespace hookline {

FuturePtr make_future() { return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get()); }

FuturePtr completed(const at::Tensor& tensor) {
  FuturePtr future = make_future();
  future->markCompleted(tensor);
  return future;
}

at::Tensor tensor_of(const c10::ivalue::Future& future) {
  // value() throws a future's error; constValue() would hide it, and training would go on with local gradients.
  const c10::IValue value = const_cast<c10::ivalue::Future&>(future).value();
  return value.isTensorList() ? value.toTensorVector().at(0) : value.toTensor();
}

}  // namespace hookline
