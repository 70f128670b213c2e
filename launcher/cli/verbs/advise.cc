// hookline advise: predicts a step's time with each communication hook, and measures steps without a hook and
// with the best ones.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "config/resolve.h"
#include "config/schema/origin_text.h"
#include "launcher/cli/advice/advice.h"
#include "launcher/cli/advice/model_shapes.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/short_run/log_folder.h"
#include "launcher/cli/short_run/short_run.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/libexec.h"
#include "launcher/launch/node_setup.h"
#include "launcher/launch/scheduled.h"
#include "launcher/launch/start_ranks.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr int kNoAdvice = 1;  // the program ended too soon
constexpr std::int64_t kUsualRows = 32, kMostParameters = 10'000'000'000;

struct AdviseFlags {
  ShortRunFlags run;
  std::string allow, link, model;
  std::vector<std::string> shapes;
  std::int64_t parameters = 0, rows = 0, ranks = 0;
  bool json = false;
};

std::vector<Override> overrides_of(const AdviseFlags& flags) {
  for (const Override& set : overrides_from_sets(flags.run.sets))
    if (set.key == "ddp.comm_hook" || set.key == "ddp.comm_wrapper")
      throw UsageError("--set " + set.key + ": hookline advise compares all hooks, so leave it out; " +
                       "to compare only some, set ddp.auto.hooks");
  const std::string verb = "hookline advise";
  std::vector<Override> own = {
      {"ddp.comm_hook", kAutoHook, verb}, {"ddp.comm_wrapper", "no", verb}, {"logging.show", "none", verb}};
  if (!flags.allow.empty()) own.push_back({"ddp.auto.allow", flags.allow, "--allow"});
  return flags.run.overrides(verb, std::move(own));
}

/// Hooks are tried by "auto", which needs whole gradients. Refuses a config that shards the model or the
/// optimizer, naming the key that does.
void expect_no_sharding(const RunConfig& config) {
  const auto refuse = [&](const std::string& key, const std::string& what, const std::string& off) {
    throw UsageError("hookline advise compares DDP's hooks for an unsharded model and optimizer, but " +
                     what + " (" + origin_text(config.origins.at(key)) + "): add --set " + key + "=" + off);
  };
  if (config.ddp.shard_optimizer) refuse("ddp.shard_optimizer", "the config shards the optimizer", "false");
  if (config.fsdp.sharding_strategy != "no_shard")
    refuse("fsdp.sharding_strategy", "the config shards the model", "no_shard");
}

std::vector<Shape> shapes_of(const AdviseFlags& flags) {
  std::vector<Shape> shapes;
  if (!flags.model.empty()) shapes = shapes_in(flags.model);
  if (flags.parameters > 0) shapes = typical_shapes(flags.parameters);
  for (const std::string& text : flags.shapes) shapes.push_back(shape_of(text));
  return shapes;
}

/// The program that the user named, or one that trains a model with the given shapes.
Program program_of(const AdviseFlags& flags, const std::vector<std::string>& named) {
  const int given = !named.empty() + !flags.model.empty() + (flags.parameters > 0) + !flags.shapes.empty();
  if (given != 1)
    throw UsageError(std::string("say what to train, with ") +
                     (given > 1 ? "only one of these" : "one of these") +
                     ": a program, --model FILE, --shape once for each parameter, or --parameters N");
  if (!named.empty() && flags.rows > 0)
    throw UsageError("--rows is for a model without a program: '" + printable(named[0]) +
                     "' has its own batches");
  if (!named.empty()) return find_program(named, search_path());
  Program program = libexec_rank("advise_rank", "trains on each rank");
  program.arguments.push_back(std::to_string(flags.rows > 0 ? flags.rows : kUsualRows));
  double bytes = 0;
  for (const Shape& shape : shapes_of(flags)) {
    std::string text;
    double elements = 1;
    for (const std::int64_t size : shape) {
      text += (text.empty() ? "" : "x") + std::to_string(size);
      elements *= static_cast<double>(size);
    }
    bytes += sizeof(float) * elements;
    program.arguments.push_back(text.empty() ? "1" : text);
  }
  const double memory =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory)
    throw UsageError("these parameters take " + binary_bytes_text(bytes) +
                     " on each rank, and this host has " + binary_bytes_text(memory) +
                     " of memory: name a smaller model");
  return program;
}

}  // namespace

