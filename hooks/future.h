// Futures of tensors, chained so that an error reaches the last one instead of ending the process.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <utility>
#include <vector>

namespace hookline {

/// A future of libtorch; here always of one tensor.
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

/// Returns an incomplete future of one tensor on `device`. On a GPU, whatever waits for it, callbacks
/// included, runs after the work that the current streams hold when the future is completed; the host does
/// not wait.
FuturePtr make_future(c10::Device device = c10::kCPU);

/// Returns a future that holds `tensor` already.
FuturePtr completed(const at::Tensor& tensor);

/// Returns a future that holds `tensor` once all `parts` are complete, or the error of one that fails.
/// `parts` has at least one future; a single one is returned itself, so `tensor` must be the tensor that it
/// holds.
FuturePtr all_of(const std::vector<FuturePtr>& parts, const at::Tensor& tensor);

/// Returns the tensor of a complete `future`, or the first one if it holds a list. Throws the future's error.
at::Tensor tensor_of(const c10::ivalue::Future& future);

/// Calls `step(tensor)` when `future` is complete, and returns a future of the tensor that `step` returns.
/// Does not wait. An error of `future` or an exception of `step` becomes the error of the result. `step` runs
/// on the thread that completes `future`, or on this one if it is complete already, and must not wait for
/// another future. The result has the device of `future`; on a GPU, `step` runs on streams of its own, after
/// the work of `future`.
template <typename Step>
FuturePtr then(const FuturePtr& future, Step step) {
  FuturePtr result = future->createInstance(c10::TensorType::get());
  future->addCallback([result, step = std::move(step)](c10::ivalue::Future& done) mutable {
    at::Tensor value;
    try {
      value = step(tensor_of(done));
    } catch (...) {
      // An exception that leaves a callback ends the process.
      result->setError(std::current_exception());
      return;
    }
    result->markCompleted(value);
  });
  return result;
}

/// Like then(), for a `step` that starts another asynchronous operation and returns its future: the result
/// completes when that future does.
template <typename Step>
FuturePtr then_start(const FuturePtr& future, Step step) {
  FuturePtr result = future->createInstance(c10::TensorType::get());
  future->addCallback([result, step = std::move(step)](c10::ivalue::Future& done) mutable {
    FuturePtr inner;
    try {
      inner = step(tensor_of(done));
    } catch (...) {
      result->setError(std::current_exception());
      return;
    }
    inner->addCallback([result](c10::ivalue::Future& inner_done) {
      if (inner_done.hasError()) {
        result->setError(inner_done.exception_ptr());
      } else {
        result->markCompleted(inner_done.value());
      }
    });
  });
  return result;
}

}  // namespace hookline
