// hookline estimate: what a model takes of a rank's memory and of the network, before it is run.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/node_count.h"
#include "config/resolve.h"
#include "hooks/wire_estimate.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/model_shapes.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/plan.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFloatBytes = 4;

/// "1gbit", "100mbit", "2.5gbit": bits a second. Throws UsageError.
double link_of(const std::string& text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(read.ptr, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (read.ec != std::errc() || !(number > 0) || (unit != "mbit" && unit != "gbit"))
    throw UsageError("--link '" + text + "' is no speed: write 100mbit or 10gbit");
  return number * (unit == "gbit" ? 1e9 : 1e6);
}

/// Buffers of the optimizer for each parameter.
double optimizer_buffers(const std::string& name) {
  if (name == "sgd") return 0;
  if (name == "momentum" || name == "adagrad" || name == "rmsprop") return 1;
  if (name == "adam" || name == "adamw") return 2;
  throw UsageError("there is no optimizer '" + name +
                   "': it is sgd, momentum, adagrad, rmsprop, adam or adamw");
}

/// Bytes of one rank.
struct Memory {
  double parameters = 0, gradients = 0, buckets = 0, optimizer = 0, hook = 0;

  std::vector<std::pair<const char*, double>> rows() const {
    return {{"parameters", parameters},
            {"gradients", gradients},
            {"buckets", buckets},
            {"optimizer", optimizer},
            {"hook", hook},
            {"all", parameters + gradients + buckets + optimizer + hook}};
  }
};

/// As full_shard keeps them, with a unit for each parameter: each rank its part of everything; and of the largest parameter,
/// while it is used, the whole, its gradient as it came and as it is sent and received, and the next parameter.
/// Source: Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2.
Memory sharded(const Memory& ddp, const std::vector<Shape>& shapes, double ranks) {
  double largest = 0;
  for (const Shape& shape : shapes) largest = std::max(largest, static_cast<double>(numel_of(shape)));
  return {ddp.parameters / ranks, ddp.gradients / ranks, 5 * kFloatBytes * largest, ddp.optimizer / ranks, 0};
}

Json json_of(const Memory& memory) {
  Json json;
  for (const auto& [name, bytes] : memory.rows()) json[name] = bytes;
  return json;
}

/// P and Q of each compressed matrix, and what compression left out.
double hook_memory(const HookRow& hook, const OptionMap& options, const WrapperRow& wrapper,
                   const std::vector<Shape>& shapes, double count) {
  if (hook.name != "power_sgd" && hook.name != "batched_power_sgd") return 0;
  const double element = wrapper.dtype.empty() ? kFloatBytes : kFloatBytes / 2;
  const bool keeps_error = std::get<bool>(options.at("use_error_feedback"));
  return *bytes_per_step(hook, options, wrapper, shapes) + (keeps_error ? element * count : 0);
}

/// "200 MB", "28 GB", "16 B": 10³, 10⁶, … bytes.
std::string bytes_text(double bytes) {
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  char text[48];
  for (const auto& [size, unit] : kUnits) {
    if (bytes < size) continue;
    std::snprintf(text, sizeof text, "%.4g %s", bytes / size, unit);
    return text;
  }
  std::snprintf(text, sizeof text, "%.4g B", bytes);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

/// The ranks of all nodes, or two: one alone sends nothing.
std::int64_t world_size_of(const LaunchConfig& config) {
  return std::max<std::int64_t>(2, std::int64_t{NodeCount::parse(config.nnodes)->most} * ranks_of(config));
}

}  // namespace

int estimate(const Arguments& arguments) {
  std::int64_t parameters = 0;
  std::vector<std::string> shape_texts, sets;
  std::string optimizer = "adam", link = "1gbit";
  std::int64_t ranks_given = 0;
  bool json = false;
  ConfigChoice choice;
  VerbParser parser(
      "hookline estimate [FILE] [flags]",
      "Estimate what a model of float32 parameters takes of a rank's memory, and what each hook sends in a "
      "step. The model is a safetensors file, a .pt file, a checkpoint, --shape for each parameter, or "
      "--parameters. The sharded column is [fsdp] sharding_strategy = full_shard, each parameter a unit.",
      "hookline estimate --parameters 125000000 --ranks 4 --link 1gbit");
  parser.add_number("--parameters", parameters, "N", "How many there are, in matrices of the usual sizes",
                    {1, kMostTypicalParameters});
  parser.add_texts("--shape", shape_texts, "SIZES", "Of a parameter, such as 1024x512; once for each");
  parser.add_number("--ranks", ranks_given, "N", "That average their gradients; else the config's, or 2",
                    {1, 1 << 20});
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
    throw UsageError(std::string("say what the model is, ") +
                     (sources_given ? "by one of these alone" : "by one of these") +
                     ": a file, --shape once for each parameter, or --parameters N");
  std::vector<Shape> shapes;
  for (const std::string& text : shape_texts) shapes.push_back(shape_of(text));
  if (parameters > 0) shapes = typical_shapes(parameters);
  if (!parser.plain().empty()) shapes = shapes_in(parser.plain()[0]);
  const double bits = link_of(link), buffers = optimizer_buffers(optimizer);

  Sources sources = choice.sources();
  sources.overrides = overrides_from_sets(sets);
  const Catalog catalog = Catalog::built_in();
  const Resolution resolution = resolve(sources, catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  const RunConfig& config = resolution.config;

  const std::int64_t ranks = ranks_given > 0 ? ranks_given : world_size_of(config.launch);
  double count = 0;
  for (const Shape& shape : shapes) count += static_cast<double>(numel_of(shape));
  const HookRow* const chosen = catalog.find_hook(config.ddp.comm_hook);
  const WrapperRow& wrapper = *catalog.find_wrapper(config.ddp.comm_wrapper);
  Memory memory;
  memory.parameters = memory.gradients = kFloatBytes * count;
  memory.buckets = config.ddp.gradient_as_bucket_view ? 0 : kFloatBytes * count;
  memory.optimizer = buffers * kFloatBytes * count;
  if (chosen) memory.hook = hook_memory(*chosen, config.ddp.comm_state_option, wrapper, shapes, count);
  const auto seconds = [&](double bytes) {
    return 8 * bytes * 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) / bits;
  };

  const Memory split = sharded(memory, shapes, static_cast<double>(ranks));
  Json result = {{"parameters", static_cast<std::int64_t>(count)},
                 {"ranks", ranks},
                 {"link", link},
                 {"optimizer", optimizer},
                 {"memory_bytes", json_of(memory)},
                 {"sharded_memory_bytes", json_of(split)},
                 {"hooks", Json::array()}};
  std::string text = std::to_string(static_cast<std::int64_t>(count)) + " parameters in float32, " +
                     (config.ddp.comm_hook == "no" ? "no hook" : config.ddp.comm_hook) +
                     (wrapper.dtype.empty() ? "" : " in " + wrapper.name) + ", " + optimizer +
                     "; without activations a rank takes\n  " + padded("", 12) + padded("ddp", 14) +
                     "sharded over " + std::to_string(ranks) + "\n";
  const auto rows = memory.rows(), split_rows = split.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "  " + padded(rows[i].first, 12) + padded(bytes_text(rows[i].second), 14) +
            bytes_text(split_rows[i].second) + "\n";
  }
  text += "in a step, " + std::to_string(ranks) + " ranks over " + link + ", with each hook:\n  " +
          padded("hook", 27) + padded("bytes", 14) + "ms on the wire\n";
  for (const HookRow& hook : catalog.hooks()) {
    const bool is_chosen = chosen && hook.name == chosen->name && config.fsdp.sharding_strategy == "no_shard";
    const OptionMap options = is_chosen ? config.ddp.comm_state_option : default_options(hook);
    const WrapperRow& with = is_chosen ? wrapper : *catalog.find_wrapper("no");
    const auto bytes = bytes_per_step(hook, options, with, shapes);
    char milliseconds[32];
    std::snprintf(milliseconds, sizeof milliseconds, "%.4g", 1e3 * seconds(*bytes));
    text += "  " + padded(hook.name + (with.dtype.empty() ? "" : " in " + with.name), 27) +
            padded(bytes_text(*bytes), 14) + milliseconds + (is_chosen ? "   <- the config's" : "") + "\n";
    result["hooks"].push_back({{"hook", hook.name},
                               {"wrapper", with.name},
                               {"bytes", *bytes},
                               {"seconds", seconds(*bytes)},
                               {"chosen", is_chosen}});
  }
  if (!chosen && config.ddp.comm_hook != "no") {
    text += "  " + padded(config.ddp.comm_hook, 27) +
            "not known: it is a plug-in's or a program's; what it sends is printed at the end of a run\n";
    result["hooks"].push_back({{"hook", config.ddp.comm_hook},
                               {"wrapper", wrapper.name},
                               {"bytes", nullptr},
                               {"seconds", nullptr},
                               {"chosen", true}});
  }
  std::cout << (json ? result.dump(2) + "\n" : text) << std::flush;
  return kSuccess;
}

}  // namespace hookline
