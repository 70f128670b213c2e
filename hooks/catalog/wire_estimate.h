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

/// Bytes that a rank hands to collectives in a step of a model with float32 parameters of these shapes, once
/// the hook has begun to compress. `options` are validated; `wrapper` is a row, "no" for none. Returns none
/// for hooks other than hookline's own. Treats all parameters as one bucket for PowerSGD; source: arXiv
/// 1905.13727, and powerSGD_hook.py's _should_compress. In a ring of W ranks, each rank sends 2 (W - 1) / W
/// times as much over the network. Throws Error as numel_of does.
std::optional<double> bytes_per_step(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                                     const std::vector<Shape>& shapes);

/// The same with [ddp] shard_optimizer, for a hook that sends `bytes` without it. Hooks that average in a
/// single all-reduce then send half; gathering the `parameters` adds half of what an all-reduce of them
/// sends.
double bytes_with_sharded_optimizer(const HookRow& hook, double bytes, double parameters);

/// Bytes of PowerSGD's factors P and Q, of the same model; 0 for other hooks. Throws Error as numel_of does.
double factor_bytes(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                    const std::vector<Shape>& shapes);

/// Every option of the hook with its default.
OptionMap default_options(const HookRow& hook);

/// More would be a list of shapes that takes long to go through.
inline constexpr std::int64_t kMostTypicalParameters = 1'000'000'000'000;

/// A typical model with `parameters` parameters: square matrices of 1024 x 1024 and a smaller one,
/// with a vector beside each.
std::vector<Shape> typical_shapes(std::int64_t parameters);

}  // namespace hookline
