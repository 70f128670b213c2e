#include "launcher/rank/program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/text/printable.h"

namespace hookline {
namespace fs = std::filesystem;

namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_executable(const fs::path& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

bool starts_with_interpreter(const fs::path& path) {
  InputFile file(path);
  char start[2] = {};
  file.read(start, sizeof start);
  return start[0] == '#' && start[1] == '!';
}

std::string kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "no file";
  }
}

// Finds `name` on the search path: the first file that can be run, else the first file with that name, if
// any.
std::optional<fs::path> search(const std::string& name, const std::string& search_path) {
  std::optional<fs::path> not_executable;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string folder = search_path.substr(begin, end - begin);
    const fs::path candidate = folder.empty() ? fs::path("./" + name) : fs::path(folder) / name;
    if (is_executable(candidate)) return candidate;
    if (!not_executable && is_file(candidate)) not_executable = candidate;
    begin = end + 1;
  }
  return not_executable;
}

fs::path locate(const std::string& name, const std::string& search_path) {
  if (name.empty()) throw ProgramError("the program's name is empty", kNotFound);
  if (name.find('/') == std::string::npos) {
    if (name.ends_with(".py") && is_file(name)) return "./" + name;
    if (const auto found = search(name, search_path)) return *found;
    std::string hint;
    if (is_file(name))
      hint = "; did you mean '" + std::string(name.ends_with(".toml") ? "--config " : "./") +
             printable(name) + "'?";
    throw ProgramError("program '" + printable(name) + "' was not found in PATH" + hint, kNotFound);
  }
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (status.type() == fs::file_type::not_found)
    throw ProgramError("program '" + printable(name) + "' does not exist", kNotFound);
  if (error) {
    const std::string access = access_problem(name);
    throw ProgramError("program '" + printable(name) + "': " + (access.empty() ? error.message() : access),
                       kNotExecutable);
  }
  if (fs::is_directory(status))
    throw ProgramError("program '" + printable(name) + "' is a directory", kNotExecutable);
  if (!fs::is_regular_file(status))
    throw ProgramError("program '" + printable(name) + "' is " + kind_of(status.type()) +
                           ", not a program: name the file that is to run",
                       kNotExecutable);
  return name;
}

}  // namespace

std::string search_path() {
  const char* path = std::getenv("PATH");
  return path ? path : "/bin:/usr/bin";
}

Program find_program(const std::vector<std::string>& command, const std::string& search_path) {
  Program program;
  program.file = locate(command.front(), search_path);
  program.executable = program.file;
  program.arguments = command;
  const bool executable = is_executable(program.file);
  if (command.front().ends_with(".py") && !(executable && starts_with_interpreter(program.file))) {
    const auto python = search("python3", search_path);
    if (!python || !is_executable(*python))
      throw ProgramError("'python3', which is to run '" + command.front() + "', was not found in PATH",
                         kNotFound);
    program.executable = *python;
    program.arguments.front() = program.file;
    program.arguments.insert(program.arguments.begin(), {"python3", "-u"});
  } else if (!executable) {
    throw ProgramError(
        "program '" + command.front() + "' is not executable; try: chmod +x " + program.file.string(),
        kNotExecutable);
  }
  return program;
}

}  // namespace hookline
