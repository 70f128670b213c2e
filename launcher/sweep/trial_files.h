// Where a trial of a sweep has its files.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// The folder of the trial `id`, in that of its sweep.
std::filesystem::path folder_of_trial(const std::filesystem::path& sweep, const std::string& id);

/// What a trial has left stays beside its folder, which is free then: as ID.1, ID.2, … Returns the new name, empty if there
/// was nothing. Throws Error.
std::filesystem::path set_aside(const std::filesystem::path& trial);

}  // namespace hookline
