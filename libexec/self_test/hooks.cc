#include "libexec/self_test/hooks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "hooks/catalog/wire_estimate.h"
#include "hooks/registry/registry.h"
#include "parallel/ddp/given_gradients.h"
#include "parallel/distributed_module.h"
#include "parallel/world/same_bits.h"

namespace hookline {
namespace {

/// Each shape fills one bucket, with a square number of elements. Batched PowerSGD pads other buckets with
/// zeros to a square matrix, and then does not reproduce equal gradients exactly.
const std::vector<std::pair<std::string, std::vector<std::int64_t>>> kShapes = {
    {"square", {256, 256}}, {"wide", {128, 512}}, {"vector", {65536}}};
constexpr std::int64_t kBucketBytes = 65536 * 4;

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape({-1}));
  return at::cat(parts);
}

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// Sets options that delay compression to their smallest value, but at least to 2, which error feedback
/// needs.
void start_early(const HookRow& hook, OptionMap& options) {
  for (const OptionRow& row : hook.options) {
    if (row.name.starts_with("start_") && row.type == OptionType::integer)
      options[row.name] = static_cast<std::int64_t>(std::max(2.0, row.at_least.value_or(2)));
  }
}

}  // namespace

std::string HookCase::name() const {
  return (hook->name == "no" ? "no hook" : hook->name) +
         (wrapper->dtype.empty() ? "" : " in " + wrapper->name);
}

std::vector<HookCase> hook_cases(const std::string& configured, const OptionMap& options) {
  const Registry& registry = Registry::instance();
  std::vector<HookCase> cases;
  for (const HookRow& hook : registry.catalog().hooks()) {
    HookCase each{&hook, nullptr, hook.name == configured ? options : default_options(hook)};
    start_early(hook, each.options);
    for (const WrapperRow& wrapper : registry.catalog().wrappers()) {
      if (!wrapper.dtype.empty() && (!hook.wrappable || hook.half_precision)) continue;
      each.wrapper = &wrapper;
      cases.push_back(each);
    }
  }
  return cases;
}

HookTime try_hook(const std::shared_ptr<World>& world, const HookCase& each) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& [name, shape] : kShapes) {
    parameters.emplace_back(name, at::empty(shape, at::TensorOptions(at::kFloat).device(world->device())));
  }
  DdpOptions ddp;
  ddp.bucket_limits = {kBucketBytes, kBucketBytes};
  DistributedModule<GivenGradients> model(world, std::make_shared<GivenGradients>(parameters), ddp);
  double tolerance = tolerance_of_average(at::kFloat);
  std::int64_t steps = 4;  // buckets are rebuilt after the first
  if (auto hook = Registry::instance().build(each.hook->name, each.wrapper->name, each.options,
                                             model.ddp().hook_context())) {
    tolerance = hook->tolerance(at::kFloat);
    steps = std::max(steps, hook->first_full_step() + 2);
    model.register_comm_hook(std::move(hook));
  }

  // A hook of a plug-in may change gradients on purpose: clip them, say.
  const bool is_own = Catalog::built_in().find_hook(each.hook->name) != nullptr;
  // Report problems at the end: a rank that left early would leave the others waiting in a collective.
  std::string problem;
  const auto add_problem = [&](const std::string& text) { problem = problem.empty() ? text : problem; };
  HookTime result{each.hook->name, each.wrapper->name};
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto scale = static_cast<double>(step);
    const double own = scale * (world->rank() + 1) / 4, mean = scale * (world->size() + 1) / 8;
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : parameters) gradients.push_back(at::full_like(tensor, own));
    model.zero_grad();
    const at::Tensor loss = model.forward(gradients);
    const std::int64_t sent_before = model.ddp().communication_stats().bytes_sent;
    world->barrier("a step of the self-test");
    const auto start = std::chrono::steady_clock::now();
    loss.backward();
    std::vector<at::Tensor> left;
    for (const at::Tensor& parameter : model.parameters()) left.push_back(parameter.grad());
    const at::Tensor all = flat(left);
    const double wanted = each.hook->averages ? mean : own;
    const at::Tensor right = at::full_like(all, wanted);
    result.relative_error = ((all - right).norm() / right.norm()).item<double>();  // waits for a GPU
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.bytes_sent = static_cast<double>(model.ddp().communication_stats().bytes_sent - sent_before);

    const std::string who = "step " + std::to_string(step) + ": rank " + std::to_string(world->rank());
    result.is_mean = result.relative_error <= (each.hook->averages ? tolerance : 0);
    if (!result.is_mean && is_own)
      add_problem(who + " has gradients " + short_text(result.relative_error) + " off the mean, and " +
                  short_text(tolerance) + " is what rounding may do");
    if (each.hook->averages && !same_bits_on_all_ranks(*world, all))
      add_problem(who + " has other gradients than another rank, and models would drift apart");
  }
  if (!problem.empty()) throw Error(problem);
  return result;
}

}  // namespace hookline
