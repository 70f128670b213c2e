// hookline estimate: what a model needs of a rank's memory and of the network, without running it.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/number_text.h"
#include "config/checks/hook_settings.h"
#include "config/resolve.h"
#include "config/schema/link_text.h"
#include "config/schema/node_count.h"
#include "config/visible_gpus.h"
#include "hooks/catalog/wire_estimate.h"
#include "launcher/cli/advice/model_shapes.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/process/exit_code.h"
#include "shared_memory/collectives.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFloatBytes = 4;

/// How many buffers the optimizer keeps for each parameter.
double optimizer_buffers(const std::string& name) {
  if (name == "sgd") return 0;
  if (name == "momentum" || name == "adagrad" || name == "rmsprop") return 1;
  if (name == "adam" || name == "adamw") return 2;
  throw UsageError("there is no optimizer '" + name +
                   "': choose sgd, momentum, adagrad, rmsprop, adam or adamw");
}

/// What one rank needs, in bytes.
struct Memory {
  double parameters = 0, gradients = 0, buckets = 0, optimizer = 0, hook = 0, shared = 0;

  std::vector<std::pair<const char*, double>> rows() const {
    return {{"parameters", parameters},
            {"gradients", gradients},
            {"buckets", buckets},
            {"optimizer", optimizer},
            {"hook", hook},
            {"shared", shared},
            {"all", parameters + gradients + buckets + optimizer + hook + shared}};
  }
};

/// How many elements the shapes have in all. Throws UsageError, which names the file if the shapes are from
/// one.
double count_of(const std::vector<Shape>& shapes, const std::vector<std::string>& file) {
  try {
    return static_cast<double>(numel_of(shapes));
  } catch (const Error& error) {
    throw UsageError(file.empty() ? error.what() : "'" + file[0] + "' can't be estimated: " + error.what());
  }
}

double largest_of(const std::vector<Shape>& shapes) {
  double largest = 0;
  for (const Shape& shape : shapes) largest = std::max(largest, static_cast<double>(numel_of(shape)));
  return largest;
}

/// Memory with full_shard, in units of at most `unit` parameters. Each rank keeps its part of everything.
/// While a unit is used, it also holds the whole unit, its gradient, that gradient as sent and as received,
/// and the next unit.
/// Source: Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2.
Memory sharded(const Memory& ddp, double unit, double ranks, double shared) {
  return {ddp.parameters / ranks,
          ddp.gradients / ranks,
          5 * kFloatBytes * unit,
          ddp.optimizer / ranks,
          0,
          shared};
}

Json json_of(const Memory& memory) {
  Json json;
  for (const auto& [name, bytes] : memory.rows()) json[name] = bytes;
  return json;
}

/// What a hook keeps: the gradients in half precision, for fp16, bf16 and a wrapper; for PowerSGD the bytes
/// that it sends, P and Q once more, and the error of the compression.
double hook_memory(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                   const std::vector<Shape>& shapes, double count) {
  const bool is_cast = hook.half_precision || !wrapper.dtype.empty();
  const double cast = is_cast ? kFloatBytes / 2 * count : 0;
  if (hook.name != "power_sgd" && hook.name != "batched_power_sgd") return cast;
  const double element = wrapper.dtype.empty() ? kFloatBytes : kFloatBytes / 2;
  const bool keeps_error = std::get<bool>(options.at("use_error_feedback"));
  return cast + *bytes_per_step(hook, options, wrapper, shapes) +
         factor_bytes(hook, options, wrapper, shapes) + (keeps_error ? element * count : 0);
}

/// One way to average gradients, and the bytes that a rank hands to collectives in a step, in terms of an
/// all-reduce: n bytes that are only gathered, or only scattered, count as n / 2.
struct Wire {
  std::string name, wrapper;
  std::optional<double> bytes;  // none: not known
  bool is_chosen = false;       // by the config
  double in_parts = 0;          // of `bytes`: gathered or scattered; the others are all-reduced
};

