#include "parallel/choice/observed_steps.h"

#include <cstddef>
#include <mutex>
#include <utility>

#include "parallel/choice/link_cost.h"
#include "parallel/choice/measures.h"

namespace hookline {

void ObservedSteps::add(Clock::time_point start, Clock::time_point backward, Clock::time_point now) {
  Step step;
  step.before = seconds_of(backward - start);
  const std::lock_guard lock(moments_->mutex);
  for (const auto& ready : moments_->ready) step.ready.push_back(seconds_of(ready - backward));
  step.after = seconds_of(now - moments_->averaged);
  steps_.push_back(std::move(step));
}

StepPlan ObservedSteps::agreed_plan(World& world) const {
  std::vector<double> numbers;
  const auto add = [&](const auto& of) {
    std::vector<double> values;
    for (std::size_t i = 1; i < steps_.size(); ++i) values.push_back(of(steps_[i]));
    numbers.push_back(lower_quartile(std::move(values)));
  };
  add([](const Step& step) { return step.before; });
  add([](const Step& step) { return step.after; });
  for (std::size_t bucket = 0; bucket < steps_.back().ready.size(); ++bucket)
    add([&](const Step& step) { return step.ready.at(bucket); });
  const double seconds = numbers[0] + numbers[1] + numbers.back();
  numbers = of_slowest_rank(world, {{std::move(numbers), seconds}})[0];
  StepPlan plan;
  plan.before_backward = numbers[0];
  plan.after_backward = numbers[1];
  for (std::size_t i = 2; i < numbers.size(); ++i) plan.buckets.push_back({numbers[i], {}});
  plan.backward = numbers.back();
  return plan;
}

}  // namespace hookline
