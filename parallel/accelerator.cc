#include "parallel/accelerator.h"

#include <torch/utils.h>

#include <cstdio>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/log.h"
#include "config/resolve.h"
#include "config/run_files.h"
#include "hooks/registry/plugin.h"
#include "hooks/registry/registry.h"
#include "parallel/accelerator_state.h"
#include "parallel/choice/choices.h"
#include "parallel/data/training_place.h"
#include "parallel/model/wire_table.h"
#include "parallel/optimizer_shards.h"
#include "parallel/rank/environment.h"
#include "parallel/rank/rank_status.h"
#include "parallel/resume/checkpointer.h"
#include "parallel/shards/gradient_norm.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/uncaught.h"
#include "parallel/world/tensor_exchange.h"
#include "tracking/of_config.h"

namespace hookline {
namespace {

RunConfig config_from_environment() {
  const Catalog& catalog = Registry::instance().catalog();
  if (const char* file = std::getenv("HOOKLINE_CONFIG"); file && *file) {
    RunConfig config = read_resolved(file, catalog);
    tell_config_is_read();
    return config;
  }
  Sources sources;
  sources.environment = hookline_environment();
  Resolution resolution = resolve(sources, catalog);
  if (!resolution.ok()) throw ConfigError(resolution.report());
  return resolution.config;
}

}  // namespace

void detail::check_first_step(const TrainingProgress& progress) {
  if (const auto listener = progress.listener.lock(); listener && !listener->averages()) {
    log::warning(
        "optimizer.step() before the forward of any prepared model: nothing averages its gradients between "
        "ranks, which will drift apart; call the forward of what prepare() returned for the model");
  }
}

Accelerator Accelerator::from_env() {
  end_uncaught_errors_with_a_message();
  report_fatal_signals_in_error_file();
  RunConfig config = config_from_environment();
  log::set_level(config.logging.level);
  const Placement placement =
      place_rank(config.launch, environment_number("LOCAL_RANK", 0, kMostRanks - 1, 0),
                 environment_number("LOCAL_WORLD_SIZE", 1, kMostRanks, 1));
  const auto milliseconds = [](double seconds) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  };
  auto world = World::from_environment(milliseconds(config.launch.peer_timeout_seconds), placement,
                                       milliseconds(config.launch.join_timeout_seconds));
  return Accelerator(std::move(config), std::move(world));
}

Accelerator::Accelerator(RunConfig config, std::shared_ptr<World> world) : state_(std::make_shared<State>()) {
  state_->config = std::move(config);
  state_->world = std::move(world);
  state_->world->step_clock()->reset();
  state_->progress->step_clock = state_->world->step_clock();
  state_->choices = std::make_unique<Choices>(state_->world);
  state_->shards = std::make_shared<ShardedParameters>(state_->world);
  state_->optimizer_shards = std::make_shared<OptimizerShards>(state_->world, state_->shards);
  for (const std::string& plugin : state_->config.ddp.plugins) load_plugin(plugin, Registry::instance());
  state_->progress->listener = state_;
  const Attempt attempt{environment_number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0) > 0,
                        environment_text("HOOKLINE_LAUNCH_ID").value_or("")};
  state_->checkpointer = std::make_unique<Checkpointer>(state_->world, state_->config.training, attempt,
                                                        state_->progress, state_->place);
  if (const auto folder = environment_text("HOOKLINE_RUN_DIR"); folder && is_main_process())
    state_->run_folder = *folder;
  // Rank 0 writes into the run's folder what it measures, and launchers of several nodes compare the ranks'
  // times.
  const bool has_launcher = environment_text("HOOKLINE_STATUS_FD").has_value();
  const bool is_compared = has_launcher && environment_number("GROUP_WORLD_SIZE", 1, kMostRanks, 1) > 1;
  if (!state_->run_folder && !is_compared) state_->world->step_clock()->turn_off();
  if (state_->run_folder) state_->trackers = trackers_of(state_->config, *state_->run_folder, state_->start);
  state_->tell();  // the launcher now notices a first step that never ends
  if (state_->config.training.seed) set_seed(static_cast<std::uint64_t>(*state_->config.training.seed));
}

