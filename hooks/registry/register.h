/// @file
/// HOOKLINE_REGISTER_HOOK: adds a hook of a program or of a plug-in, in one statement.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/build_stamp.h"
#include "hooks/registry/registry.h"

namespace hookline::detail {

/// Registers a hook when the code is loaded. In a program, this happens before main: at a broken or duplicate
/// row the program exits with 2 and a message. In a plug-in, the RegistrationCollector takes the hook.
struct HookRegistration {
  HookRegistration(std::string_view row_json, HookFactory factory);
};

struct CollectedHook {
  std::string row_json;
  HookFactory factory;
};

/// While it exists, it collects the registrations of this thread, which then do not join the process's
/// registry.
class RegistrationCollector {
 public:
  RegistrationCollector();
  ~RegistrationCollector();
  RegistrationCollector(const RegistrationCollector&) = delete;
  RegistrationCollector& operator=(const RegistrationCollector&) = delete;

  std::vector<CollectedHook> hooks;
};

}  // namespace hookline::detail

/// Registers `HookClass`, a CommHook with a constructor (HookContext, const OptionMap&), under the name in
/// `row_json`, a string literal:
///
///     HOOKLINE_REGISTER_HOOK(ClipAllreduce, R"json({
///       "name": "clip_allreduce", "summary": "…",
///       "options": [{"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0, "help": "…"}]
///     })json");
///
/// Use it at namespace scope, in a source file of the program or of a plug-in: a shared library that links
/// hookline::plugin and that a config names in [ddp] plugins. Not in a static library, whose unused files the
/// linker drops. `hookline launch` reads the row from the file before it starts anything. At a broken row
/// or a taken name a program exits with 2 before main; in a plug-in, it is a HookError when the plug-in is
/// loaded.
#define HOOKLINE_REGISTER_HOOK(HookClass, row_json)                                                    \
  namespace {                                                                                          \
  [[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] const char hookline_row_##HookClass[] =   \
      row_json;                                                                                        \
  [[gnu::used, gnu::retain, gnu::section("hookline_build")]] const char hookline_build_##HookClass[] = \
      HOOKLINE_BUILD_STAMP;                                                                            \
  const ::hookline::detail::HookRegistration hookline_registration_##HookClass(                        \
      hookline_row_##HookClass,                                                                        \
      [](::hookline::HookContext context,                                                              \
         const ::hookline::OptionMap& options) -> std::unique_ptr<::hookline::CommHook> {              \
        return std::make_unique<HookClass>(std::move(context), options);                               \
      });                                                                                              \
  }                                                                                                    \
  static_assert(true, "a semicolon follows")
