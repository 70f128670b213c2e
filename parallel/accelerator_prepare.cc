// What prepare() makes of models, optimizers and loaders, and what checkpoints keep of each.
#include <memory>
#include <utility>

#include "hooks/registry/registry.h"
#include "parallel/accelerator.h"
#include "parallel/accelerator_state.h"
#include "parallel/choice/choices.h"
#include "parallel/data/training_place.h"
#include "parallel/ddp/ddp_parts.h"
#include "parallel/fsdp/fsdp_parts.h"
#include "parallel/model/fused_step.h"
#include "parallel/model_options.h"
#include "parallel/optimizer_shards.h"
#include "parallel/rank/rank_status.h"
#include "parallel/resume/checkpointer.h"
#include "parallel/resume/optimizer_state.h"
#include "parallel/shards/sharded_parameters.h"

namespace hookline {

std::shared_ptr<ParallelStrategy> Accelerator::make_strategy(std::shared_ptr<torch::nn::Module> module) {
  const bool is_sharded = config().fsdp.sharding_strategy != "no_shard";
  std::shared_ptr<ParallelStrategy> strategy =
      is_sharded ? make_fsdp(std::move(module)) : make_ddp(std::move(module));
  if (state_->models.empty()) remember_hook(strategy->communication_stats().pipeline);
  state_->models.push_back(strategy);
  return strategy;
}

std::shared_ptr<ParallelStrategy> Accelerator::make_ddp(std::shared_ptr<torch::nn::Module> module) {
  const auto ddp =
      std::make_shared<Ddp>(world_ptr(), std::move(module), ddp_options_of(config(), state_->models.size()));
  const DdpConfig& wanted = config().ddp;
  if (wanted.shard_optimizer) state_->optimizer_shards->add(*ddp, wanted, state_->optimizers);
  std::shared_ptr<HookChooser> chooser;
  if (wanted.comm_hook == kAutoHook) {
    chooser = state_->choices->add(ddp, config().auto_hook);
  } else if (!ddp->hook() && (wanted.comm_hook != "no" || wanted.comm_wrapper != "no")) {
    ddp->register_comm_hook(Registry::instance().build(wanted.comm_hook, wanted.comm_wrapper,
                                                       wanted.comm_state_option, ddp->hook_context()));
  }
  auto parts = checkpoint_parts(ddp, [ddp = ddp.get(), state = std::weak_ptr<State>(state_)] {
    const auto now = state.lock();
    return now && now->has_gradients(ddp->parameters());
  });
  for (CheckpointPart& part : parts)
    state_->checkpointer->add(chooser && part.name == kHookPart ? with_choice(std::move(part), chooser)
                                                                : std::move(part));
  return ddp;
}

std::shared_ptr<ParallelStrategy> Accelerator::make_fsdp(std::shared_ptr<torch::nn::Module> module) {
  for (torch::optim::Optimizer* optimizer : state_->optimizers)
    expect_it_takes_pieces(*optimizer, module->parameters(), Sharding::model, is_main_process());
  const auto fsdp = Fsdp::make(world_ptr(), std::move(module), fsdp_options_of(config().fsdp));
  const std::shared_ptr<ShardedParameters> shards = state_->shards;
  for (const auto& flat : fsdp->flat_parameters()) {
    shards->add(flat);
    // After a resume, optimizers that were prepared before the model hold state for whole parameters: cut it.
    for (torch::optim::Optimizer* optimizer : state_->optimizers)
      cut_optimizer(*optimizer, *shards, flat->parameters());
  }

  for (CheckpointPart& part :
       checkpoint_parts(fsdp, shards, [progress = progress()] { return progress->micro_steps != 0; }))
    state_->checkpointer->add(std::move(part));
  return fsdp;
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
      {"optimizer", [&optimizer, shards = state_->shards] { return save_optimizer(optimizer, shards.get()); },
       [&optimizer, shards = state_->shards](const SavedPart& saved, Resumption& resumption) {
         load_optimizer(optimizer, saved, resumption.checkpoint, shards.get());
       }});
}

void Accelerator::prepared() { state_->checkpointer->prepared(); }

}  // namespace hookline
