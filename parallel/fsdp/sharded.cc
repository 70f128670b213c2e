#include "parallel/fsdp/sharded.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <malloc.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "parallel/fsdp/find_units.h"
#include "parallel/fsdp/sharded_unit.h"
#include "parallel/fsdp/unit_in_graph.h"
#include "parallel/model/wire_table.h"
#include "parallel/shards/shard_channels.h"
#include "parallel/tensors/sparse_gradients.h"
#include "parallel/world/model_signature.h"

namespace hookline {
namespace {

/// Gradients on their way while the next unit computes: they take memory.
constexpr std::size_t kMostReductions = 1;

/// How long a backward waits for them at most. A rank whose backward passes over a unit starts its reduction only at the end:
/// a unit whose gradients were late is not waited for again until they come in time, and then for half as long.
constexpr std::chrono::milliseconds kPatience{1000};

std::string quoted(const std::string& unit) { return unit.empty() ? "the model's own" : "'" + unit + "'"; }

/// "gathers the parameters for a forward", of …
std::string doing(ShardOperation::Kind kind) {
  switch (kind) {
    case ShardOperation::Kind::gather_for_forward:
      return "begins a forward and gathers the parameters";
    case ShardOperation::Kind::gather_for_evaluation:
      return "begins a forward without gradients and gathers the parameters";
    case ShardOperation::Kind::gather_for_backward:
      return "is in a backward and gathers the parameters";
    case ShardOperation::Kind::gather_for_summon:
      return "is in summon_full_parameters and gathers the parameters";
    case ShardOperation::Kind::scatter:
      return "averages the gradients";
    case ShardOperation::Kind::gather_after_step:
      break;  // of a sharded optimizer, which has channels of its own
  }
  return "does something else";
}

/// Of the model and of how it is cut: ranks that cut it in other places would wait for each other.
Signature sharded_signature(torch::nn::Module& module, const ShardedOptions& options) {
  std::map<std::string, std::string> unit_of;
  for (const FoundUnit& unit : find_units(module))
    for (const auto& [name, parameter] : unit.parameters)
      unit_of["parameter '" + name + "'"] = unit.module ? "the FsdpUnit '" + unit.name + "'" : "no FsdpUnit";
  Signature signature = model_signature(module);
  for (SignatureLine& line : signature)
    if (const auto unit = unit_of.find(line.name); unit != unit_of.end()) line.shape += " of " + unit->second;
  std::string how = options.reshard_after_forward ? "full_shard" : "shard_grad_op";
  if (options.wire) how += std::string(", gradients in ") + c10::toString(*options.wire);
  signature.push_back({"[fsdp] sharding_strategy", how});
  return signature;
}

/// Whose parameters have been cut, in any run of this process.
class CutParameters {
 public:
  /// Throws Error if one of `module`'s is among them.
  static void expect_none_of(const torch::nn::Module& module) {
    CutParameters& all = instance();
    const std::lock_guard lock(all.mutex_);
    std::erase_if(all.cut_, [](const auto& entry) { return entry.second.expired(); });
    for (const auto& parameter : module.named_parameters()) {
      if (parameter.value().defined() && all.cut_.contains(parameter.value().unsafeGetTensorImpl()))
        throw Error("the model '" + module.name() + "' is sharded already ('" + parameter.key() +
                    "' is one rank's piece): prepare it once; after a failure, make it anew");
    }
  }

  /// Before the first of `module`'s is cut.
  static void add(const torch::nn::Module& module) {
    CutParameters& all = instance();
    const std::lock_guard lock(all.mutex_);
    for (const at::Tensor& parameter : module.parameters())
      if (parameter.defined()) all.cut_.emplace(parameter.unsafeGetTensorImpl(), parameter.getIntrusivePtr());
  }

 private:
  static CutParameters& instance() {
    static CutParameters all;
    return all;
  }

  std::mutex mutex_;
  std::map<const void*, c10::weak_intrusive_ptr<c10::TensorImpl>> cut_;
};

}  // namespace

struct Sharded::Reduction {
  Unit* unit;
  std::size_t index;  // of the unit's trained flat parameters
  GradientScatter::Started started;
};

std::shared_ptr<Sharded> Sharded::make(std::shared_ptr<World> world,
                                       std::shared_ptr<torch::nn::Module> module,
                                       const ShardedOptions& options) {
  const std::shared_ptr<Sharded> sharded(new Sharded(std::move(world), std::move(module), options));
  sharded->make_units();
  return sharded;
}

Sharded::Sharded(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module,
                 const ShardedOptions& options)
    : Engine(world->step_clock()),
      world_(std::move(world)),
      module_(std::move(module)),
      prepared_(module_),
      options_(options) {
  number_ = world_->count_of("sharded-model");
  CutParameters::expect_none_of(*module_);
  agree_on_signature(*world_, sharded_signature(*module_, options_));
  refuse_sparse_gradients(*module_);
  refuse_shared_memory(*module_);
  const std::vector<at::Tensor> parameters = module_->parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& each) { return each.requires_grad(); }))
    throw Error("the model '" + module_->name() +
                "' has no parameter that requires a gradient: there is nothing to train; use it without "
                "preparing it");
}

