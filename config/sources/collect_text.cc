// Reads values from environment variables and the command line, and converts text and TOML to the type of a
// key.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "base/suggest.h"
#include "config/schema/schema.h"
#include "config/sources/collect.h"

namespace hookline {
namespace {

constexpr std::string_view kPrefix = "HOOKLINE_";
constexpr const char* kNotUtf8 = "must be UTF-8, as config files are";
constexpr std::string_view kReserved[] = {"CONFIG", "PROFILE", "RUN_DIR", "TORCH", "STORE_FD", "ADVICE_FILE"};

bool is_utf8(const Given& given) { return !given.typed_text || !first_invalid_byte(*given.typed_text); }

template <typename Number>
std::optional<Number> read_number(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return !text.empty() && result.ec == std::errc() && result.ptr == end ? std::optional(number)
                                                                        : std::nullopt;
}

std::optional<bool> read_boolean(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

/// "a,b" as two strings, without the spaces around them; an empty text is an empty list.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size() + 1 && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    parts.emplace_back(part.substr(0, part.find_last_not_of(' ') + 1));
    begin = end + 1;
  }
  return parts;
}

/// `text` as the row's type, or as text if it is not one.
OptionValue read_as(const OptionRow& row, const std::string& text) {
  if (row.or_word && text == *row.or_word) return text;
  switch (row.type) {
    case OptionType::boolean:
      if (const auto value = read_boolean(text)) return *value;
      break;
    case OptionType::integer:
      if (const auto value = read_number<std::int64_t>(text)) return *value;
      break;
    case OptionType::number:
      if (const auto value = read_number<std::int64_t>(text)) return *value;
      if (const auto value = read_number<double>(text)) return *value;
      break;
    case OptionType::text:
      break;
    case OptionType::texts:
      return split_list(text);
  }
  return text;
}

/// The first byte of `text` that is not a space or a tab; 0 if there is none.
char first_byte(std::string_view text) {
  const auto at = text.find_first_not_of(" \t");
  return at == text.npos ? '\0' : text[at];
}

/// True for the value of a list that begins like a TOML array but is not one.
bool is_broken_list(const Given& given, const OptionRow& row) {
  return given.typed_text && row.type == OptionType::texts && first_byte(*given.typed_text) == '[';
}

/// A hint at what may have been meant: "; write 2 without the quotes".
std::string advice(const Given& given, const OptionRow& row) {
  if (!given.value) {
    if (!given.typed_text) return "";
    std::vector<std::string> words = row.allowed;
    if (is_broken_list(given, row)) return R"(; write ["a", "b"] as in TOML, or a,b without brackets)";
    if (row.type == OptionType::boolean) words = {"true", "false"};
    if (row.or_word) words.push_back(*row.or_word);
    const auto near = nearest(*given.typed_text, words);
    return near ? "; did you mean " + *near + "?" : "";
  }
  std::string ignored;
  if (const auto* text = std::get_if<std::string>(&*given.value)) {
    if (row.type == OptionType::texts) return "; write [" + to_text(*given.value) + "]";
    if (row.type != OptionType::text && check_value(row, read_as(row, *text), ignored))
      return "; write " + *text + " without the quotes";
    std::vector<std::string> words = row.allowed;
    if (row.or_word) words.push_back(*row.or_word);
    const auto near = nearest(*text, words);
    return near ? "; did you mean " + to_text(*near) + "?" : "";
  }
  const OptionValue quoted = to_text(*given.value);
  if (row.type == OptionType::text && check_value(row, quoted, ignored)) return "; write it in quotes";
  return "";
}

std::string bad_value(const Given& given, const std::string& name, const std::string& table) {
  const std::string where = " for '" + name + "' in [" + table + "]";
  const bool is_scalar = given.value || given.typed_text;
  return is_scalar ? "bad value " + given.shown + where : "bad value" + where + ": " + given.shown;
}

/// "DDP_COMM_HOOK" and "ddp.comm_hook" are the same.
std::string without_separators(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '.'; });
  return lower_case(std::move(name));
}

