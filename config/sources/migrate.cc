#include "config/sources/migrate.h"

#include <charconv>
#include <functional>

#include "config/sources/file_keys.h"
#include "config/toml/edit.h"

namespace hookline {
namespace {

/// A key that was removed from the schema.
struct FormerKey {
  std::int64_t last_version;  // the last version with the key
  std::string table, name;
  std::string now;                                                         // what replaces it
  std::function<std::string(const SourceText&, const KeyPath&)> replaced;  // the text with the key replaced
};

KeyPath beside(KeyPath key, const std::string& name) {
  key.back() = name;
  return key;
}

/// prefix = false was another way to say prefix_template = "".
std::string without_prefix(const SourceText& text, const KeyPath& key) {
  const bool had_none = value_in(text, key) == "false";
  const SourceText without(text.name(), without_key(text, key));
  return had_none ? with_key(without, beside(key, "prefix_template"), "\"\"") : std::string(without.text());
}

const std::vector<FormerKey>& former_keys() {
  static const std::vector<FormerKey> rows = {
      {1, "logging", "prefix", "prefix_template, in which \"\" means no prefix", without_prefix},
  };
  return rows;
}

/// [logging] prefix, and [profile.NAME.logging] prefix.
bool is_of(const FormerKey& row, const KeyPath& key) {
  const std::size_t names = key.size();
  const bool in_profile = names == 4 && key[0] == kProfileTable;
  return (names == 2 || in_profile) && key[names - 2] == row.table && key[names - 1] == row.name;
}

}  // namespace

std::optional<std::string> former_key(const std::string& table, const std::string& name) {
  for (const FormerKey& row : former_keys())
    if (row.table == table && row.name == name)
      return "a key of schema version " + std::to_string(row.last_version) + ", now " + row.now +
             ": `hookline config update FILE` changes it";
  return std::nullopt;
}

std::int64_t schema_version_of(const SourceText& text) {
  const std::string value = value_in(text, {kSchemaVersionKey});
  if (value.empty()) return 1;
  std::int64_t version = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), version);
  if (read.ec != std::errc() || read.ptr != value.data() + value.size() || version < 1 ||
      version > kSchemaVersion)
    throw EditError("'" + text.name() + "' is of schema version " + value +
                    ", and this hookline knows 1 to " + std::to_string(kSchemaVersion));
  return version;
}

Migrated migrate(const SourceText& text) {
  const std::int64_t version = schema_version_of(text);
  Migrated result{std::string(text.text()), {}};
  for (const FormerKey& row : former_keys()) {
    if (row.last_version < version) continue;
    for (const auto& [key, place] : find_keys(text.text())) {
      if (!is_of(row, key)) continue;
      result.text = row.replaced(SourceText(text.name(), result.text), key);
      result.changes.push_back(key_text(key) + " is now " + row.now);
    }
  }
  if (version < kSchemaVersion)
    result.text =
        with_key(SourceText(text.name(), result.text), {kSchemaVersionKey}, std::to_string(kSchemaVersion));
  return result;
}

}  // namespace hookline
