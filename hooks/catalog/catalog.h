// The catalog: what is known of every communication hook without loading libtorch.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/catalog/option.h"

namespace hookline {

/// The value of `comm_hook` that makes hookline choose the hook by measurements; no hook has this name.
inline constexpr const char* kAutoHook = "auto";

/// How much of the gradients a hook keeps, from all of them down.
enum class Exactness {
  lossless,  // the average, as an all-reduce gives it
  half,      // in 16-bit floating-point numbers
  low_rank,  // by matrices of low rank
  unstated
};

/// A gradient communication hook, as `comm_hook` names it.
struct HookRow {
  std::string name;
  std::vector<std::string> aliases;
  std::string summary;             // one sentence
  std::vector<OptionRow> options;  // keys of [ddp.comm_state_option]
  bool wrappable = true;           // may a wrapper change the precision it works in?
  bool half_precision = false;     // sends half precision by itself, so that a wrapper would cast twice
  bool averages = true;            // leaves the same gradients on every rank
  std::string source;              // paper, or "none"
  std::string parity;              // the PyTorch function it matches
  Exactness exactness = Exactness::unstated;
  std::string plugin = {};  // the shared library that brings it; empty: hookline or the program
};

/// A wrapper, as `comm_wrapper` names it: runs the hook on gradients cast to another precision.
struct WrapperRow {
  std::string name;
  std::string summary;
  std::string dtype;  // "float16", "bfloat16"; empty for "no"
  std::string parity;
};

/// A row that can't join the catalog: its text is broken, or its name is taken.
class CatalogError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The hooks and wrappers a run may name. A value type; not synchronised.
class Catalog {
 public:
  /// hookline's own hooks and wrappers.
  static Catalog built_in();

  /// Adds a hook of a program or plug-in. Throws CatalogError if a name or alias is taken or malformed.
  void add(HookRow row);

  /// By name or alias; nullptr if there is none.
  const HookRow* find_hook(std::string_view name) const;
  const WrapperRow* find_wrapper(std::string_view name) const;

  const std::vector<HookRow>& hooks() const { return hooks_; }
  const std::vector<WrapperRow>& wrappers() const { return wrappers_; }

 private:
  std::vector<HookRow> hooks_;
  std::vector<WrapperRow> wrappers_;
};

/// "lossless", "half", "low_rank"; "unstated".
std::string to_text(Exactness exactness);
std::optional<Exactness> exactness_of(std::string_view text);

/// A hook's row as JSON, and back: what HOOKLINE_REGISTER_HOOK puts into a program and `hooks describe
/// --json` prints. hook_row_from_json throws CatalogError naming the missing or wrong field.
std::string to_json(const HookRow& row);
HookRow hook_row_from_json(std::string_view json);

}  // namespace hookline
