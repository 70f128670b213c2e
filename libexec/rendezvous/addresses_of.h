// What a host's name stands for.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// The addresses of a host, in digits. Throws nothing: `why` says why there are none.
std::vector<std::string> addresses_of(const std::string& host, std::string& why);

}  // namespace hookline