std::vector<Wire> wires_of_hooks(const RunConfig& config, const Catalog& catalog,
                                 const std::vector<Shape>& shapes, double count) {
  std::vector<Wire> wires;
  const HookRow* const chosen = catalog.find_hook(config.ddp.comm_hook);
  for (const HookRow& hook : catalog.hooks()) {
    const bool is_chosen = &hook == chosen && config.fsdp.sharding_strategy == "no_shard";
    const OptionMap options = is_chosen ? config.ddp.comm_state_option : default_options(hook);
    const WrapperRow& wrapper = *catalog.find_wrapper(is_chosen ? config.ddp.comm_wrapper : "no");
    Wire wire{hook.name, wrapper.name, bytes_per_step(hook, options, wrapper, shapes), is_chosen};
    if (wire.bytes && config.ddp.shard_optimizer && hook.averages) {
      const double without = *wire.bytes;
      wire.bytes = bytes_with_sharded_optimizer(hook, without, count);
      const double gathered = kFloatBytes * count / 2, others = *wire.bytes - gathered;
      wire.in_parts = gathered;
      if (others < without) wire.in_parts += others;  // only the reduce-scatter half of an all-reduce
    }
    wires.push_back(std::move(wire));
  }
  if (!chosen && config.ddp.comm_hook != "no" && config.ddp.comm_hook != kAutoHook)
    wires.push_back({config.ddp.comm_hook, config.ddp.comm_wrapper, std::nullopt, true});
  return wires;
}

