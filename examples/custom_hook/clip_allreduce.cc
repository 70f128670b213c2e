// A custom gradient hook. Compile it into a program, or build it as a shared library, which is a plug-in for
// any program: examples/custom_hook/README.md shows both.
#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "hooks/comm_hook.h"
#include "hooks/registry/register.h"

namespace {

/// Clips this rank's gradients in each bucket to a norm, then averages them, so that one bad batch can't
/// dominate.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the collective
/// Result  the bucket's buffer, in place   State   none
/// Errors  HookError for a max_norm of 0   Parity  none
/// Source  none
class ClipAllreduce : public hookline::CommHook {
 public:
  ClipAllreduce(hookline::HookContext context, const hookline::OptionMap& options)
      : CommHook(std::move(context)), max_norm_(std::get<double>(options.at("max_norm"))) {
    if (max_norm_ == 0) throw hookline::HookError("clip_allreduce: max_norm is 0, which leaves no gradient");
  }

  hookline::FuturePtr run(hookline::GradBucket bucket) override {
    at::Tensor gradients = bucket.buffer();
    const double norm = gradients.to(at::kDouble).norm().item<double>();
    gradients.mul_(std::min(1.0, max_norm_ / norm) / world_size());
    return comm().all_reduce(gradients);
  }

  std::string describe() const override {
    std::ostringstream text;
    text << "clip_allreduce(max_norm=" << max_norm_ << ")";
    return text.str();
  }

 private:
  double max_norm_;
};

HOOKLINE_REGISTER_HOOK(ClipAllreduce, R"json({
  "name": "clip_allreduce",
  "summary": "Clips each rank's gradients to a norm, bucket by bucket, then averages them.",
  "options": [{"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0,
               "help": "Largest norm of a bucket's gradients on one rank."}]
})json");

}  // namespace
