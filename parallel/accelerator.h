// The object through which a training program joins a run and prepares its model, optimizer and data.
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

#include "config/schema/run_config.h"
#include "parallel/data/data_loader.h"
#include "parallel/distributed_module.h"
#include "parallel/model/prepared_optimizer.h"
#include "parallel/resume/checkpointed.h"
#include "tracking/tracker.h"

/// Distributed training over libtorch; a program starts with Accelerator::from_env().
namespace hookline {

/// Joins a run as one of its ranks; prepares models, optimizers and data loaders; saves, restores and logs.
///
/// Every rank makes the calls marked "Collective" in the same order. They throw RunFailed, on every rank, if
/// a rank fails meanwhile. Copies share one state. Not synchronised.
class Accelerator {
 public:
  /// Joins the run with the config of `hookline launch` (HOOKLINE_CONFIG), else with that of the HOOKLINE_*
  /// variables; a program started without a launcher is a run of one rank. Seeds torch if [training] seed is
  /// set. Collective. Throws ConfigError for a wrong config, and Error if the ranks cannot join or the
  /// checkpoint cannot be used.
  static Accelerator from_env();

  /// Joins with a config and a World of your own; most programs call from_env(). Collective; throws as
  /// from_env() does.
  Accelerator(RunConfig config, std::shared_ptr<World> world);

  /// This rank's number, from 0.
  int rank() const { return world().rank(); }
  /// Accelerate's name for rank().
  int process_index() const { return rank(); }
  /// Number of ranks in the run.
  int world_size() const { return world().size(); }
  /// Accelerate's name for world_size().
  int num_processes() const { return world_size(); }
  /// This rank's number on its node, from 0 (LOCAL_RANK); rank() without a launcher.
  int local_process_index() const;
  /// True on rank 0, the main rank, which prints and logs.
  bool is_main_process() const { return rank() == 0; }
  /// True on one rank of each node, the one whose local_process_index() is 0.
  bool is_local_main_process() const { return local_process_index() == 0; }
  /// The device on which prepare() puts models and batches, by [launch] device.
  c10::Device device() const { return world().device(); }
  /// The config of the run, with defaults filled in.
  const RunConfig& config() const;
  /// The ranks of the run and how they communicate; for code that calls collectives itself.
  World& world() const;
  /// The same as a shared pointer, for a Ddp that you build yourself: it keeps its World alive.
  std::shared_ptr<World> world_ptr() const;

  /// Wraps its arguments; use the returned objects instead of the originals. Takes models (a torch module
  /// holder, or a std::shared_ptr to a module), optimizers (by reference) and loaders of
  /// hookline::data_loader, in any number and order. Returns the one wrapped object, or a std::tuple in the
  /// order of the arguments. Collective with a model.
  ///
  /// A model moves to device() and gets the hook of [ddp], or is sharded by [fsdp]: its parameters are then
  /// this rank's pieces, except inside forward, backward and summon_full_params. If the run resumes,
  /// everything gets its saved state. Throws Error as the constructor of Ddp does, and HookError for a hook
  /// that cannot be built.
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

  /// Runs backward on `loss` divided by gradient_accumulation_steps; use it instead of `loss.backward()`. The
  /// ranks average gradients in it, except while gradients accumulate; it is then collective only for a
  /// sharded model, which gathers its parameters. Throws what the backward throws.
  void backward(const at::Tensor& loss);

  /// Runs `body` for one of the gradient_accumulation_steps batches of an optimizer step. Only the last of
  /// these batches communicates gradients, and only there do step() and zero_grad() of prepared optimizers
  /// act. The last batch of an epoch of the training loader ends a group early, as in Accelerate, so no
  /// gradient is carried into the next epoch. Takes the models that `body` trains, then `body`:
  /// accumulate(generator, critic, [&] { … }).
  template <class Module, class... ModelsThenBody>
  void accumulate(DistributedModule<Module>& model, ModelsThenBody&&... rest) {
    static_assert(sizeof...(rest) > 0, "accumulate() takes models, then the body to run");
    next_micro_step();
    accumulate_in(model, std::forward<ModelsThenBody>(rest)...);
  }
  /// True if the current batch takes an optimizer step, so its backward communicates gradients. Once
  /// an accumulate() that only accumulates has started, it stays false until the next accumulate() starts.
  /// Without accumulate() it is always true.
  bool sync_gradients() const;

  /// Concatenates every rank's `tensor`, of any dtype, along its first dimension, in the order of ranks; a
  /// scalar counts as [1]. Returns a new tensor without gradients, the same on every rank. Collective. Throws
  /// Error, on every rank, if shapes or dtypes differ, or for a sparse or quantized tensor. Warns once if the
  /// last batches of an epoch hold samples that the loader repeated to give each rank the same number.
  at::Tensor gather(const at::Tensor& tensor);