/// An all-gather of all parameters and a reduce-scatter of their gradients are half an all-reduce each.
/// full_shard gathers a second time, for the backward pass.
std::vector<Wire> wires_of_sharding(const RunConfig& config, double count) {
  const std::string& hook = config.fsdp.comm_hook;
  const double gather = kFloatBytes * count / 2, scatter = hook == "no" ? gather : gather / 2;
  std::vector<Wire> wires;
  for (const auto& [strategy, gathers] : {std::pair{"shard_grad_op", 1}, {"full_shard", 2}}) {
    const double bytes = gathers * gather + scatter;
    wires.push_back({strategy, hook, bytes, config.fsdp.sharding_strategy == strategy, bytes});
  }
  return wires;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

/// The ranks of all nodes, but at least two: a single rank sends nothing.
std::int64_t world_size_of(const LaunchConfig& config) {
  return std::max<std::int64_t>(2, std::int64_t{NodeCount::parse(config.nnodes)->most} * ranks_of(config));
}

/// What is to be estimated.
struct Question {
  std::vector<Shape> shapes;
  double count = 0;  // all parameters
  std::int64_t ranks = 0;
  double unit = 0;  // parameters of the largest unit
  std::string unit_from, link, optimizer;
  double bits = 0, buffers = 0;  // the link's bits a second; the optimizer's buffers for each parameter
  std::int64_t sharing = 0;      // ranks of one host that share memory; 0: none do
  std::int64_t hosts = 1;        // hosts that send the sum of their ranks; 1: each rank sends its own
  std::int64_t on_link = 1;      // ranks of a host whose sends to other hosts share one link

  /// The time of an all-reduce: of what leaves a host or, in a ring of ranks, a rank.
  double seconds_of_sum(double bytes) const { return seconds(bytes, 1, hosts > 1 ? hosts : ranks); }
  /// The time of gathers and scatters, with bytes counted as an all-reduce's: each part crosses to a host
  /// once, or once for each of its ranks.
  double seconds_of_parts(double bytes) const {
    return hosts > 1 ? seconds(bytes, 1, hosts)
                     : static_cast<double>(on_link) * seconds(bytes, on_link, ranks);
  }

 private:
  double seconds(double bytes, std::int64_t own, std::int64_t members) const {
    return 8 * bytes * 2 * static_cast<double>(members - own) / static_cast<double>(members) / bits;
  }
};

bool is_on_cpu(const LaunchConfig& config) {
  return config.device == "cpu" || (config.device == "auto" && visible_gpus() == 0);
}

/// Decides as parallel/world/placement does for the ranks of a host.
bool may_share_memory(const LaunchConfig& config) {
  return config.backend == "shm" || (config.backend == "auto" && is_on_cpu(config));
}

std::int64_t most_hosts(const LaunchConfig& config) { return NodeCount::parse(config.nnodes)->most; }

std::int64_t sharing_ranks(const LaunchConfig& config, std::int64_t ranks) {
  const std::int64_t of_a_host = most_hosts(config) == 1 ? ranks : ranks_of(config);
  return !may_share_memory(config) || of_a_host < 2 || of_a_host > SharedCollectives::kMostRanks ? 0
                                                                                                 : of_a_host;
}

/// How many hosts send the sum of their ranks; 1 if each rank sends its own.
std::int64_t summing_hosts(const LaunchConfig& config, std::int64_t ranks) {
  if (!may_share_memory(config) || ranks_of(config) > SharedCollectives::kMostRanks) return 1;
  return std::min(most_hosts(config), ranks);
}

/// How many ranks of a host share its link. With Gloo each rank sends its part to every other rank; NCCL
/// passes parts on in a ring, which counts as one.
std::int64_t ranks_on_link(const LaunchConfig& config, std::int64_t ranks) {
  const bool is_over_gloo = is_on_cpu(config) || config.backend == "gloo";
  return most_hosts(config) == 1 || !is_over_gloo ? 1 : std::min<std::int64_t>(ranks_of(config), ranks);
}

/// A rank's share of the shared-memory segments. Each process group has one: the World's, the checkpoints',
/// and `others`.
double shared_memory(const Question& question, const RunConfig& config, int others) {
  if (question.sharing == 0) return 0;
  const int groups = 1 + (config.training.checkpoint_every_steps ? 1 : 0) + others;
  return groups * static_cast<double>(SharedCollectives::bytes_for(static_cast<int>(question.sharing))) /
         static_cast<double>(question.sharing);
}

/// Each stage has a process group.
int stages_of(const std::string& hook) { return hook == "power_sgd" || hook == "batched_power_sgd" ? 2 : 1; }

bool chooses_hook(const RunConfig& config) { return config.ddp.comm_hook == kAutoHook; }

/// The process groups of the run's hook. With "auto", the most that a candidate needs, and one that measures
/// the link.
int groups_of_hooks(const RunConfig& config, const Catalog& catalog) {
  if (!chooses_hook(config)) return stages_of(config.ddp.comm_hook);
  int most = stages_of("no");
  for (const HookSetting& each : settings_for(config.auto_hook, catalog))
    most = std::max(most, stages_of(each.hook));
  return most + 1;
}

/// The most that a hook takes while it is timed for a choice: it runs on a copy of the gradients.
double memory_of_choosing(const Question& question, const RunConfig& config, const Catalog& catalog) {
  double most = 0;
  for (const HookSetting& each : settings_for(config.auto_hook, catalog)) {
    OptionMap options = default_options(*catalog.find_hook(each.hook));
    for (const auto& [name, value] : each.options) options[name] = value;
    most = std::max(most, hook_memory(*catalog.find_hook(each.hook), options,
                                      *catalog.find_wrapper(each.wrapper), question.shapes, question.count));
  }
  return kFloatBytes * question.count + most;
}

/// With comm_scope = between_hosts the ranks of a host average in a group of their own.
int groups_inside(const RunConfig& config) {
  return config.ddp.comm_scope == "between_hosts" && most_hosts(config.launch) > 1 ? 1 : 0;
}

constexpr int kGroupsOfSharding = 2;  // gathers and scatters

/// Each rank holds its part of the optimizer, and two pieces in flight, each as sent and as received.
Memory with_sharded_optimizer(Memory memory, const Question& question) {
  constexpr double kPieceBytes = 4 << 20;
  memory.optimizer /= static_cast<double>(question.ranks);
  memory.buckets += 2 * std::min(2 * kPieceBytes, kFloatBytes * question.count);
  return memory;
}

Memory memory_of(const Question& question, const RunConfig& config, const Catalog& catalog) {
  const double all = kFloatBytes * question.count;
  Memory memory = {all,
                   all,
                   config.ddp.gradient_as_bucket_view ? 0 : all,
                   question.buffers * all,
                   0,
                   shared_memory(question, config, groups_of_hooks(config, catalog) + groups_inside(config))};
  if (chooses_hook(config)) {
    memory.hook = memory_of_choosing(question, config, catalog);
  } else if (const HookRow* const hook = catalog.find_hook(config.ddp.comm_hook)) {
    memory.hook =
        hook_memory(*hook, config.ddp.comm_state_option, *catalog.find_wrapper(config.ddp.comm_wrapper),
                    question.shapes, question.count);
  }
  return memory;
}

double seconds_of(const Wire& wire, const Question& question) {
  return question.seconds_of_sum(*wire.bytes - wire.in_parts) + question.seconds_of_parts(wire.in_parts);
}

Json json_of(const Wire& wire, const Question& question) {
  Json json = {{"hook", wire.name}, {"wrapper", wire.wrapper}, {"bytes", nullptr}, {"seconds", nullptr}};
  if (wire.bytes) json["bytes"] = *wire.bytes, json["seconds"] = seconds_of(wire, question);
  json["chosen"] = wire.is_chosen;
  return json;
}

std::string row_of(const Wire& wire, const Question& question) {
  const std::string name = wire.name + (wire.wrapper == "no" ? "" : " in " + wire.wrapper);
  if (!wire.bytes) {
    return "  " + padded(name, 27) +
           "not known: it is a plug-in's or a program's; what it sends is printed at the end of a run\n";
  }
  return "  " + padded(name, 27) + padded(bytes_text(*wire.bytes), 14) +
         rounded(1e3 * seconds_of(wire, question), 3) + (wire.is_chosen ? "   <- the config's" : "") + "\n";
}

std::string table_of(const Question& question, const RunConfig& config, const Memory& memory,
                     const Memory& split, const std::vector<Wire>& hooks, const std::vector<Wire>& sharding) {
  const std::string whole = count_text(static_cast<std::int64_t>(question.count), "parameter");
  const std::string& hook = config.ddp.comm_hook;
  const std::string& wrapper = config.ddp.comm_wrapper;
  std::string text = whole + " in float32, " + (hook == "no" ? "no hook" : hook) +
                     (wrapper == "no" ? "" : " in " + wrapper) + ", " + question.optimizer +
                     (config.ddp.shard_optimizer ? " sharded" : "") +
                     "; memory of a rank, without activations:\n  " + padded("", 12) + padded("ddp", 14) +
                     "sharded over " + std::to_string(question.ranks) + "\n";
  const auto rows = memory.rows(), split_rows = split.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "  " + padded(rows[i].first, 12) + padded(bytes_text(rows[i].second), 14) +
            bytes_text(split_rows[i].second) + "\n";
  }
  text += "sharded: the largest unit has " +
          count_text(static_cast<std::int64_t>(question.unit), "parameter") + " (" + question.unit_from +
          ")\n";
  if (chooses_hook(config))
    text +=
        "hook: the most memory that any hook takes while it is timed on a copy of the gradients; hookline "
        "advise measures which is fastest\n";
  if (question.sharing > 0) {
    text += "shared: a rank's part of the memory through which the " + std::to_string(question.sharing) +
            " ranks of a host communicate; all of it is " +
            bytes_text(memory.shared * static_cast<double>(question.sharing)) + " with ddp\n";
  }
  text += "in a step, " + count_text(question.ranks, "rank") +
          (question.hosts > 1 ? " on " + std::to_string(question.hosts) + " hosts" : "") + " over " +
          question.link + ":\n  " + padded("hook or sharding", 27) + padded("bytes", 14) + "ms on the wire\n";
  for (const Wire& wire : hooks) text += row_of(wire, question);
  for (const Wire& wire : sharding) text += row_of(wire, question);
  return text;
}

}  // namespace

