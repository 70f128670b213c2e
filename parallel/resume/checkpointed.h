// Turns a program's own objects into tensors and back, for checkpoints.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace hookline::detail {

/// Saves an object as a tensor, and loads it from one. Holds a reference to the object.
struct TensorAccess {
  std::function<at::Tensor()> save;
  std::function<void(const at::Tensor&)> load;
};

template <class T>
concept HasArchives = requires(T& object, torch::serialize::OutputArchive& out,
                               torch::serialize::InputArchive& in) {
  object.save(out);
  object.load(in);
};

TensorAccess access_to_tensor(at::Tensor& tensor);
TensorAccess access_to_string(std::string& text);
TensorAccess access_to_scheduler(torch::optim::LRScheduler& scheduler);
TensorAccess access_to_integer(std::function<std::int64_t()> get, std::function<void(std::int64_t)> set);
TensorAccess access_to_float(std::function<double()> get, std::function<void(double)> set);
TensorAccess access_to_archive(std::function<void(torch::serialize::OutputArchive&)> save,
                               std::function<void(torch::serialize::InputArchive&)> load);

template <class T>
inline constexpr bool cannot_be_checkpointed_v = false;

template <class T>
TensorAccess access_to(T& object) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return access_to_tensor(object);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return access_to_string(object);
  } else if constexpr (std::is_base_of_v<torch::optim::LRScheduler, T>) {
    return access_to_scheduler(object);
  } else if constexpr (std::is_floating_point_v<T> && sizeof(T) <= sizeof(double)) {
    return access_to_float([&object] { return static_cast<double>(object); },
                           [&object](double value) { object = static_cast<T>(value); });
  } else if constexpr (std::is_integral_v<T>) {
    return access_to_integer([&object] { return static_cast<std::int64_t>(object); },
                             [&object](std::int64_t value) { object = static_cast<T>(value); });
  } else if constexpr (HasArchives<T>) {
    return access_to_archive([&object](torch::serialize::OutputArchive& archive) { object.save(archive); },
                             [&object](torch::serialize::InputArchive& archive) { object.load(archive); });
  } else {
    static_assert(
        cannot_be_checkpointed_v<T>,
        "register_for_checkpointing() takes a tensor, a number, a string, a torch LRScheduler, or an "
        "object with save(torch::serialize::OutputArchive&) and load(torch::serialize::InputArchive&)");
  }
}

}  // namespace hookline::detail
