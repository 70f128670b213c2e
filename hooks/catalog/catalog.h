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
  lossless,  ///< The average, as an all-reduce gives it.
  half,      ///< The average in 16-bit floating-point numbers.
  low_rank,  ///< An approximation by matrices of low rank.
  unstated   ///< The row says nothing: comm_hook = "auto" takes the hook only if [ddp.auto] hooks names it.
};

/// A gradient communication hook, as `comm_hook` names it. HOOKLINE_REGISTER_HOOK takes one as JSON, whose
/// fields have the names of these members; all but "name" and "summary" may be left out.
struct HookRow {
  std::string name;  ///< Its canonical name: a letter, then letters, digits, '_', '-' and '.'.
  std::vector<std::string> aliases;  ///< Other names, of the same form.
  std::string summary;               ///< One sentence for the help and the documentation.
  std::vector<OptionRow> options;    ///< The keys of [ddp.comm_state_option].
  bool wrappable = true;             ///< True if a wrapper may change the precision it works in.
  bool half_precision = false;  ///< True if it sends half precision by itself: a wrapper would cast twice.
  bool averages = true;         ///< True if it leaves the same gradients on every rank.
  std::string source;           ///< The paper, or "none".
  std::string parity;           ///< The PyTorch function that it matches, or "none".
  Exactness exactness = Exactness::unstated;  ///< How much of the gradients it keeps.
  /// The shared library that brings it; empty: hookline or the program. Not in the JSON.
  std::string plugin = {};
};

/// A wrapper, as `comm_wrapper` names it: runs the hook on gradients cast to another precision.
struct WrapperRow {
  std::string name;     ///< "no", "fp16", "bf16"
  std::string summary;  ///< One sentence for the help and the documentation.
  std::string dtype;    ///< "float16", "bfloat16"; empty for "no".
  std::string parity;   ///< The PyTorch function that it matches.
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
  /// By name; nullptr if there is none.
  const WrapperRow* find_wrapper(std::string_view name) const;

  /// All hooks: hookline's own, then those that were added, in that order.
  const std::vector<HookRow>& hooks() const { return hooks_; }
  /// All wrappers, "no" first.
  const std::vector<WrapperRow>& wrappers() const { return wrappers_; }

 private:
  std::vector<HookRow> hooks_;
  std::vector<WrapperRow> wrappers_;
};

/// "lossless", "half", "low_rank"; "unstated".
std::string to_text(Exactness exactness);
/// The same back; none if `text` is no such word.
std::optional<Exactness> exactness_of(std::string_view text);

/// A hook's row as JSON, as HOOKLINE_REGISTER_HOOK takes it and `hookline hooks describe --json` prints it.
std::string to_json(const HookRow& row);
/// The row that `json` describes. Throws CatalogError naming the field that is missing, unknown or wrong.
HookRow hook_row_from_json(std::string_view json);

}  // namespace hookline
