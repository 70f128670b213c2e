// A plug-in whose hook fails: at once, because it opens a channel too late, or in a callback of its
// collective.
#include <ATen/ATen.h>

#include <stdexcept>

#include "hooks/comm_hook.h"
#include "hooks/registry/register.h"

namespace {

class FailingHook : public hookline::CommHook {
 public:
  FailingHook(hookline::HookContext context, const hookline::OptionMap& options)
      : CommHook(std::move(context)),
        opens_channel_(std::get<bool>(options.at("opens_channel"))),
        fails_in_callback_(std::get<bool>(options.at("in_callback"))) {}

  hookline::FuturePtr run(hookline::GradBucket bucket) override {
    if (opens_channel_) comm().open_channel("late");
    if (!fails_in_callback_) throw std::runtime_error("the hook fails at once");
    return hookline::then(comm().all_reduce(bucket.buffer()), [](at::Tensor) -> at::Tensor {
      throw std::runtime_error("the hook fails in a callback");
    });
  }

  std::string describe() const override { return "failing"; }

 private:
  bool opens_channel_, fails_in_callback_;
};

HOOKLINE_REGISTER_HOOK(FailingHook, R"json({"name": "failing",
  "summary": "Fails in every step.",
  "options": [
    {"name": "opens_channel", "type": "boolean", "default": false, "help": "Whether it opens a channel in a step."},
    {"name": "in_callback", "type": "boolean", "default": false, "help": "Whether it fails late."}
  ]
})json");

}  // namespace
