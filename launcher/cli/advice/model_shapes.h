// The model that a command line speaks of, by the shapes of its parameters.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hooks/catalog/wire_estimate.h"

namespace hookline {

/// Of "1024x512", "10". Throws UsageError.
Shape shape_of(const std::string& text);

/// Of the floating-point tensors in a safetensors file, in a checkpoint of hookline's, or in a file of
/// torch's, which a program of libexec/ reads. Throws Error, UsageError, ProgramError.
std::vector<Shape> shapes_in(const std::filesystem::path& named);

}  // namespace hookline
