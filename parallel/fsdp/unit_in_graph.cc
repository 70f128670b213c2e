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

Fsdp::Unit::Unit(const std::shared_ptr<Fsdp>& fsdp, ShardedUnit unit)
    : parameters(std::move(unit)), position(fsdp->units_.size()), is_root(position == 0), fsdp_(fsdp) {}

void Fsdp::Unit::take_inputs(const std::vector<at::Tensor>& inputs, bool are_all) {
  if (!at::GradMode::is_enabled()) return;
  // A forward that a backward recomputes needs no hooks on its inputs: it is over when the nested backward
  // is.
  if (const auto fsdp = fsdp_.lock(); fsdp && fsdp->is_in_backward()) return;
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

void Fsdp::Unit::before_forward() {
  const auto fsdp = live_fsdp();
  parameters.expect_own_memory();
  was_whole_before_ = fsdp->is_in_backward() && parameters.is_allocated();
  fsdp->begin_forward(*this);
}

bool Fsdp::Unit::end_forward(const std::vector<at::Tensor*>& outputs) {
  const auto fsdp = live_fsdp();
  expect_no_parameter_among(outputs, *fsdp);
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
  if (expects_backward) fsdp->end_forward(*this);
  const bool stays = expects_backward && (is_root || !fsdp->options_.reshard_after_forward);
  if (!stays && !was_whole_before_ && !parameters.is_in_backward()) {
    parameters.release(*fsdp->world_);
    if (!fsdp->phase_.has_wholes()) parameters.use_pieces();  // called outside the model's forward
  }
  return expects_backward;
}

void Fsdp::Unit::after_failed_forward() noexcept {
  if (const auto fsdp = fsdp_.lock()) fsdp->settle_after_failure();
}

void Fsdp::Unit::explain_failure() const {
  if (const auto fsdp = fsdp_.lock()) fsdp->explain_failure();
}

void Fsdp::Unit::watch_gradients(const Accumulators& accumulators) {
  const auto& flats = parameters.trained_flats();
  for (std::size_t flat = 0; flat < flats.size(); ++flat) {
    for (std::size_t index = 0; index < flats[flat]->parameters().size(); ++index) {
      const torch_versions::NodePtr& node =
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

void Fsdp::Unit::before_backward() {
  const auto fsdp = live_fsdp();
  fsdp->begin_backward();
  if (const int task = fsdp->inner_backward(); task >= 0) {
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
    fsdp->gather_for_backward(*this);
    parameters.begin_backward();
  }
  if (outer_ == Outer::open && missing_gradients_ == 0) {
    outer_ = Outer::over;
    finish_round_if_over(*fsdp);
  }
}

void Fsdp::Unit::finish_gradients(Fsdp& fsdp) {
  if (!fsdp.sync()) {
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
  release_if_over(fsdp);
}

void Fsdp::Unit::end_backward(World& world) {
  is_done = false;
  outer_ = Outer::not_begun;
  inner_.clear();
  later_gradients.clear();
  missing_inputs_ = inputs_;
  parameters.release(world);
  parameters.use_pieces();
}

void Fsdp::Unit::forget_forward() {
  takes_part = false;
  inputs_ = missing_inputs_ = 0;
  inputs_are_known_ = true;
}

std::shared_ptr<Fsdp> Fsdp::Unit::live_fsdp() const {
  if (auto fsdp = fsdp_.lock()) return fsdp;
  throw Error("the unit '" + parameters.name() +
              "' is of a sharded model that is gone: keep what prepare() returned for as long as its "
              "module is used");
}

/// Throws Error if an output is a view of a parameter, whose memory is released. A unit may return views of
/// the root's parameters, which stay as long as such outputs are used; the model itself may not.
void Fsdp::Unit::expect_no_parameter_among(const std::vector<at::Tensor*>& outputs, const Fsdp& fsdp) const {
  for (const at::Tensor* output : outputs) {
    if (!output->defined() || !output->has_storage()) continue;
    const auto found = fsdp.owners_.find(output->storage().unsafeGetStorageImpl());
    if (found == fsdp.owners_.end() || (!is_root && found->second.unit->is_root)) continue;
    throw Error("the forward of " + (is_root ? "the sharded model" : "the unit '" + parameters.name() + "'") +
                " returns a view of the parameter '" + found->second.parameter +
                "', whose memory is freed afterwards: return a copy, such as weight.clone()");
  }
}

void Fsdp::Unit::watch(const at::Tensor& output) {
  output.register_hook([unit = weak_from_this()](const at::Tensor&) {
    if (const auto here = unit.lock()) here->before_backward();
  });
}

void Fsdp::Unit::gradient_came(std::size_t flat, std::size_t index) {
  if (!parameters.is_in_backward()) return;
  const auto fsdp = live_fsdp();
  if (fsdp->sync()) parameters.collect_gradient(flat, index);
  if (fsdp->inner_backward() >= 0 || --missing_gradients_ > 0) return;
  outer_ = Outer::over;
  finish_round_if_over(*fsdp);
}

void Fsdp::Unit::end_inner_backward(int task) {
  if (std::erase(inner_, task) == 0) return;  // the backward has ended, or was given up
  finish_round_if_over(*live_fsdp());
}

void Fsdp::Unit::finish_round_if_over(Fsdp& fsdp) {
  if (outer_ == Outer::open || !inner_.empty() || !parameters.is_in_backward()) return;
  finish_gradients(fsdp);
  fsdp.start_reductions();
}

void Fsdp::Unit::input_has_gradient() {
  --missing_inputs_;
  if (const auto fsdp = fsdp_.lock()) release_if_over(*fsdp);
}

/// Releases the unit if it is done and its inputs have their gradients. Computing those may still need
/// frozen parameters, after all parameters' gradients have come.
void Fsdp::Unit::release_if_over(Fsdp& fsdp) {
  if (is_done && !is_root && inputs_are_known_ && missing_inputs_ <= 0 && !parameters.is_in_backward())
    parameters.release(*fsdp.world_);
}

}  // namespace hookline
