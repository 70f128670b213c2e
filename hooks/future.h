// Futures of tensors, chained so that an error is carried on instead of ending the process.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <utility>
#include <vector>

namespace hookline {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

/// A future of one tensor on `device`, not yet complete. On a GPU, what waits for it, and each of its callbacks, is put
/// behind the work that the streams hold when it is completed; the host does not wait.
FuturePtr make_future(c10::Device device = c10::kCPU);

/// A future that already holds `tensor`.
FuturePtr completed(const at::Tensor& tensor);

/// A future that holds `tensor` once all of `parts`, at least one, are complete; with the error of one, if some have failed.
FuturePtr all_of(const std::vector<FuturePtr>& parts, const at::Tensor& tensor);

/// The tensor that a complete `future` holds: itself, or the first of its list. Throws the future's error.
at::Tensor tensor_of(const c10::ivalue::Future& future);

/// Passes `future`'s tensor to `step` once it is there, without waiting; the result holds what `step` returns.
/// An error of `future`, and an exception of `step`, become the result's error. `step` runs on the thread that
/// completes `future` (this one, if it is complete already) and must not wait for another future. The result is of the
/// device of `future`, and on a GPU `step` runs with streams of its own, behind what `future` stands for.
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

/// The same for a `step` that starts another asynchronous operation: the result completes when the future that
/// `step` returns does.
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