/// The module keeps its units, and may be kept for long: not so the channel's threads and connections.
Sharded::~Sharded() {
  for (const auto& unit : units_) unit->parameters.leave_channel();
}

void Sharded::make_units() {
  const std::vector<FoundUnit> found = find_units(*module_);
  make_channels(found);
  if (found.size() == 1 && options_.reshard_after_forward && world_->rank() == 0)
    log::warning("the model '" + module_->name() +
                 "' has no FsdpUnit: its parameters are whole all at once in each step; make its blocks "
                 "hookline::FsdpUnit<Block>");
  std::vector<at::Tensor> buffers = module_->buffers();
  std::erase_if(buffers, [](const at::Tensor& buffer) { return !buffer.defined(); });
  world_->broadcast(buffers);
  CutParameters::add(*module_);
  for (const FoundUnit& each : found) {
    const Accumulators accumulators = accumulators_of(each);
    auto unit = std::make_shared<Unit>(
        shared_from_this(), ShardedUnit(each.name, units_.size(), flatten(each, *world_, pool_), gathers_));
    unit->watch_gradients(accumulators);
    if (each.module) each.module->around = unit;
    for (const auto& flat : unit->parameters.flats())
      for (std::size_t i = 0; i < flat->names().size(); ++i)
        owners_[flat->storage_of(i)] = {unit.get(), flat->names()[i]};
    units_.push_back(std::move(unit));
    ::malloc_trim(
        0);  // what the unit's parameters lay in: little else would fit there, and it counts as used
  }
}

void Sharded::make_channels(const std::vector<FoundUnit>& units) {
  std::vector<std::string> names;
  for (const FoundUnit& unit : units) names.push_back(quoted(unit.name));
  const NameOperation name = [names](const ShardOperation& operation) {
    return doing(operation.kind) + " of " + names.at(static_cast<std::size_t>(operation.unit));
  };
  const ChannelTexts texts{name, "the ranks run different units of a sharded model",
                           "Every rank must run the same units in the same order, in an evaluation too"};
  gathers_ = make_shard_channel(world_, "fsdp-gathers", texts);
  const auto scatters = world_->uses_nccl() ? gathers_ : make_shard_channel(world_, "fsdp-scatters", texts);
  scatter_ = std::make_unique<GradientScatter>(pool_, scatters, options_.wire);
}

std::string Sharded::what(const std::string& doing, const Unit& unit) const {
  return "step " + std::to_string(steps_) + " of " +
         (number_ == 0 ? "a sharded model" : "sharded model " + std::to_string(number_ + 1)) + ": " + doing +
         " of " + quoted(unit.parameters.name());
}

void Sharded::start_gather(Unit& unit, Gather kind) {
  if (unit.parameters.start_gather(kind)) gathered_bytes_ += unit.parameters.whole_bytes() / 2;
}

void Sharded::gather(Unit& unit, Gather kind) {
  start_gather(unit, kind);
  std::optional<TimedWait> waiting;
  if (unit.parameters.is_gathering()) waiting.emplace(step_clock());
  unit.parameters.finish_gather(*world_, what("gathering the parameters", unit));
}

void Sharded::begin_forward(Unit& unit) {
  if (unit.begun < 0) {
    unit.begun = static_cast<std::int64_t>(in_order_.size());
    in_order_.push_back(&unit);
  }
  const Gather kind = at::GradMode::is_enabled() ? Gather::gather_for_forward : Gather::gather_for_evaluation;
  gather(unit, kind);
  const auto next = static_cast<std::size_t>(unit.begun) + 1;
  if (!in_backward_ && next < in_order_.size()) start_gather(*in_order_[next], kind);
}

void Sharded::end_forward(Unit& unit) {
  if (unit.ended >= 0) return;
  unit.ended = static_cast<std::int64_t>(in_order_of_ends_.size());
  in_order_of_ends_.push_back(&unit);
}

void Sharded::before_forward() {
  expect_no_failure();
  if (in_backward_ && backward_.expired()) forget_backward();
  prepared_.expect_unchanged();
  settle();
  if (std::exchange(had_backward_, false))
    for (const auto& unit : units_) unit->forget_forward();
  if (!std::exchange(was_told_, true) && world_->rank() == 0)
    log::info(pipeline_line(wire_report()) + " over " + world_->backend_name());
  in_step_ = true;
  for (const auto& unit : units_) unit->parameters.use_wholes();
  units_[0]->before_forward();
}

