// The result of importing another launcher's configuration.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/resolve.h"

namespace hookline {

/// The text is of no kind that can be imported, or is not valid; what() says where and why.
class ImportError : public Error {
 public:
  using Error::Error;
};

struct Imported {
  std::string kind;              // "Accelerate's config"
  std::vector<Override> values;  // keys and their values; `where` is the origin: "num_machines: 2"
  std::vector<std::pair<std::string, std::string>> left_out;  // what, and why
  // What was launched, if the text says so: its variables, what started the launcher (srun -N2), the program
  // with its arguments.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> before, program;
  // Words of the program that a shell expands ("*.txt"), by their index, written as for a shell.
  std::map<std::size_t, std::string> expanded;
  std::vector<std::string> remarks;  // what else to know before it is run

  void carry(const std::string& key, const std::string& value, const std::string& from) {
    values.push_back({key, value, from});
  }
  void leave_out(const std::string& what, const std::string& why) { left_out.emplace_back(what, why); }
};

/// Files to import have a few KiB, and parsing YAML is slow.
inline constexpr std::uint64_t kLargestImportBytes = 1 << 20;

/// Imports `text` as the kind that it looks like: Accelerate's YAML, a shell script with a command line of
/// torchrun or accelerate launch, or a hostfile. `file`: where the text is from. Files that a script names
/// are looked for in the current folder, then in the folder of `file`. Throws ImportError.
Imported import_any(const std::string& text, const std::filesystem::path& file = {});

}  // namespace hookline
