// The versions of the libraries that a rank runs with.
#pragma once

#include <string>

namespace hookline {

/// A JSON object: libtorch's version, file and CPU instructions, and CUDA's and NCCL's versions, or why there
/// are none here.
std::string versions_as_json();

}  // namespace hookline
