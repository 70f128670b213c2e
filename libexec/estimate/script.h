// The parameters of a TorchScript archive, which C++'s torch::save writes too: from its pickle, and from what
// its code declares. None of that code runs, as it would if libtorch loaded the file. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "libexec/estimate/pickle.h"

namespace hookline {

/// An archive that is damaged, or whose parameters can't be found without running its code.
class ScriptError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the code of a class declares.
struct ScriptClass {
  bool is_module = false;
  bool restores_itself = false;  // by __setstate__
  std::set<std::string> parameters;
};

/// The classes of a code record, such as code/__torch__.py, by their names in it.
std::map<std::string, ScriptClass> classes_in(std::string_view code);

/// The text of a record of the archive; nothing if it has none of that name.
using RecordText = std::function<std::optional<std::string>(const std::string& name)>;

/// The shapes of the floating-point parameters of the module in `saved`, data.pkl, and of its submodules. A
/// parameter with two names counts once. Throws ScriptError.
std::vector<std::vector<std::int64_t>> script_parameter_shapes(const Pickle& saved, const RecordText& record);

}  // namespace hookline
