// A gradient hook of this project, in the program and as a plug-in: averages gradients without dividing them
// beforehand.
#include <hookline/plugin.h>

#include <ATen/ATen.h>

class MeanAfter : public hookline::CommHook {
 public:
  MeanAfter(hookline::HookContext context, const hookline::OptionMap&) : CommHook(std::move(context)) {}
  hookline::FuturePtr run(hookline::GradBucket bucket) override {
    return hookline::then(comm().all_reduce(bucket.buffer()),
                          [ranks = world_size()](at::Tensor sum) { return sum.div_(ranks); });
  }
  std::string describe() const override { return "mean_after"; }
};

HOOKLINE_REGISTER_HOOK(MeanAfter, R"json({"name": "mean_after", "summary": "Sums, then divides."})json");
