// A hook that delays its rank at random, so that ranks reach their collectives at different times.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "hooks/comm_hook.h"

namespace hookline::testing {

/// Runs `inner`, delaying one bucket in four by up to 2 ms. Give each rank a different `seed`.
class LaggingHook : public CommHook {
 public:
  LaggingHook(std::unique_ptr<CommHook> inner, unsigned seed)
      : CommHook(inner->context()), random_(seed), inner_(std::move(inner)) {}
  FuturePtr run(GradBucket bucket) override {
    if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2000));
    return inner_->run(bucket);
  }
  std::string describe() const override { return inner_->describe(); }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const override {
    return inner_->bytes_per_step(buckets, dtype);
  }
  std::int64_t first_full_step() const override { return inner_->first_full_step(); }
  double tolerance(at::ScalarType dtype) const override { return inner_->tolerance(dtype); }

 private:
  std::mt19937 random_;
  std::unique_ptr<CommHook> inner_;
};

}  // namespace hookline::testing
