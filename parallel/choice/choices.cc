#include "parallel/choice/choices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text/list_text.h"
#include "hooks/registry/registry.h"
#include "parallel/choice/bucket_sizes.h"
#include "parallel/rank/environment.h"

namespace hookline {
namespace {

/// The candidates: "no hook, fp16 and power_sgd in 6 settings".
std::string plan_text(const std::vector<HookSetting>& settings, std::size_t other_sizes) {
  if (settings.empty() && other_sizes == 0) return "[ddp.auto] permits no hook; training stays without one";
  std::vector<std::string> names = {"no hook"};
  for (auto first = settings.begin(); first != settings.end();) {
    const auto next = std::find_if(first, settings.end(),
                                   [&](const HookSetting& each) { return each.hook != first->hook; });
    const auto count = next - first;
    names.push_back(first->hook + (count == 1 ? "" : " in " + std::to_string(count) + " settings"));
    first = next;
  }
  std::string text = "measures steps without a hook first, then chooses ";
  if (names.size() > 1) text += "among " + list_text(names, names.size());
  if (other_sizes == 0) return text;
  return text + (names.size() > 1 ? ", in buckets of " : "among buckets of ") +
         std::to_string(1 + other_sizes) + " sizes";
}

}  // namespace

Choices::Choices(std::shared_ptr<World> world) : world_(std::move(world)) {
  if (const auto file = environment_text("HOOKLINE_ADVICE_FILE")) advice_ = *file;
  // With several hosts, the file tells a launcher that rank 0 is on its host, even if the program ends before
  // a prediction.
  if (advice_ && world_->rank() == 0 && !std::filesystem::exists(*advice_)) write_advice(false);
}

std::shared_ptr<HookChooser> Choices::add(const std::shared_ptr<Ddp>& ddp, const AutoHookConfig& wanted) {
  std::vector<HookSetting> settings = settings_for(wanted, Registry::instance().catalog());
  // On a GPU every setting is tried, and with bucket sizes there would be too many.
  const bool may_cut_buckets =
      ddp->options().bucket_limits == BucketLimits::from(std::nullopt) && world_->device().is_cpu();
  ChoiceOptions options;
  if (may_cut_buckets) options.bucket_bytes = kBucketBytes;
  options.link = named_link(wanted.link);
  std::string plan = world_->size() == 1 ? "a single rank sends nothing and needs no hook"
                                         : plan_text(settings, options.bucket_bytes.size());
  if (options.link) plan += ". The link between hosts is " + wanted.link + ", by [ddp.auto]";
  options.max_error = wanted.max_error.value_or(options.max_error);
  options.predict_all = advice_.has_value();
  const auto chooser = std::make_shared<HookChooser>(world_, *ddp, std::move(settings), options);
  ddp->after_each_step([this, chooser] {
    chooser->after_step();
    if (!advice_) return;
    end_if_all_have_chosen();
    write_what_is_known();
  });
  // By then, a checkpoint's choice has been resumed.
  ddp->before_first_forward([chooser, plan, here = world_->rank() == 0] {
    if (here && !chooser->has_resumed()) log::info("comm_hook auto: " + plan);
  });
  choosers_.emplace_back(ddp.get(), chooser);
  return chooser;
}

/// The link that the config names; none if it is to be measured, or if none is needed.
std::optional<NamedLink> Choices::named_link(const std::string& text) const {
  if (text == kMeasuredLink) return std::nullopt;
  std::string why;
  if (!world_->device().is_cpu()) why = "on GPUs every hook is tried, and nothing is predicted";
  if (world_->layout().is_one_host()) why = "all ranks are on one host";
  if (why.empty()) return link_of(text);
  if (world_->rank() == 0) log::warning("'link' in [ddp.auto] has no effect: " + why);
  return std::nullopt;
}

std::shared_ptr<const ChoiceReport> Choices::report_of(const ParallelStrategy& model) const {
  for (const auto& [strategy, chooser] : choosers_)
    if (strategy == &model) return std::make_shared<ChoiceReport>(chooser->report());
  return nullptr;
}

CheckpointPart with_choice(CheckpointPart hook, std::shared_ptr<HookChooser> chooser) {
  static constexpr const char* kNote = "choice";
  const auto save = [chooser, save_hook = std::move(hook.save)] {
    SavedPart saved = save_hook();
    saved.notes[kNote] = chooser->save();
    return saved;
  };
  const auto load = [chooser, load_hook = std::move(hook.load)](const SavedPart& saved,
                                                                Resumption& resumption) {
    const auto choice = saved.notes.find(kNote);
    const std::string obstacle = choice == saved.notes.end() ? "" : chooser->resume(*choice);
    if (!obstacle.empty())
      resumption.resets.push_back("the choice of a hook, which is made anew: " + obstacle);
    load_hook(saved, resumption);
  };
  return {std::move(hook.name), save, load};
}

void Choices::end_if_all_have_chosen() const {
  const bool all_have = std::all_of(choosers_.begin(), choosers_.end(),
                                    [](const auto& each) { return each.second->is_settled(); });
  if (!all_have) return;
  if (world_->rank() == 0) write_advice(true);
  world_->barrier("the barrier at the end of hookline advise");
  std::fflush(nullptr);
  std::_Exit(EXIT_SUCCESS);  // the program may be waiting for steps that will not happen
}

/// Writes the advice so far, once for each setting that comes into use after the predictions.
void Choices::write_what_is_known() {
  if (world_->rank() != 0) return;
  int exchanges = 0;
  for (const auto& [strategy, chooser] : choosers_) {
    if (!chooser->chosen()) return;
    exchanges += chooser->exchanges();
  }
  if (std::exchange(written_exchanges_, exchanges) != exchanges) write_advice(false);
}

/// Unless `is_whole`, the file names no chosen setting.
void Choices::write_advice(bool is_whole) const {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const auto& [strategy, chooser] : choosers_) {
    const ChoiceReport report = chooser->report();
    models.push_back(to_json(report));
    if (!is_whole) models.back()["chosen"] = nullptr;
    if (report.measured)
      models.back()["measured_step"] = nlohmann::ordered_json::parse(to_json(*report.measured));
    const CommunicationStats wire = strategy->communication_stats();
    models.back()["parameters"] = wire.parameters;
    models.back()["gradient_bytes"] = wire.gradient_bytes;
    models.back()["ranks"] = world_->size();
    models.back()["hosts"] = world_->layout().hosts.size();
    models.back()["backend"] = world_->backend_name();
  }
  const std::string problem = replace_regular_file(*advice_, models.dump(2) + "\n");
  if (!problem.empty()) throw Error("the advice can't be written to '" + advice_->string() + "': " + problem);
}

}  // namespace hookline
