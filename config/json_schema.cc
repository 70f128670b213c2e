#include "config/json_schema.h"

#include <nlohmann/json.hpp>

#include "config/schema/schema.h"
#include "config/sources/file_keys.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const OptionValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json type_of(const OptionRow& row) {
  switch (row.type) {
    case OptionType::boolean:
      return {{"type", "boolean"}};
    case OptionType::texts:
    case OptionType::text: {
      Json text = {{"type", "string"}};
      if (!row.allowed.empty()) text["enum"] = row.allowed;
      if (row.type == OptionType::text) return text;
      return {{"type", "array"}, {"items", text}};
    }
    case OptionType::integer:
    case OptionType::number:
      break;
  }
  const bool is_integer = row.type == OptionType::integer;
  const auto bound = [&](double limit) {
    return is_integer ? Json(static_cast<std::int64_t>(limit)) : Json(limit);
  };
  Json number = {{"type", is_integer ? "integer" : "number"}};
  if (row.at_least) number["minimum"] = bound(*row.at_least);
  if (row.at_most) number["maximum"] = bound(*row.at_most);
  return number;
}

Json property(const OptionRow& row) {
  Json schema = {{"description", row.help + (row.unit.empty() ? "" : " [" + row.unit + "]")},
                 {"default", json_of(row.default_value)}};
  Json type = type_of(row);
  if (row.or_word) {
    schema["anyOf"] = {std::move(type), {{"const", *row.or_word}}};
  } else if (row.or_integer) {
    schema["anyOf"] = {std::move(type), {{"type", "integer"}}};
  } else {
    schema.update(type);
  }
  return schema;
}

Json property(const KeyRow& row) {
  Json schema = property(row.option);
  if (!row.form.booleans) return schema;
  schema["anyOf"] = {type_of(row.option), {{"type", "boolean"}}};
  schema.erase("type");
  return schema;
}

Json table(Json properties, const std::string& description) {
  return {{"type", "object"},
          {"description", description},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

/// The options of all hooks together: a schema can't express which of them the chosen hook has.
Json hook_options(const Catalog& catalog) {
  Json properties = Json::object();
  for (const HookRow& hook : catalog.hooks()) {
    for (const OptionRow& option : hook.options) {
      if (properties.contains(option.name)) {
        std::string text = properties[option.name]["description"];
        properties[option.name]["description"] = text.insert(text.find(": "), ", " + hook.name);
        continue;
      }
      Json schema = property(option);
      schema["description"] = hook.name + ": " + schema["description"].get<std::string>();
      properties[option.name] = std::move(schema);
    }
  }
  // Other properties are allowed, since a hook that only the program knows may have them.
  return {{"type", "object"},
          {"description", "Options of the chosen hook."},
          {"properties", std::move(properties)}};
}

template <class Rows>
Json one_of(const Rows& rows, const Json& schema) {
  Json result = schema;
  Json names = Json::array();
  for (const auto& row : rows) {
    names.push_back(row.name);
    for (const std::string& alias : row.aliases) names.push_back(alias);
  }
  result["examples"] = std::move(names);
  return result;
}

Json tables(const Catalog& catalog) {
  Json result = Json::object();
  for (const std::string& name : table_names()) {
    Json properties = Json::object();
    for (const KeyRow& row : schema())
      if (row.table == name) properties[row.option.name] = property(row);
    if (name == "ddp") {
      properties["comm_hook"] = one_of(catalog.hooks(), properties["comm_hook"]);
      properties["comm_hook"]["examples"].push_back(kAutoHook);
      Json& wrapper = properties["comm_wrapper"];
      wrapper["enum"] = Json::array();
      for (const WrapperRow& row : catalog.wrappers()) wrapper["enum"].push_back(row.name);
      properties["comm_state_option"] = hook_options(catalog);
    }
    Json schema = table(std::move(properties), "[" + name + "]");
    const std::size_t dot = name.find('.');  // of a nested table, which follows its parent
    (dot == name.npos ? result[name] : result[name.substr(0, dot)]["properties"][name.substr(dot + 1)]) =
        std::move(schema);
  }
  return result;
}

}  // namespace

std::string json_schema(const Catalog& catalog) {
  Json properties = {
      {kSchemaVersionKey,
       {{"description", "The version of the schema that this file was written for."},
        {"type", "integer"},
        {"minimum", 1},
        {"maximum", kSchemaVersion}}},
      {kIncludeKey,
       {{"description", "Files to include; this file's values override theirs. Relative to its folder."},
        {"type", "array"},
        {"items", {{"type", "string"}}}}},
  };
  Json of_profile = tables(catalog);
  properties.update(of_profile);
  properties[kProfileTable] = {
      {"type", "object"},
      {"description", "[profile.NAME.ddp]: values that override the others with --profile NAME."},
      {"additionalProperties",
       {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(of_profile)}}}};
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "hookline config"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"properties", std::move(properties)}};
  return schema.dump(2) + "\n";
}

}  // namespace hookline
