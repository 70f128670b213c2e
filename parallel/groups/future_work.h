// A c10d::Work that is done when a future completes.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <exception>
#include <utility>

#include "hooks/future.h"

namespace hookline {

/// Is done when a future is.
class FutureWork : public c10d::Work {
 public:
  /// `started`: the collective whose end completes `future`; given where the current GPU stream does not wait
  /// for it unless Work::synchronize() is called.
  explicit FutureWork(FuturePtr future, c10::intrusive_ptr<c10d::Work> started = {})
      : future_(std::move(future)), started_(std::move(started)) {}

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override {
    return future_->hasError() ? future_->exception_ptr() : nullptr;
  }
  bool wait(std::chrono::milliseconds) override {
    future_->waitAndThrow();
    if (started_) started_->synchronize();
    return true;
  }
  void synchronize() override {
    if (started_) started_->synchronize();
  }
  FuturePtr getFuture() override { return future_; }

 private:
  FuturePtr future_;
  c10::intrusive_ptr<c10d::Work> started_;
};

}  // namespace hookline
