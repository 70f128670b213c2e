// What the copies of an Accelerator share.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "parallel/accelerator.h"
#include "parallel/choice/choices.h"
#include "parallel/data/training_place.h"
#include "parallel/model/parallel_strategy.h"
#include "parallel/model/prepared_optimizer.h"
#include "parallel/optimizer_shards.h"
#include "parallel/resume/checkpointer.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/world/world.h"
#include "tracking/trackers.h"

namespace hookline {

/// Everything that was prepared, and where the training is.
struct Accelerator::State : detail::TrainingListener {
  ~State() override;

  std::vector<CommunicationStats> communication_stats() const;
  /// Warns if the run ends before comm_hook = "auto" has chosen.
  void warn_of_choices_not_made() const;
  std::int64_t bytes_sent() const;
  /// Reports this rank's progress to the launcher.
  void tell() const;
  /// True if some of the `parameters` may hold gradients that no optimizer step has used yet.
  bool has_gradients(const std::vector<at::Tensor>& parameters) const;
  void log(const std::map<std::string, double>& values);
  bool averages() const override;
  void before_step() override;
  void after_step(std::int64_t optimizer) override;
  void after_zero_grad() override;
  /// Warns, once, if a sum or an average over `tensor` counts samples twice. `adds`: the ranks sum
  /// `tensor`, so samples count twice whatever its shape.
  void warn_of_repeated_samples(const std::string& call, const at::Tensor& tensor, bool adds);

  RunConfig config;
  std::shared_ptr<World> world;
  std::shared_ptr<detail::TrainingProgress> progress = std::make_shared<detail::TrainingProgress>();
  std::vector<std::shared_ptr<ParallelStrategy>> models;
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
      run_folder;            // where the main rank leaves what it has measured; none on other ranks
  bool has_stepped = false;  // any optimizer, in this process
  bool told_of_repeated_samples = false;
};

}  // namespace hookline
