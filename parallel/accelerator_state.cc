#include "parallel/accelerator_state.h"

#include <algorithm>

#include "base/log.h"
#include "config/checks/hook_settings.h"
#include "config/run_files.h"
#include "parallel/data/repeated_samples.h"
#include "parallel/rank/rank_status.h"
#include "parallel/run_summary.h"

namespace hookline {

Accelerator::State::~State() {
  if (checkpointer) checkpointer->remind();
  warn_of_choices_not_made();
  StepClock& clock = *world->step_clock();
  if (run_folder && has_stepped)
    write_run_summary(*run_folder / kRunSummary, clock.steps(), clock.measured(), communication_stats(),
                      world->device());
}

void Accelerator::State::warn_of_choices_not_made() const {
  if (world->rank() != 0 || world->size() == 1 || !has_stepped || world->watch().failure()) return;
  for (const auto& model : models)
    if (const auto report = choices->report_of(*model); report && report->chosen.empty())
      hookline::log::warning("comm_hook auto: the run ended at step " + std::to_string(progress->steps) +
                             ", before a hook was chosen: let it take some 300 steps, or name a hook");
}

std::vector<CommunicationStats> Accelerator::State::communication_stats() const {
  std::vector<CommunicationStats> reports;
  for (const auto& model : models) {
    reports.push_back(model->communication_stats());
    reports.back().choice = choices->report_of(*model);
    if (const auto& choice = reports.back().choice; choice && choice->chosen.empty())
      reports.back().pipeline += ", before auto has chosen";
    else if (choice && !choice->is_settled)
      reports.back().pipeline += ", while auto chooses again";
    else if (choice)
      reports.back().pipeline =
          choice->chosen + (choice->exchanges > 0 ? ", chosen by auto, others before" : ", chosen by auto");
  }
  return reports;
}

std::int64_t Accelerator::State::bytes_sent() const {
  std::int64_t bytes = 0;
  for (const auto& model : models) bytes += model->bytes_sent();
  return bytes;
}

void Accelerator::State::tell() const {
  tell_step(world->rank(), progress->steps, [this] {
    const StepClock::Known times = world->step_clock()->known();
    StepDetails details{std::nullopt, bytes_sent(), times.seconds, times.exposed_seconds};
    if (last_loss.defined() && last_loss.numel() == 1) details.loss = last_loss.item<double>();
    return details;
  });
}

bool Accelerator::State::has_gradients(const std::vector<at::Tensor>& parameters) const {
  if (progress->micro_steps != 0) return true;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    if (progress->backwards_at_step[i] == progress->backwards) continue;
    for (const auto& group : optimizers[i]->param_groups())
      for (const at::Tensor& own : group.params())
        if (std::any_of(parameters.begin(), parameters.end(),
                        [&](const at::Tensor& parameter) { return parameter.is_same(own); }))
          return true;
  }
  return false;
}

void Accelerator::State::log(const std::map<std::string, double>& values) {
  Trackers::expect_names(values);  // on every rank: one that continued alone would wait for the others
  if (trackers) trackers->log(progress->steps, bytes_sent(), values);
}

bool Accelerator::State::averages() const {
  return world->size() == 1 || std::any_of(models.begin(), models.end(), [](const auto& model) {
           return model->communication_stats().steps > 0;
         });
}

void Accelerator::State::before_step() {
  place->steps();
  for (const auto& model : models) model->settle();
}

void Accelerator::State::after_zero_grad() {
  place->gradients_dropped();
  for (const auto& model : models) model->drop_gradients();
}

void Accelerator::State::after_step(std::int64_t optimizer) {
  has_stepped = true;
  const bool last = place->stepped(optimizer, progress->optimizers);
  if (last) world->step_clock()->end_step();  // work for other optimizers belongs to the same step
  tell();
  for (const auto& model : models)
    if (const auto error = model->take_compression_error()) log({{kCompressionError, *error}});
  checkpointer->step_done();
}

void Accelerator::State::warn_of_repeated_samples(const std::string& call, const at::Tensor& tensor,
                                                  bool adds) {
  if (told_of_repeated_samples || !tensor.defined()) return;
  const detail::EpochPlan* loader = loader_that_repeats(*place, tensor, adds);
  if (!loader) return;
  told_of_repeated_samples = true;
  if (world->rank() == 0)
    hookline::log::warning(repeated_samples_warning(call, loader->repeated_samples(), world->size()));
}

}  // namespace hookline
