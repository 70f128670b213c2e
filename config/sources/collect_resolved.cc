#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "config/schema/origin_text.h"
#include "config/schema/schema.h"
#include "config/sources/collect.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostResolvedBytes = 4 << 20;

/// Returns nothing if `json` can't be the value of a key, such as null.
std::optional<OptionValue> value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& each : json) {
    if (!each.is_string()) return std::nullopt;
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

class ResolvedCollector {
 public:
  ResolvedCollector(std::string file, Collected& collected) : file_(std::move(file)), collected_(collected) {}

  void table(const std::string& path, const Json& json) {
    if (!json.is_object()) throw Error((path.empty() ? "the whole file" : path) + " is not an object");
    for (const auto& [name, child] : json.items()) {
      const std::string full = path.empty() ? name : path + "." + name;
      if (full == kHookOptionTable)
        options(child);
      else if (!key_names(full).empty())
        table(full, child);
      else if (find_key(full))
        key(full, given(full, name, child));
      else
        unknown(path, name);
    }
  }

 private:
  void key(const std::string& full, Given given) { collected_.keys[full].push_back(std::move(given)); }

  void options(const Json& json) {
    if (!json.is_object()) throw Error(std::string(kHookOptionTable) + " is not an object");
    for (const auto& [name, child] : json.items())
      collected_.hook_options.push_back(given(std::string(kHookOptionTable) + "." + name, name, child));
  }

  void unknown(const std::string& table, const std::string& name) {
    collected_.problems.push_back(diagnostic_at(
        Place{file_}, Severity::error,
        table.empty() ? "unknown table [" + name + "]" : "unknown key '" + name + "' in [" + table + "]", "",
        ProblemKind::unknown_key));
  }

  Given given(const std::string& full, const std::string& name, const Json& entry) const {
    const auto text = [&](const char* member) {
      if (!entry.is_object() || !entry.contains("value") || !entry.contains(member) ||
          !entry[member].is_string())
        throw Error(full + " must have the members value, origin and where");
      return entry[member].get<std::string>();
    };
    const auto kind = origin_kind(text("origin"));
    if (!kind) throw Error(full + " has an unknown origin: '" + text("origin") + "'");
    const std::string where = text("where");
    Given result;
    result.layer = *kind;
    result.name = name;
    result.value = value_of(entry["value"]);
    result.shown = result.value ? shown_value(*result.value) : entry["value"].type_name();
    result.key = result.place = Place{where.empty() ? file_ : where};
    return result;
  }

  std::string file_;
  Collected& collected_;
};

}  // namespace

void collect_resolved(const std::filesystem::path& file, Collected& collected) {
  const auto report = [&](const std::string& message, const std::string& note) {
    collected.problems.push_back(diagnostic_at(Place{file.string()}, Severity::error, message, note));
  };
  std::string text;
  try {
    text = read_regular_file(file, kMostResolvedBytes);
  } catch (const Error& error) {
    return report("the config of this launch, which HOOKLINE_CONFIG names, can't be read", error.what());
  }
  try {
    ResolvedCollector(file.string(), collected).table("", read_json<Json>(text));
  } catch (const Error& error) {
    report(
        "HOOKLINE_CONFIG does not name a config that this version's `hookline launch` wrote",
        std::string(error.what()) +
            "; start the program with the launcher of the hookline version that it was built with, or unset "
            "the variable");
  }
}

}  // namespace hookline
