// Shared by tests of imports.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "launcher/import/imported.h"

namespace hookline::testing {

/// Each imported value as "KEY = VALUE"; together they form a valid config.
inline std::vector<std::string> values(const Imported& imported) {
  Sources sources;
  sources.overrides = imported.values;
  EXPECT_EQ(resolve(sources, Catalog::built_in()).report(), "");
  std::vector<std::string> texts;
  for (const Override& value : imported.values) texts.push_back(value.key + " = " + value.value);
  return texts;
}

/// The error of importing `text` from `file`; "none" if it can be imported.
inline std::string problem(const std::string& text, const std::filesystem::path& file = {}) {
  try {
    import_any(text, file);
  } catch (const ImportError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace hookline::testing
