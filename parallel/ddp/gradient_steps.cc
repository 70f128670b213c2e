#include "parallel/ddp/gradient_steps.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "hooks/ddp/no_hook_name.h"

namespace hookline {

GradientSteps::GradientSteps(std::shared_ptr<World> world, std::int64_t elements)
    : world_(std::move(world)), elements_(std::max<std::int64_t>(1, elements)) {}

FuturePtr GradientSteps::reduce(std::int64_t elements, const std::string& name,
                                const std::function<FuturePtr()>& reduce) {
  const std::string what =
      "step " + std::to_string(count()) + (name == kNoHook ? " without a hook" : " of " + name);
  elements_reduced_ += elements;
  FuturePtr result = make_future();
  try {
    if (const auto failure = world_->watch().failure()) throw *failure;
    result = reduce();
    last_bucket_at_ = world_->step_clock()->now();
  } catch (...) {
    result->setError(std::current_exception());
  }
  return world_->watch().watched(result, what);
}

}  // namespace hookline