  /// Returns the "sum" or the "mean" of every rank's `tensor`, as a new tensor without gradients. Collective.
  /// Throws Error for another `reduction`, for a dtype that the ranks cannot add up (bool, int16, uint16 to
  /// uint64 and 8-bit floats), and on every rank if shapes, dtypes or reductions differ. Warns once about
  /// repeated samples, as gather() does, during or after a loop that only evaluates.
  at::Tensor reduce(const at::Tensor& tensor, std::string_view reduction = "sum");

  /// Prints `text` and a line break to stdout on the main rank, and flushes; other ranks print nothing.
  void print(std::string_view text) const;

  /// Returns when every rank has called it. Collective.
  void wait_for_everyone();

  /// Calls torch::manual_seed(seed) on this rank. The rank's number is not added, so one seed gives every
  /// rank the same random numbers.
  void set_seed(std::uint64_t seed);

  /// Scales averaged gradients so that their norm over all `parameters` is at most `max_norm`, as torch's
  /// clip_grad_norm_ does; also right for sharded models and optimizers. Returns the norm before; while
  /// gradients accumulate it does nothing and returns 0. Collective for parameters of a sharded model or
  /// optimizer. Throws Error for those if `norm_type` is not above 0.
  double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2.0);

  /// Returns the bare module of a prepared model, as model.module() does.
  template <class Module>
  std::shared_ptr<Module> unwrap(const DistributedModule<Module>& model) const {
    return model.module();
  }

  /// Optimizer steps that the run has taken, those before a resume included. The step() of each prepared
  /// optimizer counts; batches that only accumulate gradients do not. A program without a prepared loader
  /// starts its loop at steps_done().
  std::int64_t steps_done() const;
  /// [training] max_steps: how many steps the run shall take; none if it is not set.
  std::optional<std::int64_t> max_steps() const { return config().training.max_steps; }
  /// True once steps_done() has reached max_steps(); always false without max_steps.
  bool should_stop() const { return max_steps() && steps_done() >= *max_steps(); }

  /// Saves everything that was prepared or registered, the hooks' state and every rank's random number
  /// generators into `folder`, a checkpoint from which a run with as many ranks resumes with the same bits.
  /// Collective, with the same folder on every rank. Returns false if the save failed: the folder is then as
  /// it was before, rank 0 logs the reason, and training may continue.
  bool save_state(const std::filesystem::path& folder);
  /// Restores what save_state() saved, or any checkpoint; call it after everything is prepared and
  /// registered. Collective. Throws Error, on every rank, if the folder is not a checkpoint, is damaged, or
  /// belongs to another model or optimizer. With another number of ranks, what belonged to a single
  /// rank cannot be restored, except the random number generators of ranks that both runs have; the log names
  /// what is lost.
  void load_state(const std::filesystem::path& folder);

  /// Adds `object` to every checkpoint, and restores it at once if the run resumes. It is a tensor, a number,
  /// a string, a torch LRScheduler, or an object with save(OutputArchive&) and load(InputArchive&), and must
  /// live as long as checkpoints are saved or loaded. `name` consists of letters, digits, '_' and '-'. Throws
  /// Error for a name with other characters, and for one that is taken.
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

  /// Ends the training; call it after the training loop. With [training] checkpoint_every_steps it saves a
  /// checkpoint of the end, whatever the interval, and waits until it is written. Collective. A finished run
  /// that resumes trains no further step. If the program stops by a condition of its own, register what the
  /// condition depends on, and test it before the first step.
  void end_training();

  /// Logs values with the number of steps taken: in a line of metrics.jsonl in the run folder, where
  /// `hookline sweep` finds its metric, and to the other [logging] trackers. Every rank may call it; only
  /// rank 0's values are logged. Never waits for a disk or a network. A program started without the launcher
  /// has only trackers that were added. Throws Error for an empty name and for "step", "seconds" and
  /// "bytes_sent", which every line has already.
  void log(const std::map<std::string, double>& values);

  /// Sends what rank 0 logs from now on to `tracker`, too. Every rank may call it; other ranks drop their
  /// tracker.
  void add_tracker(std::unique_ptr<Tracker> tracker);

  /// A table of what the prepared models have sent: steps, bytes without compression, bytes sent by this
  /// rank. Empty without a prepared model.
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

  std::shared_ptr<ParallelStrategy> make_strategy(std::shared_ptr<torch::nn::Module> module);
  std::shared_ptr<ParallelStrategy> make_ddp(std::shared_ptr<torch::nn::Module> module);
  std::shared_ptr<ParallelStrategy> make_fsdp(std::shared_ptr<torch::nn::Module> module);
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
  std::shared_ptr<ParallelStrategy> strategy = make_strategy(module);
  return DistributedModule<Module>(std::move(module), std::move(strategy));
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
