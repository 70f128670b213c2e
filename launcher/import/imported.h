// What another launcher's configuration becomes here.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/resolve.h"

namespace hookline {

/// A text that is none of the kinds that can be imported, or not a valid one; what() says where and why.
class ImportError : public Error {
 public:
  using Error::Error;
};

struct Imported {
  std::string kind;              // "Accelerate's config"
  std::vector<Override> values;  // keys and what they get; `where` says what it was: "num_machines: 2"
  std::vector<std::pair<std::string, std::string>> left_out;  // what, and why
  // What was launched, if it says so: variables for it, what started the launcher (srun -N2), the program and its arguments.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> before, program;
  // Words of the program that a shell expands ("*.txt"), by their place in it, as they are to be written for one.
  std::map<std::size_t, std::string> expanded;
  std::vector<std::string> remarks;  // what else to know before it is run

  void carry(const std::string& key, const std::string& value, const std::string& from) {
    values.push_back({key, value, from});
  }
  void leave_out(const std::string& what, const std::string& why) { left_out.emplace_back(what, why); }
};

/// What is imported has a few KiB, and YAML takes long to read.
inline constexpr std::uint64_t kLargestImportBytes = 1 << 20;

/// The kind that `text` looks like: Accelerate's YAML, a shell script with a command line of torchrun or accelerate launch, a
/// hostfile. `file`: where it is from; what a script names is looked for in the current folder, then in the file's. Throws
/// ImportError.
Imported import_any(const std::string& text, const std::filesystem::path& file = {});

}  // namespace hookline
