#include "config/sources/sources.h"

#include <unistd.h>

#include <algorithm>

namespace hookline {

std::vector<std::pair<std::string, std::string>> hookline_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos && text.compare(0, 9, "HOOKLINE_") == 0)
      variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

}  // namespace hookline
