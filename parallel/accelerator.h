// The one object that a training program holds: who it is, and what prepare() makes of its model.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "parallel/data/data_loader.h"
#include "parallel/distributed_module.h"
#include "parallel/model/prepared_optimizer.h"
#include "parallel/resume/checkpointed.h"
#include "tracking/tracker.h"

namespace hookline {

/// Launches nothing and owns no model: it knows this rank, its config and its World, and prepares what it is given.
///
/// Copies share one state. Calls that communicate (prepare with a model, gather, reduce, wait_for_everyone) are made
/// by every rank in the same order. Not synchronised.
class Accelerator {
 public:
  /// Reads the config that `hookline launch` resolved (HOOKLINE_CONFIG), else HOOKLINE_* variables and defaults, and
  /// joins the other ranks; without a launcher the program is a run of one rank. Seeds torch if [training] seed is set.
  /// Throws ConfigError or Error.
  static Accelerator from_env();

  Accelerator(RunConfig config, std::shared_ptr<World> world);

  int rank() const { return world().rank(); }
  int process_index() const { return rank(); }
  int world_size() const { return world().size(); }
  int num_processes() const { return world_size(); }
  int local_process_index() const;
  bool is_main_process() const { return rank() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  /// Where prepare() puts models and batches: see [launch] device.
  c10::Device device() const { return world().device(); }
  const RunConfig& config() const;
  World& world() const;
  /// For a Ddp of one's own, which keeps its World alive.
  std::shared_ptr<World> world_ptr() const;

  /// Prepares a model (a torch module holder, or a std::shared_ptr to a module), an optimizer (by reference) and a
  /// hookline::data_loader, in any number and order; returns what one argument became, or a std::tuple.
  /// The model gets the hook of [ddp], or is sharded as [fsdp] says: its parameters are this rank's pieces then, but for
  /// what runs inside forward, backward and summon_full_parameters. Throws Error as Ddp does, HookError as Registry::build does.
  template <class... Things>
  auto prepare(Things&&... things) {
    static_assert(sizeof...(Things) > 0, "prepare() takes a model, an optimizer or a data loader");
    const AfterPrepare after{*this};
    if constexpr (sizeof...(Things) == 1) {
      return prepare_one(std::forward<Things>(things)...);
    } else {
      // Braces keep the order of the arguments, on which collective calls depend.
      return std::tuple{prepare_one(std::forward<Things>(things))...};
    }
  }

  /// backward() on the loss divided by gradient_accumulation_steps.
  void backward(const at::Tensor& loss);

  /// Runs `body` as one of gradient_accumulation_steps: only the last of them communicates gradients, and only there
  /// do the prepared optimizer's step and zero_grad act. The last batch of an epoch of the loader that is trained on ends a
  /// group of steps early, as in Accelerate, so that no gradient is carried into the next epoch; no other loader's does.
  /// Takes the models that `body` trains, then `body`: accumulate(generator, critic, [&] { … }).
  template <class Module, class... ModelsThenBody>
  void accumulate(DistributedModule<Module>& model, ModelsThenBody&&... rest) {
    static_assert(sizeof...(rest) > 0, "accumulate() takes models, then the body to run");
    next_micro_step();
    accumulate_in(model, std::forward<ModelsThenBody>(rest)...);
  }
  bool sync_gradients() const;

  /// Concatenates every rank's `tensor`, of any dtype, along its first dimension, in the order of ranks; a scalar counts as [1].
  /// Throws Error on every rank if shapes or dtypes differ, or for a tensor that is sparse or quantized. Warns once of a batch
  /// that holds samples twice, which the loader repeats so that all ranks have as many.
  at::Tensor gather(const at::Tensor& tensor);

  /// The sum or the mean of every rank's `tensor`, as a new tensor. Throws Error for another `reduction`, and on every rank if
  /// shapes, dtypes or reductions differ, or for a dtype that the ranks can't add up: bool, int16, uint16 to uint64 and the 8-bit
  /// floats. Warns once of repeated samples, as gather does, in and behind a loop that only evaluates.
  at::Tensor reduce(const at::Tensor& tensor, std::string_view reduction = "sum");

  /// Prints a line on the main rank only.
  void print(std::string_view text) const;

  void wait_for_everyone();

  /// Seeds torch on this rank; the same seed on every rank.
  void set_seed(std::uint64_t seed);

  /// torch's clip_grad_norm_ over averaged gradients, of a sharded model or optimizer those of all ranks together (a collective call then);
  /// does nothing while gradients accumulate. Returns the norm.
  double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2.0);

