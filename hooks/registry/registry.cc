#include "hooks/registry/registry.h"

#include <utility>

#include "base/suggest.h"
#include "hooks/catalog/option_rules.h"
#include "hooks/ddp/allreduce.h"
#include "hooks/ddp/half_compress.h"
#include "hooks/ddp/half_wrapper.h"
#include "hooks/ddp/noop.h"
#include "hooks/ddp/power_sgd.h"

namespace hookline {
namespace {

template <typename Hook>
HookFactory without_options() {
  return [](HookContext context, const OptionMap&) { return std::make_unique<Hook>(std::move(context)); };
}

HookFactory half_compress(at::ScalarType dtype) {
  return [dtype](HookContext context, const OptionMap&) {
    return std::make_unique<HalfCompress>(std::move(context), dtype);
  };
}

HookFactory power_sgd(std::string name, LayoutFunction layout) {
  return [name = std::move(name), layout](HookContext context, const OptionMap& options) {
    return std::make_unique<PowerSgd>(std::move(context), options, name, layout);
  };
}

WrapperFactory half_wrapper(at::ScalarType dtype) {
  return [dtype](std::unique_ptr<CommHook> inner) {
    return std::make_unique<HalfWrapper>(std::move(inner), dtype);
  };
}

/// The options in `given`, checked against the hook's rows, and defaults for the others.
OptionMap complete_options(const HookRow& hook, const OptionMap& given) {
  OptionMap complete;
  for (const OptionRow& row : hook.options) complete[row.name] = row.default_value;
  for (const auto& [name, value] : given) {
    const OptionRow* row = nullptr;
    for (const OptionRow& candidate : hook.options) {
      if (candidate.name == name) row = &candidate;
    }
    if (!row) throw HookError(hook.name + ": it has no option '" + name + "'");
    std::string problem;
    const auto checked = check_value(*row, value, problem);
    if (!checked) throw HookError(hook.name + ": " + name + " = " + to_text(value) + " " + problem);
    complete[name] = *checked;
  }
  if (const auto problem = check_options(hook.name, complete)) throw HookError(hook.name + ": " + *problem);
  return complete;
}

[[noreturn]] void unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  std::string message = "unknown " + std::string(what) + " '" + name + "'";
  if (const auto close = nearest(name, known)) message += "; did you mean '" + *close + "'?";
  throw HookError(message);
}

}  // namespace

Registry Registry::built_in() {
  Registry registry;
  registry.catalog_ = Catalog::built_in();
  registry.hooks_ = {
      {"allreduce", without_options<Allreduce>()},
      {"fp16", half_compress(at::kHalf)},
      {"bf16", half_compress(at::kBFloat16)},
      {"power_sgd", power_sgd("power_sgd", per_gradient_layout)},
      {"batched_power_sgd", power_sgd("batched_power_sgd", whole_bucket_layout)},
      {"noop", without_options<Noop>()},
  };
  registry.wrappers_ = {{"fp16", half_wrapper(at::kHalf)}, {"bf16", half_wrapper(at::kBFloat16)}};
  return registry;
}

Registry& Registry::instance() {
  static Registry registry = built_in();
  return registry;
}

void Registry::add(HookRow row, HookFactory factory) {
  const std::string name = row.name;
  catalog_.add(std::move(row));
  hooks_.emplace(name, std::move(factory));
}

std::unique_ptr<CommHook> Registry::build(const std::string& hook, const std::string& wrapper,
                                          const OptionMap& options, const HookContext& context) const {
  const HookRow* row = catalog_.find_hook(hook);
  if (!row) {
    std::vector<std::string> names;
    for (const HookRow& known : catalog_.hooks()) names.push_back(known.name);
    unknown("communication hook", hook, names);
  }
  const WrapperRow* wrapper_row = catalog_.find_wrapper(wrapper);
  if (!wrapper_row) {
    std::vector<std::string> names;
    for (const WrapperRow& known : catalog_.wrappers()) names.push_back(known.name);
    unknown("wrapper", wrapper, names);
  }
  const bool wrapped = !wrapper_row->dtype.empty();
  if (wrapped && !row->wrappable) {
    throw HookError("the hook '" + row->name + "' needs the gradients as they are: leave the wrapper '" +
                    wrapper_row->name + "' out");
  }
  if (wrapped && row->half_precision) {
    throw HookError("the hook '" + row->name + "' sends half precision itself: inside the wrapper '" +
                    wrapper_row->name + "' gradients would be cast twice");
  }
  const OptionMap complete = complete_options(*row, options);
  if (row->name == "no" && !wrapped) return nullptr;
  const auto factory = hooks_.find(row->name == "no" ? "allreduce" : row->name);
  std::unique_ptr<CommHook> built;
  try {
    built = factory->second(context, complete);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw HookError("the hook '" + row->name + "' can't be built: " + error.what());
  }
  return wrapped ? wrappers_.at(wrapper_row->name)(std::move(built)) : std::move(built);
}

}  // namespace hookline
