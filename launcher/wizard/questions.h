// What the wizard asks for each key of a config.
#pragma once

#include <string>
#include <string_view>

namespace hookline {

/// The question for a key, "How many machines? …" for "launch.nnodes"; empty for a key that is never asked
/// for.
std::string question_for(std::string_view key);

}  // namespace hookline