void Sharded::after_forward(const std::vector<at::Tensor*>& outputs) {
  if (!units_[0]->end_forward(outputs))
    settle();
  else if (sync())
    ++steps_;
}

void Sharded::after_failed_forward() noexcept { settle_after_failure(); }

void Sharded::settle_after_failure() noexcept {
  try {
    settle();
  } catch (const std::exception&) {
    // Another rank has failed, which the next call of the model says.
  }
}

void Sharded::settle() {
  if (in_backward_) return;
  in_step_ = false;
  for (const auto& unit : units_) {
    unit->parameters.release(*world_);
    unit->parameters.use_pieces();
  }
  for (const auto& unit : units_) unit->parameters.expect_own_memory();
}

void Sharded::explain_failure() const {
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string& message = error.msg();
    for (const auto& unit : units_)
      for (const auto& flat : unit->parameters.flats())
        if (flat->is_own_message(message)) throw Error(message);
  } catch (...) {
  }
}

void Sharded::drop_gradients() {
  for (const auto& unit : units_) unit->parameters.set_waiting_gradients({});
}

int Sharded::inner_backward() const {
  const int task = torch::autograd::get_current_graph_task_id();
  return in_backward_ && task != backward_task_ ? task : -1;
}

void Sharded::begin_backward() {
  if (at::GradMode::is_enabled())
    throw Error("a sharded model has no second derivatives: its backward can't run with create_graph");
  if (in_backward_ && backward_.expired()) forget_backward();
  if (std::exchange(in_backward_, true)) return;
  had_backward_ = true;
  was_waited_in_vain_ = false;
  next_in_backward_ = static_cast<std::int64_t>(in_order_of_ends_.size()) - 1;
  const auto backward = std::make_shared<bool>(true);  // goes with the callback, also if it is never called
  backward_ = backward;
  backward_task_ = torch::autograd::get_current_graph_task_id();
  torch::autograd::Engine::get_default_engine().queue_callback([engine = weak_from_this(), backward] {
    if (const auto here = engine.lock()) here->end_backward();
  });
}

bool Sharded::start_next_gather() {
  while (next_in_backward_ >= 0) {
    Unit& unit = *in_order_of_ends_[static_cast<std::size_t>(next_in_backward_--)];
    if (!unit.takes_part || unit.is_done || unit.parameters.is_in_backward()) continue;
    start_gather(unit, Gather::gather_for_backward);
    return true;
  }
  return false;
}

void Sharded::gather_for_backward(Unit& unit) {
  while (unit.takes_part && next_in_backward_ >= unit.ended && start_next_gather()) {
  }
  gather(unit, Gather::gather_for_backward);
  start_next_gather();
}

void Sharded::start_reductions() {
  for (auto unit = in_order_.rbegin(); unit != in_order_.rend(); ++unit) {
    const bool is_to_come =
        ((*unit)->takes_part || (*unit)->parameters.is_in_backward()) && (*unit)->parameters.trains();
    if (!(*unit)->is_done && is_to_come) return;
    start_reduction(**unit, std::exchange((*unit)->gradients, {}));
  }
}

void Sharded::start_reduction(Unit& unit, std::vector<at::Tensor> gradients) {
  const auto& flats = unit.parameters.trained_flats();
  std::size_t index = 0;
  for (at::Tensor& gradient : gradients) {
    const std::size_t flat = index++;
    if (!gradient.defined()) continue;
    scattered_bytes_ += scatter_->bytes_of(flats[flat]->whole_bytes(), flats[flat]->dtype());
    const ShardOperation operation{ShardOperation::Kind::scatter, static_cast<std::int64_t>(unit.position),
                                   static_cast<std::int64_t>(flat)};
    reductions_.push_back({&unit, flat, scatter_->start(operation, std::move(gradient))});
    while (reductions_.size() > kMostReductions && is_soon_over(reductions_.front()))
      finish_oldest_reduction();
  }
}