std::string variable_of(std::string key) {
  std::string name(kPrefix);
  for (const char c : key) {
    if (c == '.') {
      name += "__";
    } else {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return name;
}

Given text_given(OriginKind layer, int order, std::string name, const std::string& value,
                 const std::string& where) {
  Given given;
  given.layer = layer;
  given.order = order;
  given.name = std::move(name);
  given.typed_text = value;
  given.shown = shown_value(value);
  given.key = given.place = Place{where};
  return given;
}

/// Stores the value under `key`; false if there is no such key.
bool add(const std::string& key, Given given, Collected& collected) {
  const std::string options = std::string(kHookOptionTable) + ".";
  if (key.compare(0, options.size(), options) == 0 && key.size() > options.size()) {
    collected.hook_options.push_back(std::move(given));
    return true;
  }
  if (!find_key(key)) return false;
  collected.keys[key].push_back(std::move(given));
  return true;
}

void report_unknown_key(const std::string& key, const std::string& where, const Catalog& catalog,
                        Collected& collected) {
  std::string note = "a key is a table, a dot and a name: ddp.comm_hook";
  if (const auto near = nearest(key, all_keys(catalog))) {
    note = "did you mean '" + *near + "'?";
  } else {
    for (const KeyRow& row : schema())
      if (row.option.name == key) note = "did you mean '" + row.key() + "'?";
  }
  collected.problems.push_back(diagnostic_at(Place{where}, Severity::error, "unknown key '" + key + "'", note,
                                             ProblemKind::unknown_key));
}

std::string name_in_table(const std::string& key) {
  const std::string options = std::string(kHookOptionTable) + ".";
  const bool is_option = key.compare(0, options.size(), options) == 0;
  return key.substr(is_option ? options.size() : key.rfind('.') + 1);
}

bool is_table(const std::string& name) {
  return name == kHookOptionTable ||
         std::any_of(schema().begin(), schema().end(), [&](const KeyRow& row) { return row.table == name; });
}

/// True for the keys of the schema and the options of hooks.
bool is_key(const std::string& name) {
  return find_key(name) || name.starts_with(std::string(kHookOptionTable) + ".");
}

/// A value that begins as TOML's strings, arrays and tables do.
struct TomlText {
  std::optional<SourceText> text;
  TomlDocument document;

  /// Null if the text is not valid TOML.
  const TomlNode* node() const {
    const bool is_one =
        document.problems.empty() && document.roots.size() == 1 && document.roots[0].children.size() == 1;
    return is_one ? &document.roots[0].children[0].second : nullptr;
  }
};

/// Returns nothing unless `value` begins like a TOML string, array or table.
std::optional<TomlText> read_toml(const std::string& value, const std::string& where) {
  if (std::string_view("\"'[{").find(first_byte(value)) == std::string_view::npos) return std::nullopt;
  TomlText result;
  auto source = source_of(where, "value = " + value);
  if (auto* text = std::get_if<SourceText>(&source)) {
    result.text = std::move(*text);
    result.document = parse_toml(*result.text);
  }
  return result;
}

void add_keys(const std::string& key, const TomlNode& node, std::vector<std::string>& keys) {
  if (node.kind != TomlNode::Kind::table || !is_table(key)) return keys.push_back(key);
  for (const auto& [name, child] : node.children) add_keys(key + "." + name, child, keys);
}

/// One source of values that are given as text.
struct TextSource {
  OriginKind layer;
  const Catalog& catalog;
  Collected& collected;

  /// Stores the value in `node` under `key`. If `key` is a table, stores each key in `node` and reports
  /// unknown ones. False if there is no such key or table.
  bool add_node(const std::string& key, const TomlNode& node, const SourceText& text,
                const std::string& where) const {
    if (node.kind == TomlNode::Kind::table && is_table(key)) {
      for (const auto& [name, child] : node.children)
        if (const std::string inner = key + "." + name; !add_node(inner, child, text, where))
          report_unknown_key(inner, where, catalog, collected);
      return true;
    }
    Given given = given_by(name_in_table(key), node, text);
    given.layer = layer;
    given.order = collected.sources;
    given.key = given.place = Place{where};
    return add(key, std::move(given), collected);
  }

  /// Stores `value` under `key`: as TOML if it begins with a quote, bracket or brace, otherwise as text of
  /// the key's type. False if there is no such key.
  bool add_text(const std::string& key, const std::string& value, const std::string& where) const {
    if (const auto toml = read_toml(value, where)) {
      if (const TomlNode* node = toml->node()) return add_node(key, *node, *toml->text, where);
      const auto report = [&](const std::string& message, const std::string& note) {
        collected.problems.push_back(diagnostic_at(Place{where}, Severity::error, message, note));
        return true;
      };
      if (is_table(key))
        return report(
            "what is given for the table '" + key + "' is not valid TOML",
            "write it as {key = value, key = value}, with strings in quotes: " + key + "={name = \"text\"}");
      if (const char quote = first_byte(value); is_key(key) && (quote == '"' || quote == '\''))
        return report(
            "bad value " + shown_value(value) + " for '" + key + "'",
            "a value that begins with a quote must be a TOML string: end it with the same quote, or "
            "remove the quotes");
    }
    return add(key, text_given(layer, collected.sources, name_in_table(key), value, where), collected);
  }
};

/// False for kReserved and HOOKLINE_LOG_…, which are no keys, and for variables of other programs.
bool may_set_keys(const std::string& variable) {
  if (!variable.starts_with(kPrefix)) return false;
  const std::string rest = variable.substr(kPrefix.size());
  return !std::count(std::begin(kReserved), std::end(kReserved), rest) && !rest.starts_with("LOG_");
}

/// "ddp.comm_hook" for "HOOKLINE_DDP__COMM_HOOK".
std::string key_of_variable(const std::string& variable) {
  std::string key = lower_case(variable.substr(kPrefix.size()));
  for (std::size_t at = key.find("__"); at != key.npos; at = key.find("__", at + 1))
    key.replace(at, 2, 1, '.');
  return key;
}

void report_unknown_variable(const std::string& name, const Catalog& catalog, Collected& collected) {
  const Place place{name};
  const std::string rest = name.substr(kPrefix.size());
  if (rest.find("__") == rest.npos) {
    // Without "__" the name is not in the form of a key, and may belong to another program. Warn only if it
    // is spelled like a key.
    const auto warn = [&](const std::string& key) {
      collected.problems.push_back(diagnostic_at(place, Severity::warning, "this variable has no effect",
                                                 "did you mean " + variable_of(key) + "?"));
    };
    for (const KeyRow& row : schema())
      if (lower_case(rest) == row.option.name) return warn(row.key());
    for (const std::string& key : all_keys(catalog))
      if (without_separators(rest) == without_separators(key)) return warn(key);
    return;
  }
  std::vector<std::string> variables;
  for (const std::string& key : all_keys(catalog)) variables.push_back(variable_of(key));
  const auto near = nearest(name, variables);
  collected.problems.push_back(diagnostic_at(
      place, Severity::error, "there is no such key",
      near ? "did you mean " + *near + "?"
           : "a variable is HOOKLINE_, the table, two underscores and the key: " + variables.front()));
}

/// Reports an error if two variables set the same key, since it is unclear which one counts. Their names may
/// differ in case, or one may set a whole table.
void report_second(const std::string& variable, const std::vector<std::string>& keys,
                   std::map<std::string, std::string>& first_of, Collected& collected) {
  for (const std::string& key : keys) {
    if (!is_key(key)) continue;
    const auto [first, is_first] = first_of.emplace(lower_case(key), variable);
    if (!is_first)
      collected.problems.push_back(diagnostic_at(Place{variable}, Severity::error,
                                                 key + " is given twice: by " + first->second +
                                                     (first->second == variable ? "" : " and by " + variable),
                                                 "unset one of them"));
  }
}

/// Text for a key of unknown type, as the value that it looks like.
OptionValue read_untyped(const std::string& text) {
  if (const auto value = read_boolean(text)) return *value;
  if (const auto value = read_number<std::int64_t>(text)) return *value;
  if (const auto value = read_number<double>(text)) return *value;
  return text;
}

}  // namespace

std::filesystem::path path_given(const std::string& name, const Given& given) {
  const bool is_of_file = given.layer == OriginKind::file;
  return is_of_file ? std::filesystem::path(given.place.source).parent_path() / name
                    : std::filesystem::path(name);
}

Diagnostic without_effect(const Given& given, const std::string& why) {
  return diagnostic_at(given.key, Severity::warning, "'" + given.name + "' has no effect", why);
}

std::string shown_value(const OptionValue& value) {
  constexpr std::size_t longest = 80;
  std::string text = to_text(value);
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

bool sets_keys(const std::string& variable) {
  if (!may_set_keys(variable)) return false;
  const std::string key = key_of_variable(variable);
  return is_key(key) || is_table(key);
}

std::vector<std::string> keys_of(const Override& override) {
  std::vector<std::string> keys;
  const auto toml = read_toml(override.value, override.where);
  const TomlNode* node = toml ? toml->node() : nullptr;
  if (node)
    add_keys(override.key, *node, keys);
  else
    keys.push_back(override.key);
  return keys;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void collect_environment(const std::vector<std::pair<std::string, std::string>>& variables,
                         const Catalog& catalog, Collected& collected) {
  ++collected.sources;
  const TextSource source{OriginKind::environment, catalog, collected};
  std::map<std::string, std::string> first_of;  // by key: the variable that gives it
  for (const auto& [name, value] : variables) {
    if (!may_set_keys(name)) continue;
    const std::string key = key_of_variable(name);
    report_second(name, keys_of({key, value, name}), first_of, collected);
    if (!source.add_text(key, value, name)) report_unknown_variable(name, catalog, collected);
  }
}

void collect_overrides(const std::vector<Override>& overrides, const Catalog& catalog, Collected& collected) {
  ++collected.sources;
  const TextSource source{OriginKind::command_line, catalog, collected};
  for (const Override& each : overrides)
    if (!source.add_text(each.key, each.value, each.where))
      report_unknown_key(each.key, each.where, catalog, collected);
}

std::optional<OptionValue> checked_value(const Given& given, const OptionRow& row, const std::string& table,
                                         std::vector<Diagnostic>& problems) {
  std::string problem = is_utf8(given) ? "must be " + allowed_text(row) : kNotUtf8;
  std::optional<OptionValue> value;
  if (given.value) value = check_value(row, *given.value, problem);
  if (given.typed_text && is_utf8(given) && !is_broken_list(given, row))
    value = check_value(row, read_as(row, *given.typed_text), problem);
  if (!value)
    problems.push_back(diagnostic_at(given.place, Severity::error, bad_value(given, row.name, table),
                                     problem + advice(given, row)));
  return value;
}

std::optional<OptionValue> untyped_value(const Given& given, std::vector<Diagnostic>& problems) {
  const auto refuse = [&](const char* why) {
    problems.push_back(
        diagnostic_at(given.place, Severity::error, bad_value(given, given.name, kHookOptionTable), why));
    return std::nullopt;
  };
  if (!given.value && !given.typed_text) return refuse("must be true or false, a number or a string");
  if (!is_utf8(given)) return refuse(kNotUtf8);
  const OptionValue value = given.value ? *given.value : read_untyped(*given.typed_text);
  if (const auto* number = std::get_if<double>(&value); number && !std::isfinite(*number))
    return refuse("must be finite");
  return value;
}

}  // namespace hookline
