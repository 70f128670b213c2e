#include "parallel/sharded.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <malloc.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "hooks/error.h"
#include "hooks/log.h"
#include "parallel/find_units.h"
#include "parallel/fsdp_unit.h"
#include "parallel/model_signature.h"
#include "parallel/sharded_unit.h"
#include "parallel/wire_table.h"

namespace hookline {
namespace {

using torch::autograd::Node;
using Variables = torch::autograd::variable_list;

/// Gradients on their way while the next unit computes: they take memory.
constexpr std::size_t kMostReductions = 1;

/// How long a backward waits for them at most. A rank whose backward passes over a unit starts its reduction only at the end.
constexpr std::chrono::seconds kPatience{1};

class BeforeNode : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeNode(std::function<void()> action) : action_(std::move(action)) {}
  Variables operator()(const Variables& gradients) override {
    action_();
    return gradients;
  }

 private:
  std::function<void()> action_;
};

/// Remembers whose parameters have been cut, in any run of this process. Throws Error if `module`'s were.
void expect_whole(const torch::nn::Module& module) {
  static std::mutex mutex;
  static std::map<const void*, c10::weak_intrusive_ptr<c10::TensorImpl>> cut;
  const std::lock_guard lock(mutex);
  std::erase_if(cut, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value().defined() && cut.contains(parameter.value().unsafeGetTensorImpl()))
      throw Error("the model '" + module.name() + "' is sharded already ('" + parameter.key() +
                  "' is one rank's piece): prepare it once; after a failure, make it anew");
  }
  for (const auto& parameter : module.named_parameters())
    if (parameter.value().defined())
      cut.emplace(parameter.value().unsafeGetTensorImpl(), parameter.value().getIntrusivePtr());
}

}  // namespace

/// What a unit's module calls, and autograd.
class Sharded::Unit : public detail::AroundUnit, public std::enable_shared_from_this<Unit> {
 public:
  Unit(const std::shared_ptr<Sharded>& engine, ShardedUnit unit)
      : parameters(std::move(unit)),
        position(engine->units_.size()),
        is_root(position == 0),
        engine_(engine) {}

  void take_inputs(const std::vector<at::Tensor>& inputs, bool are_all) override {
    if (!at::GradMode::is_enabled()) return;
    inputs_are_known_ = inputs_are_known_ && are_all;
    for (const at::Tensor& input : inputs) {
      if (!input.defined() || !input.requires_grad()) continue;
      if (input.is_leaf()) {
        inputs_are_known_ = false;  // a hook on it would stay
        continue;
      }
      ++inputs_;
      ++missing_inputs_;
      input.register_hook([unit = weak_from_this()](const at::Tensor&) {
        if (const auto here = unit.lock()) here->input_has_gradient();
      });
    }
  }

  void before_forward() override {
    const auto engine = live_engine();
    engine->begin_forward(*this);
  }

  void after_forward(const std::vector<at::Tensor*>& outputs) override { end_forward(outputs); }

  /// True if a backward may come of it.
  bool end_forward(const std::vector<at::Tensor*>& outputs) {
    const auto engine = live_engine();
    bool expects_backward = false;
    if (at::GradMode::is_enabled()) {
      for (const at::Tensor* output : outputs) {
        if (!output->defined() || !output->requires_grad()) continue;
        expects_backward = true;
        if (!output->is_leaf()) watch(*output);
        // Whoever changes a view in place gives it another history, without the hook.
        if (!output->is_leaf() && output->is_view() && output->_base().requires_grad() &&
            !output->_base().is_leaf())
          watch(at::Tensor(output->_base()));
      }
    }
    takes_part = takes_part || expects_backward;
    if (expects_backward) engine->end_forward(*this);
    const bool stays = expects_backward && (is_root || !engine->options_.reshard_after_forward);
    if (!stays && !parameters.is_in_backward()) parameters.release(*engine->world_);
    return expects_backward;
  }

  void after_failed_forward() noexcept override {
    if (const auto engine = engine_.lock()) engine->settle_after_failure();
  }

  std::string_view needs_outputs() const override { return "a unit of a sharded model needs"; }