int Accelerator::local_process_index() const {
  return environment_number("LOCAL_RANK", 0, kMostRanks - 1, rank());
}

const RunConfig& Accelerator::config() const { return state_->config; }
World& Accelerator::world() const { return *state_->world; }
std::shared_ptr<World> Accelerator::world_ptr() const { return state_->world; }
const std::shared_ptr<detail::TrainingProgress>& Accelerator::progress() const { return state_->progress; }
bool Accelerator::sync_gradients() const { return progress()->sync_gradients; }
std::int64_t Accelerator::steps_done() const {
  state_->checkpointer->asked_for_steps();
  return progress()->steps;
}

void Accelerator::backward(const at::Tensor& loss) {
  const std::int64_t parts = config().training.gradient_accumulation_steps;
  state_->last_loss = loss.detach();
  ++progress()->backwards;
  state_->place->trains();
  {
    const TimedPhase timed(*progress()->step_clock, &PhaseSeconds::backward);
    try {
      (parts > 1 ? loss / parts : loss).backward();
    } catch (...) {
      for (const auto& model : state_->models) model->explain_failure();
      throw;
    }
    std::optional<StepClock::Moment> last;
    for (const auto& model : state_->models)
      if (const auto since = model->only_waited_since(timed.start());
          since && (!last || since->is_after(*last)))
        last = since;
    if (last) progress()->step_clock->add_exposed(*last, progress()->step_clock->now());
  }
  for (const auto& model : state_->models) model->release_gradient_views();
  state_->checkpointer->backward_done();
}

void Accelerator::next_micro_step() {
  detail::TrainingProgress& now = *progress();
  ++now.micro_steps;
  state_->place->steps();
  // micro_steps may already be larger, if the checkpoint is from a run that accumulated more steps.
  now.sync_gradients =
      state_->place->at_last_batch() || now.micro_steps >= config().training.gradient_accumulation_steps;
  if (now.sync_gradients) now.micro_steps = 0;
}

void Accelerator::register_object(const std::string& name, detail::TensorAccess access, bool counts) {
  state_->checkpointer->add_object(name, std::move(access), counts);
}

bool Accelerator::save_state(const std::filesystem::path& folder) {
  for (const auto& model : state_->models) model->settle();
  return state_->checkpointer->save_state(folder);
}
void Accelerator::load_state(const std::filesystem::path& folder) {
  for (const auto& model : state_->models) model->settle();
  state_->checkpointer->load_state(folder);
}
void Accelerator::end_training() { state_->checkpointer->finish(); }

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  state_->warn_of_repeated_samples("gather", tensor, /*adds=*/false);
  return gather_tensor(world(), tensor);
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, std::string_view reduction) {
  state_->warn_of_repeated_samples("reduce", tensor, /*adds=*/true);
  return reduce_tensor(world(), tensor, reduction);
}

void Accelerator::print(std::string_view text) const {
  if (!is_main_process()) return;
  std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

void Accelerator::wait_for_everyone() { world().barrier("wait_for_everyone"); }

void Accelerator::set_seed(std::uint64_t seed) { torch::manual_seed(seed); }

double Accelerator::clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                                   double norm_type) {
  if (!sync_gradients()) return 0;
  return clip_gradient_norm(world(), *state_->shards, parameters, max_norm, norm_type);
}

void Accelerator::log(const std::map<std::string, double>& values) { state_->log(values); }

void Accelerator::add_tracker(std::unique_ptr<Tracker> tracker) {
  if (!is_main_process()) return;
  if (!state_->trackers) state_->trackers = std::make_unique<Trackers>(TrackedRun(), state_->start);
  state_->trackers->add(std::move(tracker));
}

std::string Accelerator::wire_summary() const { return wire_table(state_->communication_stats()); }

}  // namespace hookline