int estimate(const Arguments& arguments) {
  std::int64_t parameters = 0;
  std::vector<std::string> shape_texts, sets;
  std::string optimizer = "adam", link = "1gbit";
  std::int64_t ranks_given = 0, unit = 0;
  bool json = false;
  ConfigChoice choice;
  VerbParser parser(
      "hookline estimate [FILE] [flags]",
      "Estimate how much of a rank's memory a model of float32 parameters takes, and what each hook sends in "
      "a step. The model is a safetensors file, a .pt file, a checkpoint, --shape for each parameter, or "
      "--parameters. The sharded column is [fsdp] sharding_strategy = full_shard.",
      "hookline estimate --parameters 125000000 --ranks 4 --link 1gbit");
  parser.add_number("--parameters", parameters, "N",
                    "Number of parameters, taken to be in matrices of 1024 x 1024 and a smaller one",
                    {1, kMostTypicalParameters});
  parser.add_texts("--shape", shape_texts, "SIZES",
                   "Sizes of one parameter, such as 1024x512; may be repeated");
  parser.add_number("--ranks", ranks_given, "N",
                    "Ranks that average their gradients; else the config's, or 2", {1, 1 << 20});
  parser.add_number("--unit", unit, "N",
                    "Number of elements in the largest FsdpUnit; else in the largest parameter",
                    {1, kMostTypicalParameters});
  parser.add_text("--link", link, "SPEED", "Speed of the network: 100mbit, 2.5gbit; else 1gbit");
  parser.add_text("--optimizer", optimizer, "NAME",
                  "sgd, momentum, adagrad, rmsprop, adam or adamw; else adam");
  choice.add_file_flag(parser);
  choice.add_profile_flag(parser);
  parser.add_texts("--set", sets, "KEY=VALUE", "Any value of the config, such as ddp.comm_hook=power_sgd");
  parser.add_flag("--json", json, "Print JSON");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("FILE", 0, 1);
  const int sources_given = (parameters > 0) + !shape_texts.empty() + !parser.plain().empty();
  if (sources_given != 1)
    throw UsageError(std::string("say what the model is, with ") +
                     (sources_given ? "only one of these" : "one of these") +
                     ": a file, --shape once for each parameter, or --parameters N");
  Question question;
  for (const std::string& text : shape_texts) question.shapes.push_back(shape_of(text));
  if (parameters > 0) question.shapes = typical_shapes(parameters);
  if (!parser.plain().empty()) question.shapes = shapes_in(parser.plain()[0]);
  question.count = count_of(question.shapes, parser.plain());
  question.unit = unit > 0 ? static_cast<double>(unit) : largest_of(question.shapes);
  question.unit_from =
      unit > 0
          ? "--unit"
          : "as many as the largest tensor has elements; --unit N says how many the largest FsdpUnit has";
  if (question.unit > question.count) {
    throw UsageError("--unit " + std::to_string(unit) + " is more than the model's " +
                     count_text(static_cast<std::int64_t>(question.count), "parameter"));
  }
  try {
    question.link = link, question.bits = link_speed_of(link);
  } catch (const LinkTextError& error) {
    throw UsageError(std::string("--link ") + error.what());
  }
  question.optimizer = optimizer, question.buffers = optimizer_buffers(optimizer);

  Sources sources = choice.sources();
  sources.overrides = overrides_from_sets(sets);
  expect_each_key_once(sources.overrides);
  const Catalog catalog = Catalog::built_in();
  const Resolution resolution = resolve(sources, catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  warn_of_config_for_ranks(choice);
  const RunConfig& config = resolution.config;

  question.ranks = ranks_given > 0 ? ranks_given : world_size_of(config.launch);
  question.sharing = sharing_ranks(config.launch, question.ranks);
  question.hosts = summing_hosts(config.launch, question.ranks);
  question.on_link = ranks_on_link(config.launch, question.ranks);
  Memory memory = memory_of(question, config, catalog);
  const Memory split = sharded(memory, question.unit, static_cast<double>(question.ranks),
                               shared_memory(question, config, kGroupsOfSharding));
  if (config.ddp.shard_optimizer) memory = with_sharded_optimizer(memory, question);
  const std::vector<Wire> hooks = wires_of_hooks(config, catalog, question.shapes, question.count);
  const std::vector<Wire> sharding = wires_of_sharding(config, question.count);
  if (!json) {
    std::cout << table_of(question, config, memory, split, hooks, sharding) << std::flush;
    return kSuccess;
  }
  Json result = {{"parameters", static_cast<std::int64_t>(question.count)},
                 {"ranks", question.ranks},
                 {"hosts_that_sum", question.hosts},
                 {"link", link},
                 {"optimizer", optimizer},
                 {"memory_bytes", json_of(memory)},
                 {"sharded_unit_parameters", static_cast<std::int64_t>(question.unit)},
                 {"sharded_memory_bytes", json_of(split)},
                 {"hooks", Json::array()},
                 {"sharded", Json::array()}};
  for (const Wire& wire : hooks) result["hooks"].push_back(json_of(wire, question));
  for (const Wire& wire : sharding) {
    result["sharded"].push_back({{"sharding_strategy", wire.name},
                                 {"comm_hook", wire.wrapper},
                                 {"bytes", *wire.bytes},
                                 {"seconds", seconds_of(wire, question)},
                                 {"chosen", wire.is_chosen}});
  }
  std::cout << result.dump(2) << "\n" << std::flush;
  return kSuccess;
}

}  // namespace hookline