  template <class Module>
  std::shared_ptr<Module> unwrap(const DistributedModule<Module>& model) const {
    return model.module();
  }

  /// Optimizer steps taken, and how many the run is meant to take, if [training] max_steps says so.
  std::int64_t steps_done() const;
  std::optional<std::int64_t> max_steps() const { return config().training.max_steps; }
  bool should_stop() const { return max_steps() && steps_done() >= *max_steps(); }

  /// Saves all that was prepared or registered, and with it the hooks' state and every rank's random streams, into `folder`:
  /// a run that goes on from there makes the same steps, bit for bit. The folder is complete or, if this returns false,
  /// as it was before: the reason is in rank 0's log, and the run may go on. Every rank calls it, with the same folder;
  /// parallel/README.md says what is in it.
  bool save_state(const std::filesystem::path& folder);
  /// Goes on from what save_state saved, with everything prepared that was prepared then. Throws Error, on every rank, if
  /// the folder is no checkpoint, is damaged, or is of another model or optimizer. Of a run with another number of
  /// ranks, what was a rank's own is left out, which is told in the log.
  void load_state(const std::filesystem::path& folder);

  /// Adds `object`, which must outlive the Accelerator, to what is saved; and restores it if the run goes on from a checkpoint.
  /// A tensor, a number, a string, a torch LRScheduler, or an object with save(OutputArchive&) and load(InputArchive&).
  /// `name`: letters, digits, '_' and '-'. Throws Error for another name, and for one that is taken.
  template <class Object>
  void register_for_checkpointing(const std::string& name, Object& object) {
    // An integer, or an object of the program's own with an archive, may be its count of epochs.
    constexpr bool is_of_torch =
        std::is_same_v<Object, at::Tensor> || std::is_base_of_v<torch::optim::LRScheduler, Object> ||
        std::is_base_of_v<torch::optim::Optimizer, Object> || std::is_base_of_v<torch::nn::Module, Object>;
    constexpr bool counts = (std::is_integral_v<Object> && !std::is_same_v<Object, bool>) ||
                            (detail::HasArchives<Object> && !is_of_torch);
    register_object(name, detail::access_to(object), counts);
  }

  /// The last call, behind the training loop: if [training] checkpoint_every_steps is set, saves the end of the run whatever the
  /// interval, and waits until it is saved. A run that resumes from there trains no further step if it ends after a number of epochs or
  /// steps; one that ends by a condition of its own registers what it decides by, and looks at it before the first step.
  void end_training();

  /// Logs values of the main rank's, with the steps taken so far: a line of metrics.jsonl in the run's folder, where `hookline
  /// sweep` looks for its metric, and whatever else [logging] trackers names. Never waits for a disk or a network. Other ranks
  /// may call it too, and log nothing; a run without a folder, which was not started by the launcher, has only the trackers that
  /// were added. Throws Error for the names "step", "seconds" and "bytes_sent", which each line has by itself.
  void log(const std::map<std::string, double>& values);

  /// Hands what the main rank logs from now on to another tracker, too (tracking/tracker.h); other ranks drop it.
  void add_tracker(std::unique_ptr<Tracker> tracker);

  /// What the prepared models have put on the wire, as a table; empty if there is none.
  std::string wire_summary() const;