  /// Acts before and after each parameter's gradient is put in its place.
  void watch_gradients(const Accumulators& accumulators) {
    const auto& flats = parameters.trained_flats();
    for (std::size_t flat = 0; flat < flats.size(); ++flat) {
      for (std::size_t index = 0; index < flats[flat]->parameters().size(); ++index) {
        const std::shared_ptr<Node>& node =
            accumulators.at(flats[flat]->parameters()[index].unsafeGetTensorImpl());
        node->add_pre_hook(std::make_unique<BeforeNode>([unit = weak_from_this()] {
          if (const auto here = unit.lock()) here->before_backward();
        }));
        node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [unit = weak_from_this(), flat, index](const Variables& outputs, const Variables&) {
              if (const auto here = unit.lock()) here->gradient_came(flat, index);
              return outputs;
            }));
        accumulators_.push_back(node);
      }
    }
  }

  void before_backward() {
    const auto engine = live_engine();
    engine->begin_backward();
    if (is_done || parameters.is_in_backward()) return;
    engine->gather_for_backward(*this);
    parameters.begin_backward();
    missing_gradients_ = parameters.trained();
    if (missing_gradients_ == 0) finish_gradients(*engine);
  }

  /// No more gradients come of this backward.
  void finish_gradients(Sharded& engine) {
    if (engine.sync())
      gradients = parameters.take_gradients();
    else
      parameters.keep_gradients();
    is_done = true;
    release_if_over(engine);
  }

  /// Ready for the next backward of the same forward.
  void end_backward(World& world) {
    is_done = false;
    missing_inputs_ = inputs_;
    parameters.release(world);
  }

  /// For a forward after that backward.
  void forget_forward() {
    takes_part = false;
    inputs_ = missing_inputs_ = 0;
    inputs_are_known_ = true;
  }

  ShardedUnit parameters;
  const std::size_t position;  // in units_
  const bool is_root;
  std::int64_t begun = -1, ended = -1;  // in the orders in which first forwards began and ended
  bool takes_part = false;              // in the backward of the last forward
  bool is_done = false;                 // with its gradients, in the backward under way
  std::vector<at::Tensor> gradients;    // to be averaged

 private:
  std::shared_ptr<Sharded> live_engine() const {
    if (auto engine = engine_.lock()) return engine;
    throw Error("the unit '" + parameters.name() +
                "' is of a sharded model that is gone: keep what prepare() returned for as long as its "
                "module is used");
  }

  void watch(const at::Tensor& output) {
    output.register_hook([unit = weak_from_this()](const at::Tensor&) {
      if (const auto here = unit.lock()) here->before_backward();
    });
  }

  void gradient_came(std::size_t flat, std::size_t index) {
    if (!parameters.is_in_backward()) return;
    const auto engine = live_engine();
    if (engine->sync()) parameters.collect_gradient(flat, index);
    if (--missing_gradients_ > 0) return;
    finish_gradients(*engine);
    engine->start_reductions();
  }

  void input_has_gradient() {
    --missing_inputs_;
    if (const auto engine = engine_.lock()) release_if_over(*engine);
  }

  /// The gradients of inputs may need parameters that get none, and come after all others.
  void release_if_over(Sharded& engine) {
    if (is_done && !is_root && inputs_are_known_ && missing_inputs_ <= 0) parameters.release(*engine.world_);
  }

  std::weak_ptr<Sharded> engine_;
  std::vector<std::shared_ptr<Node>> accumulators_;
  std::size_t missing_gradients_ = 0;  // of the backward under way
  std::int64_t inputs_ = 0, missing_inputs_ = 0;
  bool inputs_are_known_ = true;  // and have hooks
};

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
    : Engine(world->step_clock()), world_(std::move(world)), module_(std::move(module)), options_(options) {
  expect_whole(*module_);
  agree_on_signature(*world_, model_signature(*module_));
  const std::vector<at::Tensor> parameters = module_->parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& each) { return each.requires_grad(); }))
    throw Error("the model '" + module_->name() +
                "' has no parameter that requires a gradient: there is nothing to train; use it without "
                "preparing it");
  gathers_ = world_->make_stage_group("fsdp-gathers");
  scatter_ = std::make_unique<GradientScatter>(pool_, world_->make_stage_group("fsdp-scatters"),
                                               options_.wire, world_->uses_nccl());
}

Sharded::~Sharded() = default;

