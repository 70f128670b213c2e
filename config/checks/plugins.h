// The plug-ins that a config names, read before anything else of it is checked: they bring hooks and their
// options.
#pragma once

#include <string>
#include <vector>

#include "config/sources/collect.h"
#include "config/sources/sources.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

struct Plugins {
  std::vector<std::string> files;  // absolute, in the order of the config
  Catalog catalog;                 // with the hooks of those that could be read
  std::vector<Diagnostic> problems;
};

/// What `[ddp] plugins` of the strongest source says. Never throws for bad input.
Plugins read_plugins(const Collected& collected, const Sources& sources, const Catalog& catalog);

}  // namespace hookline
