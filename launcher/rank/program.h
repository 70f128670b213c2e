// Finds the program that a run is to start.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hookline {

struct Program {
  std::filesystem::path file;                    // what the user named: hooks are read from it
  std::filesystem::path executable;              // what is started: the file itself, or the interpreter
  std::vector<std::string> arguments;            // argv, argv[0] included; the same on all nodes of a run
  std::vector<std::string> arguments_here = {};  // further ones, which may differ between nodes
  std::string library_folders = {};  // where it looks for shared libraries first, as in LD_LIBRARY_PATH
  std::optional<int> explained_exit =
      {};  // after this exit code the launcher reports no failed rank: the program has explained it itself

  std::vector<std::string> argv() const {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), arguments_here.begin(), arguments_here.end());
    return all;
  }
};

/// A program that can't be started, and the code a shell would exit with: 127 not found, 126 not executable.
class ProgramError : public std::runtime_error {
 public:
  ProgramError(const std::string& what, int code) : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Looks `command[0]` up as execvp does: in `search_path` (PATH), unless it has a slash. A name that ends in
/// .py is looked for in the current folder first. A .py file that is not a script by itself (not executable,
/// or without #!) is run with `python3 -u`. `command` is not empty. Throws ProgramError.
Program find_program(const std::vector<std::string>& command, const std::string& search_path);

/// PATH, or where the C library looks without one.
std::string search_path();

}  // namespace hookline
