// Keeps libtorch's functions of vectors accurate when several threads call them for the first time.
#pragma once

namespace hookline {

/// Calls each function that libtorch leaves to MKL's vector math once, in float32 and float64. MKL selects a
/// function's code during the first call. If several threads make that call at the same time, one of them may
/// get results of low accuracy (PyTorch issue 188792; MKL 2024.2, which libtorch 2.11 contains). Does this
/// once in a process, in one or two milliseconds; meanwhile other callers wait. Thread-safe.
void warm_up_vector_math();

}  // namespace hookline
