#include "parallel/accelerator.h"

#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/log.h"
#include "config/resolve.h"
#include "config/run_files.h"
#include "hooks/plugin.h"
#include "hooks/registry.h"
#include "parallel/choice/choices.h"
#include "parallel/data/training_place.h"
#include "parallel/fsdp/sharded.h"
#include "parallel/model/fused_step.h"
#include "parallel/model/wire_table.h"
#include "parallel/optimizer_shards.h"
#include "parallel/rank/environment.h"
#include "parallel/rank/rank_status.h"
#include "parallel/resume/checkpointer.h"
#include "parallel/resume/model_state.h"
#include "parallel/resume/optimizer_state.h"
#include "parallel/resume/sharded_state.h"
#include "parallel/run_summary.h"
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

struct Accelerator::State {
  RunConfig config;
  std::shared_ptr<World> world;
  std::shared_ptr<detail::TrainingProgress> progress = std::make_shared<detail::TrainingProgress>();
  std::vector<std::shared_ptr<Engine>> models;
  std::shared_ptr<ShardedParameters> shards;
  std::shared_ptr<OptimizerShards> optimizer_shards;
  std::unique_ptr<Choices> choices;
  std::shared_ptr<TrainingPlace> place = std::make_shared<TrainingPlace>();
  std::vector<torch::optim::Optimizer*> optimizers;
  at::Tensor last_loss;  // given to backward()
  std::unique_ptr<Checkpointer> checkpointer;
  const Trackers::Clock::time_point start = Trackers::Clock::now();
  std::unique_ptr<Trackers> trackers;  // the main rank's, if there are any
  std::optional<std::filesystem::path>
      run_folder;            // where it leaves what it has measured; of other ranks none
  bool has_stepped = false;  // any optimizer, in this process
  bool told_of_repeated_samples = false;

  ~State() {
    if (checkpointer) checkpointer->remind();
    StepClock& clock = *world->step_clock();
    if (run_folder && has_stepped)
      write_run_summary(*run_folder / kRunSummary, clock.steps(), clock.measured(), wire_reports(),
                        world->device());
  }

  std::vector<WireReport> wire_reports() const {
    std::vector<WireReport> reports;
    for (const auto& model : models) {
      reports.push_back(model->wire_report());
      reports.back().choice = choices->report_of(*model);
      if (const auto& choice = reports.back().choice; choice && choice->chosen.empty())
        reports.back().pipeline += ", before auto has chosen";
      else if (choice)
        reports.back().pipeline +=
            choice->exchanges > 0 ? ", chosen by auto, others before" : ", chosen by auto";
    }
    return reports;
  }

  /// Tells the launcher how far this rank is.
  void tell() const {
    const auto loss = [this]() -> std::optional<double> {
      if (!last_loss.defined() || last_loss.numel() != 1) return std::nullopt;
      return last_loss.item<double>();
    };
    tell_step(world->rank(), progress->steps, loss, [this] { return bytes_sent(); });
  }

