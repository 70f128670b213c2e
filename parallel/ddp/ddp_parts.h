// A distributed model's state by name: parameters, buffers, gradients that wait, buckets, and its hook's.
#pragma once

#include <functional>
#include <string>

#include "parallel/ddp/ddp.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// Before the name of a parameter: its gradient.
inline constexpr const char* kGradientPrefix = "gradient.";

/// Parameters and buffers that are there.
NamedTensors tensors_of_model(torch::nn::Module& module);

/// Throws Error if `there`, which the checkpoint holds, has other names, dtypes or sizes than `here`.
/// `sizes_of` returns the sizes that a tensor of `here` has when it is whole.
void expect_same_model(const NamedTensors& here,
                       const std::function<at::IntArrayRef(const at::Tensor&)>& sizes_of,
                       const NamedTensors& there, const std::string& checkpoint);

/// `shared`: parameters and buffers, by name. `own`: with `accumulating`, gradients as "gradient.NAME". A
/// collective call.
SavedPart save_model(Ddp& ddp, bool accumulating);

/// Throws Error if the checkpoint is of another model.
void load_model(Ddp& ddp, const SavedPart& saved, Resumption& resumption);

/// Call it after save_model(): the hook's state is that for the buckets saved there.
SavedPart save_hook(Ddp& ddp);

/// After load_model. A hook other than the saved one, or one with other buckets, starts afresh, with a
/// warning.
void load_hook(Ddp& ddp, const SavedPart& saved, Resumption& resumption);

}  // namespace hookline
