#include "parallel/model/fused_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/tensors/same_layout.h"

namespace hookline::detail {
namespace {
namespace optim = torch::optim;

/// The tensors of one parameter, which correspond element by element: the parameter, its gradient, and the
/// optimizer's state. A tensor is undefined if the optimizer keeps none.
constexpr std::size_t kRoles = 5;
using Row = std::array<at::Tensor, kRoles>;
constexpr std::size_t kParameter = 0, kGradient = 1, kFirst = 2, kSecond = 3, kLargest = 4;

/// What goes into one call of a kernel: a list for each role.
class Table {
 public:
  void add(const Row& row) {
    for (std::size_t role = 0; role < kRoles; ++role)
      if (row[role].defined()) lists_[role].push_back(row[role]);
  }
  std::size_t size() const { return lists_[kParameter].size(); }
  const std::vector<at::Tensor>& operator[](std::size_t role) const { return lists_[role]; }

 private:
  std::array<std::vector<at::Tensor>, kRoles> lists_;
};

/// What the kernels' widest instructions process at once. A kernel works through a tensor in such units from
/// its start, and each thread's part is a multiple of them.
constexpr std::int64_t kUnitBytes = 64;

at::Tensor flat_part(const at::Tensor& tensor, std::int64_t begin, std::int64_t count) {
  return tensor.as_strided({count}, {1}, tensor.storage_offset() + begin);
}

/// Calls `kernel` for rows of one dtype and device: once, or on the CPU a second time for what does not fill
/// a unit.
template <typename Kernel>
void run(const std::vector<Row>& rows, const Kernel& kernel) {
  const at::Tensor& any = rows.front()[kParameter];
  if (!any.is_cpu()) {
    Table whole;
    for (const Row& row : rows) whole.add(row);
    kernel(whole);
    return;
  }
  const std::int64_t unit = kUnitBytes / static_cast<std::int64_t>(any.element_size());
  Table mains;
  std::vector<const Row*> with_tail;
  for (const Row& row : rows) {
    const std::int64_t elements = row[kParameter].numel(), main = elements / unit * unit;
    if (main < elements) with_tail.push_back(&row);
    if (main == elements) {
      mains.add(row);
    } else if (main > 0) {
      Row part;
      for (std::size_t role = 0; role < kRoles; ++role)
        if (row[role].defined()) part[role] = flat_part(row[role], 0, main);
      mains.add(part);
    }
  }
  if (mains.size() > 0) kernel(mains);
  if (with_tail.empty()) return;
  // The tails of all tensors, each in a unit of its own.
  Row ends;
  const auto copy = [&](std::size_t role, bool back) {
    auto* at_unit = static_cast<std::byte*>(ends[role].mutable_data_ptr());
    for (const Row* row : with_tail) {
      const at::Tensor& tensor = (*row)[role];
      const auto bytes = static_cast<std::size_t>(tensor.nbytes()) % kUnitBytes;
      auto* const tail = static_cast<std::byte*>(tensor.mutable_data_ptr()) + (tensor.nbytes() - bytes);
      std::memcpy(back ? tail : at_unit, back ? at_unit : tail, bytes);
      at_unit += kUnitBytes;
    }
  };
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (!rows.front()[role].defined()) continue;
    ends[role] =
        at::zeros({static_cast<std::int64_t>(with_tail.size()) * unit}, any.options().requires_grad(false));
    copy(role, false);
  }
  Table tails;
  tails.add(ends);
  kernel(tails);
  for (std::size_t role = 0; role < kRoles; ++role)
    if (role != kGradient && ends[role].defined()) copy(role, true);
}

/// Why the kernels can't take `row`; empty if they can.
std::string obstacle(const Row& row) {
  const at::Tensor& parameter = row[kParameter];
  if (row[kGradient].is_sparse()) return "a gradient is sparse";
  if (parameter.layout() != at::kStrided || !parameter.is_non_overlapping_and_dense())
    return "a parameter does not lie densely in memory";
  const at::ScalarType dtype = parameter.scalar_type();
  // The CPU's kernel of SGD leaves parameters of float16 and bfloat16 as they are, without an error
  // (torch 2.11).
  const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
  if (dtype != at::kFloat && dtype != at::kDouble && !(is_half && parameter.is_cuda()))
    return "a parameter is of a dtype that they don't step here";
  if (!parameter.is_cpu() && !parameter.is_cuda()) return "a parameter is on a device that they don't know";
  for (const at::Tensor& tensor : row) {
    if (!tensor.defined()) continue;
    if (tensor.scalar_type() != dtype || tensor.device() != parameter.device() ||
        tensor.layout() != at::kStrided || !have_same_layout(tensor, parameter))
      return "a gradient, or what the optimizer keeps, is of another dtype, device or memory layout than its "
             "parameter";
  }
  return "";
}

/// What the rows of one call have in common.
using Key = std::tuple<std::size_t, std::int64_t, at::ScalarType, c10::Device>;  // group, step
struct OrderOfKeys {
  bool operator()(const Key& a, const Key& b) const {
    const auto comparable = [](const Key& key) {
      const c10::Device device = std::get<3>(key);
      return std::tuple(std::get<0>(key), std::get<1>(key), std::get<2>(key), device.type(), device.index());
    };
    return comparable(a) < comparable(b);
  }
};
using Calls = std::map<Key, std::vector<Row>, OrderOfKeys>;

template <class State>
State* state_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
}

