#include "parallel/resume/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "parallel/tensors/byte_tensor.h"

namespace hookline {
namespace {

namespace optim = torch::optim;
using Json = nlohmann::json;

const char* const kArchive = "archive";            // of an optimizer of another kind
const char* const kCustomKind = "of the program";  // as checkpoints name it

/// A kind, as checkpoints name it, in a sentence.
std::string in_words(const std::string& kind) { return kind == kCustomKind ? "a custom optimizer" : kind; }

// The fields of each kind, for saving and for loading.

template <class Field>
void visit(optim::SGDOptions& o, const Field& field) {
  field("lr", o.lr());
  field("momentum", o.momentum());
  field("dampening", o.dampening());
  field("weight_decay", o.weight_decay());
  field("nesterov", o.nesterov());
}

template <class Options, class Field>
void visit_adam_options(Options& o, const Field& field) {
  field("lr", o.lr());
  field("beta1", std::get<0>(o.betas()));
  field("beta2", std::get<1>(o.betas()));
  field("eps", o.eps());
  field("weight_decay", o.weight_decay());
  field("amsgrad", o.amsgrad());
}
template <class Field>
void visit(optim::AdamOptions& o, const Field& field) {
  visit_adam_options(o, field);
}
template <class Field>
void visit(optim::AdamWOptions& o, const Field& field) {
  visit_adam_options(o, field);
}

template <class Field>
void visit(optim::AdagradOptions& o, const Field& field) {
  field("lr", o.lr());
  field("lr_decay", o.lr_decay());
  field("weight_decay", o.weight_decay());
  field("initial_accumulator_value", o.initial_accumulator_value());
  field("eps", o.eps());
}

template <class Field>
void visit(optim::RMSpropOptions& o, const Field& field) {
  field("lr", o.lr());
  field("alpha", o.alpha());
  field("eps", o.eps());
  field("weight_decay", o.weight_decay());
  field("momentum", o.momentum());
  field("centered", o.centered());
}

template <class Field>
void visit(optim::SGDParamState& s, const Field& field) {
  field("momentum_buffer", s.momentum_buffer());
}

template <class State, class Field>
void visit_adam_state(State& s, const Field& field) {
  field("step", s.step());
  field("exp_avg", s.exp_avg());
  field("exp_avg_sq", s.exp_avg_sq());
  field("max_exp_avg_sq", s.max_exp_avg_sq());
}
template <class Field>
void visit(optim::AdamParamState& s, const Field& field) {
  visit_adam_state(s, field);
}
template <class Field>
void visit(optim::AdamWParamState& s, const Field& field) {
  visit_adam_state(s, field);
}

template <class Field>
void visit(optim::AdagradParamState& s, const Field& field) {
  field("step", s.step());
  field("sum", s.sum());
}

template <class Field>
void visit(optim::RMSpropParamState& s, const Field& field) {
  field("step", s.step());
  field("square_avg", s.square_avg());
  field("momentum_buffer", s.momentum_buffer());
  field("grad_avg", s.grad_avg());
}

/// Puts fields into notes and tensors.
struct Put {
  Json& notes;
  NamedTensors& tensors;
  std::string prefix = "";
  at::Tensor parameter = {};  // whose state the tensors are
  const ShardedParameters* shards = nullptr;

  void operator()(const char* name, at::Tensor& tensor) const {
    if (!tensor.defined()) return;
    const at::Tensor whole = shards ? shards->whole(parameter, tensor) : tensor;
    if (whole.defined()) tensors[prefix + name] = whole.detach();
  }
  template <class Number>
  void operator()(const char* name, Number& number) const {
    notes[name] = number;
  }
};

/// Takes fields from notes and tensors.
struct Take {
  const Json& notes;
  const NamedTensors& tensors;
  std::string prefix = "";
  at::Tensor parameter = {};  // whose device the tensors get
  const ShardedParameters* shards = nullptr;

  void operator()(const char* name, at::Tensor& tensor) const {
    const auto found = tensors.find(prefix + name);
    tensor = at::Tensor();
    if (found == tensors.end()) return;
    if (shards && shards->contains(parameter)) {
      tensor = shards->piece(parameter, found->second);
      return;
    }
    if (found->second.sizes() != parameter.sizes())
      throw Error("its '" + prefix + name + "' is not of the shape of the program's parameter");
    tensor = found->second.to(parameter.device(), /*non_blocking=*/false, /*copy=*/true);
  }
  template <class Number>
  void operator()(const char* name, Number& number) const {
    notes.at(name).get_to(number);
  }
};

/// Cuts the state of a sharded parameter to this rank's piece.
struct Cut {
  at::Tensor parameter;
  const ShardedParameters& shards;

