#include "parallel/ddp/ddp_parts.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

#include "hooks/ddp/no_hook_name.h"
#include "parallel/tensors/model_tensors.h"

namespace hookline {
namespace {

using Json = nlohmann::json;

const std::string kUsed = "used_parameters";

/// Copies `from` into the tensors of the same names. Throws Error, before it changes any, if they do not
/// match.
void copy_into(const NamedTensors& to, const NamedTensors& from, const std::string& checkpoint) {
  expect_same_model(
      to, [](const at::Tensor& tensor) { return tensor.sizes(); }, from, checkpoint);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : to) tensor.detach().copy_(from.at(name));
}

Json notes_of(const DdpState& state) {
  return {{"rebuilt", state.rebuilt},
          {"buckets", state.buckets},
          {"learnt_graph", {state.learnt_graph.times, state.learnt_graph.used}},
          {"first_bucket_bytes", state.bucket_limits.first_bytes},
          {"bucket_bytes", state.bucket_limits.cap_bytes},
          {"buffers_may_differ", state.buffers_may_differ},
          {"reduced_steps", state.reduced_steps}};
}

DdpState state_of(const Json& notes) {
  DdpState state;
  notes.at("rebuilt").get_to(state.rebuilt);
  notes.at("buckets").get_to(state.buckets);
  notes.at("learnt_graph").at(0).get_to(state.learnt_graph.times);
  notes.at("learnt_graph").at(1).get_to(state.learnt_graph.used);
  notes.at("first_bucket_bytes").get_to(state.bucket_limits.first_bytes);
  notes.at("bucket_bytes").get_to(state.bucket_limits.cap_bytes);
  notes.at("buffers_may_differ").get_to(state.buffers_may_differ);
  notes.at("reduced_steps").get_to(state.reduced_steps);
  return state;
}

std::string name_of_hook(const Ddp& ddp) { return ddp.hook() ? ddp.hook()->describe() : kNoHook; }

std::vector<std::vector<std::string>> bucket_names(const Ddp& ddp) {
  std::map<const void*, std::string> name_of;
  for (std::size_t i = 0; i < ddp.parameters().size(); ++i)
    name_of[ddp.parameters()[i].unsafeGetTensorImpl()] = ddp.parameter_names()[i];
  std::vector<std::vector<std::string>> names;
  for (const auto& bucket : ddp.buckets()) {
    auto& of_bucket = names.emplace_back();
    for (const at::Tensor& parameter : bucket)
      of_bucket.push_back(name_of.at(parameter.unsafeGetTensorImpl()));
  }
  return names;
}

/// `shared`: parameters and buffers, by name. `own`: with `accumulates`, gradients as "gradient.NAME". A
/// collective call.
SavedPart save_model(Ddp& ddp, bool accumulates) {
  SavedPart saved;
  saved.notes = notes_of(ddp.save_state());
  for (const auto& [name, tensor] : tensors_of_model(ddp.module())) saved.shared[name] = tensor.detach();
  if (!accumulates) return saved;
  for (std::size_t i = 0; i < ddp.parameters().size(); ++i) {
    const at::Tensor gradient = ddp.own_gradient(i);
    if (gradient.defined()) saved.own[kGradientPrefix + ddp.parameter_names()[i]] = gradient.detach();
  }
  if (const at::Tensor used = ddp.used_parameters(); used.defined()) saved.own[kUsed] = used;
  return saved;
}

/// Throws Error if the checkpoint is of another model.
void load_model(Ddp& ddp, const SavedPart& saved, Resumption& resumption) {
  copy_into(tensors_of_model(ddp.module()), saved.shared, resumption.checkpoint);
  if (saved.notes.contains("rebuilt")) {
    DdpState state = state_of(saved.notes);
    if (!resumption.same_ranks()) state.buffers_may_differ = true;
    if (!ddp.load_state(state)) resumption.resets.push_back("the order of gradients in buckets");
  } else {
    resumption.resets.push_back("the order of gradients in buckets, which a sharded model does not have");
  }
  if (const auto used = saved.own.find(kUsed); used != saved.own.end() && ddp.used_parameters().defined())
    ddp.used_parameters().copy_(used->second);
  std::vector<at::Tensor> gradients(ddp.parameters().size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto gradient = saved.own.find(kGradientPrefix + ddp.parameter_names()[i]);
    if (gradient != saved.own.end()) gradients[i] = gradient->second.to(ddp.parameters()[i].device());
  }
  ddp.set_own_gradients(gradients);
}

/// Call it after save_model(): the hook's state is that for the buckets saved there.
SavedPart save_hook(Ddp& ddp) {
  ddp.run_what_waits_for_the_first_forward();  // one of these actions may load the hook's state
  SavedPart saved;
  saved.notes = {{"hook", name_of_hook(ddp)}};
  if (!ddp.hook()) return saved;
  HookState state = ddp.hook()->save_state(ddp.buckets());
  saved.shared = std::move(state.shared);
  saved.own = std::move(state.own);
  saved.notes["numbers"] = state.numbers;
  saved.notes["buckets"] = bucket_names(ddp);
  saved.notes["has_own"] = !saved.own.empty();
  return saved;
}

/// After load_model. A hook other than the saved one, or one with other buckets, starts afresh, with a
/// warning.
void load_hook(Ddp& ddp, const SavedPart& saved, Resumption& resumption) {
  const auto was = saved.notes.at("hook").get<std::string>(), is = name_of_hook(ddp);
  if (was != is) {
    const bool had_state = !saved.shared.empty() || saved.notes.value("has_own", false);
    if (had_state)
      resumption.resets.push_back("the state of the hook, which was " + was + " and is now " + is);
    return;
  }
  if (!ddp.hook() || !saved.notes.contains("numbers")) return;  // the plain average keeps nothing
  HookState state;
  saved.notes.at("numbers").get_to(state.numbers);
  if (saved.notes.at("buckets") == Json(bucket_names(ddp))) {
    state.shared = saved.shared;
    state.own = saved.own;
  } else if (!saved.shared.empty()) {
    resumption.resets.push_back("what " + is + " kept of each bucket, since the buckets are different now");
  }
  if (state.own.empty() && saved.notes.at("has_own").get<bool>() && !resumption.same_ranks())
    resumption.resets.push_back("what " + is + " kept on each rank, such as error feedback");
  ddp.hook()->load_state(state, ddp.buckets());
}

}  // namespace

std::vector<CheckpointPart> checkpoint_parts(const std::shared_ptr<Ddp>& ddp,
                                             std::function<bool()> accumulates) {
  CheckpointPart model{
      "model", [ddp, accumulates = std::move(accumulates)] { return save_model(*ddp, accumulates()); },
      [ddp](const SavedPart& saved, Resumption& resumption) { load_model(*ddp, saved, resumption); }};
  CheckpointPart hook{kHookPart, [ddp] { return save_hook(*ddp); },
                      [ddp](const SavedPart& saved, const Resumption& resumption) {
                        Resumption later = resumption;
                        later.resets.clear();
                        ddp->before_first_forward([ddp = ddp.get(), saved, later]() mutable {
                          load_hook(*ddp, saved, later);
                          later.tell_resets(ddp->world().rank() == 0);
                        });
                      }};
  return {std::move(model), std::move(hook)};
}

}  // namespace hookline
