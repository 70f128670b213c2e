#include "launcher/process/own_environment.h"

#include <unistd.h>

namespace hookline {

std::vector<std::string> own_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) result.emplace_back(*entry);
  return result;
}

std::vector<std::string> own_environment_without(std::string_view name) {
  std::vector<std::string> result = own_environment();
  std::erase_if(result, [&](const std::string& each) {
    return each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=';
  });
  return result;
}

}  // namespace hookline