  void operator()(const char*, at::Tensor& tensor) const {
    // If a piece has the sizes of the whole, it is the whole, and cutting it again changes nothing.
    if (tensor.defined() && tensor.sizes() == shards.sizes_of(parameter))
      tensor = shards.piece(parameter, tensor);
  }
  template <class Number>
  void operator()(const char*, Number&) const {}
};

std::string position(std::size_t index) { return "state." + std::to_string(index) + "."; }

template <class Options, class State>
SavedPart save_as(const char* kind, optim::Optimizer& optimizer, const ShardedParameters* shards) {
  SavedPart saved;
  saved.notes = {{"kind", kind}, {"groups", Json::array()}, {"state", Json::object()}};
  std::size_t index = 0;
  for (optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    Json options = Json::object();
    visit(static_cast<Options&>(group.options()), Put{options, saved.shared});
    options["parameters"] = group.params().size();
    saved.notes["groups"].push_back(std::move(options));
    for (const at::Tensor& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) {
        Json numbers = Json::object();
        visit(static_cast<State&>(*found->second),
              Put{numbers, saved.shared, position(index), parameter, shards});
        saved.notes["state"][std::to_string(index)] = std::move(numbers);
      }
      ++index;
    }
  }
  return saved;
}

template <class Options, class State>
void load_as(optim::Optimizer& optimizer, const SavedPart& saved, const ShardedParameters* shards) {
  const Json& groups = saved.notes.at("groups");
  if (groups.size() != optimizer.param_groups().size())
    throw Error("it has " + count_text(groups.size(), "group") + " of parameters, and the program's has " +
                std::to_string(optimizer.param_groups().size()));
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    optim::OptimizerParamGroup& group = optimizer.param_groups()[g];
    if (const auto count = groups[g].at("parameters").get<std::size_t>(); count != group.params().size())
      throw Error("its group " + std::to_string(g) + " has " + count_text(count, "parameter") +
                  ", and the program's has " + std::to_string(group.params().size()));
    visit(static_cast<Options&>(group.options()), Take{groups[g], saved.shared});
    for (const at::Tensor& parameter : group.params()) {
      const auto numbers = saved.notes.at("state").find(std::to_string(index));
      if (numbers != saved.notes.at("state").end()) {
        auto state = std::make_unique<State>();
        visit(*state, Take{*numbers, saved.shared, position(index), parameter, shards});
        optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
      } else {
        optimizer.state().erase(parameter.unsafeGetTensorImpl());
      }
      ++index;
    }
  }
}

template <class State>
void cut_as(optim::OptimizerParamState& state, const at::Tensor& parameter, const ShardedParameters& shards) {
  visit(static_cast<State&>(state), Cut{parameter, shards});
}

void cut_none(optim::OptimizerParamState&, const at::Tensor&, const ShardedParameters&) {}

/// True if some parameter of the optimizer's is sharded.
bool is_sharded(optim::Optimizer& optimizer, const ShardedParameters* shards) {
  if (!shards || shards->empty()) return false;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params())
      if (shards->contains(parameter)) return true;
  }
  return false;
}

SavedPart save_archive(const char* kind, optim::Optimizer& optimizer, const ShardedParameters* shards) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  SavedPart saved;
  saved.notes = {{"kind", kind}};
  // Only the optimizer knows what the archive holds, so with sharded parameters each rank keeps its own.
  (is_sharded(optimizer, shards) ? saved.own : saved.shared)[kArchive] = tensor_of_archive(archive);
  return saved;
}

void load_archive(optim::Optimizer& optimizer, const SavedPart& saved, const ShardedParameters* shards) {
  const bool is_own = is_sharded(optimizer, shards);
  const NamedTensors& from = is_own ? saved.own : saved.shared;
  const auto found = from.find(kArchive);
  if (found == from.end())
    throw Error(
        is_own
            ? "it was saved by a run that was not sharded, or was sharded over another number of ranks, and "
              "hookline does not know how to cut it"
            : "it was saved by a sharded run, in which each rank kept its own part; this run is not sharded, "
              "or "
              "its model is not prepared yet: prepare the model before the optimizer");
  torch::serialize::InputArchive archive;
  open_archive(archive, found->second);
  optimizer.load(archive);
}

