#include "parallel/fsdp/fsdp.h"

#include <ATen/core/grad_mode.h>
#include <malloc.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "hooks/fsdp/gradient_scatter.h"
#include "parallel/fsdp/cut_parameters.h"
#include "parallel/fsdp/find_units.h"
#include "parallel/fsdp/operation_text.h"
#include "parallel/fsdp/sharded_unit.h"
#include "parallel/fsdp/unit_in_graph.h"
#include "parallel/model/wire_table.h"
#include "parallel/shards/shard_channels.h"
#include "parallel/tensors/sparse_gradients.h"
#include "parallel/world/model_signature.h"

namespace hookline {
namespace {

/// The signature of the model and of how it is cut into units: ranks that cut it differently would wait for
/// each other.
Signature sharded_signature(torch::nn::Module& module, const FsdpOptions& options) {
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

}  // namespace

std::shared_ptr<Fsdp> Fsdp::make(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module,
                                 const FsdpOptions& options) {
  const std::shared_ptr<Fsdp> fsdp(new Fsdp(std::move(world), std::move(module), options));
  fsdp->make_units();
  return fsdp;
}

Fsdp::Fsdp(std::shared_ptr<World> world, std::shared_ptr<torch::nn::Module> module,
           const FsdpOptions& options)
    : ParallelStrategy(world->step_clock()),
      world_(std::move(world)),
      module_(std::move(module)),
      prepared_(module_),
      options_(options) {
  number_ = world_->count_of("sharded-model");
  expect_none_is_cut(*module_);
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

/// The module keeps its units alive, perhaps for long. The channel's threads and connections end here.
Fsdp::~Fsdp() {
  for (const auto& unit : units_) unit->parameters.leave_channel();
}

void Fsdp::make_units() {
  const std::vector<FoundUnit> found = find_units(*module_);
  make_channels(found);
  if (found.size() == 1 && options_.reshard_after_forward && world_->rank() == 0)
    log::warning("the model '" + module_->name() +
                 "' has no FsdpUnit: all of its parameters are whole at once in each step; make its blocks "
                 "hookline::FsdpUnit<Block>");
  std::vector<at::Tensor> buffers = module_->buffers();
  std::erase_if(buffers, [](const at::Tensor& buffer) { return !buffer.defined(); });
  world_->broadcast(buffers);
  remember_as_cut(*module_);
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
    ::malloc_trim(0);  // the parameters' former memory: little else would fit there, and it counts as used
  }
}

void Fsdp::make_channels(const std::vector<FoundUnit>& units) {
  std::vector<std::string> names;
  for (const FoundUnit& unit : units) names.push_back(unit.name);
  const NameOperation name = [names](const ShardOperation& operation) {
    return operation_text(operation.kind, names.at(static_cast<std::size_t>(operation.unit)));
  };
  const ChannelTexts texts{name, "the ranks run different units of a sharded model",
                           "Every rank must run the same units in the same order, in an evaluation too"};
  gathers_ = make_shard_channel(world_, "fsdp-gathers", texts);
  const auto scatters = world_->uses_nccl() ? gathers_ : make_shard_channel(world_, "fsdp-scatters", texts);
  reductions_ = std::make_unique<ReductionQueue>(
      *world_, std::make_unique<GradientScatter>(pool_, scatters, options_.wire),
      [this](const ShardedUnit& unit) { return what("averaging the gradients", unit); });
}

std::string Fsdp::what(const std::string& doing, const ShardedUnit& unit) const {
  return "step " + std::to_string(steps_) + " of " +
         (number_ == 0 ? "a sharded model" : "sharded model " + std::to_string(number_ + 1)) + ": " + doing +
         " of " + quoted_unit(unit.name());
}

void Fsdp::start_gather(Unit& unit, Gather kind) {
  if (unit.parameters.start_gather(kind)) gathered_bytes_ += unit.parameters.whole_bytes() / 2;
}

void Fsdp::gather(Unit& unit, Gather kind) {
  start_gather(unit, kind);
  std::optional<TimedWait> waiting;
  if (unit.parameters.is_gathering()) waiting.emplace(step_clock());
  unit.parameters.finish_gather(*world_, what("gathering the parameters", unit.parameters));
}

void Fsdp::begin_forward(Unit& unit) {
  order_.begin_forward(unit.position);
  const Gather kind = at::GradMode::is_enabled() ? Gather::gather_for_forward : Gather::gather_for_evaluation;
  gather(unit, kind);
  if (is_in_backward()) return;
  if (const auto next = order_.next_in_forward(unit.position)) start_gather(*units_[*next], kind);
}

void Fsdp::end_forward(Unit& unit) { order_.end_forward(unit.position); }

void Fsdp::before_forward() {
  expect_no_failure();
  if (phase_.backward_has_thrown()) forget_backward();
  prepared_.expect_unchanged();
  settle();
  if (phase_.begin_forward())
    for (const auto& unit : units_) unit->forget_forward();
  if (!std::exchange(was_told_, true) && world_->rank() == 0)
    log::info(pipeline_line(communication_stats()) + " over " + world_->backend_name());
  for (const auto& unit : units_) unit->parameters.use_wholes();
  units_[0]->before_forward();
}

void Fsdp::after_forward(const std::vector<at::Tensor*>& outputs) {
  if (!units_[0]->end_forward(outputs))
    settle();
  else if (sync())
    ++steps_;
}

void Fsdp::after_failed_forward() noexcept { settle_after_failure(); }

void Fsdp::settle_after_failure() noexcept {
  try {
    settle();
  } catch (const std::exception&) {
    // Another rank has failed. The next call of the model reports that.
  }
}

void Fsdp::settle() {
  if (!phase_.settle()) return;
  for (const auto& unit : units_) {
    unit->parameters.release(*world_);
    unit->parameters.use_pieces();
  }
  for (const auto& unit : units_) unit->parameters.expect_own_memory();
}

void Fsdp::explain_failure() const {
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

void Fsdp::drop_gradients() {
  for (const auto& unit : units_) unit->parameters.set_waiting_gradients({});
}

int Fsdp::inner_backward() const {
  const int task = torch::autograd::get_current_graph_task_id();
  return phase_.is_inner_backward(task) ? task : -1;
}

void Fsdp::begin_backward() {
  if (at::GradMode::is_enabled())
    throw Error("a sharded model has no second derivatives: its backward can't run with create_graph");
  if (phase_.backward_has_thrown()) forget_backward();
  if (is_in_backward()) return;
  order_.begin_backward();
  reductions_->begin_backward();
  // The callback owns `backward`, which thus also ends if autograd drops the callback without calling it.
  const auto backward = phase_.begin_backward(torch::autograd::get_current_graph_task_id());
  torch::autograd::Engine::get_default_engine().queue_callback([fsdp = weak_from_this(), backward] {
    if (const auto here = fsdp.lock()) here->end_backward();
  });
}

bool Fsdp::start_next_gather() {
  const auto next = order_.next_in_backward([this](std::size_t position) {
    const Unit& unit = *units_[position];
    return unit.takes_part && !unit.is_done && !unit.parameters.is_in_backward();
  });
  if (next) start_gather(*units_[*next], Gather::gather_for_backward);
  return next.has_value();
}

void Fsdp::gather_for_backward(Unit& unit) {
  while (unit.takes_part && order_.is_ahead_in_backward(unit.position) && start_next_gather()) {
  }
  gather(unit, Gather::gather_for_backward);
  start_next_gather();
}

void Fsdp::start_reductions() {
  for (const std::size_t position : std::views::reverse(order_.begun())) {
    Unit& unit = *units_[position];
    const bool is_to_come = (unit.takes_part || unit.parameters.is_in_backward()) && unit.parameters.trains();
    if (!unit.is_done && is_to_come) return;
    reductions_->start(unit.parameters, std::exchange(unit.gradients, {}));
  }
}

void Fsdp::end_backward() {
  while (start_next_gather()) {
  }
  for (const std::size_t position : std::views::reverse(order_.begun())) {
    Unit& unit = *units_[position];
    const bool is_passed_over = !unit.is_done && sync() && unit.takes_part && unit.parameters.trains();
    if (!is_passed_over && !unit.parameters.is_in_backward()) continue;
    unit.parameters.begin_backward();
    unit.finish_gradients(*this);
  }
  start_reductions();
  for (const std::size_t position : std::views::reverse(order_.begun()))
    reductions_->start(units_[position]->parameters, std::exchange(units_[position]->later_gradients, {}));
  reductions_->finish_all();
  for (const auto& unit : units_) unit->end_backward(*world_);
  pool_->end_step();
  phase_.end_backward();
}

/// Cleans up after a backward that threw.
void Fsdp::forget_backward() {
  reductions_->forget_all();
  for (const auto& unit : units_) {
    unit->parameters.forget_backward();
    unit->gradients.clear();
    unit->end_backward(*world_);
  }
  phase_.end_backward();
}

void Fsdp::expect_no_failure() const {
  if (const auto failure = world_->watch().failure()) throw *failure;
}

void Fsdp::summon_full_params(const std::function<void()>& body) {
  expect_no_failure();
  if (is_in_backward()) forget_backward();
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

std::vector<std::shared_ptr<const FlatParameter>> Fsdp::flat_parameters() const {
  std::vector<std::shared_ptr<const FlatParameter>> all;
  for (const auto& unit : units_)
    all.insert(all.end(), unit->parameters.flats().begin(), unit->parameters.flats().end());
  return all;
}

std::map<std::string, at::Tensor> Fsdp::waiting_gradients() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& unit : units_)
    all.insert(unit->parameters.waiting_gradients().begin(), unit->parameters.waiting_gradients().end());
  return all;
}

void Fsdp::set_waiting_gradients(const std::map<std::string, at::Tensor>& gradients) {
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

CommunicationStats Fsdp::communication_stats() const {
  CommunicationStats report;
  report.pipeline = options_.reshard_after_forward ? "full_shard" : "shard_grad_op";
  if (options_.wire) report.pipeline += *options_.wire == at::kHalf ? " in fp16" : " in bf16";
  for (const auto& unit : units_) {
    const bool is_gathered_twice = options_.reshard_after_forward && unit != units_[0];
    report.bytes_per_step += unit->parameters.whole_bytes() / 2 * (is_gathered_twice ? 2 : 1);
    for (const auto& flat : unit->parameters.trained_flats()) {
      report.parameters += flat->numel();
      report.gradient_bytes += flat->numel() * static_cast<std::int64_t>(flat->shard().itemsize());
      report.bytes_per_step += reductions_->bytes_of(*flat);
    }
  }
  report.steps = steps_;
  report.bytes_sent = bytes_sent();
  report.stages = {{"parameters", gathered_bytes_}, {"gradients", reductions_->bytes_sent()}};
  return report;
}

}  // namespace hookline
