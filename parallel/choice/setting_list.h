// All settings that one model may choose from, and how they belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "config/checks/hook_settings.h"
#include "parallel/choice/bucket_sizes.h"

namespace hookline {

/// No hook first, then each hook among all ranks, then, if `has_scopes`, each hook between hosts. Each of
/// these comes with the config's buckets first, then with each other bucket size.
class SettingList {
 public:
  SettingList(std::vector<HookSetting> hooks, bool has_scopes, const std::vector<std::int64_t>& bucket_bytes)
      : hooks_(hooks.size()), sizes_(1 + bucket_bytes.size()), has_scopes_(has_scopes) {
    hooks.insert(hooks.begin(), HookSetting{"no hook", "no"});
    all_ = in_each_size(has_scopes ? in_both_scopes(std::move(hooks)) : std::move(hooks), bucket_bytes);
  }

  std::size_t size() const { return all_.size(); }
  const HookSetting& operator[](std::size_t setting) const { return all_[setting]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  bool has_scopes() const { return has_scopes_; }

  /// How many sizes of buckets there are, the config's included.
  std::size_t sizes() const { return sizes_; }
  /// Of these, the setting's; 0: the config's.
  std::size_t size_of(std::size_t setting) const { return setting % sizes_; }
  /// Equal for settings that differ in their buckets only; 0: no hook.
  std::size_t hook_of(std::size_t setting) const { return setting / sizes_; }
  /// Each hook among all ranks in the config's buckets.
  std::vector<std::size_t> hooks() const {
    std::vector<std::size_t> hooks;
    for (std::size_t hook = 1; hook <= hooks_; ++hook) hooks.push_back(hook * sizes_);
    return hooks;
  }
  /// The same setting between hosts; none where there are no scopes, or for no hook.
  std::optional<std::size_t> between_hosts(std::size_t setting) const {
    if (!has_scopes_ || hook_of(setting) == 0 || hook_of(setting) > hooks_) return std::nullopt;
    return setting + hooks_ * sizes_;
  }

 private:
  std::size_t hooks_, sizes_;
  bool has_scopes_;
  std::vector<HookSetting> all_;
};

}  // namespace hookline
