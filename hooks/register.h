// HOOKLINE_REGISTER_HOOK: adds a program's own hook, in one statement.
#pragma once

#include <memory>
#include <string_view>

#include "hooks/registry.h"

namespace hookline::detail {

/// Registers at start-up; a broken or duplicate row ends the program with a message, before main.
struct HookRegistration {
  HookRegistration(std::string_view row_json, HookFactory factory);
};

}  // namespace hookline::detail

/// Registers `HookClass`, a CommHook with a constructor (HookContext, const OptionMap&), under the name in `row_json`,
/// a string literal:
///
///   HOOKLINE_REGISTER_HOOK(ClipAllreduce, R"json({"name": "clip_allreduce", "summary": "…",
///     "options": [{"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0, "help": "…"}]})json");
///
/// At namespace scope, in a source file of the program (the linker drops unused files of a static library). The row
/// also lies in a section of the executable, where `hookline launch` reads it before it starts anything.
#define HOOKLINE_REGISTER_HOOK(HookClass, row_json)                                                  \
  namespace {                                                                                        \
  [[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] const char hookline_row_##HookClass[] = \
      row_json;                                                                                      \
  const ::hookline::detail::HookRegistration hookline_registration_##HookClass(                      \
      hookline_row_##HookClass,                                                                      \
      [](::hookline::HookContext context,                                                            \
         const ::hookline::OptionMap& options) -> std::unique_ptr<::hookline::CommHook> {            \
        return std::make_unique<HookClass>(std::move(context), options);                             \
      });                                                                                            \
  }                                                                                                  \
  static_assert(true, "a semicolon follows")
