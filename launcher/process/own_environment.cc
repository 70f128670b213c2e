#include "launcher/process/own_environment.h"

#include <unistd.h>

#include <cstdlib>

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

std::vector<std::string> own_environment_with(const std::string& name, const std::string& value) {
  std::vector<std::string> result = own_environment_without(name);
  result.push_back(name + "=" + value);
  return result;
}

std::string library_path(const std::string& folders) {
  const char* const own = std::getenv(kLibraryPath);
  return own && *own ? folders + ":" + own : folders;
}

}  // namespace hookline
