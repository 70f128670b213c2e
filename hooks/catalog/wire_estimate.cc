#include "hooks/catalog/wire_estimate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace hookline {
namespace {

constexpr double kFloatBytes = 4, kHalfBytes = 2;

template <class T>
T value_of(const OptionMap& options, const char* name) {
  return std::get<T>(options.at(name));
}

struct SentElements {
  double factors = 0, uncompressed = 0;
};

SentElements elements_of_power_sgd(const OptionMap& options, const std::vector<Shape>& shapes) {
  const auto rank = value_of<std::int64_t>(options, "matrix_approximation_rank");
  const auto rate = value_of<double>(options, "min_compression_rate");
  SentElements elements;
  for (const Shape& shape : shapes) {
    const std::int64_t count = numel_of(shape);
    const std::int64_t n = shape.empty() ? 1 : shape[0], m = n == 0 ? 0 : count / n;
    const double sent =
        (static_cast<double>(n) + static_cast<double>(m)) * static_cast<double>(std::min({n, m, rank}));
    const bool is_compressed = shape.size() > 1 && sent * rate < static_cast<double>(count);
    (is_compressed ? elements.factors : elements.uncompressed) +=
        is_compressed ? sent : static_cast<double>(count);
  }
  return elements;
}

/// The whole bucket as one square matrix.
SentElements elements_of_batched_power_sgd(const OptionMap& options, const std::vector<Shape>& shapes) {
  const auto count = static_cast<double>(numel_of(shapes));
  const double side = std::ceil(std::sqrt(count));
  const auto rank = static_cast<double>(value_of<std::int64_t>(options, "matrix_approximation_rank"));
  return {2 * side * std::min(side, rank), 0};
}

SentElements elements_of(const HookRow& hook, const OptionMap& options, const std::vector<Shape>& shapes) {
  if (hook.name == "power_sgd") return elements_of_power_sgd(options, shapes);
  if (hook.name == "batched_power_sgd") return elements_of_batched_power_sgd(options, shapes);
  return {0, static_cast<double>(numel_of(shapes))};
}

double element_bytes(const HookRow& hook, const WrapperRow& wrapper) {
  return hook.half_precision || !wrapper.dtype.empty() ? kHalfBytes : kFloatBytes;
}

}  // namespace

std::int64_t numel_of(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count) || count > kMostElements)
      throw Error("a parameter has more elements than any machine holds (2^50 are the most)");
  }
  return count;
}

std::int64_t numel_of(const std::vector<Shape>& shapes) {
  std::int64_t count = 0;
  for (const Shape& shape : shapes) {
    count += numel_of(shape);  // can't overflow: both are at most 2^50
    if (count > kMostElements)
      throw Error("the model has more parameters than any machine holds (2^50 are the most)");
  }
  return count;
}

std::optional<double> bytes_per_step(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                                     const std::vector<Shape>& shapes) {
  if (!Catalog::built_in().find_hook(hook.name)) return std::nullopt;
  if (hook.name == "noop") return 0;
  const SentElements sent = elements_of(hook, options, shapes);
  return element_bytes(hook, wrapper) * (sent.factors + sent.uncompressed);
}

double factor_bytes(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                    const std::vector<Shape>& shapes) {
  return element_bytes(hook, wrapper) * elements_of(hook, options, shapes).factors;
}

double bytes_with_sharded_optimizer(const HookRow& hook, double bytes, double parameters) {
  const bool is_halved =
      hook.name == "no" || hook.name == "allreduce" || hook.name == "fp16" || hook.name == "bf16";
  return (is_halved ? bytes / 2 : bytes) + kFloatBytes * parameters / 2;
}

OptionMap default_options(const HookRow& hook) {
  OptionMap options;
  for (const OptionRow& row : hook.options) options[row.name] = row.default_value;
  return options;
}

std::vector<Shape> typical_shapes(std::int64_t parameters) {
  constexpr std::int64_t kSide = 1024;
  std::vector<Shape> shapes;
  const std::int64_t layer = kSide * kSide + kSide;
  for (; parameters >= layer; parameters -= layer) shapes.insert(shapes.end(), {{kSide, kSide}, {kSide}});
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(parameters)));
  if (side > 0) shapes.push_back({side, side});
  if (parameters > side * side) shapes.push_back({parameters - side * side});
  return shapes;
}

}  // namespace hookline
