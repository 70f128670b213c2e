#include "libexec/estimate/script.h"

#include <algorithm>
#include <utility>

namespace hookline {
namespace {

using Kind = Pickled::Kind;

constexpr std::string_view kClass = "class ";
constexpr std::string_view kModule = "(Module)";
constexpr std::string_view kParameters = "  __parameters__ = [";
constexpr std::string_view kSetState = "  def __setstate__(";
constexpr std::string_view kBuiltIn = "__torch__.torch.classes.";  // libtorch's own; they hold no parameters

/// The names in a list such as `"weight", "bias", ]`.
std::set<std::string> quoted_names(std::string_view list) {
  std::set<std::string> names;
  std::string name;
  bool is_inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '"') {
      if (is_inside) names.insert(std::exchange(name, {}));
      is_inside = !is_inside;
    } else if (is_inside) {
      if (list[i] == '\\' && i + 1 < list.size()) ++i;
      name += list[i];
    }
  }
  return names;
}

/// Finds classes by their full names, "__torch__.nets.Net". Reads their code on demand.
class Classes {
 public:
  explicit Classes(const RecordText& record) : record_(record) {}

  /// Null if the archive has no such class.
  const ScriptClass* find(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos) return nullptr;
    const auto [read, is_first] = read_.try_emplace(name.substr(0, dot));
    if (is_first) {
      std::string file = "code/" + read->first + ".py";
      for (std::size_t i = 0; i + 3 < file.size(); ++i)
        if (file[i] == '.') file[i] = '/';
      if (const auto code = record_(file)) read->second = classes_in(*code);
    }
    const auto found = read->second.find(name.substr(dot + 1));
    return found == read->second.end() ? nullptr : &found->second;
  }

 private:
  const RecordText& record_;
  std::map<std::string, std::map<std::string, ScriptClass>> read_;
};

/// The class of an object; null if it is not an object of TorchScript.
const std::string* class_of(const Pickled& value) {
  return value.kind == Kind::object && value.text.starts_with("__torch__.") ? &value.text : nullptr;
}

/// The attributes of a module of class `name`. Throws ScriptError.
const Pickled& attributes_of(const Pickled& module, const std::string& name, const ScriptClass& declared) {
  if (declared.restores_itself)
    throw ScriptError("its module '" + name +
                      "' is restored by a function of the file, __setstate__, and hookline runs no code of a "
                      "model file");
  if (module.items.size() != 2 || module.items[1]->kind != Kind::dictionary)
    throw ScriptError("its module '" + name + "' has no list of attributes: it is damaged");
  return *module.items[1];
}

}  // namespace

std::map<std::string, ScriptClass> classes_in(std::string_view code) {
  std::map<std::string, ScriptClass> classes;
  ScriptClass* inside = nullptr;
  while (!code.empty()) {
    const std::string_view line = code.substr(0, code.find('\n'));
    code.remove_prefix(std::min(code.size(), line.size() + 1));
    if (line.starts_with(kClass)) {
      const std::string_view declared = line.substr(kClass.size());
      inside = &classes[std::string(declared.substr(0, declared.find_first_of("(:")))];
      inside->is_module = declared.find(kModule) != declared.npos;
    } else if (inside && line.starts_with(kParameters)) {
      inside->parameters = quoted_names(line.substr(kParameters.size()));
    } else if (inside && line.starts_with(kSetState)) {
      inside->restores_itself = true;
    }
  }
  return classes;
}

std::vector<std::vector<std::int64_t>> script_parameter_shapes(const Pickle& saved,
                                                               const RecordText& record) {
  Classes classes(record);
  DistinctShapes shapes;
  std::set<const Pickled*> seen;
  std::vector<const Pickled*> left = {saved.root};
  if (!class_of(*saved.root)) throw ScriptError("it holds no module");
  while (!left.empty()) {
    const Pickled& module = *left.back();
    left.pop_back();
    if (!seen.insert(&module).second) continue;
    const std::string& name = *class_of(module);
    const ScriptClass* const declared = classes.find(name);
    if (!declared && name.starts_with(kBuiltIn)) continue;
    if (!declared) throw ScriptError("its code has no class '" + name + "': it is damaged");
    if (!declared->is_module) continue;
    const auto& attributes = attributes_of(module, name, *declared).entries;
    for (const auto& [key, value] : attributes) {
      if (!declared->parameters.contains(key->text)) continue;
      if (value->kind == Kind::tensor)
        shapes.add(*value);
      else if (value->kind != Kind::other)  // None
        throw ScriptError("the parameter '" + key->text + "' of its module '" + name +
                          "' is stored in a form that can't be read here, such as a sparse or quantized one");
    }
    for (auto each = attributes.rbegin(); each != attributes.rend(); ++each)
      if (class_of(*each->second)) left.push_back(each->second);
  }
  return std::move(shapes).take();
}

}  // namespace hookline