int advise(const Arguments& arguments) {
  AdviseFlags flags;
  VerbParser parser(
      "hookline advise [flags] program [arguments]",
      "Train for a few hundred steps, predict how long a step takes with each communication hook, "
      "and measure it without a hook and with the best ones. The config's comm_hook and comm_wrapper are not "
      "used. Instead of a program, name a model's file or the shapes of its parameters. Changes no file.",
      "hookline advise --processes-per-node 2 ./train");
  flags.run.add_ranks_flags(parser);
  parser.add_text("--allow", flags.allow, "WHAT",
                  "lossless, half or low_rank; else the config's, or low_rank");
  parser.add_text("--model", flags.model, "FILE",
                  "A safetensors or .pt file, or a checkpoint, instead of a program");
  parser.add_texts("--shape", flags.shapes, "SIZES",
                   "Sizes of one parameter, such as 1024x512; may be repeated");
  parser.add_number("--parameters", flags.parameters, "N",
                    "Number of parameters, taken to be in matrices of 1024 x 1024 and a smaller one",
                    {1, kMostParameters});
  parser.add_number("--rows", flags.rows, "N",
                    "Rows of a batch, for a model named instead of a program; else 32", {1, 1 << 20});
  parser.add_text(
      "--link", flags.link, "SPEED",
      "Also predict for another network: its speed (1gbit), its speed and latency (1gbit,0.2ms), or "
      "a file with the output of hookline test --json");
  parser.add_number("--ranks", flags.ranks, "N",
                    "Also predict for this many ranks; on a single host, --link is required", {2, 1 << 20});
  flags.run.add_set_flag(parser);
  parser.add_flag("--json", flags.json, "Print JSON");
  if (!parser.parse(arguments, PlainArguments::end_flags)) return kSuccess;
  AskedFor asked;
  try {
    if (!flags.link.empty()) asked.link = link_of(flags.link);
  } catch (const LinkTextError& error) {
    throw UsageError(std::string("--link ") + error.what());
  }
  if (flags.ranks > 0) asked.ranks = flags.ranks;
  if (asked.link && asked.link->latency_seconds == 0)
    log::warning(
        "--link " + flags.link +
        " names no latency: predictions assume 0 s, which is too little between hosts; add it, as in "
        "--link 1gbit,0.2ms");

  Program program = program_of(flags, parser.plain());
  const CatalogOf hooks = catalog_of(program.file);
  Sources sources = flags.run.config.sources();
  sources.overrides = overrides_of(flags);
  hooks.apply_to(sources);
  const Resolution resolution = resolve(sources, hooks.catalog);
  expect_no_sharding(resolution.config);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  RunConfig config = resolution.config;
  log::set_level(config.logging.level);
  tell_found_config(flags.run.config, sources);
  if (!complete_by_scheduler(config)) return kBadInput;
  if (!is_given(config, "ddp.auto.allow")) config.auto_hook.allow = "low_rank";
  take_two_ranks(config);
  if (ranks_of(config.launch) == 1 && !has_many_nodes(config.launch))
    throw UsageError(
        "one rank alone sends nothing, and needs no hook: start two at least, with --processes-per-node 2");

  if (asked.ranks && !asked.link && !has_many_nodes(config.launch) && *asked.ranks != ranks_of(config.launch))
    throw UsageError("--ranks " + std::to_string(*asked.ranks) + " differs from the " +
                     std::to_string(ranks_of(config.launch)) + " ranks of this host: to predict for " +
                     std::to_string(*asked.ranks) + " ranks, name a network, as in --link 1gbit,0.2ms");

  LogFolder folder("advise", "the ranks'");
  folder.take_logs(config);
  const fs::path file = folder.path() / "advice.json";
  ::setenv("HOOKLINE_ADVICE_FILE", file.c_str(), 1);
  const int code = start_ranks(config, program);
  if (code != kSuccess) {
    // The logs of ranks that a signal stopped explain nothing.
    if (code <= 128) folder.keep();
    return code;
  }
  if (!fs::exists(file) && has_many_nodes(config.launch)) return kSuccess;  // rank 0 is on another node
  const nlohmann::ordered_json advice =
      fs::exists(file) ? advice_in(file, asked) : nlohmann::ordered_json::array();
  if (advice.empty()) {
    folder.keep();
    log::error(
        "the program ended before a hook was chosen: let it take 300 steps of a model that it prepares, or "
        "600 on a GPU, with more epochs or more data; its logs are in '" +
        config.logging.dir + "'");
    return kNoAdvice;
  }
  std::cout << (flags.json ? advice.dump(2) + "\n" : advice_text(advice)) << std::flush;
  return kSuccess;
}

}  // namespace hookline
