// What a hook will send, known before there is a model: torch-free, for the launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/catalog/catalog.h"

namespace hookline {

/// A parameter's sizes, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// No machine holds more, and up to here every estimate is exact in a double's 53 bits.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// Throws Error for more than kMostElements.
std::int64_t numel_of(const Shape& shape);

/// Of all parameters together. Throws Error for more than kMostElements.
std::int64_t numel_of(const std::vector<Shape>& shapes);

/// Bytes that a rank hands to collectives in a step, of a model of float32 parameters of these shapes, once a hook that
/// starts later has started. `options` as validated; `wrapper`: its row, "no" for none. Nothing for a hook that is not one
/// of hookline's own. PowerSGD over all parameters as one bucket; source: arXiv 1905.13727, and the rule of
/// powerSGD_hook.py's _should_compress. In a ring, 2 (W - 1) / W times as much leaves each of W ranks. Throws Error as numel_of does.
std::optional<double> bytes_per_step(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                                     const std::vector<Shape>& shapes);

/// The same with [ddp] shard_optimizer, for a hook that hands `bytes` to collectives without: of what averages gradients in one
/// all-reduce the first half of it, and a gather of the `parameters`, half an all-reduce of them.
double bytes_with_sharded_optimizer(const HookRow& hook, double bytes, double parameters);

/// Bytes of PowerSGD's factors P and Q, of the same model; 0 for other hooks. Throws Error as numel_of does.
double factor_bytes(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                    const std::vector<Shape>& shapes);

/// Every option of the hook with its default.
OptionMap default_options(const HookRow& hook);

/// More would be a list of shapes that takes long to go through.
inline constexpr std::int64_t kMostTypicalParameters = 1'000'000'000'000;

/// A model of `parameters` parameters as many have them: square matrices of 1024 x 1024 and a smaller one, with a vector
/// beside each.
std::vector<Shape> typical_shapes(std::int64_t parameters);

}  // namespace hookline