template <class State>
State& new_state(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto state = std::make_unique<State>();
  State& made = *state;
  optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  return made;
}

/// What a kind of optimizer keeps, and its kernel.
struct Sgd {
  using Options = optim::SGDOptions;
  using State = optim::SGDParamState;
  static constexpr const char* kName = "SGD";
  static constexpr bool kCountsChanges = false;

  static void look(const Options&, State* state, Row& row) {
    if (state) row[kFirst] = state->momentum_buffer();
  }
  /// Returns 0 for a parameter's first step, in which momentum begins with the gradient.
  static std::int64_t prepare(const Options& options, optim::Optimizer& optimizer, State* state, Row& row) {
    if (options.momentum() == 0) {
      row[kFirst] = at::Tensor();
      return 1;
    }
    if (state && state->momentum_buffer().defined()) return 1;
    State& made = state ? *state : new_state<State>(optimizer, row[kParameter]);
    made.momentum_buffer(at::empty_like(row[kParameter], at::MemoryFormat::Preserve));
    row[kFirst] = made.momentum_buffer();
    return 0;
  }
  static void call(const Options& options, std::int64_t step, const Table& rows) {
    at::_fused_sgd_(rows[kParameter], rows[kGradient], rows[kFirst], options.weight_decay(),
                    options.momentum(), options.lr(), options.dampening(), options.nesterov(),
                    /*maximize=*/false,
                    /*is_first_step=*/step == 0);
  }
};

template <class OptionsOf, class StateOf>
struct AnyAdam {
  using Options = OptionsOf;
  using State = StateOf;
  static constexpr bool kCountsChanges = true;

  static void look(const Options& options, State* state, Row& row) {
    if (!state) return;
    row[kFirst] = state->exp_avg();
    row[kSecond] = state->exp_avg_sq();
    if (options.amsgrad()) row[kLargest] = state->max_exp_avg_sq();
  }
  /// Returns the number of the step, from 1.
  static std::int64_t prepare(const Options& options, optim::Optimizer& optimizer, State* state, Row& row) {
    const auto zeros = [&] { return at::zeros_like(row[kParameter], at::MemoryFormat::Preserve); };
    State& kept = state ? *state : new_state<State>(optimizer, row[kParameter]);
    if (!state) {
      kept.step(0);
      kept.exp_avg(zeros());
      kept.exp_avg_sq(zeros());
    }
    if (options.amsgrad() && !kept.max_exp_avg_sq().defined()) kept.max_exp_avg_sq(zeros());
    kept.step(kept.step() + 1);
    look(options, &kept, row);
    return kept.step();
  }
  template <typename Kernel>
  static void call_with(const Kernel& kernel, const Options& options, std::int64_t step, const Table& rows) {
    const at::Tensor number = at::scalar_tensor(
        static_cast<double>(step), rows[kParameter][0].options().dtype(at::kFloat).requires_grad(false));
    const std::vector<at::Tensor> steps(rows.size(), number);
    kernel(rows[kParameter], rows[kGradient], rows[kFirst], rows[kSecond], rows[kLargest], steps,
           options.lr(), std::get<0>(options.betas()), std::get<1>(options.betas()), options.weight_decay(),
           options.eps(), options.amsgrad(), /*maximize=*/false);
  }
};

struct Adam : AnyAdam<optim::AdamOptions, optim::AdamParamState> {
  static constexpr const char* kName = "Adam";
  static void call(const Options& options, std::int64_t step, const Table& rows) {
    call_with([](const auto&... arguments) { at::_fused_adam_(arguments...); }, options, step, rows);
  }
};

