// Kernels for testing the race detector.
#pragma once

namespace hookline::testing {

/// Reverses 64 values, with or without a barrier between writes and reads.
void reverse_values(double* values, bool with_barrier);

/// 64 threads each add 1 to `sum`.
void add_up(double* sum);

/// Two blocks of 32 threads write 64 values; each then reads one of its own block's values, or of the
/// other's.
void exchange_between_blocks(double* values, bool of_the_other);

}  // namespace hookline::testing
