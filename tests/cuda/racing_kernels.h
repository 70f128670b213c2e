// Kernels for the test of what finds races.
#pragma once

namespace hookline::testing {

/// 64 values, with a barrier between writing and reading them or without.
void reverse_values(double* values, bool with_barrier);

/// 64 threads each add 1.
void add_up(double* sum);

/// Two blocks of 32 write 64 values. Each then reads one of its own values, or of the other's.
void exchange_between_blocks(double* values, bool of_the_other);

}  // namespace hookline::testing
