// Catalog rows as JSON. Strict: a field that is missing, misspelt or of the wrong type is an error that names
// it.
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "hooks/catalog/catalog.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, OptionType> kTypes[] = {{"boolean", OptionType::boolean},
                                                         {"integer", OptionType::integer},
                                                         {"number", OptionType::number},
                                                         {"text", OptionType::text},
                                                         {"texts", OptionType::texts}};

Json value_to_json(const OptionValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json option_to_json(const OptionRow& row) {
  Json json;
  json["name"] = row.name;
  for (const auto& [name, type] : kTypes)
    if (type == row.type) json["type"] = name;
  json["default"] = value_to_json(row.default_value);
  json["help"] = row.help;
  if (!row.unit.empty()) json["unit"] = row.unit;
  if (row.at_least) json["at_least"] = *row.at_least;
  if (row.at_most) json["at_most"] = *row.at_most;
  if (!row.allowed.empty()) json["allowed"] = row.allowed;
  if (row.or_word) json["or_word"] = *row.or_word;
  return json;
}

/// One JSON object of a row. Remembers which fields were read, to refuse the others.
class Fields {
 public:
  Fields(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
    if (!json_.is_object()) throw CatalogError(what_ + " is not a JSON object");
  }

  void name_is(const std::string& name, const char* kind) { what_ = std::string(kind) + " '" + name + "'"; }

  const Json* find(const char* field) {
    known_.push_back(field);
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }

  std::string text(const char* field) {
    const Json* json = find(field);
    if (!json) throw CatalogError(what_ + " has no field \"" + field + "\"");
    if (!json->is_string()) wrong(field, "a string");
    return json->get<std::string>();
  }

  std::string text_or(const char* field, std::string otherwise) {
    return json_.contains(field) ? text(field) : (find(field), std::move(otherwise));
  }

  bool boolean_or(const char* field, bool otherwise) {
    const Json* json = find(field);
    if (!json) return otherwise;
    if (!json->is_boolean()) wrong(field, "true or false");
    return json->get<bool>();
  }

  std::optional<double> number(const char* field) {
    const Json* json = find(field);
    if (!json) return std::nullopt;
    if (!json->is_number()) wrong(field, "a number");
    return json->get<double>();
  }

  std::vector<std::string> texts(const char* field) {
    const Json* json = find(field);
    if (!json) return {};
    if (!json->is_array()) wrong(field, "an array of strings");
    std::vector<std::string> out;
    for (const Json& element : *json) {
      if (!element.is_string()) wrong(field, "an array of strings");
      out.push_back(element.get<std::string>());
    }
    return out;
  }

  [[noreturn]] void wrong(const char* field, const std::string& expected) const {
    throw CatalogError(what_ + ": field \"" + field + "\" must be " + expected);
  }

  void refuse_others() const {
    for (const auto& [field, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), field) == known_.end())
        throw CatalogError(what_ + " has an unknown field \"" + field + "\"");
  }

 private:
  const Json& json_;
  std::string what_;
  std::vector<std::string> known_;
};

OptionValue value_from_json(const Json* json, Fields& fields) {
  if (json && json->is_array()) return fields.texts("default");
  if (!json || json->is_null() || json->is_object()) fields.wrong("default", "a value of the option's type");
  if (json->is_boolean()) return json->get<bool>();
  if (json->is_string()) return json->get<std::string>();
  if (json->is_number_unsigned() && json->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fields.wrong("default", "an integer of 64 bits");
  if (json->is_number_integer()) return json->get<std::int64_t>();
  return json->get<double>();
}

OptionRow option_from_json(const Json& json, const std::string& hook) {
  Fields fields(json, "an option of hook '" + hook + "'");
  OptionRow row;
  row.name = fields.text("name");
  fields.name_is(row.name, ("hook '" + hook + "', option").c_str());
  const std::string type = fields.text("type");
  const auto known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& pair) { return pair.first == type; });
  if (known == std::end(kTypes))
    fields.wrong("type", "\"boolean\", \"integer\", \"number\", \"text\" or \"texts\"");
  row.type = known->second;
  row.help = fields.text_or("help", "");
  row.unit = fields.text_or("unit", "");
  row.at_least = fields.number("at_least");
  row.at_most = fields.number("at_most");
  row.allowed = fields.texts("allowed");
  if (row.type == OptionType::texts && (row.at_least || row.at_most))
    fields.wrong("type", "other than \"texts\" with \"at_least\" or \"at_most\": they are for single values");
  const std::string word = fields.text_or("or_word", "");
  if (!word.empty()) row.or_word = word;
  row.default_value = value_from_json(fields.find("default"), fields);
  fields.refuse_others();
  std::string problem;
  const auto checked = check_value(row, row.default_value, problem);
  if (!checked) fields.wrong("default", problem.substr(std::string("must be ").size()));
  row.default_value = *checked;
  return row;
}

}  // namespace

std::string to_json(const HookRow& row) {
  Json json;
  json["name"] = row.name;
  json["aliases"] = row.aliases;
  json["summary"] = row.summary;
  json["options"] = Json::array();
  for (const OptionRow& option : row.options) json["options"].push_back(option_to_json(option));
  json["wrappable"] = row.wrappable;
  json["half_precision"] = row.half_precision;
  json["averages"] = row.averages;
  json["exactness"] = to_text(row.exactness);
  json["source"] = row.source;
  json["parity"] = row.parity;
  return json.dump();
}

HookRow hook_row_from_json(std::string_view text) {
  Json json;
  try {
    json = read_json<Json>(text);
  } catch (const JsonError& error) {
    throw CatalogError(std::string("a hook's row is not JSON: ") + error.what());
  }
  Fields fields(json, "a hook's row");
  HookRow row;
  row.name = fields.text("name");
  fields.name_is(row.name, "hook");
  row.aliases = fields.texts("aliases");
  row.summary = fields.text("summary");
  row.wrappable = fields.boolean_or("wrappable", true);
  row.half_precision = fields.boolean_or("half_precision", false);
  row.averages = fields.boolean_or("averages", true);
  const auto exactness = exactness_of(fields.text_or("exactness", to_text(Exactness::unstated)));
  if (!exactness) fields.wrong("exactness", "\"lossless\", \"half\", \"low_rank\" or \"unstated\"");
  row.exactness = *exactness;
  row.source = fields.text_or("source", "none");
  row.parity = fields.text_or("parity", "none");
  if (const Json* options = fields.find("options")) {
    if (!options->is_array()) fields.wrong("options", "an array of objects");
    for (const Json& option : *options) row.options.push_back(option_from_json(option, row.name));
  }
  fields.refuse_others();
  return row;
}

}  // namespace hookline
