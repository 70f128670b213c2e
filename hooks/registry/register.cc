#include "hooks/registry/register.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace hookline::detail {
namespace {

thread_local RegistrationCollector* collector = nullptr;

}  // namespace

RegistrationCollector::RegistrationCollector() { collector = this; }
RegistrationCollector::~RegistrationCollector() { collector = nullptr; }

HookRegistration::HookRegistration(std::string_view row_json, HookFactory factory) {
  if (collector) {
    collector->hooks.push_back({std::string(row_json), std::move(factory)});
    return;
  }
  try {
    Registry::instance().add(hook_row_from_json(row_json), std::move(factory));
  } catch (const CatalogError& error) {
    // Nobody can catch an exception that is thrown before main.
    std::fprintf(stderr, "hookline: error: a hook of this program can't be registered: %s\n", error.what());
    std::exit(2);
  }
}

}  // namespace hookline::detail
