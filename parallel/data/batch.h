// What a data loader does to a batch: stack the samples into tensors, and move it to a device.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <torch/data/example.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace torch::data {
template <typename Dataset, typename Sampler>
class StatelessDataLoader;
template <typename Dataset>
class StatefulDataLoader;
}  // namespace torch::data

namespace hookline {

/// True if T is one of torch's own loaders, by value or as make_data_loader returns it. These cannot be split
/// between ranks, since their sampler is private.
template <class T>
inline constexpr bool is_torch_data_loader_v = false;
template <class Dataset, class Sampler>
inline constexpr bool is_torch_data_loader_v<torch::data::StatelessDataLoader<Dataset, Sampler>> = true;
template <class Dataset>
inline constexpr bool is_torch_data_loader_v<torch::data::StatefulDataLoader<Dataset>> = true;
template <class Loader, class Deleter>
inline constexpr bool is_torch_data_loader_v<std::unique_ptr<Loader, Deleter>> =
    is_torch_data_loader_v<Loader>;
template <class Loader>
inline constexpr bool is_torch_data_loader_v<std::shared_ptr<Loader>> = is_torch_data_loader_v<Loader>;

namespace detail {

using LabelledExample = torch::data::Example<>;
using TensorExample = torch::data::TensorExample;
using Indices = c10::ArrayRef<std::size_t>;

/// Stacks the samples along a new first dimension. `indices` are their indices in the dataset.
/// Errors  Error, naming two samples whose shapes differ
/// Parity  torch.utils.data.default_collate
LabelledExample collate(std::vector<LabelledExample> samples, Indices indices);
TensorExample collate(std::vector<TensorExample> samples, Indices indices);

/// Returns any other batch as the dataset made it.
template <class Batch>
Batch collate(Batch batch, Indices) {
  return batch;
}

template <class Batch>
using CollatedBatch = decltype(collate(std::declval<Batch>(), Indices()));

template <class T>
struct MoveToDevice {
  static constexpr bool possible = requires(T & value, c10::Device device) { value = value.to(device); };
  static void apply(T& value, c10::Device device) { value = value.to(device); }
};
template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T> ||
         std::is_same_v<T, std::string>) struct MoveToDevice<T> {
  static constexpr bool possible = true;
  static void apply(T&, c10::Device) {}
};
template <class Data>
struct MoveToDevice<torch::data::Example<Data, void>> {
  static constexpr bool possible = MoveToDevice<Data>::possible;
  static void apply(torch::data::Example<Data, void>& example, c10::Device device) {
    MoveToDevice<Data>::apply(example.data, device);
  }
};
template <class Data, class Target>
struct MoveToDevice<torch::data::Example<Data, Target>> {
  static constexpr bool possible = MoveToDevice<Data>::possible && MoveToDevice<Target>::possible;
  static void apply(torch::data::Example<Data, Target>& example, c10::Device device) {
    MoveToDevice<Data>::apply(example.data, device);
    MoveToDevice<Target>::apply(example.target, device);
  }
};
template <class T>
struct MoveToDevice<std::vector<T>> {
  static constexpr bool possible = MoveToDevice<T>::possible;
  static void apply(std::vector<T>& values, c10::Device device) {
    for (T& value : values) MoveToDevice<T>::apply(value, device);
  }
};

/// True if a loader can move this batch: a tensor, an Example, a vector of those, or a type with `T
/// to(torch::Device)`. Numbers, enums and strings count as well; they are left as they are.
template <class Batch>
inline constexpr bool kCanMoveBatch = MoveToDevice<Batch>::possible;

template <class Batch>
void move_batch(Batch& batch, c10::Device device) {
  if constexpr (kCanMoveBatch<Batch>) MoveToDevice<Batch>::apply(batch, device);
}

[[noreturn]] void throw_cannot_move_batch(c10::Device device);

/// For a program that dereferences an iterator at the end of its epoch.
[[noreturn]] void throw_no_batch();

}  // namespace detail
}  // namespace hookline