void Sharded::make_units() {
  const std::vector<FoundUnit> found = find_units(*module_);
  if (found.size() == 1 && options_.reshard_after_forward && world_->rank() == 0)
    log::warning("the model '" + module_->name() +
                 "' has no FsdpUnit: its parameters are whole all at once in each step; make its blocks "
                 "hookline::FsdpUnit<Block>");
  std::vector<at::Tensor> buffers = module_->buffers();
  std::erase_if(buffers, [](const at::Tensor& buffer) { return !buffer.defined(); });
  world_->broadcast(buffers);
  for (const FoundUnit& each : found) {
    std::vector<at::Tensor> wholes;
    for (const auto& [name, parameter] : each.parameters) wholes.push_back(parameter);
    world_->broadcast(wholes);
    const Accumulators accumulators = accumulators_of(each);
    auto unit = std::make_shared<Unit>(
        shared_from_this(),
        ShardedUnit(each.name, flatten(each, *world_, pool_), gathers_, world_->uses_nccl()));
    unit->watch_gradients(accumulators);
    if (each.module) each.module->around = unit;
    units_.push_back(std::move(unit));
  }
  ::malloc_trim(0);  // the whole model's memory lies in pieces now, between which little else would fit
}

std::string Sharded::what(const std::string& doing, const Unit& unit) const {
  const std::string& name = unit.parameters.name();
  return "step " + std::to_string(steps_) + " of a sharded model: " + doing + " of " +
         (name.empty() ? "the model's own" : "'" + name + "'");
}

void Sharded::start_gather(Unit& unit) {
  if (!unit.parameters.start_gather()) return;
  gathered_bytes_ += unit.parameters.whole_bytes() / 2;
  gathers_so_far_ = gathers_so_far_ * 31 + unit.position + 1;
}

void Sharded::gather(Unit& unit) {
  start_gather(unit);
  std::optional<TimedWait> waiting;
  if (unit.parameters.is_gathering()) waiting.emplace(step_clock());
  unit.parameters.finish_gather(*world_, what("gathering the parameters", unit));
}

void Sharded::begin_forward(Unit& unit) {
  if (unit.begun < 0) {
    unit.begun = static_cast<std::int64_t>(in_order_.size());
    in_order_.push_back(&unit);
  }
  gather(unit);
  const auto next = static_cast<std::size_t>(unit.begun) + 1;
  if (!in_backward_ && next < in_order_.size()) start_gather(*in_order_[next]);
}

void Sharded::end_forward(Unit& unit) {
  if (unit.ended >= 0) return;
  unit.ended = static_cast<std::int64_t>(in_order_of_ends_.size());
  in_order_of_ends_.push_back(&unit);
}

void Sharded::before_forward() {
  expect_no_failure();
  if (in_backward_ && backward_.expired()) forget_backward();
  for (const auto& unit : units_) {
    for (const auto& flat : unit->parameters.flats()) {
      if (flat->requires_grad()) continue;
      for (std::size_t i = 0; i < flat->parameters().size(); ++i)
        if (flat->parameters()[i].requires_grad())
          throw Error(
              "the parameter '" + flat->names()[i] +
              "' requires a gradient now, and did not when the model was sharded: let it require one before "
              "prepare(), and take that away afterwards if it is to be frozen at first");
    }
  }
  settle();
  if (std::exchange(had_backward_, false))
    for (const auto& unit : units_) unit->forget_forward();
  if (!std::exchange(was_told_, true) && world_->rank() == 0) log::info(pipeline_line(wire_report()));
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
  for (const auto& unit : units_) unit->parameters.release(*world_);
}

void Sharded::drop_gradients() {
  for (const auto& unit : units_) unit->parameters.set_waiting_gradients({});
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
  torch::autograd::Engine::get_default_engine().queue_callback([engine = weak_from_this(), backward] {
    if (const auto here = engine.lock()) here->end_backward();
  });
}

bool Sharded::start_next_gather() {
  while (next_in_backward_ >= 0) {
    Unit& unit = *in_order_of_ends_[static_cast<std::size_t>(next_in_backward_--)];
    if (!unit.takes_part || unit.is_done || unit.parameters.is_in_backward()) continue;
    start_gather(unit);
    return true;
  }
  return false;
}

void Sharded::gather_for_backward(Unit& unit) {
  while (unit.takes_part && next_in_backward_ >= unit.ended && start_next_gather()) {
  }
  gather(unit);
  start_next_gather();
}

