#include "launcher/launch/libexec.h"

#include <optional>
#include <system_error>

#include "launcher/process/exit_code.h"

namespace hookline {

std::filesystem::path libexec_program(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / HOOKLINE_LIBEXEC / name).lexically_normal();
}

CatalogOf catalog_of_libexec(const std::string& name) {
  const std::filesystem::path file = libexec_program(name);
  std::error_code error;
  return catalog_of(std::filesystem::exists(file, error) ? std::optional(file) : std::nullopt);
}

Program libexec_rank(const std::string& name, const std::string& does) {
  const std::filesystem::path file = libexec_program(name);
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw ProgramError(
        "'" + file.string() + "', which " + does +
            ", is not there: this hookline was built without libtorch, was built in part only (./dev build "
            "builds the rest), or was moved without it",
        kNotFound);
  return {file, file, {file.string()}};
}

}  // namespace hookline
