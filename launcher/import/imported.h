// What another launcher's configuration becomes here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/resolve.h"
#include "hooks/error.h"

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
  std::vector<std::string> program;  // that was launched, with its arguments, if it says so

  void carry(const std::string& key, const std::string& value, const std::string& from) {
    values.push_back({key, value, from});
  }
  void leave_out(const std::string& what, const std::string& why) { left_out.emplace_back(what, why); }
};

/// Accelerate's YAML (default_config.yaml), of any distributed type. Throws ImportError.
Imported import_accelerate(const std::string& text);

/// A command line of torchrun, or of `python -m torch.distributed.run`, as a shell script has it. Throws ImportError.
Imported import_torchrun(const std::string& text);

/// DeepSpeed's hostfile: "host slots=8" a line. Throws ImportError.
Imported import_hostfile(const std::string& text);

/// The one of the three that `text` looks like. Throws ImportError.
Imported import_any(const std::string& text);

}  // namespace hookline