struct Kind {
  const char* name;
  bool (*is)(optim::Optimizer&);
  SavedPart (*save)(const char* kind, optim::Optimizer&, const ShardedParameters*);
  void (*load)(optim::Optimizer&, const SavedPart&, const ShardedParameters*);
  void (*cut)(optim::OptimizerParamState&, const at::Tensor& parameter, const ShardedParameters&);
};

template <class Optimizer>
bool is_a(optim::Optimizer& optimizer) {
  return dynamic_cast<Optimizer*>(&optimizer) != nullptr;
}

template <class Optimizer, class Options, class State>
constexpr Kind kind(const char* name) {
  return {name, is_a<Optimizer>, save_as<Options, State>, load_as<Options, State>, cut_as<State>};
}

const Kind& kind_of(optim::Optimizer& optimizer) {
  static const Kind kinds[] = {
      kind<optim::SGD, optim::SGDOptions, optim::SGDParamState>("SGD"),
      kind<optim::Adam, optim::AdamOptions, optim::AdamParamState>("Adam"),
      kind<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>("AdamW"),
      kind<optim::Adagrad, optim::AdagradOptions, optim::AdagradParamState>("Adagrad"),
      kind<optim::RMSprop, optim::RMSpropOptions, optim::RMSpropParamState>("RMSprop"),
      {kCustomKind, [](optim::Optimizer&) { return true; }, save_archive, load_archive, cut_none}};
  const Kind* found = kinds;
  while (!found->is(optimizer)) ++found;
  return *found;
}

}  // namespace

SavedPart save_optimizer(optim::Optimizer& optimizer, const ShardedParameters* shards) {
  const Kind& kind = kind_of(optimizer);
  return kind.save(kind.name, optimizer, shards);
}

void cut_optimizer(optim::Optimizer& optimizer, const ShardedParameters& shards,
                   const std::vector<at::Tensor>& parameters) {
  const Kind& kind = kind_of(optimizer);
  for (const at::Tensor& parameter : parameters) {
    if (!shards.contains(parameter)) continue;
    const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (state != optimizer.state().end()) kind.cut(*state->second, parameter, shards);
  }
}

void expect_it_takes_pieces(optim::Optimizer& optimizer, const std::vector<at::Tensor>& sharded,
                            Sharding sharding, bool warns) {
  std::set<const void*> keys;
  for (const at::Tensor& parameter : sharded) keys.insert(parameter.unsafeGetTensorImpl());
  const auto steps_one = [&](const optim::OptimizerParamGroup& group) {
    return std::any_of(group.params().begin(), group.params().end(), [&](const at::Tensor& parameter) {
      return keys.contains(parameter.unsafeGetTensorImpl());
    });
  };
  if (std::none_of(optimizer.param_groups().begin(), optimizer.param_groups().end(), steps_one)) return;
  const bool is_model = sharding == Sharding::model;
  if (is_a<optim::LBFGS>(optimizer)) {
    const std::string instead = ". Use SGD, Adam, AdamW, Adagrad or RMSprop, or set ";
    throw Error(is_model
                    ? "LBFGS can't train a sharded model: it computes with all gradients at once, and each "
                      "rank holds a piece of them" +
                          instead + "[fsdp] sharding_strategy = \"no_shard\""
                    : "LBFGS can't be sharded: it computes with all gradients at once, and each rank has the "
                      "averages of its share of them" +
                          instead + "[ddp] shard_optimizer = false");
  }
  if (warns && kind_of(optimizer).save == save_archive) {
    log::warning(
        std::string(is_model ? "the model is sharded, and its optimizer's class is the program's own"
                             : "[ddp] shard_optimizer shards an optimizer whose class is the program's own") +
        ": it is given this rank's piece of each parameter, flat, which is right only if it treats "
        "every element by itself");
  }
}

void load_optimizer(optim::Optimizer& optimizer, const SavedPart& saved, const std::string& checkpoint,
                    const ShardedParameters* shards) {
  const std::string what =
      "the optimizer of the checkpoint '" + checkpoint + "' is not that of the program: ";
  const Kind& kind = kind_of(optimizer);
  try {
    if (const auto was = saved.notes.at("kind").get<std::string>(); was != kind.name)
      throw Error("it is " + in_words(was) + ", and the program's is " + in_words(kind.name));
    kind.load(optimizer, saved, shards);
  } catch (const std::exception& error) {
    throw Error(what + error.what());
  }
}

}  // namespace hookline
