// A working plug-in: its hook returns a multiple of the average.
#include <ATen/ATen.h>

#include <sstream>

#include "hooks/comm_hook.h"
#include "hooks/registry/register.h"

#ifdef LACKING
namespace hookline {
void hookline_lacks_this();
}
#endif

namespace {

class DoubledAverage : public hookline::CommHook {
 public:
  DoubledAverage(hookline::HookContext context, const hookline::OptionMap& options)
      : CommHook(std::move(context)), factor_(std::get<double>(options.at("factor"))) {
#ifdef LACKING
    hookline::hookline_lacks_this();
#endif
  }

  hookline::FuturePtr run(hookline::GradBucket bucket) override {
    at::Tensor gradients = bucket.buffer();
    gradients.div_(world_size());
    return hookline::then(comm().all_reduce(gradients),
                          [factor = factor_](at::Tensor sum) { return sum.mul_(factor); });
  }

  std::string describe() const override {
    std::ostringstream text;
    text << "doubled_average(factor=" << factor_ << ")";
    return text.str();
  }

 private:
  double factor_;
};

#ifndef HOOK_NAME
#define HOOK_NAME "doubled_average"
#endif

HOOKLINE_REGISTER_HOOK(DoubledAverage, R"json({"name": ")json" HOOK_NAME R"json(",
  "summary": "Averages gradients, and multiplies them.",
  "options": [{"name": "factor", "type": "number", "default": 2.0, "help": "What they are multiplied by."}]
})json");

}  // namespace
