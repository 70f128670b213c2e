#include "launcher/launch/libexec.h"

#include <optional>
#include <system_error>

#include "launcher/launch/own_torch.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/own_environment.h"

namespace hookline {

namespace {

/// `place`, which is relative to the launcher's folder.
std::filesystem::path from_launcher(const std::filesystem::path& place) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / place).lexically_normal();
}

}  // namespace

std::filesystem::path cmake_folder() { return from_launcher(HOOKLINE_CMAKE_FOLDER); }

std::filesystem::path libexec_program(const std::string& name) {
  return from_launcher(std::filesystem::path(HOOKLINE_LIBEXEC) / name);
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
    throw ProgramError("'" + file.string() + "', which " + does +
                           ", is not there: this is the launcher alone (the Python package hookline-torch "
                           "has the program), a "
                           "checkout that was built in part only (./dev build builds the rest), or a "
                           "hookline that was moved "
                           "without it",
                       kNotFound);
  Program program{file, file, {file.string()}};
  program.library_folders = torch_libraries_for(file).string();
  // The libraries that a package bundles. Those that need each other are found only through this path.
  const std::filesystem::path bundled = file.parent_path() / "lib";
  if (std::filesystem::exists(bundled, error))
    program.library_folders += (program.library_folders.empty() ? "" : ":") + bundled.string();
  return program;
}

std::vector<std::string> command_of(const Program& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  if (!program.library_folders.empty())
    command = {"env", std::string(kLibraryPath) + "=" + library_path(program.library_folders)};
  command.push_back(program.executable.string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace hookline
