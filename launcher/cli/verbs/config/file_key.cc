#include "launcher/cli/verbs/config/file_key.h"

#include <algorithm>
#include <vector>

#include "config/schema/schema.h"
#include "config/sources/file_keys.h"
#include "launcher/cli/arguments.h"

namespace hookline {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

FileKey file_key(const std::string& text, const Catalog& catalog) {
  FileKey key;
  key.path = split(text);
  std::size_t first = 0;
  if (key.path.size() > 2 && key.path[0] == kProfileTable) {
    key.profile = key.path[1];
    first = 2;
  }
  for (std::size_t i = first; i < key.path.size(); ++i) key.key += (i == first ? "" : ".") + key.path[i];
  const std::vector<std::string> keys = all_keys(catalog);
  if (std::count(keys.begin(), keys.end(), key.key)) return key;
  const std::string options = std::string(kHookOptionTable) + ".";
  if (key.key.starts_with(options) && key.path.size() == first + 3)
    return key;  // may be an option of a program's own hook
  for (const KeyRow& row : schema())
    if (row.option.name == key.key)
      throw UsageError("unknown key '" + text + "'; did you mean '" + row.key() + "'?");
  throw UsageError("unknown key '" + text + "'" + suggestion(key.key, keys));
}

}  // namespace hookline