  /// Some of the `parameters` may hold gradients that their optimizer has not stepped with.
  bool has_gradients(const std::vector<at::Tensor>& parameters) const {
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

  std::int64_t bytes_sent() const {
    std::int64_t bytes = 0;
    for (const auto& model : models) bytes += model->bytes_sent();
    return bytes;
  }

  void log(const std::map<std::string, double>& values) {
    if (trackers) trackers->log(progress->steps, bytes_sent(), values);
  }

  void after_step(std::int64_t optimizer) {
    has_stepped = true;
    const bool last = place->stepped(optimizer, progress->optimizers);
    if (last) world->step_clock()->end_step();  // what others have done before it is the same step's
    tell();
    for (const auto& model : models)
      if (const auto error = model->take_compression_error()) log({{kCompressionError, *error}});
    checkpointer->step_done();
  }

  /// A sum or an average over `tensor`, of a batch of the loader in hand or of what a loop over one has collected, would count
  /// samples twice. `adds`: the ranks add it up, whatever its shape is.
  void warn_of_repeated_samples(const std::string& call, const at::Tensor& tensor, bool adds) {
    if (told_of_repeated_samples || !tensor.defined()) return;
    const detail::EpochPlan* loader = place->loader_in_hand();
    if (loader && !(loader->at_last_batch() && loader->repeated_samples() > 0)) loader = nullptr;
    if (loader && adds && loader->is_pass_trained_on()) loader = nullptr;  // a loss, as DDP averages it
    if (loader && !adds && (tensor.dim() == 0 || tensor.size(0) != loader->last_batch_size()))
      loader = nullptr;
    if (!loader)
      for (const auto& other : place->loaders())
        if (other->has_ended_with_repeats()) loader = other.get();
    if (!loader) return;
    told_of_repeated_samples = true;
    if (world->rank() != 0) return;
    const std::int64_t repeated = loader->repeated_samples(),
                       ranks = std::min<std::int64_t>(repeated, world->size());
    log::warning(
        call + ": the loader repeats " + std::to_string(repeated) + (repeated == 1 ? " sample" : " samples") +
        " in the last batches of an epoch, so that every rank has as many, and a sum or an average over the "
        "ranks "
        "counts " +
        (repeated == 1 ? "it" : "them") + " twice. The last row of " +
        (ranks == 1 ? "the last rank is a repeat: leave it out"
                    : "each of the last " + std::to_string(ranks) + " ranks is a repeat: leave them out") +
        ", or make the loader with drop_last = true");
  }
};

void detail::check_first_step(const TrainingProgress& progress) {
  if (progress.averages && !progress.averages()) {
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
  state_->progress->averages = [state = std::weak_ptr<State>(state_)] {
    const auto now = state.lock();
    if (!now || now->world->size() == 1) return true;
    return std::any_of(now->models.begin(), now->models.end(),
                       [](const auto& model) { return model->wire_report().steps > 0; });
  };
  state_->progress->after_step = [state = std::weak_ptr<State>(state_)](std::int64_t optimizer) {
    if (const auto now = state.lock()) now->after_step(optimizer);
  };
  const auto for_each_model = [state = std::weak_ptr<State>(state_)](void (Engine::*act)()) {
    if (const auto now = state.lock())
      for (const auto& model : now->models) (*model.*act)();
  };
  state_->progress->before_step = [for_each_model, place = state_->place] {
    place->steps();
    for_each_model(&Engine::settle);
  };
  state_->progress->after_zero_grad = [for_each_model, place = state_->place] {
    place->gradients_dropped();
    for_each_model(&Engine::drop_gradients);
  };
  const bool restarted = environment_number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0) > 0;
  state_->checkpointer = std::make_unique<Checkpointer>(state_->world, state_->config.training, restarted,
                                                        state_->progress, state_->place);
  if (const auto folder = environment_text("HOOKLINE_RUN_DIR"); folder && is_main_process())
    state_->run_folder = *folder;
  if (!state_->run_folder) state_->world->step_clock()->turn_off();  // nobody would see what it measures
  if (state_->run_folder) state_->trackers = trackers_of(state_->config, *state_->run_folder, state_->start);
  state_->tell();  // from here on, a first step that never ends is seen
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

DdpOptions Accelerator::ddp_options() const {
  const DdpConfig& ddp = config().ddp;
  DdpOptions options;
  options.broadcast_buffers = ddp.broadcast_buffers;
  options.bucket_limits = BucketLimits::from(ddp.bucket_cap_mb);
  options.find_unused_parameters = ddp.find_unused_parameters;
  options.gradient_as_bucket_view = ddp.gradient_as_bucket_view;
  options.static_graph = ddp.static_graph;
  options.hook_between_hosts = ddp.comm_scope == "between_hosts";
  options.record_gradients = config().training.record_gradients;
  options.record_gradients_steps = config().training.record_gradients_steps;
  // A second model's files would take the names of the first one's.
  if (!options.record_gradients.empty() && !state_->models.empty()) {
    options.record_gradients /= "model" + std::to_string(state_->models.size());
  }
  return options;
}

std::shared_ptr<Engine> Accelerator::make_engine(std::shared_ptr<torch::nn::Module> module) {
  const bool is_sharded = config().fsdp.sharding_strategy != "no_shard";
  std::shared_ptr<Engine> engine = is_sharded ? make_sharded(std::move(module)) : make_ddp(std::move(module));
  if (state_->models.empty()) remember_hook(engine->wire_report().pipeline);
  state_->models.push_back(engine);
  return engine;
}

std::shared_ptr<Engine> Accelerator::make_ddp(std::shared_ptr<torch::nn::Module> module) {
  const auto ddp = std::make_shared<Ddp>(world_ptr(), std::move(module), ddp_options());
  const DdpConfig& wanted = config().ddp;
  if (wanted.shard_optimizer) state_->optimizer_shards->add(*ddp, wanted, state_->optimizers);
  std::shared_ptr<HookChooser> chooser;
  if (wanted.comm_hook == kAutoHook) {
    chooser = state_->choices->add(ddp, config().auto_hook);
  } else if (!ddp->hook() && (wanted.comm_hook != "no" || wanted.comm_wrapper != "no")) {
    ddp->register_comm_hook(Registry::instance().build(wanted.comm_hook, wanted.comm_wrapper,
                                                       wanted.comm_state_option, ddp->hook_context()));
  }
  Checkpointer& checkpointer = *state_->checkpointer;
  checkpointer.add(
      {checkpointer.next_name("model"),
       [ddp, state = std::weak_ptr<State>(state_)] {
         const auto now = state.lock();
         return save_model(*ddp, now && now->has_gradients(ddp->parameters()));
       },
       [ddp](const SavedPart& saved, Resumption& resumption) { load_model(*ddp, saved, resumption); }});
  checkpointer.add({checkpointer.next_name("hook"),
                    [ddp, chooser] {
                      SavedPart saved = save_hook(*ddp);
                      if (chooser) saved.notes[kChoiceNote] = chooser->save();
                      return saved;
                    },
                    [ddp, chooser, here = is_main_process()](const SavedPart& saved, Resumption& resumption) {
                      if (chooser) resume_choice(*chooser, saved, resumption);
                      ddp->before_first_forward(
                          [ddp = ddp.get(), saved, resumption = Resumption(resumption), here]() mutable {
                            load_hook(*ddp, saved, resumption);
                            resumption.tell_resets(here);
                          });
                    }});
  return ddp;
}

std::shared_ptr<Engine> Accelerator::make_sharded(std::shared_ptr<torch::nn::Module> module) {
  const FsdpConfig& wanted = config().fsdp;
  ShardedOptions options;
  options.reshard_after_forward = wanted.sharding_strategy == "full_shard";
  if (wanted.comm_hook != "no") options.wire = wanted.comm_hook == "fp16" ? at::kHalf : at::kBFloat16;
  for (torch::optim::Optimizer* optimizer : state_->optimizers)
    expect_it_takes_pieces(*optimizer, module->parameters(), Sharding::model, is_main_process());
  const auto sharded = Sharded::make(world_ptr(), std::move(module), options);
  const std::shared_ptr<ShardedParameters> shards = state_->shards;
  for (const auto& flat : sharded->flat_parameters()) {
    shards->add(flat);
    // A run that goes on has given the optimizers that were prepared first what they keep, whole.
    for (torch::optim::Optimizer* optimizer : state_->optimizers)
      cut_optimizer(*optimizer, *shards, flat->parameters());
  }

  Checkpointer& checkpointer = *state_->checkpointer;
  checkpointer.add({checkpointer.next_name("model"),
                    [sharded, shards, progress = progress()] {
                      sharded->settle();  // a batch may have been evaluated since the step
                      return save_sharded(*sharded, *shards, progress->micro_steps != 0);
                    },
                    [sharded, shards](const SavedPart& saved, Resumption& resumption) {
                      load_sharded(*sharded, *shards, saved, resumption);
                    }});
  checkpointer.add({checkpointer.next_name("hook"),
                    [sharded] {
                      SavedPart saved;
                      saved.notes = {{"hook", sharded->wire_report().pipeline}};
                      return saved;
                    },
                    [](const SavedPart&, Resumption&) {}});
  return sharded;
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
  // A checkpoint of a run that accumulated more steps may have brought more than this one's.
  now.sync_gradients =
      state_->place->at_last_batch() || now.micro_steps >= config().training.gradient_accumulation_steps;
  if (now.sync_gradients) now.micro_steps = 0;
}

void Accelerator::follow(std::shared_ptr<detail::EpochPlan> plan) {
  const auto before_batch = [state = std::weak_ptr<State>(state_), loader = plan.get()] {
    const auto now = state.lock();
    if (!now) return;
    now->checkpointer->before_batch(loader);
    now->place->loads(loader);
  };
  const auto skips = [state = std::weak_ptr<State>(state_)](std::int64_t passes, std::int64_t trained) {
    const auto now = state.lock();
    return now && now->checkpointer->skips_done_passes(passes, trained);
  };
  const auto taken_back = [state = std::weak_ptr<State>(state_), loader = plan.get()] {
    if (const auto now = state.lock()) now->checkpointer->pass_taken_back(loader);
  };
  const auto stops = [state = std::weak_ptr<State>(state_)] {
    const auto now = state.lock();
    return now && now->config.training.max_steps && now->progress->steps >= *now->config.training.max_steps;
  };
  const auto is_nested = [place = std::weak_ptr<TrainingPlace>(state_->place), loader = plan.get()] {
    const auto now = place.lock();
    return now && now->is_nested(loader);
  };
  plan->watch({before_batch, skips, taken_back, is_nested, stops});
  state_->place->add(plan);
  state_->checkpointer->add(std::move(plan));
}

detail::OptimizerStep Accelerator::step_of(torch::optim::Optimizer& optimizer) const {
  detail::OptimizerStep step{detail::fused_step_of(optimizer, config().training.fused_optimizer), {}};
  if (config().ddp.shard_optimizer)
    step.around = [&optimizer, shards = state_->optimizer_shards](std::int64_t number, const auto& own) {
      shards->step(optimizer, number, own);
    };
  return step;
}

void Accelerator::follow(torch::optim::Optimizer& optimizer) {
  const Sharding sharding = config().ddp.shard_optimizer ? Sharding::optimizer : Sharding::model;
  expect_it_takes_pieces(optimizer, state_->shards->parameters(), sharding, is_main_process());
  state_->optimizers.push_back(&optimizer);
  for (const auto& group : optimizer.param_groups())
    cut_optimizer(optimizer, *state_->shards, group.params());
  state_->checkpointer->add(
      {state_->checkpointer->next_name("optimizer"),
       [&optimizer, shards = state_->shards] { return save_optimizer(optimizer, shards.get()); },
       [&optimizer, shards = state_->shards](const SavedPart& saved, Resumption& resumption) {
         load_optimizer(optimizer, saved, resumption.checkpoint, shards.get());
       }});
}

void Accelerator::register_object(const std::string& name, detail::TensorAccess access, bool counts) {
  state_->checkpointer->add_object(name, std::move(access), counts);
}

void Accelerator::prepared() { state_->checkpointer->prepared(); }

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

std::string Accelerator::wire_summary() const { return wire_table(state_->wire_reports()); }

}  // namespace hookline