struct AdamW : AnyAdam<optim::AdamWOptions, optim::AdamWParamState> {
  static constexpr const char* kName = "AdamW";
  static void call(const Options& options, std::int64_t step, const Table& rows) {
    call_with([](const auto&... arguments) { at::_fused_adamw_(arguments...); }, options, step, rows);
  }
};

/// Calls `action` for each parameter with a gradient: with its group's index and options, its state or null,
/// and its row.
template <class Kind, typename Action>
void for_each_row(optim::Optimizer& optimizer, const Action& action) {
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& options =
        static_cast<const typename Kind::Options&>(optimizer.param_groups()[group].options());
    for (const at::Tensor& parameter : optimizer.param_groups()[group].params()) {
      if (!parameter.grad().defined()) continue;
      Row row;
      row[kParameter] = parameter;
      row[kGradient] = parameter.grad();
      auto* const state = state_of<typename Kind::State>(optimizer, parameter);
      Kind::look(options, state, row);
      action(group, options, state, row);
    }
  }
}

/// Tells autograd that tensors which it may have saved have changed. torch::optim's Adam and AdamW do so; its
/// SGD and the fused kernels do not.
void count_change(const Row& row) {
  for (const std::size_t role : {kParameter, kFirst, kSecond, kLargest})
    if (row[role].defined()) row[role].unsafeGetTensorImpl()->bump_version();
}

/// Flattens the tensors, in memory order, if their strides differ: the kernels also compare strides that do
/// not matter.
void flatten(Row& row) {
  const auto differs = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.strides() != row[kParameter].strides();
  };
  if (std::none_of(row.begin(), row.end(), differs)) return;
  for (at::Tensor& tensor : row)
    if (tensor.defined()) tensor = flat_part(tensor, 0, tensor.numel());
}

template <class Kind>
FusedStep step_of(optim::Optimizer& optimizer, bool is_required) {
  return [&optimizer, is_required, is_told = false]() mutable {
    const at::NoGradGuard no_grad;
    std::string reason;
    std::set<const c10::TensorImpl*> seen;
    for_each_row<Kind>(optimizer, [&](std::size_t, const auto&, auto*, const Row& row) {
      if (reason.empty()) reason = obstacle(row);
      if (reason.empty() && !seen.insert(row[kParameter].unsafeGetTensorImpl()).second)
        reason = "a parameter is in the optimizer twice";
    });
    if (!reason.empty()) {
      const std::string kernels = "torch's fused kernels of " + std::string(Kind::kName);
      if (is_required)
        throw Error("[training] fused_optimizer = \"yes\": " + kernels + " can't step this model: " + reason +
                    "; set fused_optimizer = \"auto\"");
      if (!std::exchange(is_told, true))
        log::info(std::string(Kind::kName) + " steps tensor by tensor, which takes longer: " + kernels +
                  " can't step this model: " + reason);
      return false;
    }
    Calls calls;
    for_each_row<Kind>(optimizer, [&](std::size_t group, const auto& options, auto* state, Row& row) {
      const std::int64_t step = Kind::prepare(options, optimizer, state, row);
      if constexpr (Kind::kCountsChanges) count_change(row);  // even for an empty piece: the whole changes
      if (row[kParameter].numel() == 0) return;
      flatten(row);
      calls[{group, step, row[kParameter].scalar_type(), row[kParameter].device()}].push_back(row);
    });
    for (const auto& [key, rows] : calls) {
      const auto& options =
          static_cast<const typename Kind::Options&>(optimizer.param_groups()[std::get<0>(key)].options());
      run(rows, [&, step = std::get<1>(key)](const Table& table) { Kind::call(options, step, table); });
    }
    return true;
  };
}

}  // namespace

FusedStep fused_step_of(optim::Optimizer& optimizer, const std::string& choice) {
  if (choice == "no") return {};
  const bool is_required = choice == "yes";
  const std::type_info& kind = typeid(optimizer);
  if (kind == typeid(optim::SGD)) return step_of<Sgd>(optimizer, is_required);
  if (kind == typeid(optim::Adam)) return step_of<Adam>(optimizer, is_required);
  if (kind == typeid(optim::AdamW)) return step_of<AdamW>(optimizer, is_required);
  if (is_required)
    throw Error(
        "[training] fused_optimizer = \"yes\": torch has fused kernels for its SGD, Adam and AdamW, and this "
        "optimizer is "
        "another one; set fused_optimizer = \"auto\"");
  return {};
}

}  // namespace hookline::detail
