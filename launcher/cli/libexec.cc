#include "launcher/cli/libexec.h"

#include <system_error>

namespace hookline {

std::filesystem::path libexec_program(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / HOOKLINE_LIBEXEC / name).lexically_normal();
}

}  // namespace hookline
