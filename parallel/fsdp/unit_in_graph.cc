#include "parallel/fsdp/unit_in_graph.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "parallel/tensors/sparse_gradients.h"

namespace hookline {
namespace {

using torch::autograd::Node;
using Variables = torch::autograd::variable_list;

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

}  // namespace

Sharded::Unit::Unit(const std::shared_ptr<Sharded>& engine, ShardedUnit unit)
    : parameters(std::move(unit)), position(engine->units_.size()), is_root(position == 0), engine_(engine) {}

void Sharded::Unit::take_inputs(const std::vector<at::Tensor>& inputs, bool are_all) {
  if (!at::GradMode::is_enabled()) return;
  // A forward that a backward recomputes needs no hooks on its inputs: it is over when the nested backward
  // is.
  if (const auto engine = engine_.lock(); engine && engine->is_in_backward()) return;
  inputs_are_known_ = inputs_are_known_ && are_all;
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || !input.requires_grad()) continue;
    if (input.is_leaf()) {
      inputs_are_known_ = false;  // a hook on a leaf would outlive the step
      continue;
    }
    ++inputs_;
    ++missing_inputs_;
    input.register_hook([unit = weak_from_this()](const at::Tensor&) {
      if (const auto here = unit.lock()) here->input_has_gradient();
    });
  }
}

void Sharded::Unit::before_forward() {
  const auto engine = live_engine();
  parameters.expect_own_memory();
  was_whole_before_ = engine->is_in_backward() && parameters.is_allocated();
  engine->begin_forward(*this);
}

bool Sharded::Unit::end_forward(const std::vector<at::Tensor*>& outputs) {
  const auto engine = live_engine();
  expect_no_parameter_among(outputs, *engine);
  bool expects_backward = false;
  if (at::GradMode::is_enabled()) {
    for (const at::Tensor* output : outputs) {
      if (!output->defined() || !output->requires_grad()) continue;
      expects_backward = true;
      if (!output->is_leaf()) watch(*output);
      // Changing a view in place gives it another history, without the hook, so watch its base, too.
      if (!output->is_leaf() && output->is_view() && output->_base().requires_grad() &&
          !output->_base().is_leaf())
        watch(at::Tensor(output->_base()));
    }
  }
  takes_part = takes_part || expects_backward;
  if (expects_backward) engine->end_forward(*this);
  const bool stays = expects_backward && (is_root || !engine->options_.reshard_after_forward);
  if (!stays && !was_whole_before_ && !parameters.is_in_backward()) {
    parameters.release(*engine->world_);
    if (!engine->phase_.has_wholes()) parameters.use_pieces();  // called outside the model's forward
  }
  return expects_backward;
}

void Sharded::Unit::after_failed_forward() noexcept {
  if (const auto engine = engine_.lock()) engine->settle_after_failure();
}

void Sharded::Unit::explain_failure() const {
  if (const auto engine = engine_.lock()) engine->explain_failure();
}

void Sharded::Unit::watch_gradients(const Accumulators& accumulators) {
  const auto& flats = parameters.trained_flats();
  for (std::size_t flat = 0; flat < flats.size(); ++flat) {
    for (std::size_t index = 0; index < flats[flat]->parameters().size(); ++index) {
      const std::shared_ptr<Node>& node =
          accumulators.at(flats[flat]->parameters()[index].unsafeGetTensorImpl());
      node->add_pre_hook(std::make_unique<BeforeNode>([unit = weak_from_this()] {
        if (const auto here = unit.lock()) here->before_backward();
      }));
      node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [unit = weak_from_this(), flat, index](const Variables& outputs, const Variables& received) {
            if (const auto here = unit.lock()) {
              refuse_sparse_gradient(received.at(0), here->parameters.trained_flats()[flat]->names()[index]);
              here->gradient_came(flat, index);
            }
            return outputs;
          }));
      accumulators_.push_back(node);
    }
  }
}

