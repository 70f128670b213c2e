// The part of HookChooser that goes through a checkpoint.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text/count_text.h"
#include "parallel/choice/bucket_sizes.h"
#include "parallel/choice/hook_chooser.h"

namespace hookline {

nlohmann::json HookChooser::save() const {
  if (has_no_choice()) return nullptr;
  nlohmann::json saved = {
      {"ranks", world_->size()},
      {"chosen", has_chosen() ? nlohmann::json(settings_[in_use_].name) : nlohmann::json()},
      {"max_error", nlohmann::json()},
      {"plain_seconds", plain_},
      {"watched_step_seconds", watched_step_},
      {"settings", nlohmann::json::array()}};
  if (std::isfinite(options_.max_error)) saved["max_error"] = options_.max_error;
  for (std::size_t i = 0; i < settings_.size(); ++i)
    saved["settings"].push_back({{"name", settings_[i].name},
                                 {"seconds", decision_.seconds(i)},
                                 {"predicted_seconds", predicted_[i].predicted},
                                 {"margin", predicted_[i].margin},
                                 {"is_measured", is_measured(i)},
                                 {"is_given_up", decision_.is_dropped(i)}});
  return saved;
}

std::string HookChooser::resume(const nlohmann::json& saved) {
  if (saved.is_null()) return "";
  if (world_->size() == 1) return "";
  if (const int ranks = saved.at("ranks").get<int>(); ranks != world_->size())
    return "it was made for " + count_text(ranks, "rank") + ", and there are " +
           std::to_string(world_->size());
  const nlohmann::json& settings = saved.at("settings");
  bool is_same = settings.size() == settings_.size();
  for (std::size_t i = 0; is_same && i < settings_.size(); ++i)
    is_same = settings[i].at("name") == settings_[i].name;
  if (!is_same) return "[ddp.auto] permits other settings now";
  const nlohmann::json& bound = saved.at("max_error");
  if ((bound.is_null() ? std::numeric_limits<double>::infinity() : bound.get<double>()) != options_.max_error)
    return "[ddp.auto] max_error has changed";
  for (std::size_t i = 0; i < settings_.size(); ++i)
    if (settings[i].at("is_given_up").get<bool>()) decision_.drop(i);
  if (saved.at("chosen").is_null()) {
    log("the checkpoint was saved while steps were measured: they are measured anew");
    return "";
  }
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    settings[i].at("predicted_seconds").get_to(predicted_[i].predicted);
    settings[i].at("margin").get_to(predicted_[i].margin);
    // A step without a hook was always measured.
    decision_.restore(i, settings[i].at("seconds").get<double>(),
                      i != 0 && settings[i].at("is_measured").get<bool>());
    if (settings_[i].name == saved.at("chosen")) chosen = i;
  }
  if (settings_.size_of(chosen) != 0) {
    const BucketParameters buckets = ddp_.buckets();
    std::vector<BucketParameters> layouts =
        layouts_of(cut_into_buckets(order_of(buckets), ddp_.options().bucket_limits), options_.bucket_bytes);
    if (!are_same(buckets, layouts[settings_.size_of(chosen)])) return "its buckets can't be restored";
    layouts_ = std::move(layouts);
  }
  saved.at("plain_seconds").get_to(plain_);
  saved.at("watched_step_seconds").get_to(watched_step_);
  decision_.settle_on(chosen);
  use(chosen);
  exchanges_ = 0;
  is_resumed_ = watched_step_ > 0;  // else it was chosen, but not yet measured
  settled_ = chosen;
  log("resumes with " + settings_[chosen].name + " from the checkpoint");
  begin(Phase::proving);
  return "";
}

}  // namespace hookline