bool Sharded::is_soon_over(const Reduction& reduction) {
  const auto& work = reduction.started.work.work;
  if (!work || world_->uses_nccl()) return true;  // then only the stream waits
  Unit& unit = *reduction.unit;
  const bool waits = !was_waited_in_vain_ && !unit.is_late;
  const TimedWait waiting(step_clock());
  const auto give_up =
      std::chrono::steady_clock::now() +
      (waits ? kPatience / (1 << std::min(unit.waits_in_vain, 10)) : std::chrono::milliseconds(0));
  while (!work->isCompleted()) {
    if (std::chrono::steady_clock::now() >= give_up) {
      if (waits) ++unit.waits_in_vain;
      unit.is_late = unit.is_late || waits;
      was_waited_in_vain_ = true;
      return false;
    }
    expect_no_failure();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  unit.is_late = false;
  return true;
}

void Sharded::finish_oldest_reduction() {
  const at::NoGradGuard no_grad;
  Reduction& oldest = reductions_.front();
  if (oldest.started.work.work) {
    const TimedWait waiting(step_clock());
    wait_for(oldest);
  }
  oldest.unit->parameters.add_gradient(oldest.index, scatter_->finish(std::move(oldest.started)));
  reductions_.pop_front();
}

void Sharded::wait_for(const Reduction& reduction) {
  const ShardWork& work = reduction.started.work;
  if (work.work)
    world_->wait_for_all(work.work, work.sequence, work.number,
                         what("averaging the gradients", *reduction.unit));
}

void Sharded::end_backward() {
  while (start_next_gather()) {
  }
  for (auto unit = in_order_.rbegin(); unit != in_order_.rend(); ++unit) {
    const bool is_passed_over =
        !(*unit)->is_done && sync() && (*unit)->takes_part && (*unit)->parameters.trains();
    if (!is_passed_over && !(*unit)->parameters.is_in_backward()) continue;
    (*unit)->parameters.begin_backward();
    (*unit)->finish_gradients(*this);
  }
  start_reductions();
  for (auto unit = in_order_.rbegin(); unit != in_order_.rend(); ++unit)
    start_reduction(**unit, std::exchange((*unit)->later_gradients, {}));
  while (!reductions_.empty()) finish_oldest_reduction();
  for (const auto& unit : units_) unit->end_backward(*world_);
  pool_->end_step();
  in_backward_ = in_step_ = false;
}

/// After one that threw.
void Sharded::forget_backward() {
  for (const Reduction& reduction : reductions_) wait_for(reduction);
  reductions_.clear();
  for (const auto& unit : units_) {
    unit->parameters.forget_backward();
    unit->gradients.clear();
    unit->end_backward(*world_);
  }
  in_backward_ = in_step_ = false;
}

void Sharded::expect_no_failure() const {
  if (const std::string failure = world_->watch().failure(); !failure.empty()) throw RunFailed(failure);
}

void Sharded::summon_full_parameters(const std::function<void()>& body) {
  expect_no_failure();
  if (in_backward_) forget_backward();
  settle();
  for (const auto& unit : units_) gather(*unit, Gather::gather_for_summon);
  try {
    body();
    for (const auto& unit : units_) unit->parameters.expect_changes_fit();
    for (const auto& unit : units_) unit->parameters.keep_changes();
  } catch (...) {
    for (const auto& unit : units_) unit->parameters.drop_changes();
    settle();
    throw;
  }
  settle();
}

std::vector<std::shared_ptr<const FlatParameter>> Sharded::flat_parameters() const {
  std::vector<std::shared_ptr<const FlatParameter>> all;
  for (const auto& unit : units_)
    all.insert(all.end(), unit->parameters.flats().begin(), unit->parameters.flats().end());
  return all;
}

std::map<std::string, at::Tensor> Sharded::waiting_gradients() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& unit : units_)
    all.insert(unit->parameters.waiting_gradients().begin(), unit->parameters.waiting_gradients().end());
  return all;
}

void Sharded::set_waiting_gradients(const std::map<std::string, at::Tensor>& gradients) {
  for (const auto& unit : units_) {
    std::map<std::string, at::Tensor> of_unit;
    for (const auto& flat : unit->parameters.trained_flats()) {
      for (const std::string& name : flat->names()) {
        if (const auto found = gradients.find(name); found != gradients.end()) of_unit.insert(*found);
      }
    }
    unit->parameters.set_waiting_gradients(std::move(of_unit));
  }
}

WireReport Sharded::wire_report() const {
  WireReport report;
  report.pipeline = options_.reshard_after_forward ? "full_shard" : "shard_grad_op";
  if (options_.wire) report.pipeline += *options_.wire == at::kHalf ? " in fp16" : " in bf16";
  for (const auto& unit : units_) {
    const bool is_gathered_twice = options_.reshard_after_forward && unit != units_[0];
    report.bytes_per_step += unit->parameters.whole_bytes() / 2 * (is_gathered_twice ? 2 : 1);
    for (const auto& flat : unit->parameters.trained_flats()) {
      report.parameters += flat->numel();
      report.gradient_bytes += flat->numel() * static_cast<std::int64_t>(flat->shard().itemsize());
      report.bytes_per_step += scatter_->bytes_of(flat->whole_bytes(), flat->dtype());
    }
  }
  report.steps = steps_;
  report.bytes_sent = bytes_sent();
  report.stages = {{"parameters", gathered_bytes_}, {"gradients", scattered_bytes_}};
  return report;
}

}  // namespace hookline