void Sharded::start_reductions() {
  for (auto unit = in_order_.rbegin(); unit != in_order_.rend(); ++unit) {
    const bool is_to_come =
        ((*unit)->takes_part || (*unit)->parameters.is_in_backward()) && (*unit)->parameters.trains();
    if (!(*unit)->is_done && is_to_come) return;
    start_reduction(**unit);
  }
}

void Sharded::start_reduction(Unit& unit) {
  const auto& flats = unit.parameters.trained_flats();
  std::size_t index = 0;
  for (at::Tensor& gradient : std::exchange(unit.gradients, {})) {
    const std::size_t flat = index++;
    if (!gradient.defined()) continue;
    scattered_bytes_ += scatter_->bytes_of(flats[flat]->whole_bytes(), flats[flat]->dtype());
    reductions_.push_back({&unit, flat, scatter_->start(std::move(gradient))});
    while (reductions_.size() > kMostReductions && is_soon_over(reductions_.front()))
      finish_oldest_reduction();
  }
}

bool Sharded::is_soon_over(const Reduction& reduction) {
  if (!reduction.started.work || world_->uses_nccl()) return true;  // then only the stream waits
  const TimedWait waiting(step_clock());
  const auto give_up =
      std::chrono::steady_clock::now() + (was_waited_in_vain_ ? std::chrono::seconds(0) : kPatience);
  while (!reduction.started.work->isCompleted()) {
    if (std::chrono::steady_clock::now() > give_up) {
      was_waited_in_vain_ = true;
      return false;
    }
    expect_no_failure();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void Sharded::finish_oldest_reduction() {
  const at::NoGradGuard no_grad;
  Reduction& oldest = reductions_.front();
  if (oldest.started.work) {
    const TimedWait waiting(step_clock());
    world_->wait(oldest.started.work, what("averaging the gradients", *oldest.unit));
  }
  oldest.unit->parameters.add_gradient(oldest.index, scatter_->finish(std::move(oldest.started)));
  reductions_.pop_front();
}

/// Gathers are matched by their order alone: ranks that run other units would compute with each other's parameters.
void Sharded::expect_same_gathers() {
  if (world_->size() == 1) return;
  const std::vector<at::Tensor> all =
      world_->all_gather(at::full({1}, static_cast<std::int64_t>(gathers_so_far_), at::kLong));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].item<std::int64_t>() == all[0].item<std::int64_t>()) continue;
    throw Error("step " + std::to_string(steps_) + " of a sharded model: rank " + std::to_string(rank) +
                " ran other units than rank 0, or in another order, so that each computed with parameters of "
                "units that "
                "the other ran: every rank's forward must run the same units in the same order");
  }
}

void Sharded::end_backward() {
  while (start_next_gather()) {
  }
  for (auto unit = in_order_.rbegin(); unit != in_order_.rend(); ++unit) {
    const bool is_passed_over = sync() && (*unit)->takes_part && (*unit)->parameters.trains();
    if ((*unit)->is_done || (!is_passed_over && !(*unit)->parameters.is_in_backward())) continue;
    (*unit)->parameters.begin_backward();
    (*unit)->finish_gradients(*this);
  }
  start_reductions();
  while (!reductions_.empty()) finish_oldest_reduction();
  if (sync()) expect_same_gathers();
  for (const auto& unit : units_) unit->end_backward(*world_);
  pool_->end_step();
  in_backward_ = false;
}

/// After one that threw.
void Sharded::forget_backward() {
  for (const Reduction& reduction : reductions_) {
    if (reduction.started.work)
      world_->wait(reduction.started.work, what("averaging the gradients", *reduction.unit));
  }
  reductions_.clear();
  for (const auto& unit : units_) {
    unit->parameters.forget_backward();
    unit->gradients.clear();
    unit->end_backward(*world_);
  }
  in_backward_ = false;
}

void Sharded::expect_no_failure() const {
  if (const std::string failure = world_->watch().failure(); !failure.empty()) throw RunFailed(failure);
}

void Sharded::summon_full_parameters(const std::function<void()>& body) {
  expect_no_failure();
  if (in_backward_) forget_backward();
  settle();
  for (const auto& unit : units_) gather(*unit);
  try {
    body();
    for (const auto& unit : units_) unit->parameters.keep_changes();
  } catch (...) {
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