void Sharded::Unit::before_backward() {
  const auto engine = live_engine();
  engine->begin_backward();
  if (const int task = engine->inner_backward(); task >= 0) {
    if (std::find(inner_.begin(), inner_.end(), task) == inner_.end()) {
      inner_.push_back(task);
      torch::autograd::Engine::get_default_engine().queue_callback([unit = weak_from_this(), task] {
        if (const auto here = unit.lock()) here->end_inner_backward(task);
      });
    }
  } else {
    if (outer_ != Outer::not_begun) return;
    outer_ = Outer::open;
    missing_gradients_ = parameters.trained();
  }
  if (!parameters.is_in_backward()) {
    engine->gather_for_backward(*this);
    parameters.begin_backward();
  }
  if (outer_ == Outer::open && missing_gradients_ == 0) {
    outer_ = Outer::over;
    finish_round_if_over(*engine);
  }
}

void Sharded::Unit::finish_gradients(Sharded& engine) {
  if (!engine.sync()) {
    parameters.keep_gradients();
  } else if (!is_done) {
    gradients = parameters.take_gradients();
  } else {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> more = parameters.take_gradients();
    if (later_gradients.empty()) later_gradients.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      at::Tensor& sum = later_gradients[i];
      if (more[i].defined()) sum = sum.defined() ? sum.add_(more[i]) : std::move(more[i]);
    }
  }
  is_done = true;
  release_if_over(engine);
}

void Sharded::Unit::end_backward(World& world) {
  is_done = false;
  outer_ = Outer::not_begun;
  inner_.clear();
  later_gradients.clear();
  missing_inputs_ = inputs_;
  parameters.release(world);
  parameters.use_pieces();
}

void Sharded::Unit::forget_forward() {
  takes_part = false;
  inputs_ = missing_inputs_ = 0;
  inputs_are_known_ = true;
}

std::shared_ptr<Sharded> Sharded::Unit::live_engine() const {
  if (auto engine = engine_.lock()) return engine;
  throw Error("the unit '" + parameters.name() +
              "' is of a sharded model that is gone: keep what prepare() returned for as long as its "
              "module is used");
}

/// Throws Error if an output is a view of a parameter, whose memory is released. A unit may return views of
/// the root's parameters, which stay as long as such outputs are used; the model itself may not.
void Sharded::Unit::expect_no_parameter_among(const std::vector<at::Tensor*>& outputs,
                                              const Sharded& engine) const {
  for (const at::Tensor* output : outputs) {
    if (!output->defined() || !output->has_storage()) continue;
    const auto found = engine.owners_.find(output->storage().unsafeGetStorageImpl());
    if (found == engine.owners_.end() || (!is_root && found->second.unit->is_root)) continue;
    throw Error("the forward of " + (is_root ? "the sharded model" : "the unit '" + parameters.name() + "'") +
                " returns a view of the parameter '" + found->second.parameter +
                "', whose memory it gives back: return a copy, such as weight.clone()");
  }
}

void Sharded::Unit::watch(const at::Tensor& output) {
  output.register_hook([unit = weak_from_this()](const at::Tensor&) {
    if (const auto here = unit.lock()) here->before_backward();
  });
}

void Sharded::Unit::gradient_came(std::size_t flat, std::size_t index) {
  if (!parameters.is_in_backward()) return;
  const auto engine = live_engine();
  if (engine->sync()) parameters.collect_gradient(flat, index);
  if (engine->inner_backward() >= 0 || --missing_gradients_ > 0) return;
  outer_ = Outer::over;
  finish_round_if_over(*engine);
}

void Sharded::Unit::end_inner_backward(int task) {
  if (std::erase(inner_, task) == 0) return;  // the backward has ended, or was given up
  finish_round_if_over(*live_engine());
}

void Sharded::Unit::finish_round_if_over(Sharded& engine) {
  if (outer_ == Outer::open || !inner_.empty() || !parameters.is_in_backward()) return;
  finish_gradients(engine);
  engine.start_reductions();
}

void Sharded::Unit::input_has_gradient() {
  --missing_inputs_;
  if (const auto engine = engine_.lock()) release_if_over(*engine);
}

/// Releases the unit if it is done and its inputs have their gradients, which may need parameters that get
/// none, and come last.
void Sharded::Unit::release_if_over(Sharded& engine) {
  if (is_done && !is_root && inputs_are_known_ && missing_inputs_ <= 0 && !parameters.is_in_backward())
    parameters.release(*engine.world_);
}

}  // namespace hookline