 private:
  struct State;
  struct AfterPrepare {
    Accelerator& accelerator;
    ~AfterPrepare() noexcept(false) {
      if (std::uncaught_exceptions() == before) accelerator.prepared();
    }
    int before = std::uncaught_exceptions();
  };

  template <class Thing>
  auto prepare_one(Thing&& thing);
  template <class Module>
  DistributedModule<Module> prepare_model(std::shared_ptr<Module> module);

  DdpOptions ddp_options() const;
  std::shared_ptr<Engine> make_engine(std::shared_ptr<torch::nn::Module> module);
  std::shared_ptr<Engine> make_ddp(std::shared_ptr<torch::nn::Module> module);
  std::shared_ptr<Engine> make_sharded(std::shared_ptr<torch::nn::Module> module);
  void follow(std::shared_ptr<detail::EpochPlan> plan);
  void follow(torch::optim::Optimizer& optimizer);
  detail::OptimizerStep step_of(torch::optim::Optimizer& optimizer) const;
  void register_object(const std::string& name, detail::TensorAccess access, bool counts);
  void prepared();
  void next_micro_step();
  template <class Body>
  void accumulate_in(Body&& body) {
    std::forward<Body>(body)();
  }
  template <class Module, class... ModelsThenBody>
  void accumulate_in(DistributedModule<Module>& model, ModelsThenBody&&... rest) {
    const auto run = [&] { accumulate_in(std::forward<ModelsThenBody>(rest)...); };
    if (sync_gradients()) {
      run();
    } else {
      model.no_sync(run);
    }
  }
  const std::shared_ptr<detail::TrainingProgress>& progress() const;

  std::shared_ptr<State> state_;
};

namespace detail {
template <class T>
inline constexpr bool is_module_pointer_v = false;
template <class Module>
inline constexpr bool is_module_pointer_v<std::shared_ptr<Module>> =
    std::is_base_of_v<torch::nn::Module, Module>;
template <class>
inline constexpr bool always_false_v = false;
}  // namespace detail

template <class Module>
DistributedModule<Module> Accelerator::prepare_model(std::shared_ptr<Module> module) {
  module->to(device());  // its parameters stay the same variables, which an optimizer may hold already
  std::shared_ptr<Engine> engine = make_engine(module);
  return DistributedModule<Module>(std::move(module), std::move(engine));
}

template <class Thing>
auto Accelerator::prepare_one(Thing&& thing) {
  using Bare = std::remove_cvref_t<Thing>;
  if constexpr (is_torch_data_loader_v<Bare>) {
    static_assert(
        detail::always_false_v<Bare>,
        "prepare() was given a torch data loader, whose private sampler can't be split between ranks: make "
        "the loader with hookline::data_loader(dataset, options)");
  } else if constexpr (is_data_loader_v<Bare>) {
    Bare loader = std::forward<Thing>(thing);
    loader.shard(rank(), world_size());
    if (config().training.seed) loader.set_seed(static_cast<std::uint64_t>(*config().training.seed));
    loader.set_device(device());
    follow(loader.plan());
    return loader;
  } else if constexpr (std::is_base_of_v<torch::optim::Optimizer, Bare>) {
    static_assert(std::is_lvalue_reference_v<Thing>,
                  "prepare() keeps a reference to the optimizer: give it a variable");
    follow(static_cast<torch::optim::Optimizer&>(thing));
    return PreparedOptimizer<Bare>(thing, progress(), step_of(thing));
  } else if constexpr (detail::is_module_pointer_v<Bare>) {
    return prepare_model(std::forward<Thing>(thing));
  } else if constexpr (std::is_base_of_v<torch::detail::ModuleHolderIndicator, Bare>) {
    return prepare_model(thing.ptr());
  } else {
    static_assert(
        detail::always_false_v<Bare>,
        "prepare() takes a torch module holder or std::shared_ptr to a module, a torch optimizer, or a "
        "hookline::data_loader");
  }
}

}  // namespace hookline
