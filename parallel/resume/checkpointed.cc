#include "parallel/resume/checkpointed.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <utility>

#include "parallel/tensors/byte_tensor.h"

namespace hookline::detail {
namespace {

/// Gives access to a scheduler's step count, its only state: learning rates belong to the optimizer.
struct StepCount : torch::optim::LRScheduler {
  static unsigned& of(torch::optim::LRScheduler& scheduler) { return scheduler.*(&StepCount::step_count_); }
};

}  // namespace

TensorAccess access_to_tensor(at::Tensor& tensor) {
  return {[&tensor] { return tensor.detach(); },
          [&tensor](const at::Tensor& saved) {
            if (!tensor.defined() || tensor.sizes() != saved.sizes()) {
              tensor = saved;
              return;
            }
            const at::NoGradGuard no_grad;
            tensor.detach().copy_(saved);
          }};
}

TensorAccess access_to_string(std::string& text) {
  return {[&text] { return tensor_of_bytes(text); },
          [&text](const at::Tensor& saved) { text = bytes_of_tensor(saved); }};
}

TensorAccess access_to_scheduler(torch::optim::LRScheduler& scheduler) {
  unsigned& count = StepCount::of(scheduler);
  return access_to_integer([&count] { return static_cast<std::int64_t>(count); },
                           [&count](std::int64_t value) { count = static_cast<unsigned>(value); });
}

TensorAccess access_to_integer(std::function<std::int64_t()> get, std::function<void(std::int64_t)> set) {
  return {[get = std::move(get)] { return at::scalar_tensor(get(), at::kLong); },
          [set = std::move(set)](const at::Tensor& saved) { set(saved.item<std::int64_t>()); }};
}

TensorAccess access_to_float(std::function<double()> get, std::function<void(double)> set) {
  return {[get = std::move(get)] { return at::scalar_tensor(get(), at::kDouble); },
          [set = std::move(set)](const at::Tensor& saved) { set(saved.item<double>()); }};
}

TensorAccess access_to_archive(std::function<void(torch::serialize::OutputArchive&)> save,
                               std::function<void(torch::serialize::InputArchive&)> load) {
  return {[save = std::move(save)] {
            torch::serialize::OutputArchive archive;
            save(archive);
            return tensor_of_archive(archive);
          },
          [load = std::move(load)](const at::Tensor& saved) {
            torch::serialize::InputArchive archive;
            open_archive(archive, saved);
            load(archive);
          }};
}

}  // namespace hookline::detail
