// A key as `config get` and `config set` take it.
#pragma once

#include <optional>
#include <string>

#include "config/toml/toml_keys.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

struct FileKey {
  KeyPath path;                        // in the file
  std::optional<std::string> profile;  // whose value it is
  std::string key;                     // "ddp.comm_hook", without the profile
};

/// "ddp.comm_hook", or "profile.slow.ddp.comm_hook". Throws UsageError for an unknown key, and names
/// the nearest one.
FileKey file_key(const std::string& text, const Catalog& catalog);

}  // namespace hookline
