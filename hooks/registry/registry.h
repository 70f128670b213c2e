// The registry: from a name in the catalog to a hook that runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "hooks/catalog/catalog.h"
#include "hooks/comm_hook.h"

namespace hookline {

/// Builds a hook. `options` are all options of its row, checked and with defaults filled in. What it throws
/// leaves Registry::build() as a HookError, or as it is if it is an Error.
using HookFactory = std::function<std::unique_ptr<CommHook>(HookContext context, const OptionMap& options)>;

/// Wraps a hook so that it works in another precision.
using WrapperFactory = std::function<std::unique_ptr<CommHook>(std::unique_ptr<CommHook> inner)>;

/// Factories by canonical name, and the catalog that describes them. Not synchronised: filled before
/// training.
class Registry {
 public:
  /// hookline's own hooks and wrappers.
  static Registry built_in();

  /// The process's registry: the built-in hooks and those of HOOKLINE_REGISTER_HOOK.
  static Registry& instance();

  /// Adds a hook. Throws CatalogError if its name is taken or its row is malformed.
  void add(HookRow row, HookFactory factory);

  /// The rows of all hooks and wrappers.
  const Catalog& catalog() const { return catalog_; }
  /// True if there is a factory for `hook`, a canonical name; false for "no".
  bool has_factory(const std::string& hook) const { return hooks_.count(hook) != 0; }
  /// True if there is a factory for `wrapper`; false for "no".
  bool has_wrapper_factory(const std::string& wrapper) const { return wrappers_.count(wrapper) != 0; }

  /// Builds `hook` (name or alias) with `options` (missing ones get their defaults; checked) inside
  /// `wrapper`. `no` inside `no` is DDP's own all-reduce, which takes no hook: nullptr. Throws HookError for
  /// an unknown name, an option that the hook doesn't have or that is out of range, and a combination that
  /// makes no sense.
  std::unique_ptr<CommHook> build(const std::string& hook, const std::string& wrapper,
                                  const OptionMap& options, const HookContext& context) const;

 private:
  Catalog catalog_;
  std::map<std::string, HookFactory> hooks_;
  std::map<std::string, WrapperFactory> wrappers_;
};

}  // namespace hookline
